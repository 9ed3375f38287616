//! Differential flame graph: what grew and shrank between two profiles.
//!
//! Frames and widths are those of the second profile. Colours show the change in samples of the *function itself*,
//! or in time if that was measured. Reads collapsed stacks and pprof, in any combination: bytes in, SVG out.

mod folded;
mod pprof;
mod sides;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use inferno::flamegraph::{self, Options};
use wingbeat_pprof::{
    ReadError,
    pprof::{Dangling, UnpackError, unpacked},
};
use wingbeat_text::{bytes, duration, grouped};

pub use wingbeat_pprof::pprof::BYTES_MAX;

pub use self::sides::functions;
use crate::export::title;

/// Largest sum of counts for which inferno's arithmetic is exact.
const TOTAL_MAX: u64 = 1 << 53;

/// Stacks with counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stacks {
    /// File name, for the title.
    pub name: String,
    /// Samples of each stack, `outermost;…;innermost`. Not empty, and no count is 0.
    pub counts: BTreeMap<String, u64>,
    pub total: u64,
    pub unit: Unit,
}

impl Stacks {
    /// The total with its unit: `1,234 samples`, or a time.
    pub fn total_text(&self) -> String {
        match self.unit {
            Unit::Samples => format!("{} samples", grouped(self.total)),
            Unit::Nanoseconds => duration(self.total),
            Unit::Bytes => bytes(self.total),
        }
    }
}

/// Unit of a profile's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Samples, or the tool's own unit.
    #[default]
    Samples,
    /// Nanoseconds, as in off-CPU profiles.
    Nanoseconds,
    /// Bytes, as in heap profiles.
    Bytes,
}

/// How to compare profiles of different sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scaling {
    /// Scale the first profile to the total of the second: compares shares.
    #[default]
    ToAfter,
    /// Compare absolute counts.
    None,
}

/// Why two profiles could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error("{name}: {source}")]
    Unpack { name: String, source: UnpackError },
    #[error("{name}:{line}: expected `frame;frame;frame count`, found {text:?}")]
    Line { name: String, line: usize, text: String },
    #[error("{name}: neither collapsed stacks nor a pprof profile: {source}")]
    Pprof { name: String, source: prost::DecodeError },
    #[error("{name}: {source}")]
    Side { name: String, source: ReadError },
    #[error("{before} and {after}: {source}")]
    Compare { before: String, after: String, source: ReadError },
    #[error("{name}: {source}")]
    Dangling { name: String, source: Dangling },
    #[error(
        "{name}: holds no samples, so there is nothing to compare; profile it again for longer"
    )]
    NoSamples { name: String },
    #[error("{name}: the counts add up to more than {TOTAL_MAX}; are they samples?")]
    Overflow { name: String },
    #[error("writing the flame graph failed: {0}")]
    Io(#[from] io::Error),
}

/// Reads collapsed stacks or pprof, gzip'd or not.
///
/// Detects the format from the bytes, unless `name` ends in `.folded`.
pub fn read_stacks(name: &str, bytes: &[u8]) -> Result<Stacks, DiffError> {
    let bytes = unpacked(bytes, BYTES_MAX);
    let bytes = bytes.map_err(|source| DiffError::Unpack { name: name.to_owned(), source })?;
    let bytes = &*bytes;
    let (counts, unit) = if name.ends_with(".folded") || is_text(bytes) {
        let counts = folded::read(name, bytes)?;
        let unit = folded::unit(&counts);
        (counts, unit)
    } else {
        pprof::read(name, bytes)?
    };
    if counts.is_empty() {
        return Err(DiffError::NoSamples { name: name.to_owned() });
    }
    let total = counts.values().try_fold(0_u64, |sum, &count| sum.checked_add(count));
    match total {
        Some(total) if total <= TOTAL_MAX => {
            Ok(Stacks { name: name.to_owned(), counts, total, unit })
        }
        _ => Err(DiffError::Overflow { name: name.to_owned() }),
    }
}

/// Whether these are collapsed stacks.
fn is_collapsed(name: &str, bytes: &[u8]) -> Result<bool, DiffError> {
    let bytes = unpacked(bytes, BYTES_MAX);
    let bytes = bytes.map_err(|source| DiffError::Unpack { name: name.to_owned(), source })?;
    Ok(name.ends_with(".folded") || is_text(&bytes))
}

/// Protobuf tags and lengths are control characters, which text does not have.
fn is_text(bytes: &[u8]) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_plain))
}

/// Draws the flame graph of `after`, coloured by the change since `before`.
pub fn differential_svg(
    before: &Stacks,
    after: &Stacks,
    scaling: Scaling,
    writer: &mut dyn Write,
) -> Result<(), DiffError> {
    for stacks in [before, after] {
        if stacks.total == 0 {
            return Err(DiffError::NoSamples { name: stacks.name.clone() });
        }
    }
    let mut options = Options::default();
    options.title = title(&format!("wingbeat diff: {} → {}", before.name, after.name));
    options.subtitle = Some(legend(before, after, scaling));
    options.no_sort = true;
    match after.unit {
        Unit::Samples => {}
        Unit::Nanoseconds => options.count_name = "ns".to_owned(),
        Unit::Bytes => options.count_name = "bytes".to_owned(),
    }
    let lines = paired(before, after, scaling);
    flamegraph::from_lines(&mut options, lines.lines(), BufWriter::new(writer))?;
    Ok(())
}

/// One line for each stack in either profile: `stack before after`, sorted.
fn paired(before: &Stacks, after: &Stacks, scaling: Scaling) -> String {
    let mut pairs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (stack, &count) in &before.counts {
        pairs.entry(stack).or_default().0 = scaled(count, before.total, after.total, scaling);
    }
    for (stack, &count) in &after.counts {
        pairs.entry(stack).or_default().1 = count;
    }
    let mut lines = String::new();
    for (stack, (before, after)) in pairs {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{stack} {before} {after}");
    }
    lines
}

/// Scales `count` of `total_before` to `total_after`, rounded to the nearest integer.
fn scaled(count: u64, total_before: u64, total_after: u64, scaling: Scaling) -> u64 {
    match scaling {
        Scaling::None => count,
        Scaling::ToAfter => {
            let (count, before) = (u128::from(count), u128::from(total_before.max(1)));
            let scaled = (count * u128::from(total_after) + before / 2) / before;
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
    }
}

/// Explains the colours and what the graph cannot show: removed stacks have no width.
fn legend(before: &Stacks, after: &Stacks, scaling: Scaling) -> String {
    let gone: u64 = before
        .counts
        .iter()
        .filter(|(stack, _)| !after.counts.contains_key(*stack))
        .map(|(_, count)| count)
        .sum();
    let scaled = match scaling {
        Scaling::ToAfter if before.total != after.total => ", scaled to compare",
        _ => "",
    };
    format!(
        "red grew, blue shrank (self); {}{scaled}; {:.1} % of the first are in stacks that are gone",
        totals(before, after),
        100.0 * gone as f64 / before.total as f64,
    )
}

fn totals(before: &Stacks, after: &Stacks) -> String {
    if (before.unit, after.unit) == (Unit::Samples, Unit::Samples) {
        return format!("{} → {} samples", grouped(before.total), grouped(after.total));
    }
    format!("{} → {}", before.total_text(), after.total_text())
}

#[cfg(test)]
mod tests;
