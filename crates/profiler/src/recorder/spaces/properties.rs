//! Compares [`Spaces`] with a slow model: a table of pages for each process.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const PAGE: u64 = 0x1000;
const PAGES: u64 = 12;
const PROCESSES: u32 = 4;

#[derive(Debug, Clone, Copy)]
enum Step {
    Map { pid: u32, first: u64, pages: u64, offset: u64, binary: BinaryId },
    Fork { parent: u32, child: u32 },
    Clear { pid: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let pid = 0..PROCESSES;
    // Offsets near the addresses, so that parts of one image are generated as well as unrelated files.
    let map = (pid.clone(), 0..PAGES, 0..4_u64, 0..3_u64, 0..3_u32).prop_map(
        |(pid, first, pages, shift, binary)| Step::Map {
            pid,
            first,
            pages,
            offset: (first + shift) * PAGE,
            binary,
        },
    );
    let fork = (pid.clone(), pid.clone()).prop_map(|(parent, child)| Step::Fork { parent, child });
    prop_oneof![8 => map, 2 => fork, 1 => pid.prop_map(|pid| Step::Clear { pid })]
}

/// File and offset of each page; unknown processes are absent.
type Model = BTreeMap<u32, BTreeMap<u64, (BinaryId, u64)>>;

fn apply(step: Step, spaces: &mut Spaces, model: &mut Model) {
    match step {
        Step::Map { pid, first, pages, offset, binary } => {
            let (start, end) = (first * PAGE, (first + pages) * PAGE);
            spaces.map(pid, Mapping { start, end, offset, binary });
            for page in 0..pages {
                let place = (binary, offset + page * PAGE);
                model.entry(pid).or_default().insert(first + page, place);
            }
        }
        Step::Fork { parent, child } => {
            spaces.fork(parent, child);
            match model.get(&parent).cloned() {
                Some(pages) => model.insert(child, pages),
                None => model.remove(&child),
            };
        }
        Step::Clear { pid } => {
            spaces.clear(pid);
            model.insert(pid, BTreeMap::new());
        }
    }
}

/// Checks that everything in the model is found. There may be more: a generation is shared with relatives, and has
/// what they mapped since.
fn check(
    spaces: &Spaces,
    id: GenerationId,
    pages: &BTreeMap<u64, (BinaryId, u64)>,
) -> Result<(), TestCaseError> {
    for (page, (binary, offset)) in pages {
        for within in [0, PAGE - 1] {
            let address = page * PAGE + within;
            let found = spaces.generation(id).and_then(|generation| generation.find(address));
            let found = found.map(|it| (it.binary, address - it.start + it.offset));
            prop_assert_eq!(found, Some((*binary, offset + within)), "{:#x}", address);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_mapped_is_found_now_and_later(steps in prop::collection::vec(step(), 0..40)) {
        let mut spaces = Spaces::default();
        let mut model = Model::new();
        // Generations that samples would refer to, with the mappings at that time.
        let mut sampled = Vec::new();
        for step in steps {
            apply(step, &mut spaces, &mut model);
            for pid in 0..PROCESSES {
                let Some(pages) = model.get(&pid) else {
                    prop_assert_eq!(spaces.current(pid), None, "unknown: PID {}", pid);
                    continue;
                };
                // An empty process is unknown, and needs no generation.
                let Some(id) = spaces.current(pid) else {
                    prop_assert!(pages.is_empty());
                    continue;
                };
                check(&spaces, id, pages)?;
                sampled.push((id, pages.clone()));
            }
        }
        for (id, pages) in sampled {
            check(&spaces, id, &pages)?;
        }
    }

    #[test]
    fn mappings_are_in_order_and_apart(steps in prop::collection::vec(step(), 0..40)) {
        let mut spaces = Spaces::default();
        for step in steps {
            apply(step, &mut spaces, &mut Model::new());
        }
        for generation in spaces.all() {
            prop_assert!(generation.mappings.iter().all(|mapping| mapping.start < mapping.end));
            let is_apart = |pair: &[Mapping]| pair[0].end <= pair[1].start;
            prop_assert!(generation.mappings.windows(2).all(is_apart));
        }
    }
}
