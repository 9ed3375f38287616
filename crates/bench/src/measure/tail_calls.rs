//! Tables of programs, filled as the object or `--map` says, so that tail calls lead somewhere.
//!
//! The plain program and the one with a clock share tables of plain programs. The one with counters has
//! tables of its own, of programs with counters, each with a notebook: so executed instructions are
//! counted across tail calls. Whether a jump left what is counted shows in the counts themselves: every
//! tail call that did not come back has to have entered a program with counters.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::{AsFd as _, BorrowedFd},
};

use wingbeat_bpf::{
    KernelTypes,
    code::Code,
    loader::{Effort, Loaded, LoadedMap, LoadedMaps, Loader},
    spec::{Linked, MapType, Slot, Spec},
};

use super::{
    BenchError,
    subject::{Counted, short},
};
use crate::{
    counts::{Counts, FailedTailCall, MissingTarget, TailCalled},
    input::{Entry, EntryValue},
    instrument::{
        graph::EdgeKind,
        jumps::{Jump, jumps},
    },
};

/// What is to stand in the tables of an object, and the code of it.
#[derive(Debug, Default)]
pub(super) struct Targets {
    slots: Vec<TableSlot>,
    /// The programs in the slots, each once.
    programs: Vec<Result<Linked, String>>,
}

#[derive(Debug)]
struct TableSlot {
    /// Position of the table among the object's maps, and its name.
    table: usize,
    table_name: String,
    slot: u32,
    /// The program's name, and its position in [`Targets::programs`].
    name: String,
    program: usize,
}

impl Targets {
    /// What the object says, save where `entries` from files say something else.
    ///
    /// # Errors
    ///
    /// When an entry names a program that is not there.
    pub(super) fn find<'a>(
        spec: &Spec,
        entries: impl Iterator<Item = (&'a str, &'a Vec<Entry>)>,
    ) -> Result<Self, BenchError> {
        let mut names: BTreeMap<(usize, u32), String> = BTreeMap::new();
        let tables = spec.maps().iter().enumerate();
        let tables: Vec<_> = tables.filter(|(_, map)| map.r#type == MapType::PROG_ARRAY).collect();
        for (number, map) in &tables {
            for (slot, content) in &map.slots {
                if let Slot::Program(name) = content {
                    names.insert((*number, *slot), name.clone());
                }
            }
        }
        for (table, entries) in entries {
            let Some((number, _)) = tables.iter().find(|(_, map)| map.name == table) else {
                continue;
            };
            for entry in entries {
                let slot = entry.key.first_chunk().map(|key| u32::from_ne_bytes(*key));
                if let (Some(slot), EntryValue::Program(name)) = (slot, &entry.value) {
                    spec.program(name)?;
                    names.insert((*number, slot), name.clone());
                }
            }
        }
        let mut found = Self::default();
        if names.is_empty() {
            return Ok(found);
        }
        let types = match spec.needs_target_types() {
            true => KernelTypes::from_kernel().ok(),
            false => None,
        };
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for ((table, slot), name) in names {
            let program = *known.entry(name.clone()).or_insert_with(|| {
                let linked = spec.link_program(&name, types.as_ref());
                found.programs.push(linked.map_err(|error| short(&error)));
                found.programs.len() - 1
            });
            let table_name = spec.maps()[table].name.clone();
            found.slots.push(TableSlot { table, table_name, slot, name, program });
        }
        Ok(found)
    }

    /// Can the program get to another one?
    pub(super) fn has_any(&self, from: &Linked) -> bool {
        !self.reached(from).is_empty()
    }

    /// The code of a program and of all that it can get to.
    pub(super) fn codes<'a>(&'a self, from: &'a Linked) -> Vec<&'a Code> {
        let slots = self.reached(from).into_iter().map(|number| self.slots[number].program);
        let programs: BTreeSet<usize> = slots.collect();
        let targets =
            programs.into_iter().filter_map(|it| Some(&self.programs[it].as_ref().ok()?.code));
        std::iter::once(&from.code).chain(targets).collect()
    }

    /// Numbers of the slots that a program can get to, by way of others too.
    fn reached(&self, from: &Linked) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        if self.slots.is_empty() {
            return reached;
        }
        let mut waiting = vec![from];
        while let Some(linked) = waiting.pop() {
            // What cannot be understood cannot be loaded either.
            for jump in jumps(&linked.code).unwrap_or_default() {
                for (number, slot) in self.slots.iter().enumerate() {
                    let is_meant = jump.table.is_none_or(|table| table == slot.table)
                        && jump.slot.is_none_or(|index| index == slot.slot);
                    if is_meant && reached.insert(number) {
                        waiting.extend(self.programs[slot.program].as_ref().ok());
                    }
                }
            }
        }
        reached
    }
}

