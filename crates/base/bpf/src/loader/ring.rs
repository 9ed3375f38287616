//! The consumer of a ring buffer, which reads what programs put into it.
//!
//! The first page of the map holds the consumer's position, the second the producer's, and the data
//! follow, twice in a row, so that no record is in two pieces (kernel/bpf/ringbuf.c, `struct bpf_ringbuf`,
//! Linux 6.18). Only the first time is mapped here: each page that is mapped counts as memory of this
//! process, and a record that goes on at the beginning is put together as it is copied.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    param::page_size,
};

use super::{LoadedMap, MapError};
use crate::sys::Mapping;

/// `BPF_RINGBUF_BUSY_BIT`, `BPF_RINGBUF_DISCARD_BIT` and `BPF_RINGBUF_HDR_SZ`
/// (include/uapi/linux/bpf.h, Linux 6.18).
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

/// Reads a ring buffer. There may be only one reader of each.
#[derive(Debug)]
pub struct RingReader {
    /// Keeps the map for `wakeups`.
    _map: Arc<OwnedFd>,
    /// Becomes readable when a program wakes up whoever waits. The map itself is readable as long as
    /// anything is in it, whether or not that is worth waking up for.
    wakeups: OwnedFd,
    consumer: Mapping,
    /// The producer's position, and the data.
    producer: Mapping,
    /// Bytes of data, a power of two.
    size: u64,
    /// What is being handed over.
    record: Vec<u8>,
}

impl RingReader {
    /// Fails when `map` is not a ring buffer, or there is no room for it.
    pub fn new(map: &LoadedMap) -> Result<Self, MapError> {
        let size = map.entries();
        let data_bytes = size as usize;
        let open = || {
            let page = page_size();
            let consumer = Mapping::of(&map.fd, 0, page, true)?;
            let producer = Mapping::of(&map.fd, page, page + data_bytes, false)?;
            Ok((consumer, producer, wakeups(&map.fd)?))
        };
        let (consumer, producer, wakeups) = open().map_err(|source| map.error("read", source))?;
        let (map, size) = (Arc::clone(&map.fd), u64::from(size));
        Ok(Self { _map: map, wakeups, consumer, producer, size, record: Vec::new() })
    }

    /// Hands each waiting record to `take`; no more than the buffer holds, so that this ends also while
    /// programs write faster than `take` reads.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        self.forget_wakeups();
        let mut position = self.consumer.load_u64(0);
        let last = position.wrapping_add(self.size);
        while position < last {
            let end = self.producer.load_u64(0);
            if position == end {
                return;
            }
            while position != end && position < last {
                let header = self.producer.load_u32(self.place(position));
                if header & BUSY != 0 {
                    // It is still being written; those behind it wait.
                    return;
                }
                let len = (header & !DISCARDED) as usize;
                if header & DISCARDED == 0 {
                    self.copy(position + HEADER_BYTES as u64, len);
                    take(&self.record);
                }
                position += (HEADER_BYTES + len).next_multiple_of(8) as u64;
                self.consumer.store_u64(0, position);
            }
            // Either what comes next is seen here, or its producer sees that all was read, and wakes up
            // whoever waits.
            fence(Ordering::SeqCst);
        }
    }

    /// Where in the mapping the byte at a position is.
    fn place(&self, position: u64) -> usize {
        page_size() + (position & (self.size - 1)) as usize
    }

    /// Copies a record, which may end at the beginning of the data.
    fn copy(&mut self, position: u64, len: usize) {
        let until_end = (self.size - (position & (self.size - 1))) as usize;
        let first = len.min(until_end);
        let place = self.place(position);
        self.record.clear();
        self.producer.copy(place, first, &mut self.record);
        self.producer.copy(page_size(), len - first, &mut self.record);
    }

    /// Before anything is read: what is written from now on wakes up again. An error would only mean
    /// that waiting ends at once.
    fn forget_wakeups(&self) {
        let mut events = Vec::with_capacity(1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.wakeups, spare_capacity(&mut events), Some(&at_once));
    }
}

/// For waiting until a program wakes up whoever waits.
impl AsFd for RingReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeups.as_fd()
    }
}

/// A descriptor that tells of wakeups, not of what lies in the ring buffer.
fn wakeups(map: impl AsFd) -> io::Result<OwnedFd> {
    let wakeups = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&wakeups, map, epoll::EventData::new_u64(0), flags)?;
    Ok(wakeups)
}

/// Drops everything that is in the ring buffer `map`: a consumer that has read all stands where the
/// producer stands.
pub(super) fn empty(map: impl AsFd) -> io::Result<()> {
    let page = page_size();
    let consumer = Mapping::of(&map, 0, page, true)?;
    consumer.store_u64(0, Mapping::of(&map, page, page, false)?.load_u64(0));
    Ok(())
}
