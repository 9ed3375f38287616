//! Criterion's raw samples, from `target/criterion/**/new`, added to its printed results.
//!
//! All file access is up to the caller. It takes the time before it starts the benchmarks, lists `target/criterion`
//! after they have ended, asks [`written_since`] for the folders of this run, reads three files of each, and passes
//! them to [`read`] and [`merge`]. Folders of older runs are there as well, and a filtered run writes only some.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::Deserialize;

use crate::model::Results;

/// The files of a folder `new`. All of them must be from this run.
pub const FILES: [&str; 3] = ["benchmark.json", "estimates.json", "sample.json"];

/// Maximum relative difference between a printed time and its estimate: five digits are printed.
const ROUNDING: f64 = 1e-4;

#[derive(Debug, Clone, PartialEq)]
pub struct CriterionSamples {
    /// The name as printed: Criterion truncates it after 100 bytes.
    pub title: String,
    /// Time per iteration by sample, in units of the measurement: nanoseconds for times.
    pub samples: Vec<f64>,
    /// The printed estimate: the slope, or the mean if all samples have the same length.
    pub estimate: f64,
    pub lower: f64,
    pub upper: f64,
}

#[derive(Deserialize)]
struct Benchmark {
    title: String,
}

#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
    slope: Option<Estimate>,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

/// The folders `…/new` whose [`FILES`] were all written at `since` or later, sorted by path. `listing` has the files
/// below `target/criterion` with their modification times.
pub fn written_since<'a>(
    listing: impl IntoIterator<Item = (&'a Path, SystemTime)>,
    since: SystemTime,
) -> Vec<PathBuf> {
    let mut written: HashMap<&Path, usize> = HashMap::new();
    for (path, modified) in listing {
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { continue };
        let is_one = folder.file_name().is_some_and(|name| name == "new")
            && FILES.iter().any(|known| file == *known);
        if is_one && modified >= since {
            *written.entry(folder).or_default() += 1;
        }
    }
    let whole = written.into_iter().filter(|(_, files)| *files == FILES.len());
    let mut folders: Vec<_> = whole.map(|(folder, _)| folder.to_path_buf()).collect();
    folders.sort_unstable();
    folders
}

/// Reads the three files of one benchmark, in the order of [`FILES`].
pub fn read(benchmark: &[u8], estimates: &[u8], sample: &[u8]) -> Result<CriterionSamples, String> {
    let Benchmark { title } = json(FILES[0], benchmark)?;
    let Estimates { mean, slope } = json(FILES[1], estimates)?;
    let Sample { iters, times } = json(FILES[2], sample)?;
    let is_sound = iters.len() == times.len() && iters.iter().all(|iterations| *iterations > 0.0);
    if !is_sound {
        return Err(format!(
            "sample.json has {} times and {} numbers of iterations; it needs as many of each, above 0",
            times.len(),
            iters.len()
        ));
    }
    let estimate = slope.unwrap_or(mean);
    Ok(CriterionSamples {
        title,
        samples: times.iter().zip(&iters).map(|(time, iterations)| time / iterations).collect(),
        estimate: estimate.point_estimate,
        lower: estimate.confidence_interval.lower_bound,
        upper: estimate.confidence_interval.upper_bound,
    })
}

fn json<'a, T: Deserialize<'a>>(file: &'static str, bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes)
        .map_err(|error| format!("{file} is not what Criterion 0.3 to 0.8 writes: {error}"))
}

