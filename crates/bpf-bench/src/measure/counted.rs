//! A program with counters, and its tail call targets with counters.
//!
//! It has its own tables, of programs with counters, each with a results map: so executed instructions
//! are counted across tail calls. The counts themselves show whether a jump went to uncounted code:
//! every tail call that did not return must have entered a program with counters.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::{AsFd as _, BorrowedFd},
};

use wingbeat_bpf_loader::{
    loader::{Effort, Loaded, LoadedMap, LoadedMaps, Loader},
    spec::Linked,
};

use super::{
    BenchError,
    contents::{PlainTargets, Targets},
    error::short,
};
use crate::{
    counts::{Counts, FailedTailCall, TailCalled},
    instrument::{
        counters::{self, Instrumented},
        graph::EdgeKind,
        jumps::{Jump, jumps},
    },
};

/// A program with counters.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) program: Loaded,
    results: LoadedMap,
    instrumented: Instrumented,
    jumps: Vec<Jump>,
    /// Its tail call targets, also with counters.
    targets: CountedTargets,
}

impl Counted {
    /// Adds counters to a program whose plain form is loaded, and to its tail call targets.
    pub(super) fn load(
        (linked, loader): (&Linked, &Loader),
        targets: &Targets,
        (maps, plain, filled): (&LoadedMaps, &Loaded, &PlainTargets),
        effort: Effort<'_>,
    ) -> Result<Self, String> {
        let mut counted_targets = CountedTargets::new(filled, targets, maps)?;
        let descriptors = counted_targets.descriptors(maps);
        let mut counted = Self::alone(linked, loader, descriptors, plain, effort)?;
        let itself = (linked, &counted.program);
        counted_targets.fill((filled, targets), itself, loader, maps, effort)?;
        counted.targets = counted_targets;
        Ok(counted)
    }

    /// The program with counters, without its targets. `maps` are the descriptors of the object's maps.
    fn alone(
        linked: &Linked,
        loader: &Loader,
        maps: Vec<BorrowedFd<'_>>,
        plain: &Loaded,
        effort: Effort<'_>,
    ) -> Result<Self, String> {
        let options = counters::Options {
            map_fd: i32::try_from(maps.len()).map_err(|_| "too many maps".to_owned())?,
            may_throw: linked.throwing_calls().collect(),
            stack_depths_bytes: plain.verifier.stack_depths.clone(),
        };
        let instrumented = counters::instrument(&linked.code, &options)
            .map_err(|error| format!("it cannot be given counters: {error}"))?;
        let results =
            LoadedMap::results(instrumented.plan.value_size_bytes()).map_err(|e| e.to_string())?;
        let descriptors = [maps.as_slice(), &[results.as_fd()]].concat();
        let program = loader
            .load_with(&linked.program, &instrumented.program.code, &descriptors, effort)
            .map_err(|error| format!("the kernel refuses it with counters: {}", short(&error)))?;
        let jumps = jumps(&linked.code).unwrap_or_default();
        Ok(Self { program, results, instrumented, jumps, targets: CountedTargets::default() })
    }
}

/// Tables of programs with counters.
#[derive(Debug, Default)]
struct CountedTargets {
    /// Each with the index of the map that it replaces.
    twins: Vec<(usize, LoadedMap)>,
    programs: Vec<(Linked, Counted)>,
    /// Programs without counters in the tables, with reasons.
    without: Vec<String>,
}

impl CountedTargets {
    /// Creates the tables, empty: code that uses them needs their descriptors.
    fn new(plain: &PlainTargets, targets: &Targets, maps: &LoadedMaps) -> Result<Self, String> {
        let tables: BTreeSet<usize> =
            plain.filled.iter().map(|&number| targets.slots[number].table).collect();
        let twins = tables.into_iter().map(|table| {
            let twin = maps.all()[table].twin().map_err(|error| error.to_string())?;
            Ok((table, twin))
        });
        Ok(Self { twins: twins.collect::<Result<_, String>>()?, ..Self::default() })
    }

    /// Descriptors of the maps, with these tables in place of the plain ones.
    fn descriptors<'a>(&'a self, maps: &'a LoadedMaps) -> Vec<BorrowedFd<'a>> {
        let mut descriptors = maps.descriptors();
        for (table, twin) in &self.twins {
            descriptors[*table] = twin.as_fd();
        }
        descriptors
    }

