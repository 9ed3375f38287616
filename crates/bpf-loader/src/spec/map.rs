//! Maps of an object file, in all definition formats.

mod legacy;
mod tables;
mod typed;

use std::collections::BTreeSet;

use super::{
    error::Flaw,
    externs::{Externs, KCONFIG},
    survey::{Role, Section, Survey},
};
use crate::{btf::table::TypeTable, numbers::kernel_numbers};

kernel_numbers! {
    /// A map type (`enum bpf_map_type`, include/uapi/linux/bpf.h, Linux 6.18).
    MapType {
        0 = UNSPEC "unspec",
        1 = HASH "hash",
        2 = ARRAY "array",
        3 = PROG_ARRAY "prog_array",
        4 = PERF_EVENT_ARRAY "perf_event_array",
        5 = PERCPU_HASH "percpu_hash",
        6 = PERCPU_ARRAY "percpu_array",
        7 = STACK_TRACE "stack_trace",
        8 = CGROUP_ARRAY "cgroup_array",
        9 = LRU_HASH "lru_hash",
        10 = LRU_PERCPU_HASH "lru_percpu_hash",
        11 = LPM_TRIE "lpm_trie",
        12 = ARRAY_OF_MAPS "array_of_maps",
        13 = HASH_OF_MAPS "hash_of_maps",
        14 = DEVMAP "devmap",
        15 = SOCKMAP "sockmap",
        16 = CPUMAP "cpumap",
        17 = XSKMAP "xskmap",
        18 = SOCKHASH "sockhash",
        19 = CGROUP_STORAGE "cgroup_storage",
        20 = REUSEPORT_SOCKARRAY "reuseport_sockarray",
        21 = PERCPU_CGROUP_STORAGE "percpu_cgroup_storage",
        22 = QUEUE "queue",
        23 = STACK "stack",
        24 = SK_STORAGE "sk_storage",
        25 = DEVMAP_HASH "devmap_hash",
        26 = STRUCT_OPS "struct_ops",
        27 = RINGBUF "ringbuf",
        28 = INODE_STORAGE "inode_storage",
        29 = TASK_STORAGE "task_storage",
        30 = BLOOM_FILTER "bloom_filter",
        31 = USER_RINGBUF "user_ringbuf",
        32 = CGRP_STORAGE "cgrp_storage",
        33 = ARENA "arena",
    }
}

impl MapType {
    /// Whether user space sees one value per CPU.
    pub fn is_per_cpu(self) -> bool {
        matches!(
            self,
            Self::PERCPU_HASH
                | Self::PERCPU_ARRAY
                | Self::LRU_PERCPU_HASH
                | Self::PERCPU_CGROUP_STORAGE
        )
    }

    /// Whether its keys are the indices below its size, all of which always exist.
    pub fn is_array(self) -> bool {
        matches!(self, Self::ARRAY | Self::PERCPU_ARRAY)
    }

    /// Whether entries are added and removed by key.
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

    /// Whether its values are maps.
    pub fn has_maps(self) -> bool {
        matches!(self, Self::ARRAY_OF_MAPS | Self::HASH_OF_MAPS)
    }

    /// Whether it has an order instead of keys.
    pub fn is_queue(self) -> bool {
        matches!(self, Self::QUEUE | Self::STACK)
    }

