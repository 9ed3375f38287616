//! Why a verdict has its outcome: facts, and the one place that makes a sentence of them.

use serde::{Deserialize, Serialize};
use wingbeat_text::{exponential, fixed, grouped, plural, share};

use super::{ChangeInterval, Limit, Measure, threshold::Test};

/// Why a verdict has its outcome.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reason {
    #[serde(flatten)]
    pub kind: ReasonKind,
    /// Additions, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<ReasonNote>,
}

/// The main part of a reason. Values are in the units of the measure, changes and shares are parts of a level, and
/// distances are in spreads of the history. All numbers are finite, and commits abbreviated.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ReasonKind {
    /// The measure has no threshold.
    #[default]
    NoThreshold,
    /// The benchmark opted out of being judged.
    OptedOut,
    /// The threshold has no boundary on either side.
    NoBoundary {
        test: Test,
    },
    /// The test has no limits for this history.
    NoLimits {
        test: Test,
    },
    TooFewPoints(Shortage),
    TooFewReports(Shortage),
    WithinLimits,
    BeyondLimit {
        side: Limit,
        limit: f64,
        value: f64,
    },
    /// An exact measure has its last value.
    Same {
        commit: Option<String>,
    },
    /// An exact measure differs from its last value by less than its threshold allows.
    WithinTolerance {
        commit: Option<String>,
    },
    Differs {
        before: f64,
        difference: f64,
        commit: Option<String>,
    },
    /// No new level began recently.
    OneLevel {
        points: usize,
        /// Whether these are all points of the history.
        is_all: bool,
    },
    NewLevel {
        /// From the level before. `None` if that is 0.
        change: Option<f64>,
        /// Points at the new level, the newest included.
        points: usize,
        p: f64,
    },
    /// The value is beyond a limit, but the raw samples do not differ.
    SamplesAlike,
    FarFromLevel {
        spreads: f64,
        /// The distance from which on a value is a change.
        limit: f64,
        p: f64,
    },
    /// The newest reports deviate to the same side.
    NewestDeviate {
        reports: usize,
        /// Repeated measurements of the newest report.
        repeats: usize,
        /// Whether all values deviate, and not only most of them.
        is_all: bool,
        /// The distance of their median.
        spreads: f64,
        /// How many times better a new level explains them than spikes do.
        ratio: f64,
        p: f64,
    },
    PossibleSpike {
        spreads: f64,
        /// The largest distance that noise explains.
        limit: f64,
        spikes: usize,
        points: usize,
        repeats: usize,
    },
    Noisy {
        /// Spread of the history, as a share of its level.
        spread: f64,
        spikes: usize,
        points: usize,
    },
    /// The history is too short to judge that many metrics at once.
    TooFewForAll {
        spread: f64,
        points: usize,
        metrics: usize,
    },
    /// More than chance explains, but less than the minimum change that counts.
    BelowLeastChange {
        least: f64,
    },
    NearLevel {
        spreads: f64,
        points: usize,
        /// The distance from which on a value is a change.
        limit: f64,
        /// Whether the 95 % interval of the change excludes 0.
        is_beyond_interval: bool,
    },
    /// The report compared with has this level, too.
    LevelOfBoth,
}

/// A history that is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    pub found: usize,
    pub needed: usize,
    /// Points that do not count because another machine measured them.
    pub of_other_machines: usize,
}

/// An addition to a reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ReasonNote {
    /// A drift of the history widens the limits.
    Drift {
        change: f64,
        reports: usize,
    },
    /// Changes of the environment since the newest point of history.
    EnvironmentChanged {
        changes: Vec<String>,
    },
    /// The raw samples differ from those of the history.
    SamplesDiffer {
        p: f64,
    },
    /// The judged value is a repeated measurement.
    MeasuredAgain {
        value: f64,
    },
    /// A repeated measurement of this value was within the limits.
    NotRepeated {
        value: f64,
        repeated: f64,
    },
    /// Most benchmarks of the report moved alike.
    MovedTogether {
        benchmarks: usize,
        judged: usize,
        change: f64,
    },
    /// Beyond the side on which the threshold has no limit.
    SideWithoutLimit,
    /// An earlier commit raised the alert about this value.
    AlertOfEarlier {
        commit: String,
    },
    Interleaved(Interleaved),
}

/// A comparison with an earlier commit, measured alternately, that decided for a short history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interleaved {
    pub base: String,
    pub pairs: usize,
    pub elapsed_s: f64,
    pub is_worse: bool,
    pub change: Option<f64>,
    pub interval: Option<ChangeInterval>,
    /// The change from the history.
    pub change_from_history: f64,
}

impl From<ReasonKind> for Reason {
    fn from(kind: ReasonKind) -> Self {
        Self { kind, notes: Vec::new() }
    }
}

