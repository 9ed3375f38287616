//! Additions of `bpftool map dump -j` to plain bytes (tools/bpf/bpftool/map.c, Linux 6.12): a
//! readable copy (`formatted`), values by CPU, unreadable entries, and ids of maps and programs.

use serde_json::{Map, Value};

use super::value::EntryError;

/// Redundant member of an entry.
pub(super) const REPEATED: &str = "formatted";

/// Why an entry is rejected, if it is from a dump that cannot be restored elsewhere.
pub(super) fn refusal(members: &Map<String, Value>) -> Option<EntryError> {
    if members.contains_key("inner_map_id") {
        return Some(EntryError::ForeignId { what: "map" });
    }
    let error = members.get("value")?.as_object()?.get("error")?.as_str()?;
    Some(EntryError::Unread { message: error.chars().take(FOUND_MAX).collect() })
}

/// Characters of bpftool's message that are quoted.
const FOUND_MAX: usize = 60;

/// Value of one CPU: plain, or in bpftool's form `{"cpu": 0, "value": …}`.
pub(super) fn value_of_cpu(item: &Value, cpu: usize) -> Result<&Value, EntryError> {
    let members = item.as_object().filter(|members| members.contains_key("cpu"));
    let Some(members) = members else { return Ok(item) };
    let number = members.get("cpu").and_then(Value::as_u64);
    let is_next = number.and_then(|number| usize::try_from(number).ok()) == Some(cpu);
    match members.get("value") {
        Some(value) if is_next => Ok(value),
        _ => Err(EntryError::Cpu { expected: cpu }),
    }
}

/// The name in `{"program": "NAME"}`, or in the like for another kind.
pub(super) fn named(value: &Value, what: &'static str) -> Result<String, EntryError> {
    let members = value.as_object().filter(|members| members.len() == 1);
    let name = members.and_then(|members| members.get(what)).and_then(Value::as_str);
    // Anything else is an id, which has another meaning on each machine.
    name.map(str::to_owned).ok_or(EntryError::ForeignId { what })
}
