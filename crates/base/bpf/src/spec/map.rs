//! Maps of an object file, in all the ways in which objects describe them.

mod legacy;
mod tables;
mod typed;

use std::{collections::BTreeSet, fmt};

use super::{
    error::Flaw,
    externs::{Externs, KCONFIG},
    survey::{Role, Section, Survey},
};
use crate::btf::table::TypeTable;

/// A type of map (`enum bpf_map_type`, include/uapi/linux/bpf.h, Linux 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapType(pub u32);

/// Names by number, as bpftool writes them.
const NAMES: [&str; 34] = [
    "unspec",
    "hash",
    "array",
    "prog_array",
    "perf_event_array",
    "percpu_hash",
    "percpu_array",
    "stack_trace",
    "cgroup_array",
    "lru_hash",
    "lru_percpu_hash",
    "lpm_trie",
    "array_of_maps",
    "hash_of_maps",
    "devmap",
    "sockmap",
    "cpumap",
    "xskmap",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "queue",
    "stack",
    "sk_storage",
    "devmap_hash",
    "struct_ops",
    "ringbuf",
    "inode_storage",
    "task_storage",
    "bloom_filter",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
];

impl MapType {
    pub const HASH: Self = Self(1);
    pub const ARRAY: Self = Self(2);
    pub const PROG_ARRAY: Self = Self(3);
    pub const PERF_EVENT_ARRAY: Self = Self(4);
    pub const PERCPU_HASH: Self = Self(5);
    pub const PERCPU_ARRAY: Self = Self(6);
    pub const STACK_TRACE: Self = Self(7);
    pub const CGROUP_ARRAY: Self = Self(8);
    pub const LRU_HASH: Self = Self(9);
    pub const LRU_PERCPU_HASH: Self = Self(10);
    pub const LPM_TRIE: Self = Self(11);
    pub const ARRAY_OF_MAPS: Self = Self(12);
    pub const HASH_OF_MAPS: Self = Self(13);
    pub const DEVMAP: Self = Self(14);
    pub const SOCKMAP: Self = Self(15);
    pub const CPUMAP: Self = Self(16);
    pub const XSKMAP: Self = Self(17);
    pub const SOCKHASH: Self = Self(18);
    pub const QUEUE: Self = Self(22);
    pub const STACK: Self = Self(23);
    pub const DEVMAP_HASH: Self = Self(25);
    pub const STRUCT_OPS: Self = Self(26);
    pub const RINGBUF: Self = Self(27);
    pub const BLOOM_FILTER: Self = Self(30);
    pub const USER_RINGBUF: Self = Self(31);
    pub const ARENA: Self = Self(33);

    /// Does user space see one value per CPU?
    pub fn is_per_cpu(self) -> bool {
        matches!(self, Self::PERCPU_HASH | Self::PERCPU_ARRAY | Self::LRU_PERCPU_HASH | Self(21))
    }

    /// Are its keys the indices from 0 up to its size, all of them always there?
    pub fn is_array(self) -> bool {
        matches!(self, Self::ARRAY | Self::PERCPU_ARRAY)
    }

    /// Are entries added and removed by key?
    pub fn is_hash(self) -> bool {
        matches!(
            self,
            Self::HASH
                | Self::PERCPU_HASH
                | Self::LRU_HASH
                | Self::LRU_PERCPU_HASH
                | Self::LPM_TRIE
        )
    }

    /// Are its values maps?
    pub fn has_maps(self) -> bool {
        matches!(self, Self::ARRAY_OF_MAPS | Self::HASH_OF_MAPS)
    }

    /// Has it no keys, but an order?
    pub fn is_queue(self) -> bool {
        matches!(self, Self::QUEUE | Self::STACK)
    }

    /// Does the kernel refuse type information for it (libbpf zeroes it for the same ones,
    /// tools/lib/bpf/libbpf.c, `bpf_object__create_map`, Linux 6.12)?
    pub(crate) fn refuses_types(self) -> bool {
        matches!(
            self,
            Self::PERF_EVENT_ARRAY
                | Self::CGROUP_ARRAY
                | Self::STACK_TRACE
                | Self::ARRAY_OF_MAPS
                | Self::HASH_OF_MAPS
                | Self::DEVMAP
                | Self::DEVMAP_HASH
                | Self::CPUMAP
                | Self::XSKMAP
                | Self::SOCKMAP
                | Self::SOCKHASH
                | Self::QUEUE
                | Self::STACK
                | Self::PROG_ARRAY
                | Self::RINGBUF
                | Self::USER_RINGBUF
        )
    }
}

impl fmt::Display for MapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.pad(name),
            None => f.pad(&format!("type {}", self.0)),
        }
    }
}

