//! Maps of an object, created for this process alone.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::{Alarm, ResetError, arena::Arena, refused_map};
use crate::{
    code::{Code, op},
    spec::{MapSpec, MapType, ObjectTypes, RDONLY_PROG},
    sys::{self, MapCreate},
};

/// A map could not be created, filled or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} map {map} ({map_type}): {source}{hint}")]
pub struct MapError {
    pub map: String,
    pub map_type: MapType,
    pub action: &'static str,
    pub source: io::Error,
    /// A possible reason; begins with a semicolon, or is empty.
    pub hint: String,
}

/// One map in the kernel.
#[derive(Debug, Clone)]
pub struct LoadedMap {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) spec: MapSpec,
    /// Size of a value in user space, in bytes.
    pub(super) value_len: usize,
    /// Entries added after creation, restored when the map is reset.
    pub(super) contents: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether programs cannot write to it.
    pub(super) is_unwritten: bool,
    /// Memory of an arena in this process.
    pub(super) arena: Option<Arc<Arena>>,
}

/// Maps of one object, in the order of [`Spec::maps`](crate::spec::Spec::maps). A clone refers to the same maps.
#[derive(Debug, Clone)]
pub struct LoadedMaps {
    maps: Vec<LoadedMap>,
}

impl LoadedMaps {
    /// Creates maps and fills in global data. `types` is the object's BTF in the kernel, with its content.
    pub fn create(
        specs: &[MapSpec],
        types: Option<(BorrowedFd<'_>, &ObjectTypes)>,
    ) -> Result<Self, MapError> {
        Self::create_with(specs, types, &[], |_| true)
    }

    /// Like [`create`](Self::create), but the kernel protects the maps numbered `unwritten` from writes by
    /// programs. A map that is not needed may be rejected, and a bulky one is not even tried: a
    /// stand-in replaces it. Fails if the kernel rejects a needed map.
    pub fn create_with(
        specs: &[MapSpec],
        types: Option<(BorrowedFd<'_>, &ObjectTypes)>,
        unwritten: &[usize],
        is_needed: impl Fn(usize) -> bool,
    ) -> Result<Self, MapError> {
        let create = |(number, spec): (usize, &MapSpec)| {
            // If the stand-in is rejected too, the reason is not specific to the map.
            let stand_in = || {
                LoadedMap::create(&stand_in(), None)
                    .map_err(|refused| error(spec, refused_map::CREATE, refused.source))
            };
            if !is_needed(number) && is_bulky(spec) {
                return stand_in();
            }
            let is_unwritten = unwritten.contains(&number);
            let flags = if is_unwritten { spec.flags | RDONLY_PROG } else { spec.flags };
            match LoadedMap::create(&MapSpec { flags, ..spec.clone() }, types) {
                Ok(map) => Ok(LoadedMap { is_unwritten, ..map }),
                Err(error) if is_needed(number) => Err(error),
                Err(_) => stand_in(),
            }
        };
        let maps = specs.iter().enumerate().map(create).collect::<Result<_, _>>()?;
        let maps = Self { maps };
        maps.fill_tables()?;
        Ok(maps)
    }

    /// Fills map tables, as defined by the object and as requested by the user.
    fn fill_tables(&self) -> Result<(), MapError> {
        for table in &self.maps {
            let own = table.spec.slots.iter();
            let own =
                own.filter_map(|(index, slot)| Some((index.to_ne_bytes().to_vec(), slot.map()?)));
            let requested =
                table.spec.put_in.iter().map(|(key, name)| (key.clone(), name.as_str()));
            for (key, name) in own.chain(requested) {
                if let Some(map) = self.get(name) {
                    table.set(&key, &map.fd.as_raw_fd().to_ne_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// The maps, in the order of [`Spec::maps`](crate::spec::Spec::maps).
    pub fn all(&self) -> &[LoadedMap] {
        &self.maps
    }

    /// Their descriptors, in the same order.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.maps.iter().map(AsFd::as_fd).collect()
    }

    /// The map called `name`.
    pub fn get(&self, name: &str) -> Option<&LoadedMap> {
        self.maps.iter().find(|map| map.spec.name == name)
    }

    /// Mutable access to the map called `name`.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut LoadedMap> {
        self.maps.iter_mut().find(|map| map.spec.name == name)
    }

    /// Memory that the kernel charges for all maps together, in bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.maps.iter().map(|map| charged_bytes(&map.fd)).sum()
    }
}

impl LoadedMap {
    fn create(
        spec: &MapSpec,
        types: Option<(BorrowedFd<'_>, &ObjectTypes)>,
    ) -> Result<Self, MapError> {
        let spec = &complete(spec);
        if spec.r#type == MapType::ARENA {
            return Self::create_arena(spec);
        }
        let inner = spec.inner.as_deref().map(complete);
        let inner = inner.map(|inner| create(&inner, None, types)).transpose()?;
        let fd = create(spec, inner.as_ref().map(AsFd::as_fd), types)?;
        let contents = match &spec.initial {
            Some(data) => vec![(0_u32.to_ne_bytes().to_vec(), data.clone())],
            None => Vec::new(),
        };
        let map = Self { contents, ..Self::empty(spec, fd) };
        for (key, value) in &map.contents {
            map.set(key, value)?;
        }
        if map.spec.is_constant {
            sys::freeze_map(map.fd.as_fd()).map_err(|source| map.error("freeze", source))?;
        }
        Ok(map)
    }

    /// A newly created, empty map.
    pub(super) fn empty(spec: &MapSpec, fd: OwnedFd) -> Self {
        Self {
            fd: Arc::new(fd),
            spec: spec.clone(),
            value_len: value_len(spec),
            contents: Vec::new(),
            is_unwritten: false,
            arena: None,
        }
    }

    /// A map with one zeroed value of `len` bytes, for the results of an instrumented program.
    pub fn results(len: u32) -> Result<Self, MapError> {
        let spec = MapSpec::plain("results", MapType::ARRAY, (4, len), 1);
        Self::create(&spec, None)
    }

    /// A results map with a value for each possible CPU.
    pub fn results_per_cpu(len: u32) -> Result<Self, MapError> {
        let spec = MapSpec::plain("results", MapType::PERCPU_ARRAY, (4, len), 1);
        Self::create(&spec, None)
    }

    /// An event table with a slot for each possible CPU.
    pub(super) fn per_cpu_events() -> Result<Self, MapError> {
        let cpus = u32::try_from(possible_cpus()).unwrap_or(u32::MAX);
        let spec = MapSpec::plain("counters", MapType::PERF_EVENT_ARRAY, (4, 4), cpus);
        Self::create(&spec, None)
    }

    /// An empty map of the same kind: a table for other forms of the same programs.
    pub fn twin(&self) -> Result<Self, MapError> {
        Self::create(&self.spec, None)
    }

    /// Puts a new map into a slot of a map table. Fails if there is no such slot, or the kernel has no memory.
    pub fn put_new(&self, slot: u32) -> Result<Self, MapError> {
        let inner = self.spec.inner.as_deref();
        let inner = inner
            .ok_or_else(|| self.error(refused_map::FILL, io::ErrorKind::InvalidInput.into()))?;
        let inner = Self::create(inner, None)?;
        self.set(&slot.to_ne_bytes(), &inner.fd.as_raw_fd().to_ne_bytes())?;
        Ok(inner)
    }

    /// Removes an entry, if it exists.
    pub fn remove(&self, key: &[u8]) -> Result<(), MapError> {
        match sys::delete_element(self.fd.as_fd(), key) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                Err(self.error("empty", error))
            }
            _ => Ok(()),
        }
    }

    /// Puts a program into a slot of a program table. Fails if there is no such slot, or the kernel
    /// rejects the program, because its type differs from that of the table's users.
    pub fn put_program(&self, slot: u32, program: BorrowedFd<'_>) -> Result<(), MapError> {
        self.set(&slot.to_ne_bytes(), &program.as_raw_fd().to_ne_bytes())
    }

    /// The value of a results map; for one per CPU, the concatenated values of all CPUs, each padded to 8 bytes.
    pub fn read_results(&self) -> Result<Vec<u8>, MapError> {
        Ok(self.lookup(&0_u32.to_ne_bytes())?.unwrap_or_default())
    }

    /// Sets the value of a results map. Fails if the kernel rejects it, or the value has another length.
    pub fn write_results(&self, value: &[u8]) -> Result<(), MapError> {
        self.set(&[0; 4], value)
    }

    /// Clears the value of a results map.
    pub fn clear_results(&self) -> Result<(), MapError> {
        self.set(&0_u32.to_ne_bytes(), &vec![0; self.value_len])
    }

    /// The map's definition in the object.
    pub fn spec(&self) -> &MapSpec {
        &self.spec
    }

    /// Size of a value in user space, in bytes: for per-CPU maps, those of all CPUs.
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Adds entries, which [`LoadedMaps::reset`] will restore. Queues and stacks take empty keys.
    /// Fails if an entry has the wrong size, the kernel rejects it, or the alarm goes off.
    pub fn fill(
        &mut self,
        entries: &[(Vec<u8>, Vec<u8>)],
        alarm: &Alarm<'_>,
    ) -> Result<(), ResetError> {
        self.put(entries, alarm)?;
        self.contents.extend_from_slice(entries);
        Ok(())
    }

    /// Value of `key`, if it exists. Fails if `key` has the wrong size, or the map is not readable from user space.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MapError> {
        if key.len() != self.spec.key_size as usize {
            return Err(
                self.error("read", size_error("key", self.spec.key_size as usize, key.len()))
            );
        }
        let mut value = vec![0; self.value_len];
        match sys::lookup_element(self.fd.as_fd(), key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(self.error("read", error)),
        }
    }

    /// The current keys. If a program removes the current entry, the walk restarts, with a limited
    /// number of retries. Fails if the map has no keys, or is not readable from user space.
    pub fn keys(&self) -> Result<BTreeSet<Vec<u8>>, MapError> {
        const WALKS: u64 = 4;
        let mut keys = BTreeSet::new();
        let mut last = None;
        for _ in 0..WALKS * (u64::from(self.spec.entries_max) + possible_cpus() as u64) {
            let mut key = vec![0; self.spec.key_size as usize];
            match sys::next_key(self.fd.as_fd(), last.as_deref(), &mut key) {
                Ok(true) => keys.insert(key.clone()),
                Ok(false) => break,
                Err(error) => return Err(self.error("read", error)),
            };
            last = Some(key);
        }
        Ok(keys)
    }

    /// Sum of the per-CPU numbers under `key`. Fails like [`lookup`](Self::lookup).
    pub fn sum(&self, key: &[u8]) -> Result<u64, MapError> {
        let values = self.lookup(key)?.unwrap_or_default();
        let (numbers, _) = values.as_chunks();
        Ok(numbers.iter().map(|number| u64::from_ne_bytes(*number)).sum())
    }

    /// Maximum number of entries, or bytes of a ring buffer, as accepted by the kernel.
    pub(super) fn entries(&self) -> u32 {
        entries(&self.spec)
    }

    /// Sets an entry that a reset does not restore. Fails like [`fill`](Self::fill).
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), MapError> {
        self.check_sizes(key, value)?;
        let key = if self.spec.r#type.is_queue() { None } else { Some(key) };
        sys::update_element(self.fd.as_fd(), key, value)
            .map_err(|source| self.error(refused_map::FILL, source))
    }

