//! Maps of an object file, in all definition formats.

use std::collections::BTreeSet;

use super::{
    Flaw,
    elf::{Definition, Elf, Relocation, Role, Section, Symbol},
    externs::{Externs, KCONFIG},
    functions::within,
};
use crate::{
    btf::table::{EXTERN, Type, TypeKind, TypeTable},
    program_type::kernel_numbers,
};

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
        elf: &Elf<'_>,
        types: Option<&TypeTable>,
        externs: &Externs,
    ) -> Result<Self, Flaw> {
        let mut found = Vec::new();
        for (index, section) in elf.sections.iter().enumerate() {
            match section.role {
                Role::LegacyMaps => found.extend(legacy_maps(elf, index, section)?),
                Role::Maps => found.extend(typed_maps(elf, index, section, types)?),
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
        maps.put_into_arena(elf);
        Ok(maps)
    }

    /// Places `.addr_space.1` at the beginning of the arena, like libbpf on kernels whose
    /// instructions cannot address its end. With several arenas it is undefined which one is meant.
    fn put_into_arena(&mut self, elf: &Elf<'_>) {
        let sections = elf.with_role(Role::ArenaData).filter(|(_, section)| section.size > 0);
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

// Numeric map definitions in a section `maps`: libbpf's old format, Aya's, and iproute2's.
//
// All share five numbers: type, sizes of key and value, entries, flags. Then iproute2 has an id, a
// pinning mode, and the id of the inner map (include/bpf_elf.h, iproute2 6.1); the kernel's
// samples the index of the inner map, and a NUMA node (samples/bpf/bpf_load.h, Linux 5.10); Aya an
// id and a pinning mode.

/// Minimum length of a definition.
const NUMBERS_MIN: usize = 5;

/// Length of the definitions in the kernel's samples.
const NUMBERS_SAMPLES: usize = 7;

/// Maps of a section, one per symbol.
fn legacy_maps(elf: &Elf<'_>, index: usize, section: &Section<'_>) -> Result<Vec<Placed>, Flaw> {
    let mut symbols: Vec<_> = elf.symbols_in(index).collect();
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
            let map = definition(elf, symbol.name, &numbers)?;
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

fn definition(elf: &Elf<'_>, name: &str, numbers: &[u32]) -> Result<MapSpec, String> {
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
        slots: id.map(|&id| in_sections(id, elf)).unwrap_or_default(),
        ..MapSpec::plain(name, r#type, (key_size, value_size), entries_max)
    })
}

// Contents of program tables that loaders other than libbpf derive from names in the object.
//
// Cilium tags the function: `__attribute__((btf_decl_tag("tail:MAP/SLOT")))`
// (bpf/include/bpf/tailcall.h, Cilium 1.17). iproute2 parses the name of the function's section,
// `ID/SLOT`, with the ID of the map's definition (lib/bpf_legacy.c, `bpf_fill_prog_arrays`,
// iproute2 6.1). The kernel rejects slots that the table does not have.

/// Functions with a tag for the table `map`.
fn tagged(map: &str, types: &TypeTable) -> Vec<(u32, Slot)> {
    let tags = types.all().filter(|found| found.kind == TypeKind::DECL_TAG);
    let slots = tags.filter_map(|tag| {
        let (table, slot) = types.name(tag).strip_prefix("tail:")?.rsplit_once('/')?;
        let function = types.get(tag.link).filter(|found| found.kind == TypeKind::FUNC)?;
        let slot = slot.parse().ok().filter(|_| table == map)?;
        Some((slot, Slot::Program(types.name(function).to_owned())))
    });
    slots.collect()
}

/// Functions in sections whose names refer to the table with this id.
fn in_sections(id: u32, elf: &Elf<'_>) -> Vec<(u32, Slot)> {
    let mut slots = Vec::new();
    for (index, section) in elf.with_role(Role::Code { is_text: false }) {
        let place = section.name.split_once('/');
        let place = place.and_then(|(table, slot)| Some((number(table)?, number(slot)?)));
        let Some((_, slot)) = place.filter(|(table, _)| *table == id) else { continue };
        // Old compilers do not mark symbols as functions.
        let is_entry = |symbol: &&Symbol<'_>| symbol.is_function || !symbol.is_local;
        let entry = elf.symbols_in(index).find(is_entry);
        slots.extend(entry.map(|it| (slot, Slot::Program(it.name.to_owned()))));
    }
    slots
}

/// A number in iproute2's syntax: `7`, `0x1010`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

// Typed map definitions in a section `.maps`: the format of libbpf, and of newer Rust objects.
//
// A map is a variable whose structure has a member for each property; numbers are encoded as
// lengths of arrays (tools/lib/bpf/libbpf.c, `parse_btf_map_def`, Linux 6.12). aya-obj 0.3
// supports this too, but miscalculates the size of nested arrays, and rejects program tables and
// 64-bit extras.

/// The maps of the section `.maps`.
fn typed_maps(
    elf: &Elf<'_>,
    index: usize,
    section: &Section<'_>,
    types: Option<&TypeTable>,
) -> Result<Vec<Placed>, Flaw> {
    let flaw = |reason: String| Flaw::damaged(section.name, reason);
    let types = types.ok_or_else(|| {
        flaw(
            "its maps are described by types, and there is no .BTF; was the object stripped?"
                .into(),
        )
    })?;
    let Some(list) = types.find(TypeKind::DATASEC, section.name) else {
        return Err(flaw("its maps are described by types, and .BTF does not mention them".into()));
    };
    let mut found = Vec::new();
    for variable in list.triples().filter_map(|[id, ..]| types.get(*id)) {
        // Defined in another object, which was not linked with this one.
        if variable.linkage() == EXTERN {
            continue;
        }
        let name = types.name(variable);
        let symbol = elf.symbols_in(index).find(|symbol| symbol.name == name);
        let symbol = symbol.ok_or_else(|| flaw(format!("map {name} has no symbol")))?;
        let definition =
            types.resolve(variable.link).filter(|found| found.kind == TypeKind::STRUCT);
        let map = definition
            .ok_or_else(|| "its type is not a structure".to_owned())
            .and_then(|definition| read(types, definition, name, false))
            .map(|mut map| {
                map.slots = slots(elf, index, symbol, types, definition);
                if map.r#type == MapType::PROG_ARRAY {
                    map.slots.extend(tagged(name, types));
                }
                map
            })
            .map_err(|reason| flaw(format!("map {name}: {reason}")))?;
        found.push((Some((index, symbol.value)), map));
    }
    Ok(found)
}

/// A map with the properties defined by its structure. The error is a reason.
fn read(
    types: &TypeTable,
    definition: Type<'_>,
    map: &str,
    is_inner: bool,
) -> Result<MapSpec, String> {
    let mut found = MapSpec::plain(map, MapType::UNSPEC, (0, 0), 0);
    let mut inner = None;
    for &[name, member, _] in definition.triples() {
        let name = types.text(name).unwrap_or("");
        let number = || {
            array_len(types, member).ok_or_else(|| format!("its {name} is not written as a number"))
        };
        let size = || {
            let pointed = types.resolve(member).filter(|found| found.kind == TypeKind::PTR);
            let pointed = pointed.map(|pointer| pointer.link);
            let size = pointed.and_then(|id| types.size(id));
            pointed.zip(size).ok_or_else(|| format!("its {name} has no size"))
        };
        match name {
            "type" => found.r#type = MapType(number()?),
            "max_entries" => found.entries_max = number()?,
            "map_flags" => found.flags = number()?,
            "map_extra" => {
                found.extra =
                    wide_number(types, member).map_or_else(|| number().map(u64::from), Ok)?;
            }
            "key_size" => found.key_size = number()?,
            "value_size" => found.value_size = number()?,
            "key" => (found.type_ids.0, found.key_size) = size()?,
            "value" => (found.type_ids.1, found.value_size) = size()?,
            "values" | "pinning" if is_inner => {
                return Err(format!("a map inside another one cannot have {name}"));
            }
            "values" => {
                found.value_size = 4;
                inner = values(types, member)?;
            }
            // Other loaders have their own modes besides libbpf's 0 and 1, such as cilium/ebpf's 16
            // for a pin that is replaced. Maps are private here, so it makes no difference.
            "pinning" => found.is_pinned_by_name = number()? != 0,
            // Such as `numa_node`, which does not affect measurements.
            _ => {}
        }
    }
    if found.r#type == MapType::UNSPEC {
        return Err("it has no type".into());
    }
    if let Some(inner) = inner {
        let inner = read(types, inner, &format!("{map}.inner"), true);
        found.inner = Some(Box::new(inner.map_err(|reason| format!("the maps in it: {reason}"))?));
    }
    Ok(found)
}

/// `int (*name)[NUMBER]`.
fn array_len(types: &TypeTable, member: u32) -> Option<u32> {
    let pointer = types.resolve(member).filter(|found| found.kind == TypeKind::PTR)?;
    let array = types.resolve(pointer.link).filter(|found| found.kind == TypeKind::ARRAY)?;
    array.tail.get(2).copied()
}

/// `enum { unique = NUMBER } name`, for 64-bit numbers.
fn wide_number(types: &TypeTable, member: u32) -> Option<u64> {
    let found = types.resolve(member)?;
    match found.kind {
        TypeKind::ENUM => found.pairs().next().map(|[_, value]| u64::from(*value)),
        TypeKind::ENUM64 => {
            found.triples().next().map(|[_, low, high]| u64::from(*high) << 32 | u64::from(*low))
        }
        _ => None,
    }
}

/// `struct inner *values[]`, or `void (*values[])(void)` in a program table.
fn values(types: &TypeTable, member: u32) -> Result<Option<Type<'_>>, String> {
    let array = types.resolve(member).filter(|found| found.kind == TypeKind::ARRAY);
    let element = array.and_then(|array| types.resolve(*array.tail.first()?));
    let pointed = element
        .filter(|element| element.kind == TypeKind::PTR)
        .and_then(|pointer| types.resolve(pointer.link))
        .ok_or("its values are not an array of pointers")?;
    match pointed.kind {
        TypeKind::STRUCT => Ok(Some(pointed)),
        TypeKind::FUNC_PROTO => Ok(None),
        _ => Err("its values are neither maps nor programs".into()),
    }
}

