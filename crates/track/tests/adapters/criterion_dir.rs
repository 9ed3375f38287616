//! Samples of `target/criterion` are added to the latencies of the same run's output.

use std::{fs, path::Path};

use wingbeat_track::adapter::{Adapter, criterion_dir};

#[test]
fn samples_of_criterion_0_8() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapters/rust/golden");
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