/// The nearest finite number, since JSON has no others.
pub(crate) fn finite(number: f64) -> f64 {
    if number.is_nan() { f64::MAX } else { number.clamp(f64::MIN, f64::MAX) }
}

impl Reason {
    /// Adds the changes of the environment, if there are any.
    pub(crate) fn with_news(mut self, news: &[String]) -> Self {
        if !news.is_empty() {
            self.notes.push(ReasonNote::EnvironmentChanged { changes: news.to_vec() });
        }
        self
    }

    /// The reason as a sentence without a capital and a full stop, with values in units of the measure.
    pub fn text(&self, measure: &Measure) -> String {
        self.notes
            .iter()
            .fold(self.kind.text(measure), |reason, note| note.added_to(reason, measure))
    }

    /// Whether the text continues the sentence "VALUE is", and names the crossed limit.
    pub(crate) fn continues_value(&self) -> bool {
        matches!(self.kind, ReasonKind::BeyondLimit { .. }) && self.text_begins_with_kind()
    }

    /// Whether the text names this limit, so that it needs no repetition.
    pub(crate) fn names_limit(&self, limit: f64) -> bool {
        match self.kind {
            ReasonKind::BeyondLimit { limit: named, .. }
            | ReasonKind::Differs { before: named, .. } => named == limit,
            _ => false,
        }
    }

    fn text_begins_with_kind(&self) -> bool {
        !self.notes.iter().any(|note| {
            matches!(
                note,
                ReasonNote::MeasuredAgain { .. }
                    | ReasonNote::MovedTogether { .. }
                    | ReasonNote::Interleaved(_)
            )
        })
    }
}

impl ReasonKind {
    fn text(&self, measure: &Measure) -> String {
        match self {
            Self::NoThreshold => "no threshold is set for this measure".to_owned(),
            Self::OptedOut => "the benchmark opted out of being judged".to_owned(),
            Self::NoBoundary { test } => {
                format!("the threshold {test} has no boundary on either side")
            }
            Self::NoLimits { test } => {
                let why = if *test == Test::LogNormal { ": a value is not above 0" } else { "" };
                format!("{test} has no limits for this history{why}")
            }
            Self::TooFewPoints(shortage) => shortage.text("points"),
            Self::TooFewReports(shortage) => shortage.text("reports"),
            Self::WithinLimits => "within the limits".to_owned(),
            Self::BeyondLimit { side, limit, value } => {
                let side = match side {
                    Limit::Lower => "below the lower",
                    Limit::Upper => "above the upper",
                };
                let scale = measure.scale(*value, Some(*limit));
                format!("{side} limit of {}", scale.with_unit(*limit))
            }
            Self::Same { commit } => format!("exactly as before{}", at(commit.as_ref())),
            Self::WithinTolerance { commit } => {
                format!("within the tolerance around the last value{}", at(commit.as_ref()))
            }
            Self::Differs { before, difference, commit } => {
                let scale = measure.scale(*before, Some(before + difference));
                let [before, by] = [*before, *difference].map(|number| scale.with_unit(number));
                format!("an exact measure that was {before}{} differs by {by}", at(commit.as_ref()))
            }
            Self::OneLevel { points, is_all } => {
                let which = if *is_all { "all" } else { "the last" };
                format!("one level over {which} {points} points; one value is not a new level")
            }
            Self::NewLevel { change, points, p } => {
                let change = change.map(|change| format!(" at {}", share::change(change)));
                format!(
                    "a new level{} since {points} points, this one included ({})",
                    change.unwrap_or_default(),
                    chance(*p)
                )
            }
            Self::SamplesAlike => {
                "the value is beyond the limit, but the raw samples of the runs do not differ so: a few \
                 wild samples made it"
                    .to_owned()
            }
            Self::FarFromLevel { spreads, limit, p } => format!(
                "{} spreads from the usual level, where {} are needed ({})",
                in_spreads(*spreads),
                in_spreads(*limit),
                chance(*p)
            ),
            Self::LevelOfBoth => "the first report has this level already".to_owned(),
            _ => self.text_about_noise(),
        }
    }

