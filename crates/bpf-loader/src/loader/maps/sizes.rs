//! Sizes of maps, and defaults for sizes that a definition leaves to its loader.
//!
//! The kernel requires some sizes to be zero, or a certain number, although the object has a type
//! there for documentation. Other sizes are set by the object's own loader once it knows the
//! machine, so a default is chosen here; veristat chooses one entry.

use crate::spec::{MapSpec, MapType};

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
pub(super) fn complete(spec: &MapSpec) -> MapSpec {
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
pub(super) fn has_open_size(spec: &MapSpec) -> bool {
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
