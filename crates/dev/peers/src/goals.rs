//! What wingbeat is to reach beside its peers, and whether it did. Pure: a record in, verdicts out.

use super::{
    record::Record,
    stats::{Figures, Growth, Metric, Place, Spread},
    tools::{PERF, SAMPLY, WINGBEAT},
};

/// How it stands with a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The median is within the bound.
    Reached,
    /// The median is not, but some rounds are.
    Unclear,
    Missed,
}

/// Where a figure is to lie.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    AtMost(f64),
    /// No further from 1 than this.
    NearOne(f64),
}

impl Bound {
    fn judge(self, spread: Spread) -> Verdict {
        let (least, most) = match self {
            Self::AtMost(most) => (f64::NEG_INFINITY, most),
            Self::NearOne(margin) => (1.0 - margin, 1.0 + margin),
        };
        if (least..=most).contains(&spread.median) {
            Verdict::Reached
        } else if spread.min <= most && spread.max >= least {
            Verdict::Unclear
        } else {
            Verdict::Missed
        }
    }

    /// How bad a figure is, for finding the worst.
    fn badness(self, spread: Spread) -> f64 {
        match self {
            Self::AtMost(_) => spread.median,
            Self::NearOne(_) => (spread.median - 1.0).abs(),
        }
    }
}

/// How a goal's figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A ratio, to three places.
    Ratio,
    /// A share, as points of a percent.
    Points,
    /// A whole number of bytes.
    Bytes,
}

/// A goal with its figure, from the place where it is worst.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal {
    pub(super) what: &'static str,
    pub(super) bound: &'static str,
    pub(super) unit: Unit,
    /// The worst figure, where it was taken, and the verdict; `None` when nothing was measured.
    pub(super) worst: Option<(Spread, String, Verdict)>,
}

/// All goals of a comparison.
pub(super) fn all(record: &Record) -> Vec<Goal> {
    let figures = Figures::new(record);
    let places = places(record);
    let at_places = |figure: &dyn Fn(Place<'_>) -> Option<Spread>| -> Vec<_> {
        let taken = places.iter().filter_map(|&place| Some((figure(place)?, place)));
        taken.map(|(s, p)| (s, format!("{}, {} Hz", p.workload, p.frequency_hz))).collect()
    };
    let pair = (WINGBEAT, PERF);
    let slope_perf = growth_ratios(record, PERF, |growth| growth.slope_us);
    let slope_samply = growth_ratios(record, SAMPLY, |growth| growth.slope_us);
    let fixed_perf = growth_ratios(record, PERF, |growth| growth.fixed_s);
    let rate = at_places(&|place| figures.spread(Metric::Rate, WINGBEAT, place));
    let rate_perf = at_places(&|place| figures.ratio(Metric::Rate, pair, place));
    // perf counts from the start of each process, and drops the begun period at its end: half a
    // sample per process, which on short-lived ones is more than the goal's 1 %.
    let (rate_forks, rate_perf): (Vec<_>, Vec<_>) =
        rate_perf.into_iter().partition(|(_, place)| place.starts_with("forks"));
    let slowdown = at_places(&|place| figures.difference(Metric::Slowdown, pair, place));
    let finish = at_places(&|place| figures.ratio(Metric::Finish, pair, place));
    let mut bytes = at_places(&|place| figures.spread(Metric::Bytes, WINGBEAT, place));
    bytes.retain(|(_, place)| place.starts_with("deep-26"));
    let goal = |what, bound, unit, limit, candidates| Goal {
        what,
        bound,
        unit,
        worst: worst(limit, candidates),
    };
    use Bound::{AtMost, NearOne};
    use Unit::{Bytes, Points, Ratio};
    vec![
        goal("samples per CPU second ÷ frequency", "0.99 to 1.01", Ratio, NearOne(0.01), rate),
        goal("the same ÷ perf's", "0.99 to 1.01", Ratio, NearOne(0.01), rate_perf),
        goal("the same ÷ perf's, on forks", "0.99 to 1.01", Ratio, NearOne(0.01), rate_forks),
        goal("own CPU per sample ÷ perf's chain's", "at most 0.2", Ratio, AtMost(0.2), slope_perf),
        goal("own CPU per sample ÷ samply's", "at most 0.5", Ratio, AtMost(0.5), slope_samply),
        goal("fixed own CPU ÷ perf's chain's", "at most 1", Ratio, AtMost(1.0), fixed_perf),
        goal("slowdown − perf's", "at most 0 points", Points, AtMost(0.0), slowdown),
        goal("bytes per sample of 26 frames", "at most 350", Bytes, AtMost(350.0), bytes),
        goal("target's end to file ÷ perf's chain's", "at most 1", Ratio, AtMost(1.0), finish),
    ]
}

