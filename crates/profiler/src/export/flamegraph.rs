//! Interactive flame graph: an SVG with search and zoom.
//!
//! The hue shows the kind of code, the shade distinguishes neighbours. Off-CPU states have one colour each, distinct
//! from all code, so that blocked and running are easy to distinguish.

use std::{cmp::Reverse, io::Write};

use wingbeat_pprof::{Colour, Flame, Medium, Request, View};
use wingbeat_text::{bytes, cut, duration, grouped, plural};

use super::{
    Checked, ExportError,
    folded::{Name, NameKind, Names, printable, process_names, stacks},
    places::is_rust_library,
};
use crate::{
    fold::RUNTIME,
    model::{Meta, Mode, Profile, State, Weight},
};

/// Start of the frame before a waker's stack.
const WOKEN_BY: &str = "[woken by ";

/// Longest title that leaves room for the controls.
const TITLE_CHARS_MAX: usize = 90;

pub(super) fn write(
    profile: Checked<'_>,
    names: &Names,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let total = profile.total_weight();
    if total.value(profile.meta.mode) == 0 {
        return Err(ExportError::NoSamples(profile.meta.mode));
    }
    let title = title(&format!("wingbeat: {}", profile.meta.target));
    let request = Request {
        view: View::Single,
        medium: Medium::InteractiveFile,
        title: &title,
        search: None,
    };
    let picture = flame(profile, names)
        .with_facts(facts(&profile.meta, total))
        .draw(request, &|value| value_text(profile.meta.mode, value));
    writer.write_all(picture.svg.as_bytes())?;
    writer.write_all(b"\n")?;
    Ok(writer.flush()?)
}

/// The stacks below their processes. Functions of a waker's stack are paler, since they did not run in the thread
/// below them.
fn flame(profile: Checked<'_>, names: &Names) -> Flame {
    let processes = process_names(profile);
    let grey = |name: &String| (name.clone(), colour(name, NameKind::Process));
    let mut coloured: Vec<_> = processes.iter().map(grey).collect();
    let own = coloured.len() as u32;
    let look = |name: &Name| (name.plain().to_owned(), colour(&name.text, name.kind));
    coloured.extend(names.iter().map(look));
    let of_wakers = coloured.len() as u32;
    coloured.extend(names.iter().map(look).map(|(name, colour)| (name, paler(colour))));
    let stacks = stacks(profile, names).into_iter().map(|(process, frames, value)| {
        let mut first = own;
        let mut stack = vec![process];
        for frame in frames {
            stack.push(first + frame);
            if names.get(frame).text.starts_with(WOKEN_BY) {
                first = of_wakers;
            }
        }
        (stack, value)
    });
    let stacks: Vec<(Vec<u32>, u64)> = stacks.collect();
    Flame::of_names(coloured, &stacks, colours(&profile))
}

fn value_text(mode: Mode, value: f64) -> String {
    match mode {
        Mode::OnCpu => plural(value, "sample"),
        Mode::OffCpu | Mode::Wall => duration(value as u64),
        Mode::Heap | Mode::Pages => bytes(value as u64),
    }
}

/// Truncates a title that would overlap the buttons.
pub(crate) fn title(text: &str) -> String {
    cut(&printable(text), TITLE_CHARS_MAX)
}

/// What was measured, the total, and for how long.
fn facts(meta: &Meta, total: Weight) -> String {
    let recorded = format!("recorded for {}", duration(meta.duration_ns));
    let blocked = || {
        format!("{} off the CPU in {} blocks", duration(total.off_cpu_ns), grouped(total.blocks))
    };
    match meta.mode {
        Mode::OnCpu => format!(
            "{} samples in {}, at {} Hz per CPU, {}",
            grouped(total.samples),
            duration(meta.duration_ns),
            grouped(meta.frequency_hz),
            printable(&meta.system),
        ),
        Mode::OffCpu => format!("off-cpu: {}, {recorded}", blocked()),
        Mode::Wall => {
            format!("wall: {}, {} on it, {recorded}", blocked(), duration(total.on_cpu_ns))
        }
        // The title names the kind of memory.
        Mode::Pages => format!("{}, {recorded}", bytes(total.live.1)),
        Mode::Heap => {
            format!("{} in {} blocks, {recorded}", bytes(total.live.1), grouped(total.live.0))
        }
    }
}

/// Meaning of the colours: code, and the states that occur, those with most time first.
fn colours(profile: &Profile) -> String {
    let mut times = State::ALL.map(|state| (0_u64, state));
    for blocked in &profile.blocked {
        if let Some((time_ns, _)) = times.iter_mut().find(|(_, state)| *state == blocked.state) {
            *time_ns = time_ns.saturating_add(blocked.total_ns);
        }
    }
    times.sort_by_key(|&(time_ns, _)| Reverse(time_ns));
    let states = times.iter().filter(|(time_ns, _)| *time_ns > 0).map(|(_, state)| legend(*state));
    let wakers = profile.functions.iter().any(|function| function.name.starts_with(WOKEN_BY));
    let words = states.flatten().chain(wakers.then_some(LEGEND_OF_WAKERS)).chain([LEGEND]);
    let mut text = words.collect::<Vec<_>>().join(", ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + "."
}

/// Meaning of the hues of code.
const LEGEND: &str = "red program, yellow Rust library, blue kernel, green BPF, grey unnamed";

/// Meaning of the colours of wakers.
const LEGEND_OF_WAKERS: &str = "white woken by, pale its waker";

/// The colour of a name: the same in every flame graph.
fn colour(name: &str, kind: NameKind) -> Colour {
    hue(name, kind).shade(hash(name))
}

/// Mixes a colour half with white.
fn paler(Colour(red, green, blue): Colour) -> Colour {
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
fn legend(state: State) -> Option<&'static str> {
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
    fn long_titles_are_cut_by_characters() {
        let check = |target: &str, expected: &str| assert_eq!(title(target), expected);
        check("wingbeat: amicable 1 2", "wingbeat: amicable 1 2");
        check("a\nb", "a b");
        check(&"ü".repeat(90), &"ü".repeat(90));
        check(&"ü".repeat(91), &format!("{}…", "ü".repeat(89)));
    }

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