    pub(super) fn check_sizes(&self, key: &[u8], value: &[u8]) -> Result<(), MapError> {
        let key_len = if self.spec.r#type.is_queue() { 0 } else { self.spec.key_size as usize };
        if key.len() != key_len {
            return Err(self.error(refused_map::FILL, size_error("key", key_len, key.len())));
        }
        if value.len() != self.value_len {
            return Err(
                self.error(refused_map::FILL, size_error("value", self.value_len, value.len()))
            );
        }
        Ok(())
    }

    pub(super) fn error(&self, action: &'static str, source: io::Error) -> MapError {
        error(&self.spec, action, source)
    }
}

impl AsFd for LoadedMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn error(spec: &MapSpec, action: &'static str, source: io::Error) -> MapError {
    let hint = refused_map::hint(spec, entries(spec), action, &source);
    MapError { map: spec.name.clone(), map_type: spec.r#type, action, source, hint }
}

fn size_error(what: &str, expected: usize, found: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("a {what} has {expected} bytes, {found} were given"),
    )
}

pub(super) fn create(
    spec: &MapSpec,
    inner: Option<BorrowedFd<'_>>,
    types: Option<(BorrowedFd<'_>, &ObjectTypes)>,
) -> Result<OwnedFd, MapError> {
    let map = MapCreate {
        map_type: spec.r#type.0,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: entries(spec),
        map_flags: if spec.is_constant { spec.flags | RDONLY_PROG } else { spec.flags },
        map_extra: spec.extra,
        map_name: sys::kernel_name(spec.name.trim_start_matches('.')),
        ..Default::default()
    };
    let type_ids = match (&spec.initial, types) {
        _ if spec.r#type.refuses_types() => None,
        (Some(_), Some((_, types))) => types.data_section_id(&spec.name).map(|id| (0, id)),
        _ => Some(spec.type_ids).filter(|&(_, value)| value != 0),
    };
    if let (Some((key, value)), Some((fd, _))) = (type_ids, types) {
        // The kernel does not accept types for every kind of map; few kinds need them.
        if let Ok(map) = sys::create_map(map, inner, Some((fd, key, value))) {
            return Ok(map);
        }
    }
    sys::create_map(map, inner, None).map_err(|source| error(spec, refused_map::CREATE, source))
}

/// Maximum number of entries in the form required by the kernel.
fn entries(spec: &MapSpec) -> u32 {
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    match spec.r#type {
        MapType::PERF_EVENT_ARRAY if spec.entries_max == 0 => {
            u32::try_from(possible_cpus()).unwrap_or(u32::MAX)
        }
        // A power of two and a multiple of the page size.
        MapType::RINGBUF | MapType::USER_RINGBUF => {
            spec.entries_max.max(page).checked_next_power_of_two().unwrap_or(spec.entries_max)
        }
        _ => spec.entries_max,
    }
}

