//! Maps as numbers in a section `maps`: libbpf's first way, Aya's, and iproute2's.

use super::{MapSpec, MapType, Placed, tables};
use crate::spec::{
    error::Flaw,
    survey::{Section, Survey, Symbol},
    table::word_at,
};

/// Bytes that a definition has at least: type, sizes of key and value, entries, flags.
const LEN_MIN: usize = 20;

/// The maps of a section: each symbol is one.
pub(super) fn maps(
    survey: &Survey<'_>,
    index: usize,
    section: &Section<'_>,
) -> Result<Vec<Placed>, Flaw> {
    let mut starts: Vec<_> = survey.symbols_in(index).map(|symbol| symbol.value).collect();
    starts.push(section.size);
    starts.sort_unstable();
    survey
        .symbols_in(index)
        .map(|symbol| {
            // Compilers before LLVM 9 give their symbols no size.
            let next = starts.iter().find(|&&start| start > symbol.value);
            let end = match symbol.size {
                0 => next.copied().unwrap_or(symbol.value),
                size => symbol.value.saturating_add(size),
            };
            let map = definition(survey, symbol, end, section).map_err(|reason| {
                Flaw::damaged(section.name, format!("map {}: {reason}", symbol.name))
            })?;
            Ok((Some((index, symbol.value)), map))
        })
        .collect()
}

fn definition(
    survey: &Survey<'_>,
    symbol: &Symbol<'_>,
    end: u64,
    section: &Section<'_>,
) -> Result<MapSpec, String> {
    let bytes = usize::try_from(symbol.value)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(start, end)| section.data.get(start..end))
        .ok_or("its definition is not in the file")?;
    let word = |index: usize| word_at(bytes, 4 * index);
    let (Some(r#type), Some(key_size), Some(value_size), Some(entries_max), Some(flags)) =
        (word(0), word(1), word(2), word(3), word(4))
    else {
        return Err(format!("its definition has {} bytes of at least {LEN_MIN}", bytes.len()));
    };
    let r#type = MapType(r#type);
    let id = word(5).filter(|_| r#type == MapType::PROG_ARRAY);
    // Of places to pin a map in, iproute2 tells two apart, one
    // for all and one for each object (include/bpf_elf.h, iproute2 6.1); others have more.
    let is_pinned_by_name = word(6).unwrap_or(0) != 0;
    Ok(MapSpec {
        flags,
        is_pinned_by_name,
        slots: id.map(|id| tables::in_sections(id, survey)).unwrap_or_default(),
        ..MapSpec::plain(symbol.name, r#type, (key_size, value_size), entries_max)
    })
}