    /// Adds counters to the programs of the plain tables, and fills these tables. Programs that
    /// cannot have counters are added without: the counts show whether a run reached them.
    fn fill(
        &mut self,
        (plain, targets): (&PlainTargets, &Targets),
        itself: (&Linked, &Loaded),
        loader: &Loader,
        maps: &LoadedMaps,
        effort: Effort<'_>,
    ) -> Result<(), String> {
        let mut positions: BTreeMap<usize, usize> = BTreeMap::new();
        for (&position, loaded) in &plain.loaded {
            let Ok(target) = &targets.programs[position] else { continue };
            let counted = Counted::alone(target, loader, self.descriptors(maps), loaded, effort);
            match counted {
                Ok(counted) => {
                    positions.insert(position, self.programs.len());
                    self.programs.push((target.clone(), counted));
                }
                Err(reason) => {
                    self.without.push(format!("{}: {reason}", target.program.name));
                }
            }
        }
        for &number in &plain.filled {
            let slot = &targets.slots[number];
            let Some((_, twin)) = self.twins.iter().find(|(table, _)| *table == slot.table) else {
                continue;
            };
            let program = match (positions.get(&slot.program), plain.loaded.get(&slot.program)) {
                (Some(&position), _) => self.programs[position].1.program.as_fd(),
                (None, Some(plain)) => plain.as_fd(),
                (None, None) => itself.1.as_fd(),
            };
            twin.put_program(slot.slot, program).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Counted {
    /// Clears all counters.
    pub(super) fn clear(&self) -> Result<(), BenchError> {
        self.results.clear_results()?;
        for (_, counted) in &self.targets.programs {
            counted.results.clear_results()?;
        }
        Ok(())
    }

    /// Instructions executed by `runs` runs since then.
    pub(super) fn read(
        &self,
        name: &str,
        maps: &LoadedMaps,
        runs: u64,
    ) -> Result<Counts, BenchError> {
        let own = self.reading()?;
        let mut counts = Counts { runs, ..Counts::default() };
        let (mut jumped, mut entered) = (own.jumped, own.entries);
        counts.failed_tail_calls.extend(own.failed(name, maps));
        if own.entries > runs {
            counts.tail_called.push(TailCalled {
                program: name.to_owned(),
                entries: own.entries - runs,
                instructions: 0,
                calls: Vec::new(),
            });
        }
        counts.executed = own.executed;
        for (linked, counted) in &self.targets.programs {
            let name = &linked.program.name;
            let target = counted.reading()?;
            jumped = jumped.saturating_add(target.jumped);
            entered = entered.saturating_add(target.entries);
            counts.failed_tail_calls.extend(target.failed(name, maps));
            if target.entries > 0 {
                let executed = Counts { executed: target.executed, ..Counts::default() };
                let kfunc = |index| linked.kfunc_at(index).map(|kfunc| kfunc.name.clone());
                counts.tail_called.push(TailCalled {
                    program: name.clone(),
                    entries: target.entries,
                    instructions: executed.instructions(),
                    calls: executed.calls(&linked.code, kfunc),
                });
            }
        }
        if jumped != entered.saturating_sub(runs) {
            counts.uncounted = Some(self.uncounted());
        }
        Ok(counts)
    }

    fn uncounted(&self) -> String {
        match self.targets.without.as_slice() {
            [] => "a tail call led to a program that has no counters".to_owned(),
            without => format!(
                "a tail call led to a program that has no counters; of those that it could lead to: {}",
                without.join("; ")
            ),
        }
    }

    fn reading(&self) -> Result<Reading<'_>, BenchError> {
        let plan = &self.instrumented.plan;
        let counters = plan.counters(&self.results.read_results()?);
        let edges = plan.edge_counts(&counters);
        let graph = plan.graph();
        let enter = graph.functions.first().and_then(|it| edges.get(it.edges.start));
        let mut reading = Reading {
            jumps: &self.jumps,
            entries: enter.map_or(0, |(_, count)| *count),
            jumped: 0,
            came_back: vec![0; self.jumps.len()],
            executed: plan.insn_counts(&counters),
        };
        for (edge, count) in &edges {
            let last = edge.from.and_then(|block| graph.blocks.get(block)).map(|block| block.last);
            let jump = last.and_then(|last| {
                self.jumps.binary_search_by_key(&last, |jump| jump.insn_index).ok()
            });
            match (jump, edge.kind) {
                (None, _) => {}
                (Some(_), EdgeKind::Escape) => {
                    reading.jumped = reading.jumped.saturating_add(*count);
                }
                (Some(jump), _) => {
                    reading.came_back[jump] = reading.came_back[jump].saturating_add(*count);
                }
            }
        }
        Ok(reading)
    }
}

/// Decoded counters of one program.
struct Reading<'a> {
    jumps: &'a [Jump],
    entries: u64,
    /// Tail calls that did not return.
    jumped: u64,
    /// By tail call: how often it returned.
    came_back: Vec<u64>,
    executed: Vec<u64>,
}

impl Reading<'_> {
    fn failed(&self, program: &str, maps: &LoadedMaps) -> Vec<FailedTailCall> {
        let failed = self.jumps.iter().zip(&self.came_back).filter(|(_, times)| **times > 0);
        let failed = failed.map(|(jump, &times)| FailedTailCall {
            program: program.to_owned(),
            insn_index: jump.insn_index,
            table: jump.table.and_then(|it| Some(maps.all().get(it)?.spec().name.clone())),
            slot: jump.slot,
            times,
        });
        failed.collect()
    }
}