/// Memory that the kernel charges for a map, from `/proc/self/fdinfo`, in bytes.
fn charged_bytes(map: &OwnedFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok())
}

// Determines used maps, and replaces unused ones that the kernel rejects: a program must not fail
// because of another program's map.

/// Size of keys and values from which on an unused map is not created.
const BULKY_BYTES: u64 = 1 << 20;

/// The smallest valid map, to replace an unused one.
fn stand_in() -> MapSpec {
    MapSpec::plain("missing", MapType::ARRAY, (4, 4), 1)
}

/// Whether creating it takes noticeable time and memory: some objects have gigabytes of maps, of
/// which each program uses a few.
fn is_bulky(spec: &MapSpec) -> bool {
    let copies = if spec.r#type.is_per_cpu() { possible_cpus() as u64 } else { 1 };
    let entry = u64::from(spec.key_size) + copies * u64::from(spec.value_size);
    u64::from(spec.entries_max).saturating_mul(entry) > BULKY_BYTES
}

/// Numbers of the maps that code refers to, and of their inner maps.
pub(in crate::loader) fn used(specs: &[MapSpec], codes: &[&Code]) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    for code in codes {
        let mut insns = code.insns.iter();
        while let Some(insn) = insns.next() {
            if !insn.is_ldimm64() {
                continue;
            }
            if matches!(insn.src(), op::PSEUDO_MAP_FD | op::PSEUDO_MAP_VALUE) {
                used.extend(usize::try_from(insn.immediate));
            }
            // The second half.
            insns.next();
        }
    }
    let tables = || used.iter().filter_map(|number| specs.get(*number));
    let slots = tables().flat_map(|map| &map.slots).filter_map(|(_, slot)| slot.map());
    let put_in = tables().flat_map(|map| &map.put_in).map(|(_, name)| name.as_str());
    let position = |name: &str| specs.iter().position(|map| map.name == name);
    let inner: Vec<usize> = slots.chain(put_in).filter_map(position).collect();
    used.extend(inner);
    used
}

