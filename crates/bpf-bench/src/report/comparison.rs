//! A human-readable comparison: figures of the object under test, then changes with their verdicts (`slower by 41 % (39 … 43)`).

use std::{cmp::Reverse, iter};

use wingbeat_text::{
    Block, Line, Look, Side, Span, Style, decimal, grouped, line, list, listed, plural, printable,
    row,
};

use super::{
    details,
    human::{self, one_line},
    wide_enough,
};
use crate::result::{
    CaseComparison, ChangeInterval, Comparison, Failure, MeasureComparison, PairedVerdict,
};

/// With more cases, unchanged ones are only counted.
const CASES_MAX: usize = 20;

/// Writes a comparison as tables and notes.
pub fn comparison(found: &Comparison, style: Style) -> String {
    let style = wide_enough(style);
    let mut blocks = vec![human::head(&found.report)];
    blocks.extend(human::figures(&found.report, style));
    blocks.push(changes(found, style.is_verbose));
    blocks.push(unmatched(found));
    blocks.push(human::troubles(&found.report));
    blocks.push(conclusion(found, style.width));
    wingbeat_text::human(&blocks, style)
}

const COLUMNS: [(&str, Side); 5] = [
    ("  measure", Side::Left),
    ("before", Side::Right),
    ("after", Side::Right),
    ("change", Side::Right),
    ("verdict", Side::Left),
];

fn changes(found: &Comparison, is_verbose: bool) -> Block {
    let against = printable(&found.against);
    let heading = format!("{} against {against}", printable(&found.report.object));
    let is_brief = !is_verbose && found.cases.len() > CASES_MAX;
    let cases = found.cases.iter().filter(|case| !is_brief || has_changed(case));
    let cases: Vec<&CaseComparison> = cases.collect();
    let rows = cases.iter().flat_map(|case| rows(found, case, is_verbose)).collect();
    let note = match found.cases.len() - cases.len() {
        0 if found.cases.is_empty() => Some("no case is in both".to_owned()),
        0 => None,
        left_out => Some(format!("no change seen in {}", plural(left_out, "other case"))),
    };
    Block::Section(vec![
        Block::Heading(line(heading)),
        Block::Rows(COLUMNS.to_vec(), rows),
        list(note),
    ])
}

fn has_changed(case: &CaseComparison) -> bool {
    let is_change = |measure: &MeasureComparison| {
        !matches!(measure.verdict, PairedVerdict::Same | PairedVerdict::NoChangeSeen)
    };
    case.measures.iter().any(is_change)
}

/// The rows of a case. Unchanged measures share one line, unless all are requested.
fn rows(found: &Comparison, case: &CaseComparison, is_verbose: bool) -> Vec<Vec<Line>> {
    let is_shown = |one: &&MeasureComparison| is_verbose || one.verdict != PairedVerdict::Same;
    let measures = case.measures.iter().filter(is_shown).map(|measure| {
        let threshold = if is_time(measure) { found.time_threshold } else { found.exact_threshold };
        let look = match measure.verdict {
            PairedVerdict::Worse if measure.is_beyond_threshold => Look::Bad,
            PairedVerdict::Worse => Look::Warning,
            PairedVerdict::Better => Look::Good,
            _ => Look::Plain,
        };
        let mut cells = row(cells(measure));
        cells.push(vec![Span::new(look, verdict(measure, threshold))]);
        cells
    });
    let times = |method| format!("  times: {}", details::method(method, case.reason.as_deref()));
    let note = if is_verbose { case.method.map(times) } else { same(case) };
    let name = row([printable(case.name.trim_end())]);
    iter::once(name).chain(measures).chain(note.map(|note| row([note]))).collect()
}

fn cells(measure: &MeasureComparison) -> [String; 4] {
    let (name, unit) = (printable(&measure.measure), printable(&measure.unit));
    let has_unit = name.contains(&unit);
    let name = if has_unit { format!("  {name}") } else { format!("  {name}, {unit}") };
    let change = match measure.change {
        _ if matches!(
            measure.verdict,
            PairedVerdict::Same
                | PairedVerdict::Changed
                | PairedVerdict::TooFewPairs
                | PairedVerdict::NotJudged
        ) =>
        {
            String::new()
        }
        None => "–".to_owned(),
        Some(change) => percent(change, measure.interval),
    };
    [name, value(measure, measure.before), value(measure, measure.after), change]
}

