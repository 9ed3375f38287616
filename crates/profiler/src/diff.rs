//! Compares two profiles: pprof, collapsed stacks, or one of each. Bytes in; changed functions or a differential flame
//! graph out.

use std::{borrow::Cow, collections::BTreeMap, io::Write};

use anyhow::{Context as _, anyhow, bail};
use wingbeat_pprof::{
    Explanation, Flame, Medium, Metric, Request, Side, Stacks, View, compare,
    pprof::{decoded, unpacked},
};
use wingbeat_text::{bytes, duration, grouped, plural};

pub use wingbeat_pprof::pprof::BYTES_MAX;

use crate::{
    export::{
        pprof::{PROCESS_LABEL, Value},
        printable, sanitized, title,
    },
    model::State,
};

/// Largest sum of the counts of collapsed stacks: floating-point numbers are exact up to it.
const TOTAL_MAX: u64 = 1 << 53;

/// Characters of an invalid line to show in an error.
const SHOWN_CHARS_MAX: usize = 60;

/// Bytes at the beginning of an unknown file to show in an error.
const BEGINNING_BYTES: usize = 8;

/// Type and unit of counts in collapsed stacks, which do not say so.
const SAMPLES: &str = "samples count";
const TIME: &str = "time nanoseconds";
const MEMORY: &str = "memory bytes";

/// If one of these is the default sample type of a pprof profile, its collapsed stacks have it too. Otherwise they have
/// samples.
const COLLAPSED_TYPES: [(Value, &str); 4] = [
    (Value::OFF_CPU, TIME),
    (Value::WALL, TIME),
    (Value::LIVE_SPACE, MEMORY),
    (Value::GROWN, MEMORY),
];

/// How to compare profiles of different sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scaling {
    /// Scale the first profile to the total of the second: compares shares.
    #[default]
    ToAfter,
    /// Compare absolute values.
    None,
}

/// Name and content of a file. Without the suffix `.folded`, the content decides between collapsed stacks and pprof.
pub type File<'a> = (&'a str, &'a [u8]);