// Sizes of maps, and defaults for sizes that a definition leaves to its loader.
//
// The kernel requires some sizes to be zero, or a certain number, although the object has a type
// there for documentation. Other sizes are set by the object's own loader once it knows the
// machine, so a default is chosen here; veristat chooses one entry.

/// Maximum size of a map that is reset entry by entry; above, reloading is faster.
pub(crate) const RESET_BYTES_MAX: u64 = 1 << 20;

/// Maximum entries of a map whose size is open.
const ENTRIES_MAX: u32 = 1024;

/// `PERF_MAX_STACK_DEPTH` (include/uapi/linux/perf_event.h, Linux 6.18) addresses of 8 bytes.
const STACK_BYTES: u32 = 127 * 8;

/// Storage of cgroups, sockets, inodes and tasks, which grows as needed.
const STORAGE: [MapType; 6] = [
    MapType::CGROUP_STORAGE,
    MapType::PERCPU_CGROUP_STORAGE,
    MapType::SK_STORAGE,
    MapType::INODE_STORAGE,
    MapType::TASK_STORAGE,
    MapType::CGRP_STORAGE,
];

/// Completes a definition for the kernel.
fn complete(spec: &MapSpec) -> MapSpec {
    let mut spec = spec.clone();
    match spec.r#type {
        MapType::RINGBUF | MapType::USER_RINGBUF => (spec.key_size, spec.value_size) = (0, 0),
        MapType::PERF_EVENT_ARRAY => (spec.key_size, spec.value_size) = (4, 4),
        MapType::STACK_TRACE if spec.value_size == 0 => spec.value_size = STACK_BYTES,
        // The id of a map.
        kind if kind.has_maps() && spec.value_size == 0 => spec.value_size = 4,
        _ => {}
    }
    if has_open_size(&spec) {
        spec.entries_max = chosen_entries(&spec);
    }
    spec
}