fn worst(bound: Bound, candidates: Vec<(Spread, String)>) -> Option<(Spread, String, Verdict)> {
    let judged = candidates.into_iter().map(|(spread, place)| (spread, place, bound.judge(spread)));
    judged.max_by(|a, b| a.2.cmp(&b.2).then(bound.badness(a.0).total_cmp(&bound.badness(b.0))))
}

/// A part of wingbeat's growth ÷ that of a peer in the same round, for each workload.
fn growth_ratios(
    record: &Record,
    peer: &str,
    part: impl Fn(&Growth) -> f64,
) -> Vec<(Spread, String)> {
    let Some(pair) = growth_pair(record) else { return Vec::new() };
    let figures = Figures::new(record);
    let of_workload = |workload: &str| {
        let ours = figures.growth(WINGBEAT, workload, pair);
        let theirs = figures.growth(peer, workload, pair);
        let ratios = ours.iter().filter_map(|our| {
            let their = theirs.iter().find(|their| their.round == our.round)?;
            Some(part(our) / part(their))
        });
        Some((Spread::of(ratios)?, workload.to_owned()))
    };
    workloads(record).into_iter().filter_map(of_workload).collect()
}

/// The two frequencies between which growth is looked at: the two highest.
pub(super) fn growth_pair(record: &Record) -> Option<(u32, u32)> {
    let mut all: Vec<u32> = record.runs.iter().map(|run| run.frequency_hz).collect();
    all.sort_unstable();
    all.dedup();
    match all[..] {
        [.., low, high] => Some((low, high)),
        _ => None,
    }
}

/// The workloads of a record, in the order in which they were run.
pub(super) fn workloads(record: &Record) -> Vec<&str> {
    let mut seen = Vec::new();
    for run in &record.unprofiled {
        if !seen.contains(&run.workload.as_str()) {
            seen.push(&run.workload);
        }
    }
    seen
}

/// Workloads and frequencies of a record, in the order in which they were run.
pub(super) fn places(record: &Record) -> Vec<Place<'_>> {
    let mut seen = Vec::new();
    for run in &record.unprofiled {
        let place = Place { workload: &run.workload, frequency_hz: run.frequency_hz };
        if !seen.contains(&place) {
            seen.push(place);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let check = |bound: Bound, (min, median, max), expected| {
            let spread = Spread { median, min, max };
            assert_eq!(bound.judge(spread), expected, "{spread:?} {bound:?}");
        };
        check(Bound::AtMost(0.2), (0.1, 0.19, 0.4), Verdict::Reached);
        check(Bound::AtMost(0.2), (0.1, 0.21, 0.4), Verdict::Unclear);
        check(Bound::AtMost(0.2), (0.21, 0.3, 0.4), Verdict::Missed);
        check(Bound::NearOne(0.01), (0.9, 1.01, 1.2), Verdict::Reached);
        check(Bound::NearOne(0.01), (0.95, 0.98, 0.995), Verdict::Unclear);
        check(Bound::NearOne(0.01), (1.02, 1.03, 1.04), Verdict::Missed);
        check(Bound::NearOne(0.01), (0.95, 0.96, 0.98), Verdict::Missed);
    }

    #[test]
    fn the_worst_place_counts() {
        let spread = |median| Spread { median, min: median, max: median };
        let candidates = vec![
            (spread(0.5), "a".to_owned()),
            (spread(1.5), "b".to_owned()),
            (Spread { median: 1.6, min: 0.9, max: 2.0 }, "c".to_owned()),
        ];
        let found = worst(Bound::AtMost(1.0), candidates);
        let found = found.map(|(_, place, verdict)| (place, verdict));
        assert_eq!(found, Some(("b".to_owned(), Verdict::Missed)));
        assert_eq!(worst(Bound::AtMost(1.0), Vec::new()), None);
    }
}