fn value(measure: &MeasureComparison, number: f64) -> String {
    decimal(number, if is_time(measure) { 1 } else { 0 })
}

/// Unchanged measures: `same: jited-size 312 bytes, …`.
fn same(case: &CaseComparison) -> Option<String> {
    let same = case.measures.iter().filter(|measure| measure.verdict == PairedVerdict::Same);
    let item = |measure: &MeasureComparison| {
        format!("{} {}", printable(&measure.measure), value(measure, measure.after))
    };
    let items: Vec<_> = same.map(item).collect();
    (!items.is_empty()).then(|| format!("  same: {}", items.join(", ")))
}

fn unmatched(found: &Comparison) -> Block {
    let text = |it: &Failure| format!("{}: {}", printable(&it.name), one_line(&it.reason));
    let lines = list(found.unmatched.iter().map(text));
    Block::under("not compared", Block::Indented(vec![lines]))
}

/// The overall result.
fn conclusion(found: &Comparison, width: usize) -> Block {
    let limits = format!(
        "(by more than {} % of time, {} % of instructions or calls)",
        decimal(found.time_threshold * 100.0, places(found.time_threshold)),
        decimal(found.exact_threshold * 100.0, places(found.exact_threshold)),
    );
    let mut worse: Vec<(&str, usize)> = Vec::new();
    for case in &found.cases {
        let beyond = case.measures.iter().filter(|measure| measure.is_beyond_threshold).count();
        if beyond > 0 {
            worse.push((&case.name, beyond));
        }
    }
    worse.sort_by_key(|(_, beyond)| Reverse(*beyond));
    let names: Vec<_> = worse.iter().map(|(name, _)| printable(name)).collect();
    let measures: usize = found.cases.iter().map(|case| case.measures.len()).sum();
    let beyond: usize = worse.iter().map(|(_, beyond)| beyond).sum();
    let text = match beyond {
        _ if measures == 0 => "nothing was compared".to_owned(),
        0 => format!("nothing is worse {limits}"),
        _ => format!(
            "worse {limits}: {} of {}, of {}",
            grouped(beyond),
            plural(measures, "measure"),
            listed(&names, width)
        ),
    };
    Block::Paragraph(vec![Span::new(if beyond > 0 { Look::Bad } else { Look::Plain }, text)])
}

/// Decimals that a threshold needs, at most two.
fn places(threshold: f64) -> usize {
    let hundredths = threshold * 10_000.0;
    let is_whole = |step: f64| (hundredths / step - (hundredths / step).round()).abs() < 1e-6;
    if is_whole(100.0) {
        0
    } else if is_whole(10.0) {
        1
    } else {
        2
    }
}

// Describes a verdict: `slower by 41 % (39 … 43)`.

/// A measure with this unit is a time.
const TIME_UNIT: &str = "ns";

/// Result of comparing a measure. `threshold` is the relevant share for measures of its kind.
fn verdict(measure: &MeasureComparison, threshold: f64) -> String {
    let text = of_verdict(measure, threshold);
    match measure.runs {
        Some(runs @ 1..) => format!("{text}; it varies, and {runs} runs of each were compared"),
        _ => text,
    }
}

fn of_verdict(measure: &MeasureComparison, threshold: f64) -> String {
    match measure.verdict {
        PairedVerdict::Same => "same".to_owned(),
        PairedVerdict::TooFewPairs => "too little was measured to decide".to_owned(),
        PairedVerdict::NotJudged => {
            "unknown: the timed runs are not like the first, which may have changed".to_owned()
        }
        PairedVerdict::Changed => "a different value, neither better nor worse".to_owned(),
        PairedVerdict::NoChangeSeen => no_change_seen(measure.interval),
        PairedVerdict::Better => changed(measure),
        PairedVerdict::Worse => match measure.change {
            Some(change) if change <= threshold => changed(measure) + ", within the threshold",
            // Figures that cannot fail a run have no interval.
            Some(_) if measure.interval.is_some() && !measure.is_beyond_threshold => {
                changed(measure) + ", perhaps within the threshold"
            }
            _ => changed(measure),
        },
    }
}

/// Whether it is a time, which is never exact.
fn is_time(measure: &MeasureComparison) -> bool {
    measure.unit == TIME_UNIT
}

