//! Formats the cells of a row: value, baseline, change and verdict, for the table and the comment.

use wingbeat_text::{Scale, share};

use super::row::ReportRow;
use crate::model::{Limit, Outcome};

impl ReportRow<'_> {
    pub fn value_text(&self) -> String {
        let ends = (self.metric.lower_value, self.metric.upper_value);
        self.scale().with_spread(self.metric.value, ends)
    }

    pub fn bare_value_text(&self) -> String {
        self.scale().with_unit(self.metric.value)
    }

    pub fn spread_text(&self) -> String {
        let ends = (self.metric.lower_value, self.metric.upper_value);
        self.scale().spread(self.metric.value, ends).unwrap_or_default()
    }

    pub fn baseline_text(&self) -> String {
        self.baseline().map(|baseline| self.scale().with_unit(baseline)).unwrap_or_default()
    }

    /// The crossed limit.
    pub fn limit(&self) -> Option<(Limit, f64)> {
        let verdict = self.verdict?;
        let limits = verdict.boundary.unwrap_or_default();
        let side = self.alert.map(|alert| alert.limit).or(verdict.limit)?;
        let limit = match side {
            Limit::Lower => limits.lower_limit,
            Limit::Upper => limits.upper_limit,
        };
        Some((side, limit?))
    }

    /// The crossed limit: `above 1.050 µs`.
    pub fn limit_text(&self) -> String {
        let Some((side, limit)) = self.limit() else { return String::new() };
        let word = match side {
            Limit::Lower => "below",
            Limit::Upper => "above",
        };
        let scale = self.measure.scale(self.metric.value, Some(limit));
        format!("{word} {}", scale.with_unit(limit))
    }

    /// The change alone: `+4.2 %`.
    pub fn change_text(&self) -> String {
        let change = self.verdict.and_then(|verdict| verdict.change);
        change.map(|change| share::change(change.relative)).unwrap_or_default()
    }

    /// The interval of the change: `+3.9 to +4.5`, in percent. Empty without randomness.
    pub fn interval_text(&self) -> String {
        let change = self.verdict.and_then(|verdict| verdict.change);
        let Some((lower, upper)) = change.and_then(|change| change.lower.zip(change.upper)) else {
            return String::new();
        };
        if lower == upper {
            return String::new();
        }
        share::interval(lower, upper)
    }

    /// The change with its interval: `+4.2 % (+3.9 to +4.5)`.
    pub fn change_and_interval(&self) -> String {
        match (self.change_text(), self.interval_text()) {
            (change, interval) if interval.is_empty() => change,
            (change, interval) => format!("{change} ({interval})"),
        }
    }

    /// The verdict in a word or two: `worse`, or `no change ≥ 1.3 %` if smaller ones would not have been detected.
    pub fn verdict_text(&self) -> String {
        let word = outcome_word(self.outcome());
        if self.benchmark.is_ignored && self.outcome() == Outcome::NotJudged {
            return "ignored".to_owned();
        }
        let seen = self.verdict.and_then(|verdict| verdict.smallest_visible);
        match (self.outcome(), seen, self.alert) {
            (Outcome::NoChange, Some(share), _) if share > 0.0 => {
                format!("{word} ≥ {}", share::size(share))
            }
            (_, _, Some(alert)) if !self.is_active() => format!("{word}, {}", alert.status),
            _ => word.to_owned(),
        }
    }

    fn scale(&self) -> Scale {
        self.measure.scale(self.metric.value, self.baseline())
    }
}

pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Worse => "worse",
        Outcome::Better => "better",
        Outcome::Changed => "changed",
        Outcome::MaybeWorse => "worse, spike?",
        Outcome::MaybeBetter => "better, spike?",
        Outcome::MaybeChanged => "changed, spike?",
        Outcome::NoChange => "no change",
        Outcome::TooNoisy => "too noisy",
        Outcome::MovedTogether => "moved together",
        Outcome::TooLittleHistory => "too little history",
        Outcome::NotJudged => "not judged",
    }
}
