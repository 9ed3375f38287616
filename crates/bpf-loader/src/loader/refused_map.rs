//! Guesses from its definition why the kernel rejected a map.
//!
//! The kernel returns the same error, `EINVAL`, for most reasons. The rules are those of
//! `map_alloc_check` of each type (kernel/bpf, Linux 6.18).

use std::io;

use crate::{
    rights::{Capability, how_to_get},
    spec::{MapSpec, MapType},
    sys::ENOTSUPP,
};

/// `BPF_F_NO_PREALLOC` and `BPF_F_MMAPABLE` (include/uapi/linux/bpf.h, Linux 6.18).
const NO_PREALLOC: u32 = 1;
const MMAPABLE: u32 = 1 << 10;

/// Action: creating a map.
pub(super) const CREATE: &str = "create";

/// Action: adding an entry.
pub(super) const FILL: &str = "fill";

/// Numbers of types without a name in [`MapType`]: storage attached to sockets, inodes, tasks and cgroups.
const STORAGE: [u32; 4] = [24, 28, 29, 32];

/// A possible reason of the kernel's error in an `action` on the map; begins with a semicolon, or
/// is empty. `entries` is the requested number.
pub(super) fn hint(spec: &MapSpec, entries: u32, action: &str, error: &io::Error) -> String {
    let errno = error.raw_os_error();
    if let Some(hint) = errno.and_then(|errno| of_any_action(spec, entries, action, errno)) {
        return hint;
    }
    match errno.filter(|_| action == CREATE) {
        Some(libc::EPERM) => format!(
            "; it needs CAP_BPF, and CAP_NET_ADMIN for maps of the network: {}",
            how_to_get(&[Capability::Bpf, Capability::NetAdmin])
        ),
        Some(libc::ENOMEM) => "; there is not enough memory for it".to_owned(),
        Some(libc::E2BIG) if spec.r#type == MapType::ARENA => {
            format!("; an arena has 4 GB at most, and {entries} pages are more")
        }
        Some(libc::ERANGE) if spec.r#type == MapType::ARENA => format!(
            "; an arena must not reach across a multiple of 4 GB, and one of {entries} pages at \
             {:#x} (map_extra) does",
            spec.extra
        ),
        Some(libc::EOPNOTSUPP) if spec.r#type == MapType::ARENA => {
            "; arenas need the kernel's JIT for eBPF".to_owned()
        }
        Some(libc::E2BIG) => format!(
            "; with {entries} entries of {} and {} bytes it is larger than the kernel allows",
            spec.key_size, spec.value_size
        ),
        Some(libc::EINVAL | ENOTSUPP) => match fault(spec, entries) {
            Some(fault) => format!("; {fault}"),
            None => format!(
                "; this kernel may not support maps of this type, or not with flags {:#x}",
                spec.flags
            ),
        },
        _ => String::new(),
    }
}

/// A possible reason of an error that is not specific to creating maps.
fn of_any_action(spec: &MapSpec, entries: u32, action: &str, errno: i32) -> Option<String> {
    match errno {
        libc::EMFILE | libc::ENFILE => {
            Some("; each map takes a file: raise the limit with `ulimit -n 4096`".to_owned())
        }
        libc::E2BIG if action == FILL => Some(format!(
            "; it has {entries} entries: an index is beyond the last, {}, or they are all in use",
            entries.saturating_sub(1)
        )),
        libc::EINVAL if action == FILL && spec.r#type.has_maps() => Some(
            "; it takes only maps like the one that the object describes for it: the same type, \
             sizes, entries and flags"
                .to_owned(),
        ),
        _ => None,
    }
}