fn changed(measure: &MeasureComparison) -> String {
    let is_worse = measure.verdict == PairedVerdict::Worse;
    let Some(change) = measure.change else {
        return format!("{} where there was nothing", grouped(measure.after as u64));
    };
    // "12 % less" becomes "faster by 12 %", and swaps the interval bounds.
    let sign = if is_worse { 1.0 } else { -1.0 };
    let interval = measure.interval.map(|interval| {
        let ends = (sign * interval.lower, sign * interval.upper);
        if is_worse { ends } else { (ends.1, ends.0) }
    });
    let decimals = match interval {
        Some((lower, upper)) => decimals_of(upper - lower),
        None => decimals_of(change.abs() / 10.0),
    };
    let number = |share: f64| signed(share, decimals);
    let mut text = match (is_time(measure), is_worse) {
        (true, true) => format!("slower by {} %", number(change)),
        (true, false) => format!("faster by {} %", number(-change)),
        (false, true) => format!("{} % more", number(change)),
        (false, false) => format!("{} % less", number(-change)),
    };
    match interval {
        // Not an exact change, but one in steps of the clock.
        Some((lower, upper)) if lower >= upper => text += " in every pair, to a step of the clock",
        Some((lower, upper)) => text += &format!(" ({} … {})", number(lower), number(upper)),
        None => {}
    }
    text
}

fn no_change_seen(interval: Option<ChangeInterval>) -> String {
    let Some(interval) = interval else { return "no change seen".to_owned() };
    if interval.lower >= interval.upper {
        return "no change seen: every pair gave the same time, to a step of the clock; a smaller \
                change would not have been"
            .to_owned();
    }
    let decimals = decimals_of(interval.upper - interval.lower);
    let (lower, upper) = (signed(interval.lower, decimals), signed(interval.upper, decimals));
    let seen = format!("no change seen ({lower} … {upper} %)");
    match interval.smallest_visible {
        Some(smallest) => {
            let decimals = decimals_of(smallest / 2.0);
            format!("{seen}; a change of {} % would have been", signed(smallest, decimals))
        }
        None => seen,
    }
}

/// A change in percent with its sign: `+41 %`. Shows only the decimals that are significant given
/// the interval; an exact change has about three digits.
fn percent(change: f64, interval: Option<ChangeInterval>) -> String {
    if change == 0.0 {
        return "0 %".to_owned();
    }
    let width = interval.map_or(change.abs() / 10.0, |interval| interval.upper - interval.lower);
    let text = signed(change, decimals_of(width));
    if change > 0.0 { format!("+{text} %") } else { format!("{text} %") }
}

/// A share in percent. Avoids showing zero for other values: `<0.1`, and `−0.0` for negative ones.
fn signed(share: f64, decimals: usize) -> String {
    let percent = share * 100.0;
    let text = decimal(percent.abs(), decimals);
    match (percent < 0.0, text.strip_prefix('<')) {
        (false, _) => text,
        (true, None) => format!("−{text}"),
        (true, Some(_)) => format!("−{:.decimals$}", 0.0),
    }
}

