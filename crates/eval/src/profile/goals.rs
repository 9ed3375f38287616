//! What wingbeat is to reach beside its peers, and whether it did. Pure: a record in, verdicts out.

use super::{
    Mode,
    figures::{Growth, Metric, Place, difference, ratio, share_of_slowdown},
    record::{Agreement, Record, Sum},
    tools::{PERF, SAMPLY, WINGBEAT},
};
use crate::{numbers::Spread, table::NONE};

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
pub(super) enum Bound {
    AtMost(f64),
    /// No further from 1 than this.
    NearOne(f64),
}

use Bound::{AtMost, NearOne};

impl Bound {
    fn judge(self, spread: Spread) -> Verdict {
        let (least, most) = match self {
            AtMost(most) => (f64::NEG_INFINITY, most),
            NearOne(margin) => (1.0 - margin, 1.0 + margin),
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
            AtMost(_) => spread.median,
            NearOne(_) => (spread.median - 1.0).abs(),
        }
    }
}

/// How a goal's figure is written: a factor, places, and the unit.
pub(super) type Unit = (f64, usize, &'static str);

const RATIO: Unit = (1.0, 3, "");
const POINTS: Unit = (100.0, 1, " points");
const PERCENT: Unit = (100.0, 2, " %");
const BYTES: Unit = (1.0, 0, "");

/// A goal with its figure, from the place where it is worst.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal {
    pub(super) what: &'static str,
    pub(super) bound: Bound,
    pub(super) unit: Unit,
    pub(super) place: String,
    /// `None` when nothing was measured.
    pub(super) figure: Option<Spread>,
}

impl Goal {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Some(self.bound.judge(self.figure?))
    }

    pub(super) fn bound(&self) -> String {
        let (factor, _, unit) = self.unit;
        match self.bound {
            AtMost(most) => format!("at most {}{unit}", most * factor),
            NearOne(margin) => format!("{} to {}", 1.0 - margin, 1.0 + margin),
        }
    }
}

pub(super) fn all(record: &Record, mode: Mode) -> Vec<Goal> {
    match mode {
        Mode::OnCpu => on_cpu(record),
        Mode::OffCpu => off_cpu(record),
    }
}

fn on_cpu(record: &Record) -> Vec<Goal> {
    let places = record.places();
    let at_places = |figure: &dyn Fn(Place<'_>) -> Option<Spread>| -> Vec<_> {
        let taken = places.iter().filter_map(|&place| Some((figure(place)?, place)));
        taken.map(|(s, p)| (s, format!("{}, {} Hz", p.workload, p.frequency_hz))).collect()
    };
    let of_growth = |peer: &str, part: fn(&Growth) -> f64| -> Vec<(Spread, String)> {
        let Some(pair) = record.growth_pair() else { return Vec::new() };
        let of_workload = |workload: &str| {
            let [ours, theirs] = [WINGBEAT, peer].map(|tool| record.growth(tool, workload, pair));
            Some((Growth::ratio(&ours, &theirs, part)?, workload.to_owned()))
        };
        record.workloads().into_iter().filter_map(of_workload).collect()
    };
    let pair = (WINGBEAT, PERF);
    let rate = at_places(&|place| record.spread(Metric::Rate, WINGBEAT, place));
    let rate_perf = at_places(&|place| record.paired(Metric::Rate, pair, place, ratio));
    // perf counts from the start of each process, and drops the begun period at its end: half a
    // sample per process, which on short-lived ones is more than the goal's 1 %.
    let (rate_forks, rate_perf): (Vec<_>, Vec<_>) =
        rate_perf.into_iter().partition(|(_, place)| place.starts_with("forks"));
    let slowdown = at_places(&|place| record.paired(Metric::Slowdown, pair, place, difference));
    let finish = at_places(&|place| record.paired(Metric::Finish, pair, place, ratio));
    let mut bytes = at_places(&|place| record.spread(Metric::Bytes, WINGBEAT, place));
    bytes.retain(|(_, place)| place.starts_with("deep-26"));
    let goal = |what, bound, unit, candidates| {
        let worst = worst(bound, candidates);
        let place = worst.as_ref().map_or(NONE, |(_, place)| place).to_owned();
        Goal { what, bound, unit, place, figure: worst.map(|(figure, _)| figure) }
    };
    let slope = |peer| of_growth(peer, |growth| growth.slope_us);
    let fixed = of_growth(PERF, |growth| growth.fixed_s);
    vec![
        goal("samples per CPU second ÷ frequency", NearOne(0.01), RATIO, rate),
        goal("the same ÷ perf's", NearOne(0.01), RATIO, rate_perf),
        goal("the same ÷ perf's, on forks", NearOne(0.01), RATIO, rate_forks),
        goal("own CPU per sample ÷ perf's chain's", AtMost(0.2), RATIO, slope(PERF)),
        goal("own CPU per sample ÷ samply's", AtMost(0.5), RATIO, slope(SAMPLY)),
        goal("fixed own CPU ÷ perf's chain's", AtMost(1.0), RATIO, fixed),
        goal("slowdown − perf's", AtMost(0.0), POINTS, slowdown),
        goal("bytes per sample of 26 frames", AtMost(350.0), BYTES, bytes),
        goal("target's end to file ÷ perf's chain's", AtMost(1.0), RATIO, finish),
    ]
}