/// What is wrong with a map by itself.
fn fault(spec: &MapSpec, entries: u32) -> Option<String> {
    let &MapSpec { r#type: kind, key_size, value_size, flags, .. } = spec;
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    let is_ring = matches!(kind, MapType::RINGBUF | MapType::USER_RINGBUF);
    let has_no_values = is_ring || kind == MapType::ARENA;
    let has_no_keys = kind.is_queue() || kind == MapType::BLOOM_FILTER || has_no_values;
    let has_indices = kind.is_array()
        || matches!(
            kind,
            MapType::PROG_ARRAY
                | MapType::PERF_EVENT_ARRAY
                | MapType::CGROUP_ARRAY
                | MapType::ARRAY_OF_MAPS
                | MapType::DEVMAP
                | MapType::CPUMAP
                | MapType::XSKMAP
                | MapType::SOCKMAP
        );
    let needs_no_preallocation = kind == MapType::LPM_TRIE || STORAGE.contains(&kind.0);
    let fault = if is_ring && (!entries.is_power_of_two() || !entries.is_multiple_of(page)) {
        format!(
            "the size of a ring buffer, max_entries, is a power of two and a multiple of a page \
             ({page} bytes), and {entries} bytes are not"
        )
    } else if has_no_values && (key_size, value_size) != (0, 0) {
        let what = if is_ring { "a ring buffer" } else { "an arena" };
        format!(
            "{what} has neither keys nor values, and these have {key_size} and {value_size} bytes"
        )
    } else if entries == 0 && !STORAGE.contains(&kind.0) {
        "it has no room for entries (max_entries is 0); its own loader may set it before loading"
            .into()
    } else if has_no_keys && key_size != 0 {
        format!("a {kind} has no keys, and these have {key_size} bytes")
    } else if has_indices && key_size != 4 {
        format!("its keys are indices of 4 bytes, and these have {key_size}")
    } else if !has_no_keys && key_size == 0 {
        "its keys have 0 bytes".into()
    } else if value_size == 0 && !has_no_values {
        "its values have 0 bytes; its own loader may set the size before loading".into()
    } else if kind.has_maps() && spec.inner.is_none() {
        "the object does not describe the maps inside it; its own loader may do so before loading"
            .into()
    } else if kind == MapType::ARENA && flags & MMAPABLE == 0 {
        "an arena needs the flag BPF_F_MMAPABLE".into()
    } else if kind == MapType::ARENA && !spec.extra.is_multiple_of(page.into()) {
        format!("an arena begins at a page, and {:#x} (map_extra) is not one", spec.extra)
    } else if needs_no_preallocation && flags & NO_PREALLOC == 0 {
        format!("a {kind} needs the flag BPF_F_NO_PREALLOC")
    } else if STORAGE.contains(&kind.0) && spec.type_ids.1 == 0 {
        format!("a {kind} needs the types of its keys and values (BTF: clang -g)")
    } else {
        return None;
    };
    Some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let check = |kind: u32, sizes, entries, flags, errno, expected: &str| {
            let spec = MapSpec { flags, ..MapSpec::plain("m", MapType(kind), sizes, entries) };
            let found = hint(&spec, entries, CREATE, &io::Error::from_raw_os_error(errno));
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        };
        check(27, (0, 0), 5000, 0, libc::EINVAL, "and 5000 bytes are not");
        check(31, (0, 0), 0, 0, libc::EINVAL, "and 0 bytes are not");
        check(27, (4, 8), 1 << 20, 0, libc::EINVAL, "these have 4 and 8 bytes");
        check(1, (4, 4), 0, 0, libc::EINVAL, "max_entries is 0");
        check(2, (8, 4), 1, 0, libc::EINVAL, "indices of 4 bytes, and these have 8");
        check(1, (0, 4), 1, 0, libc::EINVAL, "its keys have 0 bytes");
        check(1, (4, 0), 1, 0, libc::EINVAL, "its values have 0 bytes");
        check(22, (4, 4), 1, 0, libc::EINVAL, "a queue has no keys");
        check(11, (8, 4), 1, 0, libc::EINVAL, "a lpm_trie needs the flag BPF_F_NO_PREALLOC");
        check(12, (4, 4), 1, 0, libc::EINVAL, "does not describe the maps inside it");
        check(29, (4, 4), 0, 1, libc::EINVAL, "needs the types");
        check(1, (4, 4), 1, 0x8000, libc::EINVAL, "or not with flags 0x8000");
        check(99, (4, 4), 1, 0, ENOTSUPP, "may not support maps of this type");
        check(33, (0, 0), 1, 0, libc::EINVAL, "an arena needs the flag BPF_F_MMAPABLE");
        check(33, (4, 8), 1, MMAPABLE, libc::EINVAL, "an arena has neither keys nor values");
        check(33, (0, 0), 1, MMAPABLE, libc::EINVAL, "may not support maps of this type");
        check(33, (0, 0), 1 << 21, MMAPABLE, libc::E2BIG, "2097152 pages are more");
        check(33, (0, 0), 1, MMAPABLE, libc::ERANGE, "across a multiple of 4 GB");
        check(33, (0, 0), 1, MMAPABLE, libc::EOPNOTSUPP, "need the kernel's JIT");
        check(2, (4, 8), 9, 0, libc::E2BIG, "with 9 entries of 4 and 8 bytes");
        check(2, (4, 8), 9, 0, libc::ENOMEM, "not enough memory");
        check(2, (4, 8), 9, 0, libc::EPERM, "it needs CAP_BPF");
        check(2, (4, 8), 9, 0, libc::EEXIST, "");
        let spec = MapSpec::plain("m", MapType::HASH, (4, 0), 1);
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        assert_eq!(hint(&spec, 1, FILL, &error), "");
        let check = |kind, errno, expected: &str| {
            let spec = MapSpec::plain("m", kind, (4, 4), 4);
            let found = hint(&spec, 4, FILL, &io::Error::from_raw_os_error(errno));
            assert!(found.contains(expected), "{found}");
        };
        check(MapType::ARRAY, libc::E2BIG, "an index is beyond the last, 3");
        check(MapType::ARRAY, libc::EMFILE, "`ulimit -n 4096`");
        check(MapType::ARRAY_OF_MAPS, libc::EINVAL, "only maps like the one");
    }
}
