//! What `bpftool map dump -j` writes besides bytes (tools/bpf/bpftool/map.c, Linux 6.12): the same once
//! more in words (`formatted`), values by CPU, entries that could not be read, and numbers of maps and
//! programs.

use serde_json::{Map, Value};

use super::value::EntryError;

/// Members of an entry that repeat what others say.
pub(super) const REPEATED: &str = "formatted";

/// What an entry cannot be taken for, if it is from a dump of something that has no contents elsewhere.
pub(super) fn refusal(members: &Map<String, Value>) -> Option<EntryError> {
    if members.contains_key("inner_map_id") {
        return Some(EntryError::ForeignId { what: "map" });
    }
    let error = members.get("value")?.as_object()?.get("error")?.as_str()?;
    Some(EntryError::Unread { message: error.chars().take(FOUND_MAX).collect() })
}

/// Characters of bpftool's message that ours shows.
const FOUND_MAX: usize = 60;

/// The value of one CPU: as it is, or as bpftool has it, `{"cpu": 0, "value": …}`.
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

/// The name in `{"program": "NAME"}`, or of another kind of thing that is given by its name.
pub(super) fn named(value: &Value, what: &'static str) -> Result<String, EntryError> {
    let members = value.as_object().filter(|members| members.len() == 1);
    let name = members.and_then(|members| members.get(what)).and_then(Value::as_str);
    // Anything else is a number, which means another thing on each machine.
    name.map(str::to_owned).ok_or(EntryError::ForeignId { what })
}