/// Significant decimals of percentages for an interval of this width: none for 4 %, one for 0.4 %.
fn decimals_of(width: f64) -> usize {
    match width.abs() * 100.0 {
        percent if percent >= 2.0 => 0,
        percent if percent >= 0.2 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_have_the_decimals_they_need() {
        let check = |threshold, expected| assert_eq!(places(threshold), expected, "{threshold}");
        check(0.0, 0);
        check(0.01, 0);
        check(0.07, 0);
        check(0.005, 1);
        check(0.0025, 2);
        check(0.00125, 2);
    }

    fn measure(unit: &str, change: Option<f64>, verdict: PairedVerdict) -> MeasureComparison {
        MeasureComparison {
            measure: "m".to_owned(),
            unit: unit.to_owned(),
            before: 0.0,
            after: 1234.0,
            change,
            interval: None,
            verdict,
            is_beyond_threshold: verdict == PairedVerdict::Worse,
            runs: None,
        }
    }

    fn time(change: f64, ends: (f64, f64), verdict: PairedVerdict) -> MeasureComparison {
        let (lower, upper) = ends;
        let interval = ChangeInterval {
            lower,
            upper,
            confidence: 0.99,
            pairs: 8,
            smallest_visible: Some(0.012),
        };
        MeasureComparison { interval: Some(interval), ..measure("ns", Some(change), verdict) }
    }

    #[test]
    fn times_are_slower_or_faster() {
        let check = |measure: MeasureComparison, expected: &str| {
            assert_eq!(verdict(&measure, 0.01), expected);
        };
        check(time(0.41, (0.391, 0.432), PairedVerdict::Worse), "slower by 41 % (39 … 43)");
        check(time(-0.12, (-0.141, -0.1), PairedVerdict::Better), "faster by 12 % (10 … 14)");
        check(time(0.12, (0.116, 0.124), PairedVerdict::Worse), "slower by 12.0 % (11.6 … 12.4)");
        check(
            time(0.003, (-0.005, 0.011), PairedVerdict::NoChangeSeen),
            "no change seen (−0.5 … 1.1 %); a change of 1.2 % would have been",
        );
        check(measure("ns", Some(0.5), PairedVerdict::NoChangeSeen), "no change seen");
        check(
            time(0.0, (0.0, 0.0), PairedVerdict::NoChangeSeen),
            "no change seen: every pair gave the same time, to a step of the clock; a smaller \
             change would not have been",
        );
        check(
            time(0.1, (0.1, 0.1), PairedVerdict::Worse),
            "slower by 10.00 % in every pair, to a step of the clock",
        );
        let worse = |change| measure("ns", Some(change), PairedVerdict::Worse);
        check(worse(0.01), "slower by 1.00 %, within the threshold");
        check(worse(0.011), "slower by 1.10 %");
        check(
            measure("ns", Some(0.5), PairedVerdict::TooFewPairs),
            "too little was measured to decide",
        );
        let unknown = verdict(&measure("ns", Some(0.5), PairedVerdict::NotJudged), 0.01);
        assert!(unknown.starts_with("unknown: "), "{unknown}");
        let within = MeasureComparison {
            is_beyond_threshold: false,
            ..time(0.004, (0.002, 0.006), PairedVerdict::Worse)
        };
        check(within, "slower by 0.4 % (0.2 … 0.6), within the threshold");
        let perhaps = MeasureComparison {
            is_beyond_threshold: false,
            ..time(0.02, (0.006, 0.034), PairedVerdict::Worse)
        };
        check(perhaps, "slower by 2 % (1 … 3), perhaps within the threshold");
    }

    #[test]
    fn what_varies_is_told() {
        let varying = |change, of: PairedVerdict| {
            let measure = MeasureComparison { runs: Some(200), ..measure("bytes", change, of) };
            verdict(&measure, 0.0)
        };
        let end = "; it varies, and 200 runs of each were compared";
        let seen = varying(Some(0.06), PairedVerdict::NoChangeSeen);
        assert_eq!(seen, format!("no change seen{end}"));
        assert_eq!(varying(Some(0.5), PairedVerdict::Worse), format!("50 % more{end}"));
    }

    #[test]
    fn exact_measures_are_more_or_less() {
        let check = |change, verdict_of, expected: &str| {
            assert_eq!(verdict(&measure("bytes", change, verdict_of), 0.0), expected);
        };
        check(Some(0.5), PairedVerdict::Worse, "50 % more");
        check(Some(-0.333), PairedVerdict::Better, "33 % less");
        check(Some(0.0123), PairedVerdict::Worse, "1.23 % more");
        check(Some(0.000_001), PairedVerdict::Worse, "<0.01 % more");
        check(Some(12.0), PairedVerdict::Worse, "1,200 % more");
        check(None, PairedVerdict::Worse, "1,234 where there was nothing");
        check(Some(0.0), PairedVerdict::Same, "same");
        check(Some(1.0), PairedVerdict::Changed, "a different value, neither better nor worse");
    }

    #[test]
    fn changes_have_signs() {
        let check = |change, expected: &str| assert_eq!(percent(change, None), expected);
        check(0.41, "+41 %");
        check(-0.12, "−12.0 %");
        check(0.0, "0 %");
        check(0.000_01, "+<0.01 %");
        check(-0.000_01, "−0.00 %");
        let faster = time(-0.12, (-0.141, -0.1), PairedVerdict::Better);
        assert_eq!(percent(-0.12, faster.interval), "−12 %");
    }
}
