//! Maps as numbers in a section `maps`: libbpf's first way, Aya's, and iproute2's.

use super::{MapSpec, MapType, Placed};
use crate::spec::{
    error::Flaw,
    survey::{Section, Survey, Symbol},
    table::word_at,
};

/// Bytes that a definition has at least: type, sizes of key and value, entries, flags.
const LEN_MIN: usize = 20;

/// Bytes of iproute2's definition (`struct bpf_elf_map`, include/bpf_elf.h, iproute2 6.1), in which
/// pinning has a third value.
const LEN_IPROUTE2: usize = 36;

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
        1 => true,
        // Pinned for all, not for those of the same object.
        2 if bytes.len() == LEN_IPROUTE2 => true,
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
