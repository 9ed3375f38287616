//! Large maps that programs only read: there is nothing to put back in them.
//!
//! Who reads only is for the verifier to say: it refuses a program that writes to a map with
//! `BPF_F_RDONLY_PROG`. How many entries the map has makes no difference to that, so that a small one of
//! the same kind is enough to ask.

use super::{LiveMap, LiveMaps, MapError, RDONLY_PROG, RESET_BYTES_MAX};
use crate::spec::MapSpec;

impl LiveMaps {
    /// Numbers of the maps that can be put back only by creating them anew, because they are large.
    pub fn too_large_to_reset(&self) -> Vec<usize> {
        let large = self.maps.iter().enumerate().filter(|(_, map)| map.is_too_large_to_reset());
        large.map(|(number, _)| number).collect()
    }

    /// Says of a map that the programs only read it, so that it stays as it is.
    pub fn set_only_read(&mut self, number: usize) {
        if let Some(map) = self.maps.get_mut(number) {
            map.is_only_read = true;
        }
    }
}

impl LiveMap {
    /// A map of the same kind with one entry, which programs may only read.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it.
    pub fn read_only_probe(&self) -> Result<Self, MapError> {
        let flags = self.spec.flags | RDONLY_PROG;
        let spec = MapSpec { entries_max: 1, flags, initial: None, ..self.spec.clone() };
        Self::create(&spec, None)
    }

    pub(super) fn is_too_large_to_reset(&self) -> bool {
        let bytes = u64::from(self.spec.entries_max).saturating_mul(self.value_len as u64);
        self.spec.r#type.is_array() && !self.is_only_read && bytes > RESET_BYTES_MAX
    }
}