fn off_cpu(record: &Record) -> Vec<Goal> {
    let pair = (WINGBEAT, PERF);
    // wingbeat's share of what perf costs; and more slowdown than this is to be explained.
    let (share, slowdown_max, gap_max) = (AtMost(0.5), AtMost(0.2), AtMost(0.01));
    let mut goals = Vec::new();
    let counts = |place: &Place<'_>| record.spread_alone(Metric::SwitchPace, *place).is_some();
    for place in record.places().into_iter().filter(counts) {
        let mut goal = |what, bound, unit, figure: Option<Spread>| {
            goals.push(Goal { what, bound, unit, place: place.workload.to_owned(), figure });
        };
        let slowdown = record.paired(Metric::RoundSlowdown, pair, place, share_of_slowdown);
        goal("slowdown ÷ perf's", share, RATIO, slowdown);
        let own = record.paired(Metric::ChainPerSwitch, pair, place, ratio);
        goal("own CPU per switch ÷ perf's with perf script", share, RATIO, own);
        let own = record.paired(Metric::OwnPerSwitch, pair, place, ratio);
        goal("own CPU per switch ÷ perf record's alone", share, RATIO, own);
        let slowdown = record.spread(Metric::RoundSlowdown, WINGBEAT, place);
        goal("slowdown", slowdown_max, PERCENT, slowdown);
    }
    let worst_sum = |what, sums: fn(&Agreement) -> &[Sum]| {
        let worst = record.agreements.iter().filter_map(|agreement| {
            let gaps = sums(agreement).iter().filter_map(Sum::gap);
            gaps.map(f64::abs).max_by(f64::total_cmp)
        });
        let (place, figure) = ("sleepy, the worst".to_owned(), Spread::of(worst));
        Goal { what, bound: gap_max, unit: PERCENT, place, figure }
    };
    goals.push(worst_sum("sums per thread: difference from perf's", |both| &both.threads));
    goals.push(worst_sum("sums per function: difference from perf's", |both| &both.functions));
    goals
}

fn worst(bound: Bound, candidates: Vec<(Spread, String)>) -> Option<(Spread, String)> {
    let rank = |spread: Spread| (bound.judge(spread), bound.badness(spread));
    candidates.into_iter().max_by(|(a, _), (b, _)| {
        let ((a, a_bad), (b, b_bad)) = (rank(*a), rank(*b));
        a.cmp(&b).then(a_bad.total_cmp(&b_bad))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::figures::tests::off_cpu, *};

    #[test]
    fn verdicts() {
        let check = |bound: Bound, (min, median, max), expected| {
            let spread = Spread { median, min, max };
            assert_eq!(bound.judge(spread), expected, "{spread:?} {bound:?}");
        };
        check(AtMost(0.2), (0.1, 0.19, 0.4), Verdict::Reached);
        check(AtMost(0.2), (0.1, 0.21, 0.4), Verdict::Unclear);
        check(AtMost(0.2), (0.21, 0.3, 0.4), Verdict::Missed);
        check(NearOne(0.01), (0.9, 1.01, 1.2), Verdict::Reached);
        check(NearOne(0.01), (0.95, 0.98, 0.995), Verdict::Unclear);
        check(NearOne(0.01), (1.02, 1.03, 1.04), Verdict::Missed);
        check(NearOne(0.01), (0.95, 0.96, 0.98), Verdict::Missed);
    }

    #[test]
    fn the_worst_place_counts() {
        let spread = |median| Spread { median, min: median, max: median };
        let candidates = vec![
            (spread(0.5), "a".to_owned()),
            (spread(1.5), "b".to_owned()),
            (Spread { median: 1.6, min: 0.9, max: 2.0 }, "c".to_owned()),
        ];
        let found = worst(AtMost(1.0), candidates).map(|(_, place)| place);
        assert_eq!(found.as_deref(), Some("b"));
        assert_eq!(worst(AtMost(1.0), Vec::new()), None);
    }

    #[test]
    fn goals_off_the_cpu_are_judged_round_by_round() {
        let goals = all(&off_cpu(), Mode::OffCpu);
        let found: Vec<_> = goals.iter().map(|goal| (goal.what, goal.verdict())).collect();
        let expected = [
            // 0.25 and 1
            ("slowdown ÷ perf's", Some(Verdict::Unclear)),
            // 0.2 and 0.8
            ("own CPU per switch ÷ perf's with perf script", Some(Verdict::Reached)),
            ("own CPU per switch ÷ perf record's alone", Some(Verdict::Reached)),
            ("slowdown", Some(Verdict::Missed)),
            ("sums per thread: difference from perf's", Some(Verdict::Reached)),
            ("sums per function: difference from perf's", Some(Verdict::Missed)),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            goals.iter().map(Goal::bound).collect::<Vec<_>>()[2..4],
            ["at most 0.5", "at most 20 %"]
        );
    }

    #[test]
    fn nothing_measured_is_no_verdict() {
        for (mode, count) in [(Mode::OnCpu, 9), (Mode::OffCpu, 2)] {
            let nothing = all(&Record::default(), mode);
            assert_eq!(nothing.len(), count);
            assert!(nothing.iter().all(|goal| goal.verdict().is_none()), "{nothing:?}");
        }
        let bounds: Vec<_> = all(&Record::default(), Mode::OnCpu).iter().map(Goal::bound).collect();
        assert_eq!(bounds[..1], ["0.99 to 1.01"]);
        assert_eq!(bounds[6..8], ["at most 0 points", "at most 350"]);
    }
}
