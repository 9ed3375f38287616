//! Flame graph colours: the hue shows the kind of code, the shade distinguishes neighbours.
//!
//! Off-CPU states have one colour each, distinct from all code, so that blocked and running are easy to distinguish.

use wingbeat_pprof::Colour;

use super::places::is_rust_library;
use crate::{fold::RUNTIME, model::State};

/// Kind of code behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    /// A process: the first frame of a stack.
    Process,
    /// User code with a symbol.
    User,
    /// User code without one.
    Unknown,
    Kernel,
    Bpf,
    /// Not code: a state or a waker.
    State,
}

/// Meaning of the hues of code.
pub(super) const LEGEND: &str =
    "red program, yellow Rust library, blue kernel, green BPF, grey unnamed";

/// Meaning of the colours of wakers.
pub(super) const LEGEND_OF_WAKERS: &str = "white woken by, pale its waker";

/// The colour of a name: the same in every flame graph.
pub(super) fn colour(name: &str, kind: NameKind) -> Colour {
    hue(name, kind).shade(hash(name))
}

/// Mixes a colour half with white.
pub(super) fn paler(Colour(red, green, blue): Colour) -> Colour {
    let half = |channel: u8| channel / 2 + 127;
    Colour(half(red), half(green), half(blue))
}

/// A range of colours.
struct Hue {
    from: [u8; 3],
    to: [u8; 3],
}

const GREY: Hue = Hue { from: [226, 226, 226], to: [206, 206, 206] };
const RED: Hue = Hue { from: [246, 134, 100], to: [255, 186, 96] };
const YELLOW: Hue = Hue { from: [240, 210, 112], to: [250, 230, 150] };
const BLUE: Hue = Hue { from: [124, 176, 232], to: [160, 206, 246] };
const WHITE: Hue = Hue::single([252, 252, 252]);
const GREEN: Hue = Hue { from: [112, 200, 140], to: [160, 226, 160] };

fn hue(name: &str, kind: NameKind) -> Hue {
    match kind {
        NameKind::Process | NameKind::Unknown => GREY,
        NameKind::Kernel => BLUE,
        NameKind::Bpf => GREEN,
        NameKind::State => {
            let state = State::ALL.into_iter().find(|state| state.frame() == name);
            state.map_or(WHITE, |state| look(state).0)
        }
        NameKind::User if is_rust_library(name) || name == RUNTIME => YELLOW,
        NameKind::User => RED,
    }
}

/// Colour of a state, and its legend.
fn look(state: State) -> (Hue, &'static str) {
    match state {
        State::Sleeping => (Hue::single([178, 150, 236]), "violet sleeping"),
        State::Uninterruptible => (Hue::single([148, 104, 190]), "purple uninterruptible"),
        State::Io => (Hue::single([56, 188, 192]), "teal I/O"),
        State::Lock => (Hue::single([232, 112, 212]), "magenta kernel lock"),
        State::Preempted => (Hue::single([238, 40, 72]), "crimson preempted"),
        State::Stopped => (Hue::single([176, 134, 100]), "brown stopped"),
        State::Idle => (Hue::single([222, 196, 255]), "pale violet idle"),
        State::Short => (Hue::single([250, 188, 222]), "pink short"),
        // Code that was not sampled.
        State::Running => (GREY, ""),
    }
}

/// Legend of a state's colour; `None` for the colour of code.
pub(super) fn legend(state: State) -> Option<&'static str> {
    Some(look(state).1).filter(|words| !words.is_empty())
}

/// FNV-1a, folded to eight bits: small, and stable across versions and machines.
fn hash(name: &str) -> u8 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_be_bytes().into_iter().fold(0, |folded, byte| folded ^ byte)
}

impl Hue {
    const fn single(colour: [u8; 3]) -> Self {
        Self { from: colour, to: colour }
    }

    /// The colour at `position` of 255 in the range.
    fn shade(&self, position: u8) -> Colour {
        let mix = |channel: usize| {
            let (from, to) = (i32::from(self.from[channel]), i32::from(self.to[channel]));
            (from + (to - from) * i32::from(position) / 255) as u8
        };
        Colour(mix(0), mix(1), mix(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_lie_between_the_corners() {
        let check = |position, (red, green, blue): (u8, u8, u8)| {
            assert_eq!(RED.shade(position), Colour(red, green, blue));
        };
        check(0, (246, 134, 100));
        check(255, (255, 186, 96));
        check(128, (250, 160, 98));
    }

    #[test]
    fn colours_of_states_are_apart_from_each_other_and_from_code() {
        let distance = |a: Colour, b: Colour| {
            let square = |a: u8, b: u8| (f64::from(a) - f64::from(b)).powi(2);
            (square(a.0, b.0) + square(a.1, b.1) + square(a.2, b.2)).sqrt()
        };
        let states = State::ALL.into_iter().filter(|&state| state != State::Running);
        let mut seen: Vec<(Colour, &str)> = vec![(WHITE.shade(0), "waker")];
        for hue in [GREY, RED, YELLOW, BLUE, GREEN] {
            seen.extend((0..=255).map(|position| (hue.shade(position), "code")));
        }
        for state in states {
            let colour = colour(state.frame(), NameKind::State);
            for &(other, name) in &seen {
                let found = distance(colour, other);
                assert!(found > 36.0, "{} and {name} are {found:.0} apart", state.name());
            }
            seen.push((colour, state.name()));
        }
    }
}
