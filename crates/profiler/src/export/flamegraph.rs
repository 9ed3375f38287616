//! Interactive flame graph: an SVG with search and zoom, rendered by inferno.

use std::cmp::Reverse;
use std::io::{BufWriter, Write};

use inferno::flamegraph::color::BackgroundColor;
use inferno::flamegraph::{self, Options};
use wingbeat_text::{bytes, cut, duration, grouped};

use super::ExportError;
use super::checked::Checked;
use super::count::total;
use super::folded::{fold, process_names};
use super::names::{Names, printable};
use super::palette::{NameKind, WAKER_MARK, legend, palette};
use super::times;
use crate::model::{Meta, Mode, Profile, State, Weight};

/// Legend of the hues of [`palette`].
const LEGEND: &str = "red program, yellow Rust library, blue kernel, green BPF, grey unnamed";

/// Start of the frame before a waker's stack.
const WOKEN_BY: &str = ";[woken by ";

/// Legend of the waker colours.
const LEGEND_OF_WAKERS: &str = "white woken by, pale its waker";

/// Longest title that fits between "Reset Zoom" and "Search" at inferno's minimum usual width.
const TITLE_CHARS_MAX: usize = 90;

/// Longest subtitle that fits inferno's usual width.
const SUBTITLE_CHARS_MAX: usize = 160;

pub(super) fn write(
    profile: Checked<'_>,
    names: &Names,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let mode = profile.meta.mode;
    let total = total(&profile);
    if total.value(mode) == 0 {
        return Err(ExportError::NoSamples(mode));
    }
    let processes = process_names(profile);
    let mut colors = palette(
        processes
            .iter()
            .map(|name| (name.as_str(), NameKind::Process))
            .chain(names.iter().map(|name| (name.text.as_str(), name.kind))),
    );

    let mut options = Options::default();
    options.title = title(&format!("wingbeat: {}", profile.meta.target));
    options.subtitle = Some(match mode {
        Mode::OnCpu => subtitle(&profile.meta, total.samples),
        Mode::OffCpu | Mode::Wall => subtitle_of_times(&profile, total),
        // The title names the kind of memory.
        Mode::Pages => format!(
            "{}, recorded for {} · {LEGEND}",
            bytes(total.live.1),
            duration(profile.meta.duration_ns)
        ),
        Mode::Heap => format!(
            "{} in {} blocks, recorded for {} · {LEGEND}",
            bytes(total.live.1),
            grouped(total.live.0),
            duration(profile.meta.duration_ns)
        ),
    });
    options.notes =
        format!("frames narrower than {} % of the width are not drawn", options.min_width);
    options.bgcolors = Some(BackgroundColor::Grey);
    options.palette_map = Some(&mut colors);
    options.no_sort = true;
    let lines = fold(profile, names);
    let is_memory = matches!(mode, Mode::Heap | Mode::Pages);
    if is_memory {
        options.count_name = "bytes".to_owned();
    }
    if is_memory || mode == Mode::OnCpu {
        flamegraph::from_lines(&mut options, lines.lines(), BufWriter::new(writer))?;
        return Ok(());
    }
    options.count_name = times::UNIT.to_owned();
    let lines = with_marked_wakers(&lines);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg)?;
    let svg = String::from_utf8_lossy(&svg).replace(WAKER_MARK, "");
    writer.write_all(times::in_fitting_units(&svg).as_bytes())?;
    writer.flush()?;
    Ok(())
}

/// Marks each function of wakers' stacks: colours depend on names, and these must look different from functions of
/// the waiting thread.
fn with_marked_wakers(lines: &str) -> String {
    let mut marked = String::with_capacity(lines.len());
    for line in lines.lines() {
        let waker = line.find(WOKEN_BY).and_then(|at| {
            let name_end = at + 1 + line[at + 1..].find(';')?;
            Some((name_end, line.rfind(' ')?))
        });
        match waker {
            Some((name_end, count)) if name_end < count => {
                marked.push_str(&line[..name_end]);
                for function in line[name_end + 1..count].split(';') {
                    marked.push(';');
                    marked.push_str(function);
                    marked.push(WAKER_MARK);
                }
                marked.push_str(&line[count..]);
            }
            _ => marked.push_str(line),
        }
        marked.push('\n');
    }
    marked
}

/// Truncates a title that would overlap the buttons.
pub(crate) fn title(text: &str) -> String {
    cut(&printable(text), TITLE_CHARS_MAX)
}

fn subtitle(meta: &Meta, samples: u64) -> String {
    format!(
        "{} samples in {}, at {} Hz per CPU, {} · {LEGEND}",
        grouped(samples),
        duration(meta.duration_ns),
        grouped(meta.frequency_hz),
        printable(&meta.system),
    )
}

/// What was measured, the total, and the legend of the states that occur.
fn subtitle_of_times(profile: &Profile, total: Weight) -> String {
    let meta = &profile.meta;
    let blocked =
        format!("{} off the CPU in {} blocks", duration(total.off_cpu_ns), grouped(total.blocks));
    let on_cpu = match meta.mode {
        Mode::Wall => format!(", {} on it", duration(total.on_cpu_ns)),
        Mode::OnCpu | Mode::OffCpu | Mode::Heap | Mode::Pages => String::new(),
    };
    let mut text = format!(
        "{}: {blocked}{on_cpu}, recorded for {}",
        meta.mode.name(),
        duration(meta.duration_ns)
    );
    // States with most time first, so that they fit.
    let mut times = State::ALL.map(|state| (0_u64, state));
    for blocked in &profile.blocked {
        if let Some((time_ns, _)) = times.iter_mut().find(|(_, state)| *state == blocked.state) {
            *time_ns = time_ns.saturating_add(blocked.total_ns);
        }
    }
    times.sort_by_key(|&(time_ns, _)| Reverse(time_ns));
    let states = times.iter().filter(|(time_ns, _)| *time_ns > 0).map(|(_, state)| legend(*state));
    let is_waker = |name: &str| name.starts_with(&WOKEN_BY[1..]);
    let wakers = profile.functions.iter().any(|function| is_waker(&function.name));
    let wakers = wakers.then_some(LEGEND_OF_WAKERS);
    let mut separator = " · ";
    for words in states.flatten().chain(wakers).chain([LEGEND]) {
        let separator_of_code = if words == LEGEND { " · " } else { separator };
        let part = format!("{separator_of_code}{words}");
        if text.chars().count() + part.chars().count() <= SUBTITLE_CHARS_MAX {
            text.push_str(&part);
            separator = ", ";
        }
    }
    text
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
    fn functions_of_wakers_are_marked() {
        let check = |line: &str, expected: &str| {
            assert_eq!(with_marked_wakers(line), format!("{expected}\n"));
        };
        check("p;main;[sleeping] 7", "p;main;[sleeping] 7");
        check("p;main;[sleeping];[woken by q] 7", "p;main;[sleeping];[woken by q] 7");
        check(
            "p;main;[sleeping];[woken by q r];q;f g 7",
            "p;main;[sleeping];[woken by q r];q\u{2063};f g\u{2063} 7",
        );
    }
}
