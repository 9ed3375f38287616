//! Memory that is mapped: shared with a child process, or with the kernel.

use std::{
    io,
    os::fd::AsFd,
    ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Shared memory. What lies outside of it reads as zero, and is not written.
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

    /// Maps an arena, whole: at `address`, or where the kernel wants it if that is 0. `EEXIST` when
    /// something else is there.
    pub(crate) fn of_arena(map: impl AsFd, address: usize, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mut flags = MapFlags::SHARED;
        flags.set(MapFlags::FIXED_NOREPLACE, address != 0);
        let address = ptr::without_provenance_mut(address);
        // SAFETY: a new mapping, which takes the place of no other.
        let start = unsafe { mmap(address, len, access, flags, map, 0) }?;
        Ok(Self { start: start.cast(), len, is_writable: true })
    }

    /// Where it begins in this process.
    pub(crate) fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Writes to its beginning. Memory that the kernel does not give (an arena may forbid it, or be
    /// full) is an error, not a signal that ends the process.
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
            // SAFETY: `from` is only read, and `to` lies in the mapping, of which nobody has a slice.
            let written = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
            match usize::try_from(written) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(())
    }

    /// Memory of no file, zero at first.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::SHARED) }?;
        Ok(Self { start: start.cast(), len, is_writable: true })
    }

    /// The memory, which nobody else writes to while it is borrowed.
    ///
    /// # Safety
    ///
    /// It is writable, and no other process and no kernel writes to it meanwhile.
    pub(super) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length and lives as long as `self`, which is borrowed whole; the
        // rest is promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The number at `offset`, and all that was written before it.
    pub(crate) fn load_u64(&self, offset: usize) -> u64 {
        let Some(place) = self.place(offset, size_of::<u64>()) else { return 0 };
        // SAFETY: the place is mapped and aligned, and whoever else uses it does so atomically.
        unsafe { AtomicU64::from_ptr(place.cast()) }.load(Ordering::Acquire)
    }

    /// The same of four bytes.
    pub(crate) fn load_u32(&self, offset: usize) -> u32 {
        let Some(place) = self.place(offset, size_of::<u32>()) else { return 0 };
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire)
    }

    /// Writes a number, after all that was read before it.
    pub(crate) fn store_u64(&self, offset: usize, value: u64) {
        let Some(place) = self.place(offset, size_of::<u64>()).filter(|_| self.is_writable) else {
            return;
        };
        // SAFETY: as above, and the mapping may be written to.
        unsafe { AtomicU64::from_ptr(place.cast()) }.store(value, Ordering::Release);
    }

    /// Appends a copy of some bytes to `bytes`; none when they are not all inside.
    pub(crate) fn copy(&self, offset: usize, len: usize, bytes: &mut Vec<u8>) {
        if self.len.checked_sub(offset).is_none_or(|room| room < len) {
            return;
        }
        bytes.reserve(len);
        // SAFETY: so many bytes are mapped there, and there is room for them behind those of the vector.
        // The kernel does not change a record that it has handed over; any bytes would be valid.
        unsafe {
            ptr::copy_nonoverlapping(
                self.start.add(offset),
                bytes.as_mut_ptr().add(bytes.len()),
                len,
            );
            bytes.set_len(bytes.len() + len);
        }
    }

    /// An aligned place of `len` bytes; mappings begin at a page.
    fn place(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let is_inside = offset.is_multiple_of(len) && self.len.checked_sub(offset)? >= len;
        // SAFETY: the place lies in the mapping.
        is_inside.then(|| unsafe { self.start.add(offset) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has a slice of it any more. An error would leave the mapping, no more.
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