/// Compares the functions of two profiles, in units of their totals, and returns that unit.
pub fn functions(files: [File<'_>; 2]) -> anyhow::Result<(Explanation, String)> {
    let sides = read(files, None)?;
    let explanation = explained(files, &sides, Metric::of_totals(&sides[0], &sides[1]))?;
    Ok((explanation, sides[1].unit().to_owned()))
}

/// Draws the flame graph of the second profile, coloured by the change since the first. Returns both totals with their
/// unit.
pub fn differential_svg(
    files: [File<'_>; 2],
    scaling: Scaling,
    writer: &mut dyn Write,
) -> anyhow::Result<[String; 2]> {
    let sides = read(files, Some(PROCESS_LABEL))?;
    let [before, after] = &sides;
    let total = after.total();
    let metric = match scaling {
        Scaling::None => Metric::of_totals(before, after),
        Scaling::ToAfter => Metric { before: total, after: total, before_sd: 0.0, after_sd: 0.0 },
    };
    let explanation = explained(files, &sides, metric)?;
    let write = |value: f64| value_text(after.unit(), value);
    let totals = [write(before.total()), write(total)];
    let scaled = match scaling {
        Scaling::ToAfter if before.total() != total => ", scaled to compare",
        _ => "",
    };
    let flame = Flame::of(before, after, &explanation)
        .with_facts(format!("{} → {}{scaled}", totals[0], totals[1]));
    let title = title(&format!("wingbeat diff: {} → {}", files[0].0, files[1].0));
    let (view, medium) = (View::Difference, Medium::InteractiveFile);
    let picture = flame.draw(Request { view, medium, title: &title, search: None }, &write);
    writeln!(writer, "{}", picture.svg)
        .and_then(|()| writer.flush())
        .context("writing the flame graph failed")?;
    Ok(totals)
}

fn value_text(unit: &str, value: f64) -> String {
    match unit {
        "ns" => duration(value.round() as u64),
        "bytes" => bytes(value.round() as u64),
        "samples" => plural(value.round(), "sample"),
        _ => format!("{} {unit}", grouped(value.round())),
    }
}

fn explained(
    files: [File<'_>; 2],
    [before, after]: &[Side; 2],
    metric: Metric,
) -> anyhow::Result<Explanation> {
    let [(first, _), (second, _)] = files;
    compare(before, after, metric).map_err(|error| anyhow!("{first} and {second}: {error}"))
}

/// Reads two profiles. If either is collapsed, the other is treated as if it were too. `root` is the label of the
/// outermost frames of pprof; collapsed stacks begin with the process.
fn read(files: [File<'_>; 2], root: Option<&str>) -> anyhow::Result<[Side; 2]> {
    let [before, after] = [unpack(files[0])?, unpack(files[1])?];
    let files = [("earlier", files[0].0, &*before), ("later", files[1].0, &*after)];
    let is_collapsed =
        |(_, name, content): (_, &str, &[u8])| name.ends_with(".folded") || is_text(content);
    let is_any_collapsed = files.into_iter().any(is_collapsed);
    let read = |(side, name, content)| {
        if is_collapsed((side, name, content)) {
            return read_collapsed(name, content);
        }
        let root = if is_any_collapsed { Some(PROCESS_LABEL) } else { root };
        let stacks = read_pprof(name, content, root)?;
        if !is_any_collapsed {
            return stacks.side(side, None).map_err(|_| no_samples(name));
        }
        let (shown, kind) = collapsed_type(&stacks);
        let found = stacks.side(side, shown.as_deref()).map_err(|_| no_samples(name))?;
        Ok(found.collapsed(kind, &|name| sanitized(name).into_owned()))
    };
    let [before, after] = [read(files[0])?, read(files[1])?];
    Ok(match files.map(is_collapsed) {
        [true, false] => [of_kind(before, &after), after],
        [false, true] => {
            let after = of_kind(after, &before);
            [before, after]
        }
        _ => [before, after],
    })
}

/// Collapsed stacks with the unit of a pprof profile, unless their states show it.
fn of_kind(collapsed: Side, pprof: &Side) -> Side {
    match collapsed.kind() {
        SAMPLES => collapsed.collapsed(pprof.kind(), &str::to_owned),
        _ => collapsed,
    }
}

fn unpack((name, bytes): File<'_>) -> anyhow::Result<Cow<'_, [u8]>> {
    unpacked(bytes, BYTES_MAX).map_err(|error| anyhow!("{name}: {error}"))
}

fn no_samples(name: &str) -> anyhow::Error {
    anyhow!("{name}: holds no samples, so there is nothing to compare; profile it again for longer")
}

fn read_pprof(name: &str, content: &[u8], root: Option<&str>) -> anyhow::Result<Stacks> {
    let mut stacks = Stacks::default();
    let message = decoded(content).map_err(|_| {
        let shown = content.get(..BEGINNING_BYTES).unwrap_or(content);
        anyhow!(
            "cannot read {name} as a pprof profile: its content begins with \"{}\", as such a profile does not; give a \
             file that a profiler wrote as pprof (.pb.gz) or as collapsed stacks (.folded)",
            shown.escape_ascii(),
        )
    })?;
    let added = stacks.add_below(&message, message.sample.iter(), root);
    added.map_err(|error| anyhow!("{name}: {error}"))?;
    Ok(stacks)
}

/// The sample type that collapsed stacks of a profile would have, and its kind there.
fn collapsed_type(stacks: &Stacks) -> (Option<String>, &'static str) {
    let shown = |(value, _): &&(Value, _)| {
        value.name == stacks.shown() && stacks.types().any(|(name, unit)| value.is(name, unit))
    };
    if let Some((value, kind)) = COLLAPSED_TYPES.iter().find(shown) {
        return (Some(value.name.to_owned()), kind);
    }
    let mut names = stacks.types().map(|(name, _)| name);
    let first = names.next();
    let samples = first.into_iter().chain(names).find(|name| *name == Value::SAMPLES.name);
    (samples.or(first).map(str::to_owned), SAMPLES)
}

/// Protobuf tags and lengths are control characters, which text does not have.
fn is_text(bytes: &[u8]) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_plain))
}

/// Sums collapsed stacks, as tolerant as other tools: skips empty lines and comments, and truncates fractional counts.
pub fn read_collapsed(name: &str, bytes: &[u8]) -> anyhow::Result<Side> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let text = String::from_utf8_lossy(bytes);
    for (position, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || is_comment(line) {
            continue;
        }
        let Some((stack, count)) = parse(line) else {
            let text: String = line.chars().take(SHOWN_CHARS_MAX).collect();
            bail!(
                "cannot read {name} as collapsed stacks: line {} is {text:?}, not frames and a count \
                 (`main;work 12`); give a file that a profiler wrote as pprof (.pb.gz) or as \
                 collapsed stacks (.folded)",
                position + 1
            );
        };
        if count > 0 {
            let sum = counts.entry(printable(stack).into_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    match counts.values().try_fold(0_u64, |sum, count| sum.checked_add(*count)) {
        Some(0) => Err(no_samples(name)),
        Some(1..=TOTAL_MAX) => {
            let kind = kind_of(&counts);
            Ok(Side::of_stacks(kind, counts.iter().map(|(stack, count)| (&**stack, *count))))
        }
        _ => bail!("{name}: the counts add up to more than {TOTAL_MAX}; are they samples?"),
    }
}

/// Nanoseconds if a stack ends in an off-CPU state; the format itself has no unit.
fn kind_of(counts: &BTreeMap<String, u64>) -> &'static str {
    let has_state = |stack: &String| {
        stack.split(';').any(|frame| State::ALL.iter().any(|state| state.frame() == frame))
    };
    if counts.keys().any(has_state) { TIME } else { SAMPLES }
}

/// `# text`. A frame may begin with `#`, but without the space.
fn is_comment(line: &str) -> bool {
    let rest = line.strip_prefix('#');
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// `stack count`, split at the last space.
fn parse(line: &str) -> Option<(&str, u64)> {
    let (stack, count) = line.rsplit_once(char::is_whitespace)?;
    let (whole, fraction) = count.split_once('.').unwrap_or((count, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let stack = stack.trim_end();
    if stack.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    Some((stack, whole.parse().ok()?))
}

#[cfg(test)]
mod tests;
