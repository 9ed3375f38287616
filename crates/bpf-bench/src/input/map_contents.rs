//! Initial map contents, from JSON.
//!
//! A list of entries, `{"key": …, "value": …}`. Arrays also take a list of values, from index 0 on.
//! Queues, stacks and Bloom filters take only a list of values, pushed in order. Per-CPU maps take
//! `"value"` for all CPUs, or `"values"`, a list with one per CPU. `value.rs` describes the syntax
//! of bytes. Program tables take `{"program": "NAME"}` as a value, map tables `{"map": "NAME"}`.
//! JSON dumps of bpftool are accepted too.

mod value;

use std::{collections::HashMap, fmt};

use serde_json::{Map, Value};
use thiserror::Error;

pub use self::value::EntryError;

/// Maximum bytes of all entries together. A tiny file must not exhaust memory because a map has large values.
const BYTES_MAX: usize = 256 << 20;

/// Entries of a map, validated against its sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapContents {
    /// In file order, with unique keys.
    pub entries: Vec<Entry>,
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Has the length of the map's keys; empty for maps without keys.
    pub key: Vec<u8>,
    /// The value, or one per CPU.
    pub value: EntryValue,
}

/// Value of an entry, with the length that the map defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryValue {
    /// Same value on all CPUs, or value of a map that is not per-CPU.
    Same(Vec<u8>),
    PerCpu(Vec<Vec<u8>>),
    /// Name of a program of the object, in a program table.
    Program(String),
    /// Name of a map of the object, in a map table.
    Map(String),
}

/// How a map is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// Arbitrary keys.
    Hash,
    /// As `Hash`, with one value per CPU.
    PerCpuHash,
    Array,
    /// As `Array`, with one value per CPU.
    PerCpuArray,
    /// Values only: queue, stack, Bloom filter.
    Queue,
    /// Keys are indices, values are programs.
    ProgramTable,
    /// Keys are indices, values are maps.
    MapTable,
    /// Arbitrary keys, values are maps.
    MapHash,
}

impl MapKind {
    /// Kind of a map type (`enum bpf_map_type` of include/uapi/linux/bpf.h, Linux 6.18); `None` for
    /// types whose values are not plain bytes: sockets, buffers, task storage and the like.
    pub fn of_map_type(map_type: u32) -> Option<Self> {
        Some(match map_type {
            // Hash, LRU hash, prefix trie, hash of devices.
            1 | 9 | 11 | 25 => Self::Hash,
            5 | 10 => Self::PerCpuHash,
            // Array, devices, CPUs.
            2 | 14 | 16 => Self::Array,
            6 => Self::PerCpuArray,
            3 => Self::ProgramTable,
            12 => Self::MapTable,
            13 => Self::MapHash,
            22 | 23 | 30 => Self::Queue,
            _ => return None,
        })
    }

    fn is_per_cpu(self) -> bool {
        matches!(self, Self::PerCpuHash | Self::PerCpuArray)
    }

    fn is_array(self) -> bool {
        matches!(self, Self::Array | Self::PerCpuArray | Self::ProgramTable | Self::MapTable)
    }

    /// The index in the key of an entry, if it is out of bounds for a map of this size.
    pub(crate) fn index_beyond(self, key: &[u8], entries: u32) -> Option<u32> {
        let index = key.first_chunk().map(|index| u32::from_ne_bytes(*index))?;
        (self.is_array() && index >= entries).then_some(index)
    }
}

/// Expected layout of the entries of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapShape {
    pub kind: MapKind,
    /// Length of a key; 0 for queues.
    pub key_bytes: usize,
    pub value_bytes: usize,
}

/// A part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Key,
    Value,
    ValueOfCpu(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Value => f.write_str("value"),
            Self::ValueOfCpu(cpu) => write!(f, "value of CPU {cpu}"),
        }
    }
}

/// Why a text is not valid map contents. Entries count from 0, as in JSON paths.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapError {
    #[error("it is not JSON: {0}")]
    Json(String),
    #[error(
        "found {found} where the list of entries should be; write [{{\"key\": 1, \"value\": 2}}, …]"
    )]
    NotAList { found: &'static str },
    #[error("entry {index}, {part}: {error}")]
    Bytes { index: usize, part: Part, error: EntryError },
    #[error("entry {index}: it has no \"{missing}\"; {expected}")]
    Missing { index: usize, missing: &'static str, expected: &'static str },
    #[error("entry {index}: \"{found}\" does not belong there; {expected}")]
    Unexpected { index: usize, found: String, expected: &'static str },
    #[error("entry {index}: entry {first} has the same key; a map holds each key once")]
    SameKey { index: usize, first: usize },
    #[error("entry {index}: the entries up to here take more than 256 MiB; use fewer")]
    TooLarge { index: usize },
    #[error(
        "an entry has values for {found} CPUs, but this machine counts {cpus} possible ones \
         (/sys/devices/system/cpu/possible); write one for each, or one \"value\" for all"
    )]
    CpuCount { found: usize, cpus: usize },
}

