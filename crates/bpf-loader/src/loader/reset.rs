//! Resets maps to the state before the first run.

use std::{io, os::fd::AsFd as _};

use super::{
    Alarm, MapError,
    maps::{LoadedMap, LoadedMaps, RESET_BYTES_MAX, array_bytes, possible_cpus},
    refused_map, ring,
};
use crate::{spec::MapType, sys};

/// Bytes of entries removed from a hash at a time, and the minimum and maximum number of entries: a
/// bucket must fit, and the alarm waits for all of them.
const TAKEN_BYTES: usize = 1 << 20;
const TAKEN_MIN: usize = 64;
const TAKEN_MAX: usize = 1 << 14;

/// Entries between checks of the alarm if each needs its own call.
const CALLS_PER_LOOK: u32 = 256;

/// `BPF_F_RDONLY` and `BPF_F_WRONLY` (include/uapi/linux/bpf.h, Linux 6.18): access of user space.
const RDONLY: u32 = 1 << 3;
const WRONLY: u32 = 1 << 4;

/// A map that cannot be reset in place.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// Its type or flags do not allow it, or it is too large.
    #[error("map {0} cannot be restored in place")]
    NotInPlace(String),
    #[error("the time ran out while map {0} was restored; increase --time")]
    TimeOver(String),
    #[error(transparent)]
    Map(#[from] MapError),
}

impl LoadedMaps {
    /// Resets every map to the state after creation and [`LoadedMap::fill`], until the alarm goes
    /// off. Fails with [`ResetError::NotInPlace`] if one of them has to be recreated; others may
    /// already be reset by then.
    pub fn reset(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        self.all().iter().try_for_each(|map| map.reset(alarm))
    }
}

impl LoadedMap {
    fn reset(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        let kind = self.spec.r#type;
        if self.spec.is_constant || self.is_unwritten || is_written_by_user_space_only(kind) {
            return Ok(());
        }
        if let Some(arena) = &self.arena {
            return self.reset_arena(arena);
        }
        if self.is_closed() {
            return Err(self.not_in_place());
        }
        if kind.is_array() {
            return self.reset_array(alarm);
        }
        if kind == MapType::LPM_TRIE {
            self.clear_by_key(alarm)?;
        } else if kind.is_hash() {
            self.clear_hash(alarm)?;
        } else if kind.is_queue() {
            self.clear_queue(alarm)?;
        } else if kind == MapType::RINGBUF {
            return ring::empty(&*self.fd).map_err(|source| self.error("empty", source).into());
        } else {
            return Err(self.not_in_place());
        }
        self.put(&self.contents, alarm)
    }

    /// Whether user space lacks access needed for a reset: writing, and reading the keys.
    fn is_closed(&self) -> bool {
        let is_read = self.spec.r#type.is_hash() || self.spec.r#type.is_queue();
        self.spec.flags & RDONLY != 0 || (is_read && self.spec.flags & WRONLY != 0)
    }

    fn not_in_place(&self) -> ResetError {
        ResetError::NotInPlace(self.spec.name.clone())
    }

    /// Continues if the time is not over.
    fn look(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        match alarm.is_over() {
            true => Err(ResetError::TimeOver(self.spec.name.clone())),
            false => Ok(()),
        }
    }

    /// Writes all values, even if they look unchanged: kernel-managed fields (timers, kptrs, lists,
    /// trees) read as zero, and are freed when a value is written.
    fn reset_array(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        if array_bytes(&self.spec) > RESET_BYTES_MAX {
            return Err(self.not_in_place());
        }
        let entries = self.spec.entries_max;
        let keys: Vec<u8> = (0..entries).flat_map(u32::to_ne_bytes).collect();
        let mut values = vec![0; self.value_len * entries as usize];
        for (key, value) in &self.contents {
            let index = key.first_chunk().map_or(u32::MAX, |key| u32::from_ne_bytes(*key));
            let start = (index as usize).saturating_mul(self.value_len);
            if let Some(first) = values.get_mut(start..start.saturating_add(self.value_len)) {
                first.copy_from_slice(value);
            }
        }
        self.look(alarm)?;
        self.update_all(&keys, &values, entries)?;
        Ok(())
    }

