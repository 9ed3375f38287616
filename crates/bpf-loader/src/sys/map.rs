//! `bpf(2)` for maps.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use super::{address, address_mut, bpf, bpf_fd, number};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_MAP_LOOKUP_AND_DELETE_ELEM: libc::c_long = 21;
const BPF_MAP_FREEZE: libc::c_long = 22;
const BPF_MAP_LOOKUP_AND_DELETE_BATCH: libc::c_long = 25;
const BPF_MAP_UPDATE_BATCH: libc::c_long = 26;

/// Parameters of a new map.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MapCreate {
    pub(crate) map_type: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) map_flags: u32,
    pub(crate) inner_map_fd: u32,
    pub(crate) numa_node: u32,
    pub(crate) map_name: [u8; 16],
    pub(crate) map_ifindex: u32,
    pub(crate) btf_fd: u32,
    pub(crate) btf_key_type_id: u32,
    pub(crate) btf_value_type_id: u32,
    pub(crate) btf_vmlinux_value_type_id: u32,
    pub(crate) map_extra: u64,
}

#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    /// The value, or the next key.
    value: u64,
    flags: u64,
}

impl Element {
    fn new(map: BorrowedFd<'_>, key: Option<&[u8]>, value: u64) -> Self {
        Self { map_fd: number(map), padding: 0, key: key.map_or(0, address), value, flags: 0 }
    }
}

/// Entries of a map, for batch operations.
#[repr(C)]
#[derive(Default)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    /// Capacity or number of entries; on return, the number processed.
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Position of the next batch of a hash: the number of a bucket.
pub(crate) type Bucket = u32;

/// Creates a map. `types` are a BTF descriptor and the types of key and value in it.
pub(crate) fn create_map(
    map: MapCreate,
    inner: Option<BorrowedFd<'_>>,
    types: Option<(BorrowedFd<'_>, u32, u32)>,
) -> io::Result<OwnedFd> {
    let (btf_fd, btf_key_type_id, btf_value_type_id) =
        types.map_or((0, 0, 0), |(fd, key, value)| (number(fd), key, value));
    let inner_map_fd = inner.map_or(0, number);
    let attr = MapCreate { inner_map_fd, btf_fd, btf_key_type_id, btf_value_type_id, ..map };
    // SAFETY: the structure has the command's layout and holds no pointers.
    unsafe { bpf_fd(BPF_MAP_CREATE, attr) }
}

/// Sets a value. `key` is `None` for queues and stacks.
///
/// The slices must have the lengths of the map's key and value, which the caller knows from having
/// created the map or queried its sizes.
pub(crate) fn update_element(
    map: BorrowedFd<'_>,
    key: Option<&[u8]>,
    value: &[u8],
) -> io::Result<()> {
    let mut attr = Element::new(map, key, address(value));
    // SAFETY: the structure has the command's layout; key and value outlive the call and are only read.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop)
}

/// Reads a value into `value`, which must have the length of the map's values in user space.
pub(crate) fn lookup_element(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<()> {
    let mut attr = Element::new(map, Some(key), address_mut(value));
    // SAFETY: as above, and the value has room for what the kernel writes.
    unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut attr) }.map(drop)
}

/// Removes the next value of a queue or stack into `value`.
pub(crate) fn lookup_and_delete(map: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<()> {
    let mut attr = Element::new(map, None, address_mut(value));
    // SAFETY: as above.
    unsafe { bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &mut attr) }.map(drop)
}

/// Removes entries from a hash: those of all buckets from `from` on that fit into `keys` and
/// `values`, with room for `room` entries. Returns the bucket to continue with; `None` at the end.
/// Fails with `ENOSPC` if a bucket has more entries.
pub(crate) fn take_entries(
    map: BorrowedFd<'_>,
    from: Option<Bucket>,
    keys: &mut [u8],
    values: &mut [u8],
    room: u32,
) -> io::Result<Option<Bucket>> {
    let mut next: Bucket = 0;
    let mut attr = Batch {
        in_batch: from.as_ref().map_or(0, |bucket| std::ptr::from_ref(bucket).addr() as u64),
        out_batch: std::ptr::from_mut(&mut next).addr() as u64,
        keys: address_mut(keys),
        values: address_mut(values),
        count: room,
        map_fd: number(map),
        ..Batch::default()
    };
    // SAFETY: the structure has the command's layout; keys and values have room for `room` entries,
    // and a hash uses a bucket number as position (`__htab_map_lookup_and_delete_batch` of
    // kernel/bpf/hashtab.c, Linux 6.18).
    match unsafe { bpf(BPF_MAP_LOOKUP_AND_DELETE_BATCH, &mut attr) } {
        Ok(_) => Ok(Some(next)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets `count` values, with concatenated keys and values; on failure, those before the failing one are set.
pub(crate) fn update_elements(
    map: BorrowedFd<'_>,
    keys: &[u8],
    values: &[u8],
    count: u32,
) -> io::Result<()> {
    let (keys, values) = (address(keys), address(values));
    let mut attr = Batch { keys, values, count, map_fd: number(map), ..Batch::default() };
    // SAFETY: the structure has the command's layout; keys and values outlive the call and are only read.
    unsafe { bpf(BPF_MAP_UPDATE_BATCH, &mut attr) }.map(drop)
}

/// Removes an entry.
pub(crate) fn delete_element(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    let mut attr = Element::new(map, Some(key), 0);
    // SAFETY: as above; there is no value.
    unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut attr) }.map(drop)
}

/// Writes the key after `key` (the first one for `None`) to `next`; `false` at the end.
pub(crate) fn next_key(
    map: BorrowedFd<'_>,
    key: Option<&[u8]>,
    next: &mut [u8],
) -> io::Result<bool> {
    let mut attr = Element::new(map, key, address_mut(next));
    // SAFETY: as above; `next` has the length of a key.
    match unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut attr) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a map read-only for user space, so that the verifier may use its values as constants.
pub(crate) fn freeze_map(map: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Freeze {
        map_fd: u32,
    }
    // SAFETY: the structure has the command's layout and holds no pointers.
    unsafe { bpf(BPF_MAP_FREEZE, &mut Freeze { map_fd: number(map) }) }.map(drop)
}

/// A name in the kernel's form: 15 bytes of letters, digits, `_` and `.`.
pub(crate) fn kernel_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.');
    for (slot, byte) in bytes.iter_mut().take(15).zip(name.bytes()) {
        *slot = if allowed(byte) { byte } else { b'_' };
    }
    bytes
}
