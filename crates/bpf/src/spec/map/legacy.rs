//! Maps as numbers in a section `maps`: libbpf's first way, Aya's, and iproute2's.

use super::{MapSpec, MapType, Placed};
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
    survey
        .symbols_in(index)
        .map(|symbol| {
            let map = definition(symbol, section).map_err(|reason| {
                Flaw::damaged(section.name, format!("map {}: {reason}", symbol.name))
            })?;
            Ok((Some((index, symbol.value)), map))
        })
        .collect()
}

fn definition(symbol: &Symbol<'_>, section: &Section<'_>) -> Result<MapSpec, String> {
    let bytes = usize::try_from(symbol.value)
        .ok()
        .zip(usize::try_from(symbol.value.saturating_add(symbol.size)).ok())
        .and_then(|(start, end)| section.data.get(start..end))
        .ok_or("its definition is not in the file")?;
    let word = |index: usize| word_at(bytes, 4 * index);
    let (Some(r#type), Some(key_size), Some(value_size), Some(entries_max), Some(flags)) =
        (word(0), word(1), word(2), word(3), word(4))
    else {
        return Err(format!("its definition has {} bytes of at least {LEN_MIN}", bytes.len()));
    };
    // The sixth word is an id of the loader's own.
    let is_pinned_by_name = match word(6).unwrap_or(0) {
        0 => false,
        // iproute2 tells two places apart, one for all and one for each object (include/bpf_elf.h,
        // iproute2 6.1).
        1 | 2 => true,
        other => {
            return Err(format!("it is to be pinned in the way {other}, which does not exist"));
        }
    };
    Ok(MapSpec {
        flags,
        is_pinned_by_name,
        ..MapSpec::plain(symbol.name, MapType(r#type), (key_size, value_size), entries_max)
    })
}
