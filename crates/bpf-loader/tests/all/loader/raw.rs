//! Calls of `bpf(2)` that the crate does not need: for tests that change and inspect state independently.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const MAP_NEXT_KEY: libc::c_long = 4;
const OBJ_PIN: libc::c_long = 6;
const MAP_LOOKUP_AND_DELETE: libc::c_long = 21;
const OBJ_GET_INFO: libc::c_long = 15;

/// Calls `bpf(2)` with a prefix of `union bpf_attr`, in 64-bit words.
///
/// # Safety
///
/// Pointers among the words are valid for the command.
unsafe fn bpf(command: libc::c_long, attr: &[u64]) -> io::Result<()> {
    // SAFETY: as promised; these commands do not write to any part of the structure that is read later.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), size_of_val(attr)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn number(fd: impl AsFd) -> u64 {
    u64::from(fd.as_fd().as_raw_fd().cast_unsigned())
}

fn address(bytes: &[u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_ptr().addr() as u64 }
}

/// A map, with the sizes of key and value in user space, in bytes.
pub(crate) struct RawMap<F> {
    pub(crate) fd: F,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
}

impl<F: AsFd> RawMap<F> {
    /// Sets a value. The key is empty for queues.
    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key_len, self.value_len));
        // SAFETY: key and value have the lengths of the map's.
        unsafe { bpf(MAP_UPDATE, &[number(&self.fd), address(key), address(value), 0]) }
    }

    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key_len);
        // SAFETY: the key has the length of the map's.
        unsafe { bpf(MAP_DELETE, &[number(&self.fd), address(key)]) }
    }

    pub(crate) fn lookup(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        assert_eq!(key.len(), self.key_len);
        let mut value = vec![0_u8; self.value_len];
        let at = value.as_mut_ptr().addr() as u64;
        // SAFETY: the key has the length of the map's, and the value has room.
        unsafe { bpf(MAP_LOOKUP, &[number(&self.fd), address(key), at, 0]) }.map(|()| value)
    }

    /// All keys and values, ascending.
    pub(crate) fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut entries, mut key) = (Vec::new(), Vec::new());
        let mut next = vec![0_u8; self.key_len];
        loop {
            let at = next.as_mut_ptr().addr() as u64;
            // SAFETY: both keys have the length of the map's, or the first is null.
            match unsafe { bpf(MAP_NEXT_KEY, &[number(&self.fd), address(&key), at]) } {
                Ok(()) => key.clone_from(&next),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
                Err(error) => panic!("the next key: {error}"),
            }
            // Map and program tables have empty slots.
            if let Ok(value) = self.lookup(&key) {
                entries.push((key.clone(), value));
            }
        }
        entries.sort();
        entries
    }

    /// Removes everything from a queue or stack, in order.
    pub(crate) fn drain(&self) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        loop {
            let mut value = vec![0_u8; self.value_len];
            let at = value.as_mut_ptr().addr() as u64;
            // SAFETY: the value has room for that of the map.
            match unsafe { bpf(MAP_LOOKUP_AND_DELETE, &[number(&self.fd), 0, at, 0]) } {
                Ok(()) => values.push(value),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return values,
                Err(error) => panic!("the next value: {error}"),
            }
        }
    }
}

/// Pins a program or a map at a path of a bpffs.
pub(crate) fn pin(fd: impl AsFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no zero in it");
    // SAFETY: the string has a terminator and outlives the call.
    unsafe { bpf(OBJ_PIN, &[address(path.as_bytes_with_nul()), number(fd)]) }
}

/// Numbers of function records and line records of a program in the kernel (`nr_func_info`,
/// `nr_line_info` of `struct bpf_prog_info`, include/uapi/linux/bpf.h, Linux 6.18).
pub(crate) fn record_counts(program: impl AsFd) -> (u32, u32) {
    const LEN: usize = 232;
    let mut info = [0_u8; LEN];
    let at = info.as_mut_ptr().addr() as u64;
    // SAFETY: `info` has the declared length, and requests no lists.
    unsafe { bpf(OBJ_GET_INFO, &[number(program) | (LEN as u64) << 32, at]) }.expect("info");
    let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
    (word(144), word(148))
}
