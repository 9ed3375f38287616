//! Interactive flame graph: an SVG with search and zoom.

use std::cmp::Reverse;
use std::io::Write;

use wingbeat_pprof::{Flame, Medium, Request, View};
use wingbeat_text::{bytes, cut, duration, grouped, plural};

use super::ExportError;
use super::checked::Checked;
use super::count::total;
use super::folded::{process_names, stacks};
use super::names::{Name, Names, printable};
use super::palette::{LEGEND, LEGEND_OF_WAKERS, NameKind, colour, legend, paler};
use crate::model::{Meta, Mode, Profile, State, Weight};

/// Start of the frame before a waker's stack.
const WOKEN_BY: &str = "[woken by ";

/// Longest title that leaves room for the controls.
const TITLE_CHARS_MAX: usize = 90;

pub(super) fn write(
    profile: Checked<'_>,
    names: &Names,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let total = total(&profile);
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
}
