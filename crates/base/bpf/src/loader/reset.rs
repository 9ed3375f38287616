//! Maps brought back to what they were before the first run.

use std::{io, os::fd::AsFd as _};

use super::{
    MapError,
    maps::{
        LoadedMap, LoadedMaps,
        sizes::{RESET_BYTES_MAX, array_bytes, possible_cpus},
    },
    ring,
};
use crate::{spec::MapType, sys};

/// A map that cannot be brought back to its first state in place.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// Its type does not allow it, or it is too big.
    #[error("map {0} cannot be restored in place")]
    NotInPlace(String),
    #[error(transparent)]
    Map(#[from] MapError),
}

impl LoadedMaps {
    /// Brings every map back to what it was after creation and [`LoadedMap::fill`]. Fails with
    /// [`ResetError::NotInPlace`] when one of them has to be created anew; others may be reset by
    /// then.
    pub fn reset(&self) -> Result<(), ResetError> {
        self.all().iter().try_for_each(LoadedMap::reset)
    }
}

impl LoadedMap {
    fn reset(&self) -> Result<(), ResetError> {
        let kind = self.spec.r#type;
        if self.spec.is_constant || self.is_unwritten {
            return Ok(());
        }
        if let Some(arena) = &self.arena {
            return self.reset_arena(arena);
        }
        if kind.is_array() {
            return self.reset_array();
        }
        if kind.is_hash() {
            self.clear_hash()?;
        } else if kind.is_queue() {
            self.clear_queue()?;
        } else if kind == MapType::RINGBUF {
            return ring::empty(&*self.fd).map_err(|source| self.error("empty", source).into());
        } else if is_written_by_user_space_only(kind) {
            return Ok(());
        } else {
            return Err(ResetError::NotInPlace(self.spec.name.clone()));
        }
        self.contents.iter().try_for_each(|(key, value)| self.set(key, value)).map_err(Into::into)
    }

    /// Writes only what changed: most runs change little.
    fn reset_array(&self) -> Result<(), ResetError> {
        if array_bytes(&self.spec) > RESET_BYTES_MAX {
            return Err(ResetError::NotInPlace(self.spec.name.clone()));
        }
        let zero = vec![0; self.value_len];
        for index in 0..self.spec.entries_max {
            let key = index.to_ne_bytes();
            let first = self.contents.iter().rev().find(|(filled, _)| *filled == key);
            let first = first.map_or(&zero, |(_, value)| value);
            if self.lookup(&key)?.as_ref() != Some(first) {
                self.set(&key, first)?;
            }
        }
        Ok(())
    }

    fn clear_hash(&self) -> Result<(), MapError> {
        let mut key = vec![0; self.spec.key_size as usize];
        // Bounded, should the kernel ever give a key that it does not let go of. Where each CPU has a
        // list of its own, the kernel rounds the number of entries up to one that all CPUs can share.
        for _ in 0..=u64::from(self.spec.entries_max).saturating_add(possible_cpus() as u64) {
            match sys::next_key(self.fd.as_fd(), None, &mut key) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(self.error("read", error)),
            }
            match sys::delete_element(self.fd.as_fd(), &key) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(self.error("empty", error)),
            }
        }
        let reason = "it has more entries than it can hold, or another process adds some";
        Err(self.error("empty", io::Error::other(reason)))
    }

    fn clear_queue(&self) -> Result<(), MapError> {
        let mut value = vec![0; self.value_len];
        for _ in 0..=self.spec.entries_max {
            match sys::lookup_and_delete(self.fd.as_fd(), &mut value) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
                Err(error) => return Err(self.error("empty", error)),
            }
        }
        Ok(())
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
