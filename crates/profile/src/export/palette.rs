//! Colours of flame graphs: the hue says what kind of code a frame is, the shade tells neighbours
//! apart.
//!
//! inferno's own palettes know Rust's library or the kernel, but not both, nor BPF.

use inferno::flamegraph::color::{Color, PaletteMap};

/// What kind of code a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    /// A process: the first frame of a stack.
    Process,
    /// User code with a symbol.
    User,
    /// User code without one.
    Unknown,
    /// The kernel.
    Kernel,
    /// A BPF program.
    Bpf,
}

/// The colours of some names; the same name has the same colour in every flame graph.
pub(super) fn palette<'a>(names: impl IntoIterator<Item = (&'a str, NameKind)>) -> PaletteMap {
    let mut palette = PaletteMap::default();
    // The root, which inferno calls "all".
    palette.insert("", GREY.shade(0));
    for (name, kind) in names {
        palette.insert(name, hue(name, kind).shade(hash(name)));
    }
    palette
}

/// The corners of a range of colours.
struct Hue {
    from: [u8; 3],
    to: [u8; 3],
}

const GREY: Hue = Hue { from: [226, 226, 226], to: [206, 206, 206] };
const RED: Hue = Hue { from: [246, 134, 100], to: [255, 186, 96] };
const YELLOW: Hue = Hue { from: [240, 210, 112], to: [250, 230, 150] };
const BLUE: Hue = Hue { from: [124, 176, 232], to: [160, 206, 246] };
const GREEN: Hue = Hue { from: [112, 200, 140], to: [160, 226, 160] };

fn hue(name: &str, kind: NameKind) -> Hue {
    match kind {
        NameKind::Process | NameKind::Unknown => GREY,
        NameKind::Kernel => BLUE,
        NameKind::Bpf => GREEN,
        NameKind::User if is_rust_library(name) => YELLOW,
        NameKind::User => RED,
    }
}

/// Whether a function belongs to Rust's own libraries, which the reader cannot change.
fn is_rust_library(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&']);
    ["core::", "alloc::", "std::"].iter().any(|library| path.starts_with(library))
}

/// FNV-1a, folded to eight bits: small, and the same in every version and on every machine.
fn hash(name: &str) -> u8 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_be_bytes().into_iter().fold(0, |folded, byte| folded ^ byte)
}

impl Hue {
    /// The colour at `position` of 255 between the corners.
    fn shade(&self, position: u8) -> Color {
        let mix = |channel: usize| {
            let (from, to) = (i32::from(self.from[channel]), i32::from(self.to[channel]));
            (from + (to - from) * i32::from(position) / 255) as u8
        };
        Color { r: mix(0), g: mix(1), b: mix(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_lie_between_the_corners() {
        let check = |position, (r, g, b): (u8, u8, u8)| {
            assert_eq!(RED.shade(position), Color { r, g, b });
        };
        check(0, (246, 134, 100));
        check(255, (255, 186, 96));
        check(128, (250, 160, 98));
    }

    #[test]
    fn rusts_libraries_are_told_from_the_programs_code() {
        let check = |name, expected| assert_eq!(is_rust_library(name), expected, "{name}");
        check("std::rt::lang_start::{{closure}}", true);
        check("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", true);
        check("<&core::fmt::Arguments as core::fmt::Display>::fmt", true);
        check("amicable::main", false);
        check("stdlib_init", false);
    }
}
