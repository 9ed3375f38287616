//! Rules and Go's function table, compared with other sources: `go tool`, `readelf`, and walks at every instruction.

mod go;
mod readelf;
#[cfg(target_arch = "x86_64")]
mod stepped;
