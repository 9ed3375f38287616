//! Ranks the inputs of a program: by executed instructions, which are exact, and by time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    iter, ptr,
};

use wingbeat_text::{
    Paint, aligned, decimal, grouped, listed, paragraph, plural, printable, shortened,
};

use super::by_key;
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
pub(super) fn rankings(
    cases: &[Case],
    is_verbose: bool,
    paint: Paint,
    width: usize,
) -> Vec<String> {
    let ranks_max = if is_verbose { usize::MAX } else { RANKS_MAX };
    let sheet = Sheet { ranks_max, paint, width };
    let programs = by_key(cases.iter().map(|case| (case.program.as_str(), case)));
    let several = programs.into_iter().filter(|(_, own)| own.len() > 1);
    let both = several.flat_map(|(program, own)| {
        let program = shortened(&printable(program), width / 2);
        [sheet.by_count(&program, &own), sheet.by_time(&program, own)]
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

/// Style of rankings.
#[derive(Clone, Copy)]
struct Sheet {
    ranks_max: usize,
    paint: Paint,
    width: usize,
}

impl Sheet {
    /// Groups inputs with the same count: mostly they take the same path through the program.
    fn by_count(self, program: &str, cases: &[&Case]) -> Option<String> {
        let mut counts: BTreeMap<Reverse<u64>, Vec<&str>> = BTreeMap::new();
        for case in cases {
            if let Some(count) = case.counts.measured().and_then(RunCounts::exact) {
                counts.entry(Reverse(count)).or_default().push(&case.input);
            }
        }
        let (Reverse(most), _) = counts.first_key_value()?;
        let (Reverse(fewest), _) = counts.last_key_value()?;
        let mut lines = Vec::new();
        let digits = grouped(*most).len();
        for (Reverse(count), inputs) in counts.iter().take(self.ranks_max) {
            let inputs: Vec<_> = inputs.iter().map(|input| printable(input)).collect();
            let inputs = listed(&inputs, self.width.saturating_sub(digits + 4));
            let line = format!("  {}  {inputs}", aligned(&grouped(*count), digits, true));
            lines.push(line.trim_end().to_owned());
        }
        let mut below = Vec::new();
        let rest: Vec<_> = counts.values().skip(self.ranks_max).map(Vec::len).collect();
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
        Some(self.ranking(&heading, lines, &below))
    }

    fn by_time(self, program: &str, cases: Vec<&Case>) -> Option<String> {
        let count = cases.len();
        let slowest = slowest(cases).into_iter();
        let ranked: Vec<(&Latency, &Case)> =
            slowest.filter_map(|case| Some((case.latency.measured()?, case))).collect();
        let (fastest, _) = ranked.last()?;
        let heading = format!(
            "inputs of {program} by time of a run, ns; those with overlapping intervals may be in any \
         order"
        );
        let mut lines = Vec::new();
        let cells: Vec<[String; 3]> = ranked
            .iter()
            .take(self.ranks_max)
            .map(|(time, _)| {
                [time.median_ns, time.lower_ns, time.upper_ns].map(|ns| decimal(ns, 1))
            })
            .collect();
        let digits = cells.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(0);
        for (cells, (_, case)) in cells.iter().zip(&ranked) {
            let [median, lower, upper] = cells.each_ref().map(|cell| aligned(cell, digits, true));
            let figures = format!("  {median}  {lower} … {upper}  ");
            let room = self.width.saturating_sub(figures.chars().count());
            let line = figures + &shortened(&printable(&case.input), room);
            lines.push(line.trim_end().to_owned());
        }
        let mut below = Vec::new();
        let rest = ranked.len().saturating_sub(self.ranks_max);
        if rest > 0 {
            let least = decimal(fastest.median_ns, 1);
            below.push(format!("and {}, down to {least}", plural(rest, "faster one")));
        }
        let without = count - ranked.len();
        if without > 0 {
            below.push(format!("{} without a time", plural(without, "input")));
        }
        Some(self.ranking(&heading, lines, &below))
    }

    /// A heading, lines, and notes on omitted lines.
    fn ranking(self, heading: &str, lines: Vec<String>, below: &[String]) -> String {
        let heading = self.paint.bold(&paragraph(heading, 2, self.width));
        let below = below
            .iter()
            .map(|text| format!("  {}", paragraph(text, 4, self.width.saturating_sub(2))));
        let lines: Vec<_> = iter::once(heading).chain(lines).chain(below).collect();
        lines.join("\n") + "\n"
    }
}
