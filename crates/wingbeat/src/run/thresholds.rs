//! Thresholds on the command line, like Bencher's: the n-th setting belongs to the n-th measure, and `_` skips one.

use std::{collections::HashSet, str::FromStr};

use anyhow::{Context as _, bail};
use wingbeat_track::model::{Measure, Threshold, ThresholdModel, threshold::Test};

use super::args::ThresholdArgs;
use crate::values::fraction;

/// Skips a setting.
const ELISION: &str = "_";

pub(super) fn thresholds(args: &ThresholdArgs) -> anyhow::Result<Vec<Threshold>> {
    let count = args.measure.len();
    let lists = [
        ("--threshold-test", &args.test),
        ("--threshold-min-sample-size", &args.min_sample_size),
        ("--threshold-max-sample-size", &args.max_sample_size),
        ("--threshold-window", &args.window),
        ("--threshold-lower-boundary", &args.lower_boundary),
        ("--threshold-upper-boundary", &args.upper_boundary),
    ];
    for (flag, values) in lists {
        if values.len() > count {
            bail!(
                "{flag} is given {} times, and --threshold-measure {count} times: the n-th value \
                 of each belongs to the n-th measure, and `_` skips one",
                values.len()
            );
        }
    }
    let mut known = HashSet::new();
    (0..count)
        .map(|index| {
            let name = &args.measure[index];
            let measure = Measure::named(name).slug;
            if !known.insert(measure.clone()) {
                bail!("--threshold-measure {measure} is given twice; a measure has one threshold");
            }
            let test = at("--threshold-test", &args.test, index)?.unwrap_or(Test::Auto);
            let model = ThresholdModel {
                test,
                min_sample_size: at(lists[1].0, lists[1].1, index)?,
                max_sample_size: at(lists[2].0, lists[2].1, index)?,
                window: at(lists[3].0, lists[3].1, index)?,
                lower_boundary: boundary(lists[4].0, lists[4].1, index, test)?,
                upper_boundary: boundary(lists[5].0, lists[5].1, index, test)?,
            };
            model.check().with_context(|| format!("--threshold-measure {name}"))?;
            Ok(Threshold { measure, benchmark: None, model })
        })
        .collect()
}

fn at<T: FromStr>(flag: &str, values: &[String], index: usize) -> anyhow::Result<Option<T>>
where
    T::Err: std::fmt::Display,
{
    match values.get(index).map(String::as_str) {
        None | Some(ELISION) => Ok(None),
        Some(text) => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(error) => bail!("{flag} {text}: {error}"),
        },
    }
}

/// A boundary, as `5%` or `0.05`, unless it is a value of the measure.
fn boundary(
    flag: &str,
    values: &[String],
    index: usize,
    test: Test,
) -> anyhow::Result<Option<f64>> {
    match values.get(index) {
        Some(text) if text.ends_with('%') && test == Test::Static => {
            bail!("{flag} {text}: the test static takes a value of the measure, not a percentage")
        }
        Some(text) if text.ends_with('%') => match fraction(text) {
            Some(share) => Ok(Some(share)),
            None => bail!("{flag} {text}: expected a number, such as 0.05 or 5%"),
        },
        _ => at(flag, values, index),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn parse(flags: &[&str]) -> anyhow::Result<Vec<Threshold>> {
        let command = ThresholdArgs::augment_args(clap::Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(flags)?;
        thresholds(&ThresholdArgs::from_arg_matches(&matches)?)
    }

    #[test]
    fn settings_belong_to_the_measure_of_their_place() {
        let flags = "--threshold-measure latency --threshold-test t \
                     --threshold-upper-boundary _ --threshold-lower-boundary 0.9 \
                     --threshold-min-sample-size 3 --threshold-window _ --threshold-measure Throughput \
                     --threshold-test percentage --threshold-upper-boundary 10% \
                     --threshold-lower-boundary _ --threshold-window 60 --threshold-measure size \
                     --threshold-test static --threshold-lower-boundary -5 \
                     --threshold-max-sample-size 7";
        let found = parse(&flags.split_whitespace().collect::<Vec<_>>()).expect("thresholds");
        let all = [
            (
                "latency",
                ThresholdModel {
                    min_sample_size: Some(3),
                    max_sample_size: Some(7),
                    ..ThresholdModel::new(Test::TTest).within(Some(0.9), None)
                },
            ),
            (
                "throughput",
                ThresholdModel {
                    window: Some(60),
                    ..ThresholdModel::new(Test::Percentage).within(None, Some(0.1))
                },
            ),
            ("size", ThresholdModel::new(Test::Static).within(Some(-5.0), None)),
        ];
        let told: Vec<_> = found.into_iter().map(|it| (it.measure, it.model)).collect();
        assert_eq!(told, all.map(|(name, model)| (Measure::named(name).slug, model)));
        let z = parse(&["--threshold-measure", "a", "--threshold-test", "z"]).expect("a threshold");
        assert_eq!(z[0].model.test, Test::ZScore);
    }

    #[test]
    fn what_is_wrong() {
        let check = |flags: &str, expected: &str| {
            let error = parse(&flags.split(' ').collect::<Vec<_>>()).expect_err(flags);
            assert!(format!("{error:#}").contains(expected), "{flags}: {error:#}");
        };
        check("--threshold-test t_test", "given 1 times, and --threshold-measure 0 times");
        let latency = |flags: &str| format!("--threshold-measure latency {flags}");
        check(
            &latency("--threshold-measure latency"),
            "--threshold-measure latency is given twice",
        );
        check(&latency("--threshold-measure Latency"), "is given twice");
        let boundary = "--threshold-test static --threshold-upper-boundary 5%";
        check(&latency(boundary), "not a percentage");
        check(&latency("--threshold-test student"), "there is no threshold test \"student\"");
        check(&latency("--threshold-window soon"), "--threshold-window soon");
        let boundary = "--threshold-test t_test --threshold-upper-boundary 1.5";
        check(&latency(boundary), "does not take upper_boundary = 1.5");
        check(&latency("--threshold-min-sample-size 1 --threshold-test iqr"), "at least 2");
    }
}
