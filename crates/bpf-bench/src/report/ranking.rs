//! Ranks the inputs of a program: by executed instructions, which are exact, and by time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ptr,
};

use wingbeat_text::{
    Block, Line, Side, Style, decimal, grouped, line, list, listed, plural, printable, row,
    shortened,
};

use super::{by_key, columns::intervals};
use crate::result::{Case, Latency, RunCounts};

/// Default number of ranks shown.
const RANKS_MAX: usize = 10;

/// Maximum number of inputs in the result table; with more, only the slowest is shown.
const INPUTS_MAX: usize = 20;

/// Maximum width of a program's name in a note.
const NAME_WIDTH: usize = 50;

/// Cases for the result table, in order, and a note on those left out.
pub(super) fn shown(cases: &[Case], is_verbose: bool) -> (Vec<&Case>, Vec<String>) {
    let mut kept: HashMap<&str, Vec<&Case>> = HashMap::new();
    let mut notes = Vec::new();
    for (program, own) in by_key(cases.iter().map(|case| (case.program.as_str(), case))) {
        if is_verbose || own.len() <= INPUTS_MAX {
            continue;
        }
        notes.push(format!(
            "{}: the {RANKS_MAX} slowest of {} are shown, -v shows all",
            shortened(&printable(program), NAME_WIDTH),
            plural(own.len(), "input")
        ));
        let mut ranked = slowest(own);
        ranked.truncate(RANKS_MAX);
        kept.insert(program, ranked);
    }
    let is_shown = |case: &&Case| match kept.get(case.program.as_str()) {
        Some(kept) => kept.iter().any(|kept| ptr::eq(*kept, *case)),
        None => true,
    };
    (cases.iter().filter(is_shown).collect(), notes)
}

/// Rankings of all programs with several inputs.
pub(super) fn rankings(cases: &[Case], style: Style) -> Vec<Block> {
    let ranks_max = if style.is_verbose { usize::MAX } else { RANKS_MAX };
    let programs = by_key(cases.iter().map(|case| (case.program.as_str(), case)));
    let several = programs.into_iter().filter(|(_, own)| own.len() > 1);
    let both = several.flat_map(|(program, own)| {
        let program = shortened(&printable(program), style.width / 2);
        [by_count(&program, &own, ranks_max, style.width), by_time(&program, own, ranks_max)]
    });
    both.flatten().collect()
}

/// Slowest first, missing times last; ties by higher count.
fn slowest(mut cases: Vec<&Case>) -> Vec<&Case> {
    let time = |case: &Case| case.latency.measured().map_or(-1.0, |latency| latency.median_ns);
    let count = |case: &Case| case.counts.measured().map(|counts| counts.instructions);
    cases.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| count(b).cmp(&count(a))));
    cases
}

/// Groups inputs with the same count: mostly they take the same path through the program.
fn by_count(program: &str, cases: &[&Case], ranks_max: usize, width: usize) -> Option<Block> {
    let mut counts: BTreeMap<Reverse<u64>, Vec<String>> = BTreeMap::new();
    for case in cases {
        if let Some(count) = case.counts.measured().and_then(RunCounts::exact) {
            counts.entry(Reverse(count)).or_default().push(printable(&case.input));
        }
    }
    let (Reverse(most), _) = counts.first_key_value()?;
    let (Reverse(fewest), _) = counts.last_key_value()?;
    let room = width.saturating_sub(grouped(*most).len() + 4);
    let ranked = counts.iter().take(ranks_max);
    let lines = ranked.map(|(Reverse(count), inputs)| [grouped(*count), listed(inputs, room)]);
    let mut below = Vec::new();
    let rest: Vec<_> = counts.values().skip(ranks_max).map(Vec::len).collect();
    if !rest.is_empty() {
        let counts = plural(rest.len(), "lower count");
        let inputs = plural(rest.iter().sum::<usize>(), "input");
        let fewest = grouped(*fewest);
        below.push(format!("and {counts} of {inputs}, down to {fewest}"));
    }
    let without = cases.len() - counts.values().map(Vec::len).sum::<usize>();
    if without > 0 {
        below.push(format!("{} without an exact count", plural(without, "input")));
    }
    let heading = format!("inputs of {program} by executed instructions");
    let columns = vec![("", Side::Right), ("", Side::Name)];
    Some(ranking(heading, columns, lines.map(row).collect(), below))
}

fn by_time(program: &str, cases: Vec<&Case>, ranks_max: usize) -> Option<Block> {
    let count = cases.len();
    let slowest = slowest(cases).into_iter();
    let ranked: Vec<(&Latency, &Case)> =
        slowest.filter_map(|case| Some((case.latency.measured()?, case))).collect();
    let (fastest, _) = ranked.last()?;
    let shown = &ranked[..ranks_max.min(ranked.len())];
    let cells = |of: fn(&Latency) -> f64| -> Vec<String> {
        shown.iter().map(|(time, _)| decimal(of(time), 1)).collect()
    };
    let ends = intervals(&cells(|time| time.lower_ns), &cells(|time| time.upper_ns));
    let medians = cells(|time| time.median_ns).into_iter().zip(ends);
    let lines = medians
        .zip(shown)
        .map(|((median, ends), (_, case))| row([median, ends, printable(&case.input)]));
    let mut below = Vec::new();
    let rest = ranked.len() - shown.len();
    if rest > 0 {
        let least = decimal(fastest.median_ns, 1);
        below.push(format!("and {}, down to {least}", plural(rest, "faster one")));
    }
    let without = count - ranked.len();
    if without > 0 {
        below.push(format!("{} without a time", plural(without, "input")));
    }
    let heading = format!(
        "inputs of {program} by time of a run, ns; those with overlapping intervals may be in any \
         order"
    );
    let columns = vec![("", Side::Right), ("", Side::Right), ("", Side::Name)];
    Some(ranking(heading, columns, lines.collect(), below))
}

/// A heading, ranks, and notes on omitted ones.
fn ranking(
    heading: String,
    columns: Vec<(&'static str, Side)>,
    ranks: Vec<Vec<Line>>,
    below: Vec<String>,
) -> Block {
    let inside = Block::Indented(vec![Block::Rows(columns, ranks), list(below)]);
    Block::Section(vec![Block::Heading(line(heading)), inside])
}
