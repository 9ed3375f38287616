//! A threshold: the test that decides for a measure, with its settings. Names and rules are those of Bencher;
//! `change_point` and `auto` are ours.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use super::name::Slug;

/// How to compute a boundary from history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    Static,
    /// A share of the mean.
    Percentage,
    /// Quantiles of a normal distribution.
    #[serde(alias = "z")]
    ZScore,
    /// A prediction interval by Student's t.
    #[serde(alias = "t")]
    TTest,
    /// Quantiles of a log-normal distribution.
    LogNormal,
    /// Distance from the median in quartile distances.
    Iqr,
    /// Distance from the median in quartile distances of the relative steps.
    DeltaIqr,
    /// A new level that begins with this report, or with those just before it.
    ChangePoint,
    /// The rule of docs/judging-appendix.md.
    #[default]
    Auto,
}

impl Test {
    /// All tests, in documentation order.
    pub const ALL: [Self; 9] = [
        Self::Auto,
        Self::ChangePoint,
        Self::Static,
        Self::Percentage,
        Self::ZScore,
        Self::TTest,
        Self::LogNormal,
        Self::Iqr,
        Self::DeltaIqr,
    ];

    pub fn name(self) -> &'static str {
        let place = Self::ALL.iter().position(|test| *test == self);
        place.and_then(|place| NAMES.split(", ").nth(place)).unwrap_or_default()
    }
}