/// Entries in the initializer of `values`: each is a relocation.
fn slots(
    elf: &Elf<'_>,
    index: usize,
    map: &Symbol<'_>,
    types: &TypeTable,
    definition: Option<Type<'_>>,
) -> Vec<(u32, Slot)> {
    let values = definition.and_then(|definition| {
        definition.triples().copied().find(|[name, ..]| types.text(*name) == Some("values"))
    });
    let Some([_, _, bits]) = values else { return Vec::new() };
    let start = map.value.saturating_add(u64::from(bits / 8));
    let end = map.value.saturating_add(map.size);
    let relocations = elf.sections.get(index).map_or(&[][..], |section| &section.relocations);
    let slot = |relocation: &Relocation| {
        let number = u32::try_from((relocation.offset - start) / 8).ok()?;
        let symbol = elf.symbols.get(relocation.symbol)?;
        let name = symbol.name.to_owned();
        let slot = match symbol.definition {
            Definition::Section(section) if section == index => Slot::Map(name),
            Definition::Section(_) if symbol.is_function => Slot::Program(name),
            // A function that is only declared: programs that jump there get an error.
            Definition::Undefined => Slot::Program(name),
            _ => return None,
        };
        Some((number, slot))
    };
    within(relocations, &(start..end), |it| it.offset).iter().filter_map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_of_sections() {
        let check = |text: &str, expected| assert_eq!(number(text), expected, "{text}");
        check("7", Some(7));
        check("0x1010", Some(0x1010));
        check("", None);
        check("0x", None);
        check("x", None);
        check("4294967296", None);
    }
}