/// Whether the object leaves the number of entries to its loader.
fn has_open_size(spec: &MapSpec) -> bool {
    let decides_itself = matches!(
        spec.r#type,
        MapType::PERF_EVENT_ARRAY | MapType::RINGBUF | MapType::USER_RINGBUF | MapType::STRUCT_OPS
    );
    spec.entries_max == 0 && !decides_itself && !STORAGE.contains(&spec.r#type)
}

/// Enough for a measurement, and few enough to reset between samples.
fn chosen_entries(spec: &MapSpec) -> u32 {
    let entry = u64::from(spec.key_size) + u64::from(spec.value_size);
    let most = match spec.r#type {
        // The kernel accepts at most the number of possible CPUs.
        MapType::CPUMAP => u32::try_from(possible_cpus()).unwrap_or(1),
        _ => ENTRIES_MAX,
    };
    let entries = RESET_BYTES_MAX / entry.max(1);
    u32::try_from(entries).unwrap_or(most).clamp(1, most.max(1))
}

/// Whether resetting it takes noticeable time, and programs may write to it according to its definition.
pub(crate) fn is_large(spec: &MapSpec) -> bool {
    let kind = spec.r#type;
    let has_many = (kind.is_hash() || kind.is_queue()) && spec.entries_max > ENTRIES_MAX;
    has_many || kind.is_array() && !spec.is_constant && array_bytes(spec) > RESET_BYTES_MAX
}

/// Size of all values of an array in user space, in bytes.
pub(crate) fn array_bytes(spec: &MapSpec) -> u64 {
    u64::from(spec.entries_max).saturating_mul(value_len(spec) as u64)
}