const NAMES: &str =
    "auto, change_point, static, percentage, z_score, t_test, log_normal, iqr, delta_iqr";

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Test {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let name = match text {
            "z" => "z_score",
            "t" => "t_test",
            _ => text,
        };
        Self::ALL
            .into_iter()
            .find(|test| test.name() == name)
            .ok_or_else(|| ThresholdError::NoSuchTest(text.to_owned()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ThresholdModel {
    #[schema(value_type = String)]
    pub test: Test,
    /// Minimum number of reports before the test applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_sample_size: Option<u32>,
    /// Maximum number of points to use, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sample_size: Option<u32>,
    /// Maximum age of the points to use, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Setting of the lower limit. Its meaning depends on the test. `None`: no lower limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_boundary: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_boundary: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    pub measure: Slug,
    /// Glob of its benchmarks, with `*` and `?`; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<String>,
    pub model: ThresholdModel,
}

/// The threshold that applies to a metric: among those whose measure and glob match, the one with the most literal
/// characters, and among equals the last.
pub fn best_of<'a>(
    thresholds: &'a [Threshold],
    benchmark: &str,
    measure: &Slug,
) -> Option<&'a ThresholdModel> {
    let fits = |threshold: &&Threshold| {
        let glob = threshold.benchmark.as_deref();
        threshold.measure == *measure && glob.is_none_or(|glob| matches_glob(glob, benchmark))
    };
    let literal = |threshold: &&Threshold| {
        let glob = threshold.benchmark.as_deref().unwrap_or_default();
        glob.chars().filter(|c| !matches!(c, '*' | '?')).count()
    };
    let fitting = thresholds.iter().filter(fits);
    fitting.max_by_key(literal).map(|threshold| &threshold.model)
}

/// Whether a text matches a glob with `*` (any text) and `?` (any character).
pub fn matches_glob(glob: &str, text: &str) -> bool {
    WildMatch::new(glob).matches(text)
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThresholdError {
    #[error("there is no threshold test {0:?}; the tests are {NAMES}")]
    NoSuchTest(String),
    #[error("the threshold test {test} does not take {setting} = {value}: {reason}")]
    Setting { test: Test, setting: &'static str, value: f64, reason: &'static str },
}

impl ThresholdModel {
    pub fn new(test: Test) -> Self {
        Self { test, ..Self::default() }
    }

    pub fn within(self, lower: Option<f64>, upper: Option<f64>) -> Self {
        Self { lower_boundary: lower, upper_boundary: upper, ..self }
    }

    /// Most points of history that are used; `None` without a limit. `auto` and `change_point` look for changes of the
    /// level.
    pub fn points_max(&self) -> Option<usize> {
        match self.test {
            Test::Auto | Test::ChangePoint => None,
            _ => self.max_sample_size.map(|most| most as usize),
        }
    }

    /// Checks the settings by the rules of the test.
    pub fn check(&self) -> Result<(), ThresholdError> {
        let refuse = |setting, value, reason| {
            Err(ThresholdError::Setting { test: self.test, setting, value, reason })
        };
        let (least, reason) = match self.test {
            Test::Percentage | Test::Auto | Test::ChangePoint | Test::Static => (1, "at least 1"),
            _ => (2, "at least 2"),
        };
        for (setting, value, least, reason) in [
            ("min_sample_size", self.min_sample_size, least, reason),
            ("max_sample_size", self.max_sample_size, least, reason),
            ("window", self.window, 1, "at least 1 second"),
        ] {
            match value.map(f64::from) {
                Some(value) if self.test == Test::Static => {
                    return refuse(setting, value, "fixed limits need no history");
                }
                Some(value) if value < f64::from(least) => return refuse(setting, value, reason),
                _ => {}
            }
        }
        if let (Some(least), Some(most)) = (self.min_sample_size, self.max_sample_size)
            && least > most
        {
            return refuse("min_sample_size", f64::from(least), "more than max_sample_size");
        }
        let boundaries =
            [("lower_boundary", self.lower_boundary), ("upper_boundary", self.upper_boundary)];
        for (setting, boundary) in boundaries {
            let Some(boundary) = boundary else { continue };
            let (is_right, reason) = match self.test {
                Test::Static => (boundary.is_finite(), "a finite number"),
                Test::ZScore | Test::TTest | Test::LogNormal => {
                    ((0.5..1.0).contains(&boundary), "a probability, at least 0.5 and below 1")
                }
                Test::Percentage | Test::Auto | Test::ChangePoint => {
                    (boundary.is_finite() && boundary >= 0.0, "a share, 0 or more: 0.1 is 10 %")
                }
                Test::Iqr | Test::DeltaIqr => {
                    (boundary.is_finite() && boundary >= 0.0, "a multiple, 0 or more")
                }
            };
            if !is_right {
                return refuse(setting, boundary, reason);
            }
        }
        match (self.test, self.lower_boundary, self.upper_boundary) {
            (Test::Static, Some(lower), Some(upper)) if lower > upper => {
                refuse("lower_boundary", lower, "above the upper boundary")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests() {
        for test in Test::ALL {
            assert_eq!(test.name().parse(), Ok(test));
        }
        assert_eq!("t".parse(), Ok(Test::TTest));
        assert!("student".parse::<Test>().is_err());
    }

    #[test]
    fn globs() {
        let check =
            |glob, text, expected| assert_eq!(matches_glob(glob, text), expected, "{glob} {text}");
        check("*", "", true);
        check("a*c", "abbc", true);
        check("a*c", "abcd", false);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("*b*b*", "abab", true);
        check("", "", true);
        check("", "a", false);
        check("a**", "a", true);
        check("*?", "", false);
        check("*ab", "aab", true);
        check("ü?*", "üxy", true);
    }

    #[test]
    fn the_most_special_threshold_decides() {
        let threshold = |benchmark: Option<&str>, upper| Threshold {
            measure: Slug::of("latency"),
            benchmark: benchmark.map(str::to_owned),
            model: ThresholdModel::new(Test::Percentage).within(None, Some(upper)),
        };
        let thresholds = [
            threshold(Some("parse/*"), 0.2),
            threshold(None, 0.1),
            threshold(Some("parse/json*"), 0.3),
            threshold(None, 0.4),
        ];
        let check = |benchmark, measure, expected| {
            let found = best_of(&thresholds, benchmark, &Slug::of(measure));
            assert_eq!(found.and_then(|model| model.upper_boundary), expected, "{benchmark}");
        };
        check("parse/json/1", "latency", Some(0.3));
        check("parse/csv", "latency", Some(0.2));
        check("other", "latency", Some(0.4));
        check("other", "instructions", None);
    }

    #[test]
    fn settings_by_the_rules_of_the_test() {
        let check = |test, lower, upper, expected| {
            let model = ThresholdModel::new(test).within(lower, upper);
            assert_eq!(model.check().is_ok(), expected, "{test} {lower:?} {upper:?}");
        };
        check(Test::Static, Some(-5.0), Some(5.0), true);
        check(Test::Static, Some(5.0), Some(-5.0), false);
        check(Test::TTest, None, Some(0.99), true);
        check(Test::TTest, None, Some(1.0), false);
        check(Test::ZScore, Some(0.4), None, false);
        check(Test::Percentage, None, Some(0.0), true);
        check(Test::Percentage, None, Some(-0.1), false);
        check(Test::Iqr, None, Some(f64::NAN), false);
    }

    #[test]
    fn sample_sizes() {
        let check = |test, least, most, expected| {
            let mut model = ThresholdModel::new(test);
            (model.min_sample_size, model.max_sample_size) = (least, most);
            assert_eq!(model.check().is_ok(), expected, "{test} {least:?} {most:?}");
        };
        check(Test::TTest, Some(2), Some(64), true);
        check(Test::TTest, Some(1), None, false);
        check(Test::TTest, Some(65), Some(64), false);
        check(Test::Percentage, Some(1), None, true);
        check(Test::Static, Some(2), None, false);
    }
}
