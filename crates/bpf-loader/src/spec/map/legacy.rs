//! Numeric map definitions in a section `maps`: libbpf's old format, Aya's, and iproute2's.
//!
//! All share five numbers: type, sizes of key and value, entries, flags. Then iproute2 has an id, a
//! pinning mode, and the id of the inner map (include/bpf_elf.h, iproute2 6.1); the kernel's
//! samples the index of the inner map, and a NUMA node (samples/bpf/bpf_load.h, Linux 5.10); Aya an
//! id and a pinning mode.

use super::{MapSpec, MapType, Placed, tables};
use crate::spec::{
    error::Flaw,
    survey::{Section, Survey, Symbol},
};

/// Minimum length of a definition.
const NUMBERS_MIN: usize = 5;

/// Length of the definitions in the kernel's samples.
const NUMBERS_SAMPLES: usize = 7;

/// Maps of a section, one per symbol.
pub(super) fn maps(
    survey: &Survey<'_>,
    index: usize,
    section: &Section<'_>,
) -> Result<Vec<Placed>, Flaw> {
    let mut symbols: Vec<_> = survey.symbols_in(index).collect();
    symbols.sort_by_key(|symbol| symbol.value);
    let mut found = Vec::with_capacity(symbols.len());
    for (at, symbol) in symbols.iter().enumerate() {
        // Compilers before LLVM 9 give these symbols no size.
        let next = symbols.iter().skip(at).map(|it| it.value).find(|start| *start > symbol.value);
        let end = match symbol.size {
            0 => next.unwrap_or(section.size),
            size => symbol.value.saturating_add(size),
        };
        let read = numbers(symbol, end, section).and_then(|numbers| {
            let map = definition(survey, symbol.name, &numbers)?;
            Ok((numbers, map))
        });
        let (numbers, map) = read.map_err(|reason| {
            Flaw::damaged(section.name, format!("map {}: {reason}", symbol.name))
        })?;
        found.push((symbol.value, numbers, map));
    }
    let maps = found.iter().map(|(start, numbers, map)| {
        let inner = match numbers.len() {
            _ if !map.r#type.has_maps() => None,
            // By index in the section.
            NUMBERS_SAMPLES => usize::try_from(numbers[5]).ok().and_then(|place| found.get(place)),
            // By its id.
            _ => numbers
                .get(7)
                .and_then(|id| found.iter().find(|(_, numbers, _)| numbers.get(5) == Some(id))),
        };
        // Maps nest only once.
        let inner = inner.filter(|(_, _, inner)| !inner.r#type.has_maps());
        let inner = inner.map(|(_, _, inner)| Box::new(inner.clone()));
        (Some((index, *start)), MapSpec { inner, ..map.clone() })
    });
    Ok(maps.collect())
}

/// The words of a definition.
fn numbers(symbol: &Symbol<'_>, end: u64, section: &Section<'_>) -> Result<Vec<u32>, String> {
    let bytes = usize::try_from(symbol.value)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(start, end)| section.data.get(start..end))
        .ok_or("its definition is not in the file")?;
    Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

fn definition(survey: &Survey<'_>, name: &str, numbers: &[u32]) -> Result<MapSpec, String> {
    let &[r#type, key_size, value_size, entries_max, flags, ref rest @ ..] = numbers else {
        return Err(format!(
            "its definition has {} bytes of at least {}",
            4 * numbers.len(),
            4 * NUMBERS_MIN
        ));
    };
    let r#type = MapType(r#type);
    let id = rest.first().filter(|_| r#type == MapType::PROG_ARRAY);
    Ok(MapSpec {
        flags,
        // iproute2 has two scopes of pins, global and per object; others have more.
        is_pinned_by_name: rest.get(1).is_some_and(|&pinning| pinning != 0),
        slots: id.map(|&id| tables::in_sections(id, survey)).unwrap_or_default(),
        ..MapSpec::plain(name, r#type, (key_size, value_size), entries_max)
    })
}
