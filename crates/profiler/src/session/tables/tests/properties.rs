//! For any sequence of mappings, requests and evictions, no walk finds the rules of another file, even if it began
//! before.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Map { pid: u32, file: usize, slot: u64 },
    Want { pid: u32, file: usize, slot: u64, percent: u64 },
    Fork { parent: u32, child: u32 },
    Exec { pid: u32 },
    Turn { after_ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (pid, file, slot) = (1..=3_u32, 0..files().len(), 0..6_u64);
    let map = (pid.clone(), file.clone(), slot.clone()).prop_map(|(pid, file, slot)| Step::Map {
        pid,
        file,
        slot,
    });
    let want = (pid.clone(), file, slot, 0..100_u64)
        .prop_map(|(pid, file, slot, percent)| Step::Want { pid, file, slot, percent });
    let fork = (pid.clone(), pid.clone()).prop_map(|(parent, child)| Step::Fork { parent, child });
    let often = (0..60_u64).prop_map(|after_ms| Step::Turn { after_ms });
    let seldom = (100..30_000_u64).prop_map(|after_ms| Step::Turn { after_ms });
    prop_oneof![
        6 => map,
        12 => want,
        1 => fork,
        1 => pid.prop_map(|pid| Step::Exec { pid }),
        12 => often,
        3 => seldom,
    ]
}

fn apply(world: &mut World, step: Step) {
    match step {
        Step::Map { pid, file, slot } => world.map(pid, file, slot),
        Step::Want { pid, file, slot, percent } => {
            world.want(pid, world.address(file, slot, percent));
        }
        Step::Fork { parent, child } => {
            world.recorder.spaces.fork(parent, child);
            world.recorder.spaces.changed.push(child);
        }
        Step::Exec { pid } => {
            world.recorder.spaces.clear(pid);
            world.recorder.spaces.changed.push(pid);
        }
        Step::Turn { after_ms } => {
            world.pass(Duration::from_millis(after_ms));
            world.turn();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_those_of_the_file(
        limit in 8..64_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(limit);
        for step in steps {
            apply(&mut world, step);
            if matches!(step, Step::Turn { .. }) {
                world.check().map_err(TestCaseError::fail)?;
            }
        }
    }
}
