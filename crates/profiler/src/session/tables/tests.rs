//! Tables without a kernel: walks what was written like the kernel half.

mod fake;
mod properties;

use std::time::Duration;

use wingbeat_profiler_abi::unwind::Rule;

use self::fake::{World, files};
use super::{
    pool::{Pool, Room},
    *,
};

#[test]
fn blocks_are_free_again_after_the_walks_that_read_them() {
    let mut memory = fake::Fake::new();
    let mut pool = Pool::with_blocks(4);
    let start = memory.now;
    // Milliseconds since the start, blocks to release, and the expected result for a run of two.
    let mut check = |ms, back: &[u32], expected| {
        memory.now = start + Duration::from_millis(ms);
        pool.give_back(back.to_vec(), memory.now);
        assert_eq!(pool.take_run(2, &mut memory).expect("no kernel"), expected, "{ms}");
    };
    check(0, &[], Room::Here(0));
    check(0, &[], Room::Here(2));
    check(0, &[], Room::Nowhere);
    check(0, &[1, 3], Room::Nowhere);
    check(50, &[2], Room::Later);
    check(100, &[], Room::Later);
    check(149, &[], Room::Later);
    check(150, &[], Room::Here(1));
    check(150, &[], Room::Nowhere);
}

#[test]
fn scattered_blocks_are_all_taken_or_none() {
    let mut memory = fake::Fake::new();
    let mut pool = Pool::with_blocks(5);
    let start = memory.now;
    let mut check = |ms, back: &[u32], count, expected: Room<&[u32]>| {
        memory.now = start + Duration::from_millis(ms);
        pool.give_back(back.to_vec(), memory.now);
        let expected = match expected {
            Room::Here(numbers) => Room::Here(numbers.to_vec()),
            Room::Later => Room::Later,
            Room::Nowhere => Room::Nowhere,
        };
        assert_eq!(pool.take(count, &mut memory).expect("no kernel"), expected, "{ms}");
    };
    check(0, &[], 0, Room::Here(&[]));
    check(0, &[], 6, Room::Nowhere);
    check(0, &[], 4, Room::Here(&[0, 1, 2, 3]));
    check(0, &[], 2, Room::Nowhere);
    check(0, &[2, 0], 3, Room::Later);
    check(50, &[], 1, Room::Here(&[4]));
    check(100, &[1], 3, Room::Later);
    check(100, &[], 2, Room::Here(&[0, 2]));
}

/// A world in which one process maps all files, far apart.
fn mapped(limit: usize) -> World {
    let mut world = World::new(limit);
    for file in 0..files().len() {
        world.map(1, file, file as u64);
    }
    world.turn();
    world
}

#[test]
fn with_room_for_all_each_address_has_its_rule() {
    let mut world = mapped(16 << 8);
    let checked = world.check().expect("right rules");
    assert!(checked.with_rules > 100 && checked.without == 0, "{checked:?}");
    let counts = world.tables.counts();
    assert_eq!((counts.evicted, counts.refused), (0, 0));
    assert!(!world.tables.has_work());
}

#[test]
fn a_file_without_room_is_not_walked_along_frame_pointers() {
    let mut world = mapped(1);
    let checked = world.check().expect("right rules");
    assert_eq!(checked.with_rules, 0);
    assert_eq!(world.tables.counts().refused, files().len() as u64);
    assert_eq!(world.walk(1, world.address(0, 0, 50)), None);
    // Code in memory has no rules and no table.
    world.recorder.spaces.map(1, Mapping { start: 1, end: 0x1000, offset: 0, binary: 9999 });
    world.turn();
    assert_eq!(world.walk(1, 0x800), Some(Rule::GAP));
}

/// Requests two files alternately, ten times a second, with room for only one.
#[test]
fn tables_are_not_built_again_and_again() {
    let mut world = mapped(16 << 8);
    let blocks = |file: &fake::File| {
        let table = world.tables.files.get(&file.binary).and_then(Option::as_ref);
        table.map_or(0, |table| table.rows.len())
    };
    let sizes: Vec<usize> = files().iter().map(blocks).collect();
    let (rows, directories) = (sizes[0].max(sizes[1]), world.tables.directory.blocks());
    let limit = (directories + rows + 1).max(directories * 4 / 3 + 2);
    assert!(limit < directories + sizes[0] + sizes[1], "{sizes:?}");
    world = mapped(limit);
    for second in [60_u64, 600] {
        for _ in 0..second * 10 {
            for file in 0..2 {
                for percent in 0..100 {
                    world.want(1, world.address(file, file as u64, percent));
                }
                world.pass(Duration::from_millis(50));
                world.turn();
            }
        }
        let counts = world.tables.counts();
        // Absent for 1, 2, 4, … 64 seconds, and present for a while.
        let most = 2 * (7 + second / 10);
        assert!(counts.rebuilt > 2 && counts.rebuilt < most, "{counts:?}");
    }
    world.check().expect("right rules");
}
