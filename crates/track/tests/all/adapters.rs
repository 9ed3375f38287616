//! The adapters' results for the outputs in `rust/golden` and `other/golden`, and that `magic` detects the tool of
//! each, even with other text around it.
//!
//! Folders are named after adapters, and outputs after the version that wrote them; `schema` was written by hand from
//! the source of the tool. The expected result of `FILE` is in `FILE.expected`, and with a choice of average in
//! `FILE.mean.expected` or `FILE.median.expected`. `UPDATE_EXPECT=1` rewrites the expectations.

mod traps;

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use wingbeat_track::{
    adapter::{Adapter, criterion_dir},
    model::{Average, Results},
};

/// What `cargo bench` prints around the results.
const BEFORE: &str = "   Compiling magic v0.1.0 (/src)\n    Finished `bench` profile [optimized] target(s) in 9.87s\n     \
                      Running benches/b.rs (target/release/deps/b-0123456789abcdef)\nGnuplot not found, using plotters backend\n\n";

const AVERAGES: [(Option<Average>, &str); 3] = [
    (None, "expected"),
    (Some(Average::Mean), "mean.expected"),
    (Some(Average::Median), "median.expected"),
];

/// `NAME | measure = value [lower .. upper] (n samples) units` for metrics, `NAME ! reason` for failures.
fn outline(results: &Results) -> String {
    let mut text = String::new();
    for benchmark in &results.benchmarks {
        let name = &benchmark.name;
        for (measure, metric) in &benchmark.metrics {
            write!(text, "{name} | {} = {}", measure.slug, metric.value).expect("text");
            if let (Some(lower), Some(upper)) = (metric.lower_value, metric.upper_value) {
                write!(text, " [{lower} .. {upper}]").expect("text");
            }
            match metric.samples.len() {
                0 => {}
                1 => text += " (1 sample)",
                count => write!(text, " ({count} samples)").expect("text"),
            }
            let (direction, kind) = (measure.direction, measure.kind);
            writeln!(text, " {}, {direction:?}, {kind:?}", measure.units).expect("text");
        }
    }
    for failure in &results.failures {
        writeln!(text, "{} ! {}", failure.name, failure.reason).expect("text");
    }
    text
}

fn list(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
}

fn outputs() -> Vec<(Adapter, PathBuf)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/adapters");
    let mut outputs = Vec::new();
    for folder in ["rust/golden", "other/golden"].iter().flat_map(|suite| list(&tests.join(suite)))
    {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        // The folders of Criterion are not outputs.
        let Ok(adapter) = name.parse() else { continue };
        let is_output = |file: &PathBuf| {
            file.extension().is_some_and(|extension| extension != "expected" && extension != "md")
        };
        outputs.extend(list(&folder).filter(is_output).map(|file| (adapter, file)));
    }
    outputs.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    outputs
}

#[test]
fn outputs_become_what_is_expected() {
    for (adapter, file) in outputs() {
        let output = fs::read(&file).expect("an output");
        for (average, extension) in AVERAGES {
            let path = file.with_added_extension(extension);
            if average.is_some() && !path.exists() {
                continue;
            }
            let found = match adapter.parse(&output, average) {
                Ok(results) => outline(&results),
                Err(error) => format!("{error}\n"),
            };
            if env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
                fs::write(&path, &found).expect("expectation written");
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(found, expected, "UPDATE_EXPECT=1 rewrites {}", path.display());
        }
    }
}

#[test]
fn magic_finds_the_tool_of_each_output() {
    let outputs = outputs();
    for adapter in Adapter::all().filter(|one| !matches!(one, Adapter::Magic | Adapter::Json)) {
        assert!(outputs.iter().any(|output| output.0 == adapter), "no golden output of {adapter}");
    }
    for (adapter, file) in outputs {
        let output = fs::read(&file).expect("an output");
        match (adapter.parse(&output, None), Adapter::Magic.parse(&output, None)) {
            (Err(_), found) => assert!(found.is_err(), "{adapter}: {}", file.display()),
            (expected, found) => assert_eq!(found, expected, "{adapter}: {}", file.display()),
        }
    }
}

#[test]
fn what_cargo_prints_makes_no_difference() {
    let is_of_cargo = |adapter: &Adapter| adapter.name().starts_with("rust_");
    for (adapter, file) in outputs().into_iter().filter(|output| is_of_cargo(&output.0)) {
        let output = fs::read_to_string(&file).expect("an output");
        let around = format!("{BEFORE}{output}\nerror: bench failed\n");
        let found = Adapter::Magic.parse(around.as_bytes(), None);
        assert_eq!(found, adapter.parse(output.as_bytes(), None), "{}", file.display());
    }
}

#[test]
fn lines_of_windows_make_no_difference() {
    for (adapter, file) in outputs() {
        let output = fs::read_to_string(&file).expect("an output");
        let found = adapter.parse(output.replace('\n', "\r\n").as_bytes(), None);
        assert_eq!(found, adapter.parse(output.as_bytes(), None), "{}", file.display());
    }
}

/// Samples of `target/criterion` are added to the latencies of the same run's output.
#[test]
fn samples_of_criterion_0_8() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/adapters/rust/golden");
    let output = fs::read(golden.join("rust_criterion/criterion-0.8.2.txt")).expect("an output");
    let mut results = Adapter::RustCriterion.parse(&output, None).expect("results");
    let read = |folder: &str| {
        let folder = golden.join("criterion_dir").join(folder).join("new");
        let [benchmark, estimates, sample] =
            criterion_dir::FILES.map(|file| fs::read(folder.join(file)).expect("a file"));
        criterion_dir::read(&benchmark, &estimates, &sample).expect("samples")
    };
    let linear_and_flat =
        ["sum", "bytes/xor/64", "elements/slow", "a name with spaces [and brackets] time_ 1_2"];
    let samples = linear_and_flat.map(read);
    assert_eq!(criterion_dir::merge(&mut results, &samples), samples.len());
    for samples in &samples {
        let benchmark =
            results.benchmarks.iter().find(|b| b.name.as_str() == samples.title).expect("it");
        let metric = &benchmark.metrics[0].1;
        assert_eq!(metric.samples, samples.samples);
        assert_eq!(metric.value, samples.estimate);
        let (fastest, slowest) = metric
            .samples
            .iter()
            .fold((f64::MAX, 0.0_f64), |(low, high), sample| (low.min(*sample), high.max(*sample)));
        assert!(fastest <= metric.value && metric.value <= slowest, "{}", samples.title);
    }
}