    /// The text of a kind about the noise of a history.
    fn text_about_noise(&self) -> String {
        match *self {
            Self::NewestDeviate { reports, repeats, is_all, spreads, ratio, p } => {
                let what = match (reports, repeats) {
                    (1, 1) => "measured twice, it is off".to_owned(),
                    (1, _) => format!("measured {} times, it is off", 1 + repeats),
                    (reports, _) if is_all => format!("the newest {reports} reports deviate"),
                    (reports, _) => format!("most of the newest {reports} reports deviate"),
                };
                let ratio = match ratio {
                    ratio if ratio < 1e6 => grouped(ratio as usize),
                    _ => "a million".to_owned(),
                };
                let (spreads, p) = (in_spreads(spreads), chance(p));
                format!(
                    "{what} to the same side, by {spreads} spreads in the median: a new level explains that \
                     {ratio} times better than spikes do ({p})"
                )
            }
            Self::PossibleSpike { spreads, limit, spikes, points, repeats } => {
                let why = match spikes_of(spikes, points) {
                    Some(spikes) => format!("{spikes}, so this may be one"),
                    None => format!("a history of {points} points cannot rule out a spike"),
                };
                let next = if repeats == 0 { "" } else { ", even measured again" };
                let (spreads, limit) = (in_spreads(spreads), in_spreads(limit));
                format!(
                    "{spreads} spreads from the usual level, more than the {limit} that noise explains; but \
                     {why}{next}: the next report decides"
                )
            }
            Self::Noisy { spread, spikes, points } => {
                let why = spikes_of(spikes, points).unwrap_or_else(|| {
                    let spread = share::size(spread);
                    format!("the {points} points differ by {spread} from run to run")
                });
                format!("history too noisy to judge: {why}; --confirm or more iterations")
            }
            Self::TooFewForAll { spread, points, metrics } => format!(
                "{points} points are too few to judge {} at once: they differ by {} from run to run, which \
                 does not show how rarely by more; later reports will be judged",
                plural(metrics, "metric"),
                share::size(spread)
            ),
            Self::BelowLeastChange { least } => format!(
                "more than chance explains, but below the least change that counts, {}",
                share::size(least)
            ),
            Self::NearLevel { spreads, points, limit, is_beyond_interval } => {
                // The limit is for the whole report, the interval for this metric alone.
                let apart = match is_beyond_interval {
                    true => "; by chance alone 1 in 20 intervals leaves out 0, as this one does",
                    false => "",
                };
                let (spreads, limit) = (in_spreads(spreads), in_spreads(limit));
                format!(
                    "{spreads} spreads from the level of {points} points, where {limit} would be a \
                     change{apart}"
                )
            }
            _ => String::new(),
        }
    }
}

/// How far a level drifted: `has risen by 73 % over 110 reports`.
pub fn drift_words(change: f64, reports: usize) -> String {
    let moved = if change > 0.0 { "risen" } else { "fallen" };
    format!("has {moved} by {} over {}", share::size(change.abs()), plural(reports, "report"))
}

impl Shortage {
    fn text(&self, what: &str) -> String {
        let Self { found, needed, of_other_machines } = self;
        let others = match of_other_machines {
            0 => String::new(),
            others => format!("; {others} more were measured on another machine"),
        };
        format!("history has {found} of the {needed} {what} that are needed{others}")
    }
}

impl ReasonNote {
    fn added_to(&self, reason: String, measure: &Measure) -> String {
        match self {
            Self::Drift { change, reports } => {
                format!("{reason}; it {}, which widens the limits", drift_words(*change, *reports))
            }
            Self::EnvironmentChanged { changes } => {
                format!("{reason}; new since then: {}", changes.join(", "))
            }
            Self::SamplesDiffer { p } => {
                format!("{reason}; its raw samples differ from theirs ({})", chance(*p))
            }
            Self::MeasuredAgain { value } => {
                let again = measure.scale(*value, None).with_unit(*value);
                format!("measured again it was {again}; {reason}")
            }
            Self::NotRepeated { value, repeated } => {
                let within = measure.scale(*repeated, Some(*value)).with_unit(*repeated);
                format!("{reason}; measured again it was {within}, within the limits")
            }
            Self::MovedTogether { benchmarks, judged, change } => format!(
                "moved like {benchmarks} of {judged} benchmarks, the median by {}; by itself: {reason}",
                share::change(*change)
            ),
            Self::SideWithoutLimit => format!(
                "{reason}; the threshold has no limit on this side, so this raises no alert"
            ),
            Self::AlertOfEarlier { commit } => {
                format!("{reason}; commit {commit} already raised the alert about it")
            }
            Self::Interleaved(it) => format!(
                "{}: {}; from history it was {}, but {reason}",
                it.how(),
                it.found(),
                share::change(it.change_from_history)
            ),
        }
    }
}

impl Interleaved {
    /// `measured again, alternating with 0123456789 (20 pairs of runs in 12 s)`.
    pub(crate) fn how(&self) -> String {
        let Self { base, pairs, elapsed_s, .. } = self;
        let pairs = plural(*pairs, "pair");
        format!("measured again, alternating with {base} ({pairs} of runs in {elapsed_s:.0} s)")
    }

