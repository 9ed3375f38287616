//! Initial contents of an object's maps: entries from files, and programs in tables, so that tail calls have targets.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::AsFd as _,
};

use wingbeat_bpf_loader::{
    KernelTypes,
    code::Code,
    loader::{Alarm, Effort, Loaded, LoadedMaps, Loader},
    spec::{Linked, MapSpec, MapType, Slot, Spec},
};

use super::{BenchError, error::short};
use crate::{
    counts::MissingTarget,
    input::{Entry, EntryValue, MapError, MapKind, MapShape, load_map},
    instrument::jumps::jumps,
    plan::Plan,
};

/// Initial contents of an object's maps.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<(String, MapKind, Vec<Entry>)>,
    pub(super) targets: Targets,
}

/// Reads the contents specified by the plan, for the maps of `spec`. Passes maps that belong in
/// other maps to the `loader`.
pub(super) fn contents(
    spec: &Spec,
    plan: &Plan,
    loader: &mut Loader,
) -> Result<Contents, BenchError> {
    let entries = plan.maps.iter().map(|source| {
        let map = spec.maps().iter().find(|map| map.name == source.map).ok_or_else(|| {
            let known: Vec<_> = spec.maps().iter().map(|map| map.name.as_str()).collect();
            BenchError::NoSuchMap {
                file: spec.file().to_owned(),
                name: source.map.clone(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            }
        })?;
        let wrong = |reason| BenchError::Contents { path: source.path.clone(), reason };
        let kind = MapKind::of_map_type(map.r#type.0).ok_or_else(|| {
            let (name, kind) = (&map.name, map.r#type);
            wrong(format!("map {name} is of type {kind}, which cannot be filled from a file"))
        })?;
        let shape = MapShape {
            kind,
            key_bytes: if kind == MapKind::Queue { 0 } else { map.key_size as usize },
            value_bytes: map.value_size as usize,
        };
        let entries = load_map(&source.path, shape)?.entries;
        check_indices(map, kind, &entries).map_err(wrong)?;
        for entry in &entries {
            if let EntryValue::Map(inner) = &entry.value {
                loader.put_in(&map.name, entry.key.clone(), inner).map_err(wrong)?;
            }
        }
        Ok((map.name.clone(), kind, entries))
    });
    let entries = entries.collect::<Result<Vec<_>, BenchError>>()?;
    let programs = entries.iter().filter(|(_, kind, _)| *kind == MapKind::ProgramTable);
    let targets = Targets::find(spec, programs.map(|(map, _, entries)| (map.as_str(), entries)))?;
    Ok(Contents { entries, targets })
}

/// Fails if an entry is out of bounds of an array whose size the object defines.
fn check_indices(map: &MapSpec, kind: MapKind, entries: &[Entry]) -> Result<(), String> {
    let &MapSpec { ref name, entries_max, .. } = map;
    let beyond = |(number, entry): (usize, &Entry)| {
        Some((number, kind.index_beyond(&entry.key, entries_max)?))
    };
    match entries.iter().enumerate().find_map(beyond).filter(|_| entries_max > 0) {
        Some((number, index)) => Err(format!(
            "entry {number}: map {name} has no index {index}: it has {entries_max} entries, counted \
             from 0"
        )),
        None => Ok(()),
    }
}

/// Writes the entries to the maps. Program tables are filled when the programs are loaded, map
/// tables when they are created.
pub(super) fn fill(
    maps: &mut LoadedMaps,
    contents: &Contents,
    alarm: &Alarm<'_>,
) -> Result<(), BenchError> {
    for (name, kind, entries) in &contents.entries {
        let is_named = matches!(kind, MapKind::ProgramTable | MapKind::MapTable | MapKind::MapHash);
        let Some(map) = maps.get_mut(name).filter(|_| !is_named) else { continue };
        let cpus = map.value_len() / (map.spec().value_size as usize).next_multiple_of(8).max(1);
        let entries = entries
            .iter()
            .map(|entry| Ok((entry.key.clone(), entry.value_for_kernel(*kind, cpus)?)))
            .collect::<Result<Vec<_>, MapError>>()
            .map_err(|error| BenchError::Contents {
                path: name.into(),
                reason: error.to_string(),
            })?;
        map.fill(&entries, alarm)?;
    }
    Ok(())
}

// Program tables, filled according to the object or `--map`, so that tail calls have targets.
//
// The plain program and the one with a clock share these tables; the one with counters has its own.

/// Intended contents of an object's program tables, and the code of these programs.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pub(super) slots: Vec<TableSlot>,
    /// Programs in the slots, without duplicates.
    pub(super) programs: Vec<Result<Linked, String>>,
}

#[derive(Debug)]
pub(super) struct TableSlot {
    /// Index of the table among the object's maps, and its name.
    pub(super) table: usize,
    table_name: String,
    pub(super) slot: u32,
    /// The program's name, and its index in [`Targets::programs`].
    name: String,
    pub(super) program: usize,
}

impl Targets {
    /// Contents defined by the object, overridden by `entries` from files. Fails if an entry names an unknown program.
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
        let types = if spec.needs_target_types() { KernelTypes::from_kernel().ok() } else { None };
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

    /// Whether the program can reach another one.
    pub(super) fn has_any(&self, from: &Linked) -> bool {
        !self.reached(from).is_empty()
    }

    /// Code of a program and of all programs that it can reach.
    pub(super) fn codes<'a>(&'a self, from: &'a Linked) -> Vec<&'a Code> {
        let slots = self.reached(from).into_iter().map(|number| self.slots[number].program);
        let programs: BTreeSet<usize> = slots.collect();
        let targets =
            programs.into_iter().filter_map(|it| Some(&self.programs[it].as_ref().ok()?.code));
        std::iter::once(&from.code).chain(targets).collect()
    }

    /// Numbers of the slots that a program can reach, directly or indirectly.
    fn reached(&self, from: &Linked) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        if self.slots.is_empty() {
            return reached;
        }
        let mut waiting = vec![from];
        while let Some(linked) = waiting.pop() {
            // Code that cannot be analysed cannot be loaded either.
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
    /// Filled slots, by their numbers in [`Targets`].
    pub(super) filled: Vec<usize>,
    /// Programs in them, by their indices in [`Targets::programs`]. Excludes the program itself.
    pub(super) loaded: BTreeMap<usize, Loaded>,
    /// Empty slots, with reasons.
    pub(super) missing: Vec<MissingTarget>,
}

impl PlainTargets {
    /// Loads the programs that `linked` can jump to, and fills the tables of `maps`. Rejected programs are left out.
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
    if target.program.has_frags() != caller.program.has_frags() {
        let caller = &caller.program.name;
        return Err(match target.program.has_frags() {
            true => {
                format!("it is for xdp.frags and {caller} is not, which the kernel does not mix")
            }
            false => {
                format!("{caller} is for xdp.frags and it is not, which the kernel does not mix")
            }
        });
    }
    let descriptors = maps.descriptors();
    let loaded = loader.load_with(&target.program, &target.code, &descriptors, effort);
    loaded.map_err(|error| short(&error))
}