    /// Removes all entries, in batches.
    fn clear_hash(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        let key_len = self.spec.key_size as usize;
        let room = (TAKEN_BYTES / (key_len + self.value_len).max(1)).clamp(TAKEN_MIN, TAKEN_MAX);
        let (mut keys, mut values) = (vec![0; key_len * room], vec![0; self.value_len * room]);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let mut from = None;
        loop {
            self.look(alarm)?;
            let fd = self.fd.as_fd();
            match sys::take_entries(fd, from, &mut keys, &mut values, room) {
                Ok(None) => return Ok(()),
                Ok(next) => from = next,
                // A bucket with more entries.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    return self.clear_by_key(alarm);
                }
                Err(error) => return Err(self.error("empty", error).into()),
            }
        }
    }

    /// Removes entries one by one. With per-CPU lists, the kernel rounds the number of entries up
    /// to a multiple of the number of CPUs.
    fn clear_by_key(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        let mut key = vec![0; self.spec.key_size as usize];
        let mut next = key.clone();
        let read = |error| ResetError::from(self.error("read", error));
        let fd = self.fd.as_fd();
        let mut has_more = sys::next_key(fd, None, &mut key).map_err(read)?;
        // Bounded, in case the kernel returns a key that it does not delete.
        for number in 0..=self.spec.entries_max.saturating_add(possible_cpus() as u32) {
            if number % CALLS_PER_LOOK == 0 {
                self.look(alarm)?;
            }
            if !has_more {
                return Ok(());
            }
            // The walk would restart after a removed key.
            has_more = sys::next_key(fd, Some(&key), &mut next).map_err(read)?;
            match sys::delete_element(fd, &key) {
                Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                    return Err(self.error("empty", error).into());
                }
                _ => std::mem::swap(&mut key, &mut next),
            }
        }
        let reason = "it has more entries than it can hold, or another process adds some";
        Err(self.error("empty", io::Error::other(reason)).into())
    }

    fn clear_queue(&self, alarm: &Alarm<'_>) -> Result<(), ResetError> {
        let mut value = vec![0; self.value_len];
        for number in 0..=self.spec.entries_max {
            if number % CALLS_PER_LOOK == 0 {
                self.look(alarm)?;
            }
            match sys::lookup_and_delete(self.fd.as_fd(), &mut value) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
                Err(error) => return Err(self.error("empty", error).into()),
            }
        }
        Ok(())
    }

    /// Adds entries, in batches if the type allows it.
    pub(super) fn put(
        &self,
        entries: &[(Vec<u8>, Vec<u8>)],
        alarm: &Alarm<'_>,
    ) -> Result<(), ResetError> {
        let kind = self.spec.r#type;
        let takes_many = kind.is_hash() || kind.is_array();
        let each = if takes_many { TAKEN_MAX } else { CALLS_PER_LOOK as usize };
        for entries in entries.chunks(each) {
            self.look(alarm)?;
            match takes_many {
                true => {
                    entries.iter().try_for_each(|(key, value)| self.check_sizes(key, value))?;
                    let keys: Vec<u8> = entries.iter().flat_map(|it| &it.0).copied().collect();
                    let values: Vec<u8> = entries.iter().flat_map(|it| &it.1).copied().collect();
                    self.update_all(&keys, &values, u32::try_from(entries.len()).unwrap_or(0))?;
                }
                false => entries.iter().try_for_each(|(key, value)| self.set(key, value))?,
            }
        }
        Ok(())
    }

    fn update_all(&self, keys: &[u8], values: &[u8], count: u32) -> Result<(), MapError> {
        sys::update_elements(self.fd.as_fd(), keys, values, count)
            .map_err(|source| self.error(refused_map::FILL, source))
    }
}

/// Tables that programs only read: redirect targets, other programs, other maps.
fn is_written_by_user_space_only(kind: MapType) -> bool {
    matches!(
        kind,
        MapType::PROG_ARRAY
            | MapType::PERF_EVENT_ARRAY
            | MapType::CGROUP_ARRAY
            | MapType::ARRAY_OF_MAPS
            | MapType::HASH_OF_MAPS
            | MapType::DEVMAP
            | MapType::DEVMAP_HASH
            | MapType::CPUMAP
            | MapType::XSKMAP
            | MapType::USER_RINGBUF
    )
}