    /// Whether the kernel rejects type information for it (libbpf zeroes it for the same types,
    /// tools/lib/bpf/libbpf.c, `bpf_object__create_map`, Linux 6.12).
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

/// A map as defined by the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSpec {
    /// Symbol, or the section's name for global data.
    pub name: String,
    /// Type.
    pub r#type: MapType,
    pub key_size: u32,
    pub value_size: u32,
    /// Maximum entries; 0 stands for the number of CPUs.
    pub entries_max: u32,
    /// `BPF_F_…` flags.
    pub flags: u32,
    pub extra: u64,
    /// Whether the object shares it by name in a bpffs.
    pub is_pinned_by_name: bool,
    pub initial: Option<Vec<u8>>,
    /// Whether it holds constants, whose values the verifier may use.
    pub is_constant: bool,
    pub inner: Option<Box<MapSpec>>,
    /// Types of key and value in the object's BTF; 0 for none.
    pub type_ids: (u32, u32),
    /// Initial contents of a map or program table, by index.
    pub slots: Vec<(u32, Slot)>,
    /// Additional contents of a map table requested by the user: names of maps of the object, by key.
    pub put_in: Vec<(Vec<u8>, String)>,
}

/// An entry of a map or program table, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// A map of the same object.
    Map(String),
    /// A program of the same object.
    Program(String),
}

impl Slot {
    /// The name of a map.
    pub(crate) fn map(&self) -> Option<&str> {
        match self {
            Self::Map(name) => Some(name),
            Self::Program(_) => None,
        }
    }
}

impl MapSpec {
    /// A map with these properties only.
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
            put_in: Vec::new(),
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
pub(crate) const RDONLY_PROG: u32 = 1 << 7;

/// Location of a map in the file, by which code refers to it.
#[derive(Debug, Clone)]
pub(super) struct MapPlace {
    pub(super) section: usize,
    /// Offset in the section, in bytes.
    pub(super) start: u64,
    pub(super) number: usize,
    /// Whether code refers to bytes inside it, instead of to the map.
    pub(super) is_data: bool,
}

/// The maps by name, and their locations.
#[derive(Debug, Clone, Default)]
pub(super) struct Maps {
    pub(super) specs: Vec<MapSpec>,
    places: Vec<MapPlace>,
}

impl Maps {
    /// Finds the maps, including global data and kernel configuration settings.
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
        let mut maps = Self { specs: found.into_iter().map(|(_, spec)| spec).collect(), places };
        maps.put_into_arena(survey);
        Ok(maps)
    }

    /// Places `.addr_space.1` at the beginning of the arena, like libbpf on kernels whose
    /// instructions cannot address its end. With several arenas it is undefined which one is meant.
    fn put_into_arena(&mut self, survey: &Survey<'_>) {
        let sections = survey.with_role(Role::ArenaData).filter(|(_, section)| section.size > 0);
        let mut arenas = (0..).zip(&mut self.specs).filter(|(_, map)| map.r#type == MapType::ARENA);
        if let (Some((number, arena)), None) = (arenas.next(), arenas.next()) {
            for (section, found) in sections {
                arena.initial = Some(initial(found));
                self.places.push(MapPlace { section, start: 0, number, is_data: true });
            }
        }
    }

    /// The map at an offset of a section: that begins there, or, for global data, that contains it.
    pub(super) fn at(&self, section: usize, offset: u64) -> Option<&MapPlace> {
        self.places
            .iter()
            .find(|place| place.section == section && (place.is_data || place.start == offset))
    }

    /// Names of the functions in program tables.
    pub(super) fn in_tables(&self) -> BTreeSet<&str> {
        let slots = self.specs.iter().flat_map(|map| &map.slots);
        let names = slots.filter_map(|(_, slot)| match slot {
            Slot::Program(name) => Some(name.as_str()),
            Slot::Map(_) => None,
        });
        names.collect()
    }

    /// Number of the map with kernel configuration settings.
    pub(super) fn settings(&self) -> Option<usize> {
        self.specs.iter().position(|map| map.name == KCONFIG && map.initial.is_some())
    }
}

/// A section and an offset in it, and the map there.
type Placed = (Option<(usize, u64)>, MapSpec);

fn initial(section: &Section<'_>) -> Vec<u8> {
    let mut bytes = section.data.to_vec();
    // `.bss` has no bytes in the file. The size has been checked.
    bytes.resize(usize::try_from(section.size).unwrap_or(bytes.len()), 0);
    bytes
}
