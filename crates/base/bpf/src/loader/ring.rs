//! Empties a ring buffer: what a benchmark's runs have put into it nobody will read.

use std::{io, os::fd::AsFd, ptr};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    param::page_size,
};

/// Drops everything that is in the ring buffer `map`.
///
/// Its first page holds the consumer's position, its second the producer's (kernel/bpf/ringbuf.c,
/// `struct bpf_ringbuf`, Linux 6.18). A consumer that has read all stands where the producer stands.
pub(super) fn empty(map: impl AsFd) -> io::Result<()> {
    let page = page_size();
    // SAFETY: a new mapping at an address of the kernel's choice, of the page that user space may write.
    let consumer = unsafe {
        mmap(ptr::null_mut(), page, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &map, 0)?
    };
    // SAFETY: as above, of the page that user space may read.
    let producer = unsafe {
        mmap(ptr::null_mut(), page, ProtFlags::READ, MapFlags::SHARED, &map, page as u64)
    };
    if let Ok(producer) = producer {
        // SAFETY: both pages are mapped and begin with an aligned word of eight bytes, the positions.
        unsafe {
            let position = ptr::read_volatile(producer.cast::<u64>());
            ptr::write_volatile(consumer.cast::<u64>(), position);
        }
        // SAFETY: the mapping made above, used no more.
        unsafe { munmap(producer, page)? };
    }
    // SAFETY: the mapping made above, used no more.
    unsafe { munmap(consumer, page)? };
    producer.map(drop).map_err(Into::into)
}
