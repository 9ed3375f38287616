//! Consumer of a ring buffer.
//!
//! The first page of the map holds the consumer's position, the second the producer's. The data
//! follows, mapped twice in a row, so that every record is contiguous (kernel/bpf/ringbuf.c,
//! `struct bpf_ringbuf`, Linux 6.18). Only a window of the data is mapped here at a time, because
//! each mapped page counts as memory of this process. A record that spans several windows is
//! assembled as it is copied.

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

/// Maximum size of a window in bytes.
const WINDOW_BYTES: u64 = 1 << 20;

/// Reads a ring buffer. Each may have only one reader.
#[derive(Debug)]
pub struct RingReader {
    map: Arc<OwnedFd>,
    /// Becomes readable when a program wakes up the reader. The map itself is readable as long as
    /// it contains anything, whether or not a wakeup was requested.
    wakeups: OwnedFd,
    consumer: Mapping,
    /// The producer's position.
    producer: Mapping,
    /// The most recently read part of the data, and its number.
    window: Mapping,
    window_number: u64,
    /// Size of the data in bytes, a power of two.
    size: u64,
    /// The current record.
    record: Vec<u8>,
}

impl RingReader {
    /// Fails if `map` is not a ring buffer, or there is no room for it.
    pub fn new(map: &LoadedMap) -> Result<Self, MapError> {
        let size = u64::from(map.entries());
        let open = || {
            let page = page_size();
            let consumer = Mapping::of(&map.fd, 0, page, true)?;
            let producer = Mapping::of(&map.fd, page, page, false)?;
            Ok((consumer, producer, window(&map.fd, 0, size)?, wakeups(&map.fd)?))
        };
        let (consumer, producer, window, wakeups) =
            open().map_err(|source| map.error("read", source))?;
        let map = Arc::clone(&map.fd);
        let (window_number, record) = (0, Vec::new());
        Ok(Self { map, wakeups, consumer, producer, window, window_number, size, record })
    }

    /// Passes each waiting record to `take`; at most as much as the buffer holds, so that this ends
    /// even if programs write faster than `take` reads.
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
                let Some(place) = self.place(position) else { return };
                let header = self.window.load_u32(place);
                if header & BUSY != 0 {
                    // It is still being written, so later records wait too.
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
            // Either this sees the next record, or its producer sees that all was read, and wakes up the reader.
            fence(Ordering::SeqCst);
        }
    }

    /// Offset of a position in its window; `None` if the window cannot be mapped.
    fn place(&mut self, position: u64) -> Option<usize> {
        let at = position & (self.size - 1);
        let number = at / WINDOW_BYTES;
        if number != self.window_number {
            self.window = window(&self.map, number, self.size).ok()?;
            self.window_number = number;
        }
        Some((at % WINDOW_BYTES) as usize)
    }

    /// Copies a record, which may span several windows.
    fn copy(&mut self, mut position: u64, len: usize) {
        self.record.clear();
        let mut left = len;
        while left > 0 {
            let Some(place) = self.place(position) else { return };
            let part = left.min(WINDOW_BYTES.min(self.size) as usize - place);
            self.window.copy(place, part, &mut self.record);
            left -= part;
            position += part as u64;
        }
    }

    /// Called before reading: later writes wake up again. An error would only end the wait immediately.
    fn forget_wakeups(&self) {
        let mut events = Vec::with_capacity(1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.wakeups, spare_capacity(&mut events), Some(&at_once));
    }
}

/// For waiting for a wakeup by a program.
impl AsFd for RingReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeups.as_fd()
    }
}

/// Maps a window of the data, which begins after two pages.
fn window(map: impl AsFd, number: u64, size: u64) -> io::Result<Mapping> {
    let offset = 2 * page_size() + (number * WINDOW_BYTES) as usize;
    Mapping::of(map, offset, WINDOW_BYTES.min(size) as usize, false)
}

/// A descriptor that signals wakeups, not the contents of the ring buffer.
fn wakeups(map: impl AsFd) -> io::Result<OwnedFd> {
    let wakeups = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&wakeups, map, epoll::EventData::new_u64(0), flags)?;
    Ok(wakeups)
}

/// Discards the contents of the ring buffer `map` by moving the consumer to the producer's position.
pub(super) fn empty(map: impl AsFd) -> io::Result<()> {
    let page = page_size();
    let consumer = Mapping::of(&map, 0, page, true)?;
    consumer.store_u64(0, Mapping::of(&map, page, page, false)?.load_u64(0));
    Ok(())
}
