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
        let flags = "--threshold-measure latency --threshold-test t_test \
                     --threshold-upper-boundary _ --threshold-measure Throughput \
                     --threshold-test percentage --threshold-upper-boundary 10%";
        let found = parse(&flags.split(' ').collect::<Vec<_>>()).expect("thresholds");
        let told: Vec<_> = found
            .iter()
            .map(|it| (it.measure.as_str(), it.model.test, it.model.upper_boundary))
            .collect();
        let expected =
            [("latency", Test::TTest, None), ("throughput", Test::Percentage, Some(0.1))];
        assert_eq!(told, expected);
    }
}
