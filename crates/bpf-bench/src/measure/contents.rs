//! Initial contents of an object's maps: entries from files, and programs in tables.

use wingbeat_bpf_loader::{
    loader::{Alarm, LoadedMaps, Loader},
    spec::{MapSpec, Spec},
};

use super::{BenchError, tail_calls::Targets};
use crate::{
    input::{Entry, EntryValue, MapError, MapKind, MapShape, load_map},
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
