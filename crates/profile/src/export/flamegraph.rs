//! Interactive flame graph: an SVG with search and zoom, drawn by inferno.

use std::io::{BufWriter, Write};

use inferno::flamegraph::color::BackgroundColor;
use inferno::flamegraph::{self, Options};

use super::ExportError;
use super::checked::Checked;
use super::count::grouped;
use super::folded::{fold, process_names};
use super::names::{Names, printable};
use super::palette::{NameKind, palette};
use crate::model::Meta;

/// What the hues of [`palette`] mean.
const LEGEND: &str = "red program, yellow Rust library, blue kernel, green BPF, grey unnamed";

/// Longest title that fits between "Reset Zoom" and "Search" at inferno's smallest usual width.
const TITLE_CHARS_MAX: usize = 90;

/// Writes the flame graph.
pub(super) fn write(
    profile: Checked<'_>,
    names: &Names,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    if profile.samples.is_empty() {
        return Err(ExportError::NoSamples);
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
    options.subtitle = Some(subtitle(&profile.meta, profile.samples.len() as u64));
    options.notes =
        format!("frames narrower than {} % of the width are not drawn", options.min_width);
    options.bgcolors = Some(BackgroundColor::Grey);
    options.palette_map = Some(&mut colors);
    options.no_sort = true;
    let lines = fold(profile, names);
    flamegraph::from_lines(&mut options, lines.lines(), BufWriter::new(writer))?;
    Ok(())
}

/// A text fit for the title line: cut where it would run into the buttons.
pub(crate) fn title(text: &str) -> String {
    let text = printable(text);
    if text.chars().count() <= TITLE_CHARS_MAX {
        return text.into_owned();
    }
    let mut cut: String = text.chars().take(TITLE_CHARS_MAX - 1).collect();
    cut.push('…');
    cut
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

/// A duration in the largest unit that leaves a whole part.
fn duration(duration_ns: u64) -> String {
    let milliseconds = duration_ns as f64 / 1e6;
    if milliseconds < 1e3 {
        format!("{milliseconds:.0} ms")
    } else if milliseconds < 120e3 {
        format!("{:.1} s", milliseconds / 1e3)
    } else {
        format!("{:.1} min", milliseconds / 60e3)
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
    fn durations_have_a_fitting_unit() {
        let check = |duration_ns, expected: &str| assert_eq!(duration(duration_ns), expected);
        check(0, "0 ms");
        check(999_000_000, "999 ms");
        check(10_040_000_000, "10.0 s");
        check(180_000_000_000, "3.0 min");
    }
}