/// A map as the object describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSpec {
    /// Symbol, or the section's name for global data.
    pub name: String,
    /// Type.
    pub r#type: MapType,
    pub key_size: u32,
    pub value_size: u32,
    /// Most entries; 0 where the number of CPUs is meant.
    pub entries_max: u32,
    /// `BPF_F_…` flags.
    pub flags: u32,
    pub extra: u64,
    /// Whether the object wants to share it with others under its name in a bpffs.
    pub is_pinned_by_name: bool,
    pub initial: Option<Vec<u8>>,
    /// Whether it holds constants, which the verifier may rely on.
    pub is_constant: bool,
    pub inner: Option<Box<MapSpec>>,
    /// Types of key and value in the object's BTF; 0 for none.
    pub type_ids: (u32, u32),
    /// What the object wants to be in a table of maps or programs, by index.
    pub slots: Vec<(u32, Slot)>,
}

/// An entry of a table of maps or programs, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// A map of the same object.
    Map(String),
    /// A program of the same object.
    Program(String),
}

impl MapSpec {
    /// A map that nothing is said about but this.
    pub fn plain(name: &str, r#type: MapType, sizes: (u32, u32), entries_max: u32) -> Self {
        Self {
            name: name.to_owned(),
            r#type,
            key_size: sizes.0,
            value_size: sizes.1,
            entries_max,
            flags: 0,
            extra: 0,
            is_pinned_by_name: false,
            initial: None,
            is_constant: false,
            inner: None,
            type_ids: (0, 0),
            slots: Vec::new(),
        }
    }

    /// Global data: an array with one value.
    fn data(name: &str, initial: Vec<u8>, is_constant: bool) -> Self {
        let size = u32::try_from(initial.len()).unwrap_or(u32::MAX);
        Self {
            flags: if is_constant { RDONLY_PROG } else { 0 },
            initial: Some(initial),
            is_constant,
            ..Self::plain(name, MapType::ARRAY, (4, size), 1)
        }
    }
}

/// `BPF_F_RDONLY_PROG` (include/uapi/linux/bpf.h, Linux 6.18).
const RDONLY_PROG: u32 = 1 << 7;

/// Where in the file a map is, which is how code refers to it.
#[derive(Debug, Clone)]
pub(super) struct MapPlace {
    pub(super) section: usize,
    /// Offset in the section, in bytes.
    pub(super) start: u64,
    pub(super) number: usize,
    /// Whether code refers to bytes inside it, instead of to the map.
    pub(super) is_data: bool,
}

/// The maps by name, and where they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Maps {
    pub(super) specs: Vec<MapSpec>,
    places: Vec<MapPlace>,
}

impl Maps {
    /// Finds the maps, global data and settings of the kernel's build included.
    pub(super) fn find(
        survey: &Survey<'_>,
        types: Option<&TypeTable>,
        externs: &Externs,
    ) -> Result<Self, Flaw> {
        let mut found = Vec::new();
        for (index, section) in survey.sections.iter().enumerate() {
            match section.role {
                Role::LegacyMaps => found.extend(legacy::maps(survey, index, section)?),
                Role::Maps => found.extend(typed::maps(survey, index, section, types)?),
                Role::Data { is_constant } if section.size > 0 => {
                    let data = MapSpec::data(section.name, initial(section), is_constant);
                    found.push((Some((index, 0)), data));
                }
                _ => {}
            }
        }
        if externs.settings_size > 0 {
            let zero = vec![0; externs.settings_size as usize];
            found.push((None, MapSpec::data(KCONFIG, zero, true)));
        }
        found.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let mut places = Vec::new();
        for (number, (place, spec)) in found.iter().enumerate() {
            if let &Some((section, start)) = place {
                let is_data = spec.initial.is_some();
                places.push(MapPlace { section, start, number, is_data });
            }
        }
        Ok(Self { specs: found.into_iter().map(|(_, spec)| spec).collect(), places })
    }

    /// The map at an offset of a section: that begins there, or, for global data, that holds it.
    pub(super) fn at(&self, section: usize, offset: u64) -> Option<&MapPlace> {
        self.places
            .iter()
            .find(|place| place.section == section && (place.is_data || place.start == offset))
    }

    /// The names of functions that stand in tables of programs.
    pub(super) fn in_tables(&self) -> BTreeSet<&str> {
        let slots = self.specs.iter().flat_map(|map| &map.slots);
        let names = slots.filter_map(|(_, slot)| match slot {
            Slot::Program(name) => Some(name.as_str()),
            Slot::Map(_) => None,
        });
        names.collect()
    }

    /// The number of the map with the settings of the kernel's build.
    pub(super) fn settings(&self) -> Option<usize> {
        self.specs.iter().position(|map| map.name == KCONFIG && map.initial.is_some())
    }
}

/// A section and an offset in it, and the map there.
type Placed = (Option<(usize, u64)>, MapSpec);

fn initial(section: &Section<'_>) -> Vec<u8> {
    let mut bytes = section.data.to_vec();
    // Those of `.bss` are not in the file. The size has been checked.
    bytes.resize(usize::try_from(section.size).unwrap_or(bytes.len()), 0);
    bytes
}