impl MapContents {
    /// Parses JSON for a map of this shape. Fails if it is not JSON, or an entry does not fit the map.
    pub fn parse(json: &[u8], shape: MapShape) -> Result<Self, MapError> {
        Self::parse_within(json, shape, BYTES_MAX)
    }

    fn parse_within(json: &[u8], shape: MapShape, bytes_max: usize) -> Result<Self, MapError> {
        let json: Value =
            serde_json::from_slice(json).map_err(|error| MapError::Json(error.to_string()))?;
        let Value::Array(list) = &json else {
            return Err(MapError::NotAList { found: value::name_of(&json) });
        };
        let mut entries = Vec::new();
        let mut keys = HashMap::new();
        let mut bytes_left = bytes_max;
        for (index, item) in list.iter().enumerate() {
            let mut reader = Reader { shape, index, bytes_left };
            let entry = reader.entry(item)?;
            bytes_left = reader.bytes_left;
            if shape.kind != MapKind::Queue
                && let Some(first) = keys.insert(entry.key.clone(), index)
            {
                return Err(MapError::SameKey { index, first });
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }
}

impl Entry {
    /// The value as `BPF_MAP_UPDATE_ELEM` takes it. For per-CPU maps: the values of all possible
    /// CPUs, each padded to 8 bytes (`bpf_map_value_size` in kernel/bpf/syscall.c, Linux 6.12).
    /// Fails if the entry has values for another number of CPUs.
    pub fn value_for_kernel(&self, kind: MapKind, cpus: usize) -> Result<Vec<u8>, MapError> {
        let filled = |bytes: &Vec<u8>| {
            let mut bytes = bytes.clone();
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        match &self.value {
            EntryValue::Same(bytes) if kind.is_per_cpu() => Ok(filled(bytes).repeat(cpus)),
            EntryValue::Same(bytes) => Ok(bytes.clone()),
            EntryValue::PerCpu(values) if values.len() == cpus => {
                Ok(values.iter().flat_map(filled).collect())
            }
            // Programs and maps get their ids only when loaded.
            EntryValue::Program(_) | EntryValue::Map(_) => Ok(Vec::new()),
            EntryValue::PerCpu(values) => Err(MapError::CpuCount { found: values.len(), cpus }),
        }
    }
}

/// Parses one item of the list.
struct Reader {
    shape: MapShape,
    index: usize,
    bytes_left: usize,
}

impl Reader {
    fn entry(&mut self, item: &Value) -> Result<Entry, MapError> {
        let kind = self.shape.kind;
        let members = item.as_object().filter(|members| {
            ["key", "value", "values"].iter().any(|name| members.contains_key(*name))
        });
        match members {
            Some(members) => self.check_members(members)?,
            None if kind == MapKind::Queue => {
                let value = self.bytes(item, Part::Value)?;
                return Ok(Entry { key: Vec::new(), value: EntryValue::Same(value) });
            }
            None if kind.is_array() => {
                let key = self.bytes(&Value::from(self.index), Part::Key)?;
                let value = self.value(item)?;
                return Ok(Entry { key, value });
            }
            None => {}
        }
        let member = |name| members.and_then(|members| members.get(name));
        let key = match (member("key"), kind) {
            (Some(key), _) => self.bytes(key, Part::Key)?,
            (None, MapKind::Queue) => Vec::new(),
            (None, _) => return Err(self.missing("key")),
        };
        let value = match (member("value"), member("values")) {
            (Some(value), _) => self.value(value)?,
            (None, Some(Value::Array(values))) => {
                let values = values.iter().enumerate();
                let bytes = values.map(|(cpu, value)| {
                    let part = Part::ValueOfCpu(cpu);
                    let value = value_of_cpu(value, cpu).map_err(|error| MapError::Bytes {
                        index: self.index,
                        part,
                        error,
                    })?;
                    self.bytes(value, part)
                });
                EntryValue::PerCpu(bytes.collect::<Result<_, _>>()?)
            }
            (None, Some(other)) => {
                let error = EntryError::NotAListOfValues { found: value::name_of(other) };
                return Err(self.wrong_value(error));
            }
            (None, None) => return Err(self.missing("value")),
        };
        Ok(Entry { key, value })
    }

    /// A value for all CPUs.
    fn value(&mut self, value: &Value) -> Result<EntryValue, MapError> {
        let named = |what| named(value, what).map_err(|error| self.wrong_value(error));
        match self.shape.kind {
            MapKind::ProgramTable => named("program").map(EntryValue::Program),
            MapKind::MapTable | MapKind::MapHash => named("map").map(EntryValue::Map),
            _ => self.bytes(value, Part::Value).map(EntryValue::Same),
        }
    }

    fn wrong_value(&self, error: EntryError) -> MapError {
        MapError::Bytes { index: self.index, part: Part::Value, error }
    }

    /// Bytes with the length of the part.
    fn bytes(&mut self, value: &Value, part: Part) -> Result<Vec<u8>, MapError> {
        let index = self.index;
        let size = match part {
            Part::Key => self.shape.key_bytes,
            Part::Value | Part::ValueOfCpu(_) => self.shape.value_bytes,
        };
        self.bytes_left = self.bytes_left.checked_sub(size).ok_or(MapError::TooLarge { index })?;
        value::bytes(value, size).map_err(|error| MapError::Bytes { index, part, error })
    }

    fn check_members(&self, members: &Map<String, Value>) -> Result<(), MapError> {
        let kind = self.shape.kind;
        if let Some(error) = refusal(members) {
            return Err(self.wrong_value(error));
        }
        let unexpected = members.keys().find(|name| match name.as_str() {
            "key" => kind == MapKind::Queue,
            "value" | REPEATED => false,
            "values" => !kind.is_per_cpu() || members.contains_key("value"),
            _ => true,
        });
        match unexpected {
            Some(found) => Err(MapError::Unexpected {
                index: self.index,
                found: found.clone(),
                expected: self.expected(),
            }),
            None => Ok(()),
        }
    }

    fn missing(&self, missing: &'static str) -> MapError {
        MapError::Missing { index: self.index, missing, expected: self.expected() }
    }

    fn expected(&self) -> &'static str {
        match self.shape.kind {
            MapKind::Hash => "an entry of this map is {\"key\": …, \"value\": …}",
            MapKind::Array => {
                "an entry of this map is {\"key\": …, \"value\": …}, or the value alone"
            }
            MapKind::PerCpuHash | MapKind::PerCpuArray => {
                "an entry of this map is {\"key\": …, \"value\": …}, or {\"key\": …, \"values\": […]} \
                 with a value for each CPU"
            }
            MapKind::Queue => "an entry of this map is a value, without a key",
            MapKind::MapTable | MapKind::MapHash => {
                "an entry of this map is {\"key\": …, \"value\": {\"map\": \"NAME\"}}, with the name of a map \
                 of the object"
            }
            MapKind::ProgramTable => {
                "an entry of this map is {\"key\": …, \"value\": {\"program\": \"NAME\"}}, with the name of \
                 a program of the object"
            }
        }
    }
}

// Additions of `bpftool map dump -j` to plain bytes (tools/bpf/bpftool/map.c, Linux 6.12): a
// readable copy (`formatted`), values by CPU, unreadable entries, and ids of maps and programs.

/// Redundant member of an entry.
const REPEATED: &str = "formatted";

/// Why an entry is rejected, if it is from a dump that cannot be restored elsewhere.
fn refusal(members: &Map<String, Value>) -> Option<EntryError> {
    if members.contains_key("inner_map_id") {
        return Some(EntryError::ForeignId { what: "map" });
    }
    let error = members.get("value")?.as_object()?.get("error")?.as_str()?;
    Some(EntryError::Unread { message: error.chars().take(FOUND_MAX).collect() })
}

/// Characters of bpftool's message that are quoted.
const FOUND_MAX: usize = 60;

/// Value of one CPU: plain, or in bpftool's form `{"cpu": 0, "value": …}`.
fn value_of_cpu(item: &Value, cpu: usize) -> Result<&Value, EntryError> {
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
fn named(value: &Value, what: &'static str) -> Result<String, EntryError> {
    let members = value.as_object().filter(|members| members.len() == 1);
    let name = members.and_then(|members| members.get(what)).and_then(Value::as_str);
    // Anything else is an id, which has another meaning on each machine.
    name.map(str::to_owned).ok_or(EntryError::ForeignId { what })
}

#[cfg(test)]
mod tests;