/// Size of a value in user space, in bytes: for per-CPU maps, those of all CPUs.
pub(crate) fn value_len(spec: &MapSpec) -> usize {
    let len = spec.value_size as usize;
    if spec.r#type.is_per_cpu() {
        len.next_multiple_of(8).saturating_mul(possible_cpus())
    } else {
        len
    }
}

/// Number of possible CPUs, which per-CPU maps have values for.
pub(crate) fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or_else(|| std::thread::available_parallelism().map_or(1, Into::into), |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{code::Insn, spec::Slot};

    #[test]
    fn bulky_maps() {
        let check = |entries, expected| {
            let spec = MapSpec::plain("m", MapType::HASH, (8, 8), entries);
            assert_eq!(is_bulky(&spec), expected, "{entries}");
        };
        check(1 << 16, false);
        check((1 << 16) + 1, true);
        check(u32::MAX, true);
    }

    #[test]
    fn maps_that_code_uses() {
        let load = |source: u8, number: i32| {
            [Insn::new(op::LDIMM64, 1, source, 0, number), Insn::default()]
        };
        let plain = |name: &str| MapSpec::plain(name, MapType::ARRAY, (4, 4), 1);
        let outer = MapSpec { slots: vec![(0, Slot::Map("c".into()))], ..plain("b") };
        let filled = MapSpec { put_in: vec![(vec![7], "a".into())], ..plain("d") };
        let specs = [plain("a"), outer, plain("c"), filled];
        let check = |insns: &[Insn], expected: &[usize]| {
            let code = Code { insns: insns.to_vec(), ..Code::default() };
            assert_eq!(used(&specs, &[&code]), expected.iter().copied().collect(), "{insns:?}");
        };
        check(&[], &[]);
        check(&load(op::PSEUDO_MAP_FD, 0), &[0]);
        check(&load(op::PSEUDO_MAP_VALUE, 2), &[2]);
        check(&load(op::PSEUDO_MAP_FD, 1), &[1, 2]);
        check(&load(0, 1), &[]);
        check(&load(op::PSEUDO_MAP_FD, 3), &[0, 3]);
        // The verifier will reject half an instruction.
        check(&load(op::PSEUDO_MAP_FD, 0)[..1], &[0]);
    }

    #[test]
    fn sizes_that_the_kernel_takes() {
        #[track_caller]
        fn check(r#type: MapType, sizes: (u32, u32), entries: u32, expected: (u32, u32, u32)) {
            let found = complete(&MapSpec::plain("m", r#type, sizes, entries));
            let found = (found.key_size, found.value_size, found.entries_max);
            assert_eq!(found, expected, "{type} {sizes:?} {entries}", r#type = r#type);
        }
        check(MapType::HASH, (4, 8), 3, (4, 8, 3));
        check(MapType::HASH, (4, 8), 0, (4, 8, 1024));
        check(MapType::ARRAY, (4, 65_536), 0, (4, 65_536, 15));
        check(MapType::ARRAY, (4, u32::MAX), 0, (4, u32::MAX, 1));
        check(MapType::RINGBUF, (0, 40), 4096, (0, 0, 4096));
        check(MapType::RINGBUF, (0, 0), 0, (0, 0, 0));
        check(MapType::PERF_EVENT_ARRAY, (4, 24), 0, (4, 4, 0));
        check(MapType::STACK_TRACE, (4, 0), 0, (4, 1016, 1024));
        check(MapType::STACK_TRACE, (4, 80), 5, (4, 80, 5));
        check(MapType::SK_STORAGE, (4, 8), 0, (4, 8, 0));
        check(MapType::CGROUP_STORAGE, (8, 8), 0, (8, 8, 0));
        check(MapType::ARRAY_OF_MAPS, (4, 0), 2, (4, 4, 2));
        check(MapType::ARENA, (0, 0), 0, (0, 0, 1024));
    }
}
