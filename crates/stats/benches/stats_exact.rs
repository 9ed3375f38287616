//! Instruction counts of statistics under Valgrind, reproducible even on a busy machine. `cargo xtask track` fails when
//! they grow.

#[path = "support/mode.rs"]
mod mode;

use std::{hint::black_box, process::ExitCode};

use wingbeat_stats::{
    Sample,
    bootstrap::Bootstrap,
    changes::{Settings, find},
    random::Random,
    rank, student,
};

/// Points of a series, and between two steps of it.
const POINTS: usize = 2_000;
const APART: usize = 300;

fn main() -> ExitCode {
    mode::main(counted::start, || {
        bootstrap_mean(&sample(30, 1));
        mann_whitney(&sample(50, 1), &sample(50, 2));
        student_quantile();
        change_points(&steps());
    })
}

fn sample(n: usize, seed: u64) -> Sample {
    let mut random = Random::new(seed);
    Sample::new((0..n).map(|_| random.unit()).collect()).expect("finite values")
}

/// Normal noise with occasional steps of two standard deviations.
fn steps() -> Vec<f64> {
    let mut random = Random::new(POINTS as u64);
    let value = |at: usize| {
        let level = if (at / APART) % 2 == 1 { 102.0 } else { 100.0 };
        level + random.normal()
    };
    (0..POINTS).map(value).collect()
}

fn bootstrap_mean(sample: &Sample) {
    black_box(Bootstrap::default().mean(black_box(sample)));
}

fn mann_whitney(before: &Sample, after: &Sample) {
    black_box(rank::mann_whitney(black_box(before), black_box(after)));
}

fn student_quantile() {
    black_box(student::quantile(black_box(0.995), black_box(9.0)));
}

fn change_points(series: &[f64]) {
    black_box(find(black_box(series), &Settings::default()));
}

/// Each function in the form Gungraun expects: benchmarked functions take their input by value.
mod counted {
    use gungraun::{library_benchmark, library_benchmark_group, main};

    use super::{Sample, sample, steps};

    #[library_benchmark]
    #[bench::of_30(sample(30, 1))]
    fn bootstrap_mean(sample: Sample) {
        crate::bootstrap_mean(&sample);
    }

    #[library_benchmark]
    #[bench::of_50_and_50(sample(50, 1), sample(50, 2))]
    fn mann_whitney(before: Sample, after: Sample) {
        crate::mann_whitney(&before, &after);
    }

    #[library_benchmark]
    fn student_quantile() {
        crate::student_quantile();
    }

    #[library_benchmark]
    #[bench::of_2000(steps())]
    fn change_points(series: Vec<f64>) {
        crate::change_points(&series);
    }

    library_benchmark_group!(
        name = stats,
        benchmarks = [bootstrap_mean, mann_whitney, student_quantile, change_points]
    );
    main!(library_benchmark_groups = stats);

    /// Starts the runner, or the function that the runner requests.
    pub(super) fn start() {
        main();
    }
}
