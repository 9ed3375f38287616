//! Mapped memory: shared with a child process, or with the kernel.

use std::{
    io,
    os::fd::AsFd,
    ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Shared memory. Out-of-bounds reads return zero, and out-of-bounds writes are ignored.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    len: usize,
    is_writable: bool,
}

// SAFETY: the memory belongs to the process, and to none of its threads.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a part of `file`, from `offset` on.
    pub(crate) fn of(
        file: impl AsFd,
        offset: usize,
        len: usize,
        is_writable: bool,
    ) -> io::Result<Self> {
        let write = if is_writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let access = ProtFlags::READ | write;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start =
            unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, offset as u64) }?;
        Ok(Self { start: start.cast(), len, is_writable })
    }

    /// Maps a whole arena at `address`, or wherever the kernel chooses if that is 0. Fails with
    /// `EEXIST` if the address is taken.
    pub(crate) fn of_arena(map: impl AsFd, address: usize, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mut flags = MapFlags::SHARED;
        flags.set(MapFlags::FIXED_NOREPLACE, address != 0);
        let address = ptr::without_provenance_mut(address);
        // SAFETY: a new mapping, which replaces no other.
        let start = unsafe { mmap(address, len, access, flags, map, 0) }?;
        Ok(Self { start: start.cast(), len, is_writable: true })
    }

    /// Start address in this process.
    pub(crate) fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Writes to its beginning. If the kernel does not provide the memory (an arena may forbid it,
    /// or be full) this is an error, rather than a fatal signal.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.len || !self.is_writable {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let from =
                libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
            let place = self.start.wrapping_add(done).cast();
            let to = libc::iovec { iov_base: place, iov_len: rest.len() };
            // SAFETY: `from` is only read, and `to` lies in the mapping, to which no slices exist.
            let written = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
            match usize::try_from(written) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(())
    }

    /// Anonymous memory, initially zero.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::SHARED) }?;
        Ok(Self { start: start.cast(), len, is_writable: true })
    }

    /// The memory, which must not be written by others while it is borrowed.
    ///
    /// # Safety
    ///
    /// It is writable, and no other process and no kernel writes to it meanwhile.
    pub(super) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length and lives as long as `self`, which is borrowed whole;
        // the rest is promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Loads the number at `offset`, with acquire ordering.
    pub(crate) fn load_u64(&self, offset: usize) -> u64 {
        let Some(place) = self.place(offset, size_of::<u64>()) else { return 0 };
        // SAFETY: the location is mapped and aligned, and all other accesses are atomic.
        unsafe { AtomicU64::from_ptr(place.cast()) }.load(Ordering::Acquire)
    }

    /// Loads four bytes in the same way.
    pub(crate) fn load_u32(&self, offset: usize) -> u32 {
        let Some(place) = self.place(offset, size_of::<u32>()) else { return 0 };
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire)
    }

    /// Stores a number, with release ordering.
    pub(crate) fn store_u64(&self, offset: usize, value: u64) {
        let Some(place) = self.place(offset, size_of::<u64>()).filter(|_| self.is_writable) else {
            return;
        };
        // SAFETY: as above, and the mapping is writable.
        unsafe { AtomicU64::from_ptr(place.cast()) }.store(value, Ordering::Release);
    }

    /// Appends a copy of some bytes to `bytes`; nothing if they are not all in bounds.
    pub(crate) fn copy(&self, offset: usize, len: usize, bytes: &mut Vec<u8>) {
        if self.len.checked_sub(offset).is_none_or(|room| room < len) {
            return;
        }
        bytes.reserve(len);
        // SAFETY: the source range is mapped, and the vector has the capacity. The kernel does not
        // change a record that it has handed over; any bytes would be valid.
        unsafe {
            ptr::copy_nonoverlapping(
                self.start.add(offset),
                bytes.as_mut_ptr().add(bytes.len()),
                len,
            );
            bytes.set_len(bytes.len() + len);
        }
    }

    /// An aligned location of `len` bytes; mappings begin at a page.
    fn place(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let is_inside = offset.is_multiple_of(len) && self.len.checked_sub(offset)? >= len;
        // SAFETY: the location is within the mapping.
        is_inside.then(|| unsafe { self.start.add(offset) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: no slices of it exist any more. On error the mapping merely stays.
        _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_outside() {
        let mapping = Mapping::anonymous(4096).expect("memory");
        for (offset, expected) in [(0, 7), (8, 7), (4088, 7), (4, 0), (4092, 0), (4096, 0)] {
            mapping.store_u64(offset, 7);
            assert_eq!(mapping.load_u64(offset), expected, "{offset}");
        }
        assert_eq!(mapping.write(&[7; 4097]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!((mapping.load_u32(4088), mapping.load_u32(4096)), (7, 0));
        let mut bytes = vec![1];
        mapping.copy(4094, 2, &mut bytes);
        assert_eq!(bytes, [1, 0, 0]);
        for (offset, len) in [(4094, 3), (4097, 0), (0, 4097), (1, usize::MAX)] {
            mapping.copy(offset, len, &mut bytes);
            assert_eq!(bytes.len(), 3, "{offset}, {len}");
        }
    }
}