/// Adds the samples to the latencies read from the output, and replaces the rounded figures by exact ones. Returns the
/// number of benchmarks that got samples. Skips benchmarks whose printed time differs, as when two programs have a
/// benchmark of the same name and the second overwrote the first's files.
pub fn merge(results: &mut Results, all: &[CriterionSamples]) -> usize {
    let by_title: HashMap<_, _> = all.iter().map(|one| (one.title.as_str(), one)).collect();
    let mut merged = 0;
    for benchmark in &mut results.benchmarks {
        let Some(found) = by_title.get(benchmark.name.as_str()) else { continue };
        let latency =
            benchmark.metrics.iter_mut().find(|(measure, _)| measure.slug.as_str() == "latency");
        let Some((_, metric)) = latency else { continue };
        let is_same = (metric.value - found.estimate).abs() <= found.estimate.abs() * ROUNDING;
        let is_finite = found.samples.iter().all(|sample| sample.is_finite());
        // A benchmark that ran twice already has samples, and these belong to neither run.
        if is_same && is_finite && metric.samples.is_empty() {
            metric.value = found.estimate;
            metric.lower_value = Some(found.lower);
            metric.upper_value = Some(found.upper);
            metric.samples.clone_from(&found.samples);
            merged += 1;
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        adapter::Adapter,
        model::{BenchmarkName, Measure, Metric},
    };

    const BENCHMARK: &[u8] =
        br#"{"group_id":"a","function_id":null,"full_id":"a/1","title":"a/1"}"#;
    const SAMPLE: &[u8] = br#"{"sampling_mode":"Linear","iters":[2.0,4.0],"times":[20.0,48.0]}"#;

    fn estimates(slope: &str) -> Vec<u8> {
        let estimate = |value: u32| {
            format!(
                "{{\"confidence_interval\":{{\"confidence_level\":0.95,\"lower_bound\":{}.5,\
                 \"upper_bound\":{value}.5}},\"point_estimate\":{value}.00001,\"standard_error\":1}}",
                value - 1
            )
        };
        let slope = if slope == "null" { slope.to_owned() } else { estimate(12) };
        format!("{{\"mean\":{},\"slope\":{slope}}}", estimate(11)).into_bytes()
    }

    fn files_of(folder: &str, seconds: [u64; 3]) -> Vec<(PathBuf, SystemTime)> {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let files = FILES.iter().zip(seconds);
        files.map(|(file, seconds)| (Path::new(folder).join(file), time(seconds))).collect()
    }

    #[test]
    fn folders_of_this_run() {
        let listing = [
            files_of("b/1/new", [10, 11, 12]),
            files_of("a/new", [12, 12, 12]),
            files_of("a/base", [12, 12, 12]),
            files_of("old/new", [9, 9, 9]),
            files_of("half/new", [9, 12, 12]),
        ]
        .concat();
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        let found =
            written_since(listing.iter().map(|(path, time)| (path.as_path(), *time)), since);
        assert_eq!(found, [Path::new("a/new"), Path::new("b/1/new")]);
    }

    #[test]
    fn the_slope_if_there_is_one() {
        let check = |slope, expected| {
            let found = read(BENCHMARK, &estimates(slope), SAMPLE).expect("samples");
            assert_eq!(
                (found.title.as_str(), found.samples.as_slice()),
                ("a/1", [10.0, 12.0].as_slice())
            );
            assert_eq!((found.lower, found.estimate, found.upper), expected);
        };
        check("null", (10.5, 11.00001, 11.5));
        check("slope", (11.5, 12.00001, 12.5));
    }

    #[test]
    fn what_is_broken() {
        let check = |benchmark: &[u8], sample: &[u8], expected: &str| {
            let error = read(benchmark, &estimates("null"), sample).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        };
        check(b"{}", SAMPLE, "benchmark.json is not what Criterion");
        check(BENCHMARK, b"{\"iters\":[1.0],\"times\":[]}", "0 times and 1 numbers of iterations");
        check(BENCHMARK, b"{\"iters\":[0.0],\"times\":[1.0]}", "above 0");
    }

    #[test]
    fn samples_go_where_the_time_is_the_same() {
        let samples = [read(BENCHMARK, &estimates("slope"), SAMPLE).expect("samples")];
        let check = |time: &str, expected: usize| {
            let text = format!("{time}\n");
            let mut results = Adapter::RustCriterion.parse(text.as_bytes(), None).expect("results");
            assert_eq!(merge(&mut results, &samples), expected, "{time}");
            let metric = &results.benchmarks[0].metrics[0].1;
            assert_eq!(metric.samples.len(), 2 * expected);
            assert_eq!(metric.value == 12.00001, expected == 1);
        };
        check("a/1   time:   [11.500 ns 12.000 ns 12.500 ns]", 1);
        check("a/1   time:   [12.500 ns 13.000 ns 13.500 ns]", 0);
        check("a/2   time:   [11.500 ns 12.000 ns 12.500 ns]", 0);
    }

    #[test]
    fn a_benchmark_that_ran_twice_keeps_its_samples() {
        let samples = [read(BENCHMARK, &estimates("slope"), SAMPLE).expect("samples")];
        let mut results = Results::default();
        for value in [11.0, 13.0] {
            let name = BenchmarkName::new("a/1").expect("a name");
            results.add(name, Measure::latency(), Metric::new(value)).expect("added");
        }
        assert_eq!(merge(&mut results, &samples), 0);
    }
}
