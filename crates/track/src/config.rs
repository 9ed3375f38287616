//! `wingbeat.toml`: settings that would otherwise be repeated on every command line.
//!
//! ```toml
//! project = "parser"
//! testbed = "ci-runner"
//! adapter = "rust_criterion"
//!
//! [auto]
//! false-alarms = 0.005     # share of reports that may hold a false verdict
//! min-change = 0.01        # 1 %
//!
//! [[measure]]              # for what the tool does not report
//! name = "p99_latency"
//! direction = "lower-is-better"
//! units = "ms"
//!
//! [[threshold]]
//! measure = "latency"
//! benchmark = "parse/*"    # optional; the most specific glob applies
//! test = "t_test"          # optional; auto
//! max-sample-size = 64
//! upper-boundary = 0.99
//! ```
//!
//! Thresholds have no other state: deleting one here disables it.

use std::{collections::HashSet, fs, io, path::Path};

use anyhow::{anyhow, bail};
use serde::Deserialize;

use crate::{
    adapter::Adapter,
    model::{
        Description, Direction, Measure, MeasureKind, MeasureName, ProjectName, TestbedName,
        Threshold, ThresholdModel, threshold::Test,
    },
    verdict::Settings,
};

pub const FILE: &str = "wingbeat.toml";

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    pub project: Option<ProjectName>,
    pub testbed: Option<TestbedName>,
    pub adapter: Option<Adapter>,
    /// Descriptions of measures, by name.
    pub measures: Vec<(MeasureName, Description)>,
    pub thresholds: Vec<Threshold>,
    pub settings: Settings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Text {
    project: Option<ProjectName>,
    testbed: Option<TestbedName>,
    adapter: Option<Adapter>,
    auto: Auto,
    measure: Vec<Described>,
    threshold: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Described {
    name: MeasureName,
    #[serde(alias = "unit")]
    units: Option<MeasureName>,
    direction: Option<Direction>,
    kind: Option<MeasureKind>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Auto {
    false_alarms: Option<f64>,
    min_change: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Rule {
    measure: MeasureName,
    benchmark: Option<String>,
    test: Option<Test>,
    min_sample_size: Option<u32>,
    max_sample_size: Option<u32>,
    window: Option<u32>,
    lower_boundary: Option<f64>,
    upper_boundary: Option<f64>,
}

impl Config {
    /// Reads the file from the folder or the nearest parent, up to the root of the git repository. Defaults if there is
    /// none.
    pub fn find(directory: &Path) -> anyhow::Result<Self> {
        for folder in directory.ancestors() {
            let path = folder.join(FILE);
            match fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => bail!("cannot read {}: {error}", path.display()),
            }
            if folder.join(".git").exists() {
                break;
            }
        }
        Ok(Self::default())
    }

    pub fn parse(text: &str, path: &Path) -> anyhow::Result<Self> {
        let malformed = |reason| anyhow!("{} is not understood: {reason}", path.display());
        let text: Text = toml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let mut settings = Settings::default();
        if let Some(share) = text.auto.false_alarms {
            if !(share > 0.0 && share < 1.0) {
                return Err(malformed(format!(
                    "false-alarms = {share} is not a share between 0 and 1"
                )));
            }
            settings.false_alarm_chance = share;
        }
        if let Some(change) = text.auto.min_change {
            if !(change >= 0.0 && change.is_finite()) {
                return Err(malformed(format!(
                    "min-change = {change} is not a share of 0 or more"
                )));
            }
            settings.change_min = change;
        }
        let measures = described(text.measure).map_err(malformed)?;
        let thresholds = text
            .threshold
            .into_iter()
            .map(|rule| {
                let model = ThresholdModel {
                    test: rule.test.unwrap_or(Test::Auto),
                    min_sample_size: rule.min_sample_size,
                    max_sample_size: rule.max_sample_size,
                    window: rule.window,
                    lower_boundary: rule.lower_boundary,
                    upper_boundary: rule.upper_boundary,
                };
                model.check().map_err(|error| anyhow!("{}: {error}", path.display()))?;
                let measure = Measure::named(rule.measure.as_str()).slug;
                Ok(Threshold { measure, benchmark: rule.benchmark, model })
            })
            .collect::<anyhow::Result<Vec<Threshold>>>()?;
        let mut known = HashSet::new();
        let second = thresholds.iter().find(|it| !known.insert((&it.measure, &it.benchmark)));
        if let Some(Threshold { measure, benchmark, .. }) = second {
            let of = benchmark.as_ref().map_or_else(String::new, |glob| format!(" of {glob:?}"));
            return Err(malformed(format!(
                "there are two thresholds for {measure}{of}, and only one could judge; remove one"
            )));
        }
        Ok(Self {
            project: text.project,
            testbed: text.testbed,
            adapter: text.adapter,
            measures,
            thresholds,
            settings,
        })
    }
}

/// Descriptions of measures, or why they are invalid.
fn described(all: Vec<Described>) -> Result<Vec<(MeasureName, Description)>, String> {
    let mut measures: Vec<(MeasureName, Description)> = Vec::new();
    for Described { name, units, direction, kind } in all {
        let description = Description { units, direction, kind };
        let (measure, factor) = description.of(name.as_str()).map_err(|error| error.to_string())?;
        if factor != 1.0 {
            let known = &measure.units;
            return Err(format!("{name} is in {known} whatever a tool prints; remove its units"));
        }
        let slug = |name: &MeasureName| Measure::named(name.as_str()).slug;
        if measures.iter().any(|(known, _)| slug(known) == slug(&name)) {
            return Err(format!(
                "there are two [[measure]] named {name}, and only one could be right; remove one"
            ));
        }
        measures.push((name, description));
    }
    Ok(measures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file() {
        let text = r#"
            project = "parser"
            adapter = "rust_criterion"
            [auto]
            min-change = 0.02
            [[threshold]]
            measure = "latency"
            benchmark = "parse/*"
            test = "t"
            upper-boundary = 0.99
            [[threshold]]
            measure = "instructions"
            [[threshold]]
            measure = "Peak_Memory"
            [[measure]]
            name = "Peak_Memory"
            direction = "lower-is-better"
            units = "MB"
        "#;
        let config = Config::parse(text, Path::new(FILE)).expect("a configuration");
        assert_eq!(config.project.as_ref().map(ProjectName::as_str), Some("parser"));
        assert_eq!(config.adapter, Some(Adapter::RustCriterion));
        assert_eq!(config.settings, Settings { change_min: 0.02, ..Settings::default() });
        let tests: Vec<_> = config.thresholds.iter().map(|it| it.model.test).collect();
        assert_eq!(tests, [Test::TTest, Test::Auto, Test::Auto]);
        assert_eq!(config.thresholds[2].measure.as_str(), "peak-memory");
        let [(name, description)] = &config.measures[..] else { panic!("{config:?}") };
        let (measure, _) = description.of(name.as_str()).expect("a measure");
        assert_eq!((&*measure.units, measure.direction), ("MB", Direction::LowerIsBetter));
    }

    #[test]
    fn what_is_wrong() {
        let check = |text, expected: &str| {
            let error = Config::parse(text, Path::new(FILE)).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("projekt = 'x'", "unknown field `projekt`");
        check("[auto]\nfalse-alarms = 2", "false-alarms = 2 is not a share");
        check("[[threshold]]\ntest = 't_test'", "missing field `measure`");
        let twice = "[[threshold]]\nmeasure = 'latency'\n[[threshold]]\nmeasure = 'latency'";
        check(twice, "two thresholds for latency, and only one could judge");
        let twice = twice.replace("'latency'", "'latency'\nbenchmark = 'a*'");
        check(&twice, "two thresholds for latency of \"a*\"");
        check("[[measure]]\nname = ''", "it is empty");
        check("[[measure]]\nname = 'a'\ndirection = 'up'", "unknown variant `up`");
        check("[[measure]]\nname = 'latency'\nunits = 'MB'", "is in nanoseconds (ns)");
        check("[[measure]]\nname = 'latency'\nunits = 'ms'", "whatever a tool prints");
        check("[[measure]]\nname = 'a'\n[[measure]]\nname = 'A'", "two [[measure]] named A");
        let t_test = "[[threshold]]\nmeasure = 'latency'\ntest = 't_test'\nupper-boundary = 99";
        check(t_test, "does not take upper_boundary = 99");
    }

    #[test]
    fn it_is_found_up_to_the_root_of_the_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).expect("made");
        fs::write(folder.path().join(FILE), "project = 'outer'").expect("written");
        let project = || Config::find(&inner).expect("read").project.map(String::from);
        assert_eq!(project().as_deref(), Some("outer"));
        fs::create_dir(folder.path().join("a/.git")).expect("made");
        assert_eq!(project(), None, "it belongs to another repository");
    }
}