/// Programs in the tables of a plain program.
#[derive(Debug, Default)]
pub(super) struct PlainTargets {
    /// Slots that are filled, by their numbers in [`Targets`].
    filled: Vec<usize>,
    /// The programs in them, by their positions in [`Targets::programs`]. The program itself is not
    /// among them.
    loaded: BTreeMap<usize, Loaded>,
    /// Slots that are not, and why.
    pub(super) missing: Vec<MissingTarget>,
}

impl PlainTargets {
    /// Loads what `linked` can jump to, and fills the tables of `maps`. What is refused is left out.
    pub(super) fn load(
        targets: &Targets,
        linked: &Linked,
        loader: &Loader,
        (maps, plain): (&LoadedMaps, &Loaded),
        effort: Effort<'_>,
    ) -> Self {
        let mut found = Self::default();
        let mut refused: BTreeMap<usize, String> = BTreeMap::new();
        for number in targets.reached(linked) {
            let slot = &targets.slots[number];
            let is_itself = slot.name == linked.program.name;
            let is_new =
                !found.loaded.contains_key(&slot.program) && !refused.contains_key(&slot.program);
            if is_new && !is_itself {
                match load_target(&targets.programs[slot.program], linked, loader, maps, effort) {
                    Ok(loaded) => drop(found.loaded.insert(slot.program, loaded)),
                    Err(reason) => drop(refused.insert(slot.program, reason)),
                }
            }
            let program = match found.loaded.get(&slot.program) {
                Some(loaded) => Ok(loaded.as_fd()),
                None if is_itself => Ok(plain.as_fd()),
                None => Err(refused.get(&slot.program).cloned().unwrap_or_default()),
            };
            let put = program.and_then(|program| {
                let put = maps.all()[slot.table].put_program(slot.slot, program);
                put.map_err(|error| error.to_string())
            });
            match put {
                Ok(()) => found.filled.push(number),
                Err(reason) => found.missing.push(MissingTarget {
                    table: slot.table_name.clone(),
                    slot: slot.slot,
                    program: slot.name.clone(),
                    reason,
                }),
            }
        }
        found
    }
}

fn load_target(
    target: &Result<Linked, String>,
    caller: &Linked,
    loader: &Loader,
    maps: &LoadedMaps,
    effort: Effort<'_>,
) -> Result<Loaded, String> {
    let target = target.as_ref().map_err(Clone::clone)?;
    let (own, wanted) = (target.program.r#type, caller.program.r#type);
    if own != wanted {
        return Err(format!(
            "it is of type {}, and a tail call leads to programs of the caller's type only, {}",
            own.name(),
            wanted.name()
        ));
    }
    let descriptors = maps.descriptors();
    let loaded = loader.load_with(&target.program, &target.code, &descriptors, effort);
    loaded.map_err(|error| short(&error))
}

/// Tables of programs with counters.
#[derive(Debug, Default)]
pub(super) struct CountedTargets {
    /// Each with the position of the map that it stands for.
    twins: Vec<(usize, LoadedMap)>,
    programs: Vec<(Linked, Counted)>,
    /// Programs without counters in the tables, and why they have none.
    without: Vec<String>,
}

impl CountedTargets {
    /// Creates the tables, empty: code that uses them needs their descriptors.
    pub(super) fn new(
        plain: &PlainTargets,
        targets: &Targets,
        maps: &LoadedMaps,
    ) -> Result<Self, String> {
        let tables: BTreeSet<usize> =
            plain.filled.iter().map(|&number| targets.slots[number].table).collect();
        let twins = tables.into_iter().map(|table| {
            let twin = maps.all()[table].twin().map_err(|error| error.to_string())?;
            Ok((table, twin))
        });
        Ok(Self { twins: twins.collect::<Result<_, String>>()?, ..Self::default() })
    }

    /// Descriptors of the maps, with these tables in place of the plain ones.
    pub(super) fn descriptors<'a>(&'a self, maps: &'a LoadedMaps) -> Vec<BorrowedFd<'a>> {
        let mut descriptors = maps.descriptors();
        for (table, twin) in &self.twins {
            descriptors[*table] = twin.as_fd();
        }
        descriptors
    }

    /// Gives counters to what the plain tables hold, and fills these. What cannot have any goes in
    /// without: whether a run came to it will show.
    pub(super) fn fill(
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
    /// Sets all counters to zero.
    pub(super) fn clear(&self) -> Result<(), BenchError> {
        self.notebook.clear_notebook()?;
        for (_, counted) in &self.targets.programs {
            counted.notebook.clear_notebook()?;
        }
        Ok(())
    }

    /// What `runs` runs executed since then.
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
        let counters = plan.counters(&self.notebook.read_notebook()?);
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

/// What the counters of one program say.
struct Reading<'a> {
    jumps: &'a [Jump],
    entries: u64,
    /// Tail calls that did not come back.
    jumped: u64,
    /// For each tail call, how often it came back.
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
