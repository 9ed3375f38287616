//! What stands in the maps of an object before a program runs: entries from files, and programs in tables.

use wingbeat_bpf::{
    loader::{Alarm, LoadedMaps},
    spec::{MapType, Spec},
};

use super::{BenchError, tail_calls::Targets};
use crate::{
    input::{Entry, MapError, MapKind, MapShape, load_map},
    plan::Plan,
};

/// The contents of an object's maps.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<(String, MapKind, Vec<Entry>)>,
    pub(super) targets: Targets,
}

/// Reads what the plan says, for the maps of `spec`.
pub(super) fn contents(spec: &Spec, plan: &Plan) -> Result<Contents, BenchError> {
    let entries = plan.maps.iter().map(|source| {
        let map = spec.maps().iter().find(|map| map.name == source.map).ok_or_else(|| {
            let known: Vec<_> = spec.maps().iter().map(|map| map.name.as_str()).collect();
            BenchError::NoSuchMap {
                file: spec.file().to_owned(),
                name: source.map.clone(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            }
        })?;
        let kind = MapKind::of_map_type(map.r#type.0).ok_or_else(|| BenchError::Contents {
            path: source.path.clone(),
            reason: format!(
                "map {} is of type {}, which cannot be filled from a file{}",
                map.name,
                map.r#type,
                why_not(map.r#type)
            ),
        })?;
        let shape = MapShape {
            kind,
            key_bytes: if kind == MapKind::Queue { 0 } else { map.key_size as usize },
            value_bytes: map.value_size as usize,
        };
        Ok((map.name.clone(), kind, load_map(&source.path, shape)?.entries))
    });
    let entries = entries.collect::<Result<Vec<_>, BenchError>>()?;
    let programs = entries.iter().filter(|(_, kind, _)| *kind == MapKind::ProgramTable);
    let targets = Targets::find(spec, programs.map(|(map, _, entries)| (map.as_str(), entries)))?;
    Ok(Contents { entries, targets })
}

/// What a dump of such a map would hold.
fn why_not(r#type: MapType) -> &'static str {
    match r#type {
        MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS => {
            ": its values are numbers of maps in the machine where they were read, which are \
             meaningless here"
        }
        _ => "",
    }
}

/// Puts the entries into the maps. Tables of programs are filled when these are loaded.
pub(super) fn fill(
    maps: &mut LoadedMaps,
    contents: &Contents,
    alarm: &Alarm<'_>,
) -> Result<(), BenchError> {
    for (name, kind, entries) in &contents.entries {
        let Some(map) = maps.get_mut(name).filter(|_| *kind != MapKind::ProgramTable) else {
            continue;
        };
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
