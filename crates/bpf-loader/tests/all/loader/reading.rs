//! Reads maps and ring buffers from user space.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wingbeat_bpf_loader::{
    ProgramType,
    loader::{LoadedMaps, RingReader},
    perf,
    perf::ProcessRecords,
    spec::{MapSpec, MapType},
};

use super::support::{asm, can_load, load as load_program, program, run};

fn map_of(r#type: MapType, sizes: (u32, u32), entries: u32) -> LoadedMaps {
    LoadedMaps::create(&[MapSpec::plain("read", r#type, sizes, entries)], None).expect("a map")
}

#[test]
fn a_ring_buffer_gives_each_record_once() {
    let Some(()) = can_load() else { return };
    let maps = map_of(MapType::RINGBUF, (0, 0), 4096);
    // The length of the packet, twice: a record whose size does not divide that of the buffer.
    let output =
        asm("r2 = *(u32 *)(r1 + 4); r3 = *(u32 *)(r1 + 0); r2 -= r3; *(u64 *)(r10 - 16) = r2; \
         *(u64 *)(r10 - 8) = r2; r1 = map 0; r2 = r10; r2 += -16; r3 = 16; r4 = 0; \
         call ringbuf_output; exit");
    let xdp = ProgramType::XDP;
    let output = load_program(&program(xdp), &output, &maps.descriptors()).expect("it loads");
    let mut reader = RingReader::new(maps.get("read").expect("the map")).expect("it is mapped");
    for round in 0..10 {
        let lens = (round..round + 100).map(|number| 14 + number);
        for len in lens.clone() {
            let done = run(&output, xdp, &vec![0; len], 1).expect("it runs");
            assert_eq!(done.return_value, 0);
        }
        let expected: Vec<_> =
            lens.map(|len| [len as u64; 2].map(u64::to_ne_bytes).concat()).collect();
        let mut found = Vec::new();
        reader.drain(|record| found.push(record.to_vec()));
        assert_eq!(found, expected, "round {round}");
    }
    reader.drain(|record| panic!("nothing is left, and there is {record:?}"));
}

/// Whether waiting for a reader ends at once.
fn is_woken(reader: &RingReader) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&at_once)).expect("poll") == 1
}

#[test]
fn only_who_wakes_up_a_reader_wakes_it_up() {
    let Some(()) = can_load() else { return };
    let maps = map_of(MapType::RINGBUF, (0, 0), 4096);
    // The length of the packet minus 14 as the flags: 1 wakes up nobody, 2 always.
    let output =
        asm("r2 = *(u32 *)(r1 + 4); r3 = *(u32 *)(r1 + 0); r2 -= r3; r2 += -14; r4 = r2; \
         *(u64 *)(r10 - 8) = r2; r1 = map 0; r2 = r10; r2 += -8; r3 = 8; \
         call ringbuf_output; exit");
    let xdp = ProgramType::XDP;
    let output = load_program(&program(xdp), &output, &maps.descriptors()).expect("it loads");
    let mut reader = RingReader::new(maps.get("read").expect("the map")).expect("it is mapped");
    let mut check = |flags: &[usize], expected| {
        for flag in flags {
            run(&output, xdp, &vec![0; 14 + flag], 1).expect("it runs");
        }
        // The kernel wakes up from a deferred interrupt, a little later.
        let deadline = Instant::now() + Duration::from_secs(5);
        while expected && !is_woken(&reader) && Instant::now() < deadline {
            thread::yield_now();
        }
        assert_eq!(is_woken(&reader), expected, "{flags:?}");
        let mut records = 0;
        reader.drain(|_| records += 1);
        assert_eq!((records, is_woken(&reader)), (flags.len(), false), "{flags:?}");
    };
    check(&[], false);
    check(&[1, 1], false);
    check(&[1, 2, 1], true);
    check(&[1], false);
    check(&[2], true);
}

#[test]
fn what_is_no_ring_buffer_has_no_reader() {
    let Some(()) = can_load() else { return };
    let maps = map_of(MapType::HASH, (4, 8), 4);
    let error = RingReader::new(maps.get("read").expect("the map")).expect_err("no ring buffer");
    assert!(error.to_string().starts_with("cannot read map read (hash): "), "{error}");
}

#[test]
fn keys_and_sums() {
    let Some(()) = can_load() else { return };
    let maps = map_of(MapType::PERCPU_HASH, (4, 8), 4);
    let map = maps.get("read").expect("the map");
    assert_eq!(map.keys().expect("no keys").len(), 0);
    let cpus = map.value_len() / 8;
    for key in [7_u32, 5] {
        map.set(&key.to_ne_bytes(), &u64::from(key).to_ne_bytes().repeat(cpus)).expect("it is set");
    }
    let keys: Vec<_> = map.keys().expect("keys").into_iter().collect();
    assert_eq!(keys, [5_u32, 7].map(|key| key.to_ne_bytes().to_vec()));
    let sum = |key: u32| map.sum(&key.to_ne_bytes()).expect("a sum");
    assert_eq!([5, 7, 9].map(sum), [5 * cpus as u64, 7 * cpus as u64, 0]);
}

#[test]
fn records_of_processes_that_find_no_room_are_counted() {
    let Some(()) = can_load() else { return };
    let cpus = perf::online_cpus().expect("CPUs");
    let open = |&cpu| ProcessRecords::open(cpu, 1).expect("a buffer of a page");
    let mut buffers: Vec<_> = cpus.iter().map(open).collect();
    let lost = |buffers: &[ProcessRecords]| buffers.iter().map(ProcessRecords::lost).sum();
    let Some(before) = lost(&buffers) else { return }; // Linux before 6.0.
    // A process causes at least a fork, a name, a mapping and an exit record, some 400 bytes in total.
    for _ in 0..20 * cpus.len() {
        Command::new("true").status().expect("run true");
    }
    let after: Option<u64> = lost(&buffers);
    assert!(after > Some(before), "{after:?}");
    let mut bytes = Vec::new();
    buffers.iter_mut().for_each(|buffer| buffer.take(&mut bytes));
    assert!(!bytes.is_empty());
}