    /// `worse, +31.0 % (99.7 % interval +29.5 to +32.6)`.
    pub(crate) fn found(&self) -> String {
        let interval = self.interval.map(|it| {
            let (confidence, lies) =
                (share::size(it.confidence), share::interval(it.lower, it.upper));
            format!(" ({confidence} interval {lies})")
        });
        let word = if self.is_worse { "worse" } else { "not worse" };
        let change = self.change.map(share::change).unwrap_or_default();
        format!("{word}, {change}{}", interval.unwrap_or_default())
    }
}

/// ` at 0123456789`; empty without a commit.
fn at(commit: Option<&String>) -> String {
    commit.map(|commit| format!(" at {commit}")).unwrap_or_default()
}

/// `3 of 20 points are spikes`; `None` without spikes.
fn spikes_of(spikes: usize, points: usize) -> Option<String> {
    match spikes {
        0 => None,
        1 => Some(format!("1 of {points} points is a spike")),
        _ => Some(format!("{spikes} of {points} points are spikes")),
    }
}

/// Larger distances, in spreads, are given as "more than".
const SPREADS_MAX: f64 = 1000.0;

/// Smaller p-values are given as "less than": the assumptions are not that accurate.
const CHANCE_MIN: f64 = 1e-9;

/// A p-value: `p = 0.002`, `p = 3e−7`, `p < 1e−9`.
fn chance(p: f64) -> String {
    match p {
        _ if p >= 0.001 => format!("p = {p:.3}"),
        _ if p >= CHANCE_MIN => format!("p = {}", exponential(p, 0)),
        _ => format!("p < {}", exponential(CHANCE_MIN, 0)),
    }
}

/// A distance in spreads, without the word: `4.2`, `less than 0.1`, `more than 1,000`.
fn in_spreads(spreads: f64) -> String {
    match spreads {
        0.0 => "0".to_owned(),
        _ if spreads < 0.05 => "less than 0.1".to_owned(),
        _ if spreads > SPREADS_MAX => format!("more than {}", fixed(SPREADS_MAX, 0)),
        _ => fixed(spreads, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances() {
        let check = |p, expected| assert_eq!(chance(p), expected);
        check(1.0, "p = 1.000");
        check(0.0021, "p = 0.002");
        check(3e-7, "p = 3e−7");
        check(1e-12, "p < 1e−9");
        check(0.0, "p < 1e−9");
    }

    #[test]
    fn distances() {
        let check = |spreads, expected| assert_eq!(in_spreads(spreads), expected);
        check(0.0, "0");
        check(0.01, "less than 0.1");
        check(4.23, "4.2");
        check(1000.0, "1,000.0");
        check(1000.1, "more than 1,000");
        check(f64::INFINITY, "more than 1,000");
    }

    #[test]
    fn reasons_go_through_json_and_keep_their_text() {
        let (spreads, limit) = (finite(f64::INFINITY), 4.0);
        let kinds = [
            ReasonKind::NoThreshold,
            ReasonKind::NoBoundary { test: Test::TTest },
            ReasonKind::TooFewReports(Shortage { found: 3, needed: 5, of_other_machines: 2 }),
            ReasonKind::BeyondLimit { side: Limit::Upper, limit: 21.0, value: 22.0 },
            ReasonKind::Differs { before: 55.0, difference: 1.0, commit: Some("f00".to_owned()) },
            ReasonKind::NewLevel { change: None, points: 4, p: 0.1 + 0.2 },
            ReasonKind::FarFromLevel { spreads, limit, p: 1e-300 },
        ];
        let notes = vec![
            ReasonNote::EnvironmentChanged { changes: vec!["kernel 1 → 2".to_owned()] },
            ReasonNote::SideWithoutLimit,
        ];
        let latency = Measure::latency();
        for kind in kinds {
            let reason = Reason { kind, notes: notes.clone() };
            let json = serde_json::to_string(&reason).expect("JSON");
            let read: Reason = serde_json::from_str(&json).expect(&json);
            assert_eq!((&read, read.text(&latency)), (&reason, reason.text(&latency)));
        }
    }

    #[test]
    fn notes_surround_the_reason_in_their_order() {
        let reason = Reason {
            kind: ReasonKind::BeyondLimit { side: Limit::Upper, limit: 21.0, value: 22.0 },
            notes: vec![
                ReasonNote::EnvironmentChanged { changes: vec!["kernel 1 → 2".to_owned()] },
                ReasonNote::MovedTogether { benchmarks: 5, judged: 6, change: 0.25 },
                ReasonNote::SideWithoutLimit,
            ],
        };
        assert_eq!(
            reason.text(&Measure::latency()),
            "moved like 5 of 6 benchmarks, the median by +25.0 %; by itself: above the upper limit of \
             21.00 ns; new since then: kernel 1 → 2; the threshold has no limit on this side, so this \
             raises no alert"
        );
        assert!(reason.names_limit(21.0) && !reason.names_limit(22.0));
        assert!(!reason.continues_value());
    }
}
