//! A year of the article's project: an XDP program that was improved, and regressed once.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::model::{
    BenchmarkName, BranchName, Environment, Measure, Metric, ProjectName, Report, Results,
    StartPoint, TestbedName,
};

/// Name, time in nanoseconds, instructions (0 for none), relative noise of the time.
const BENCHMARKS: [(&str, f64, f64, f64); 14] = [
    ("fun_xdp_v0", 41.0, 31.0, 0.004),
    ("fun_xdp_v1", 58.0, 52.0, 0.004),
    ("fun_xdp_v2", 63.0, 71.0, 0.005),
    ("fun_xdp_v3", 182.0, 402.0, 0.005),
    ("fun_xdp_v4", 66.0, 83.0, 0.005),
    ("source_addr/new_v1", 1_420.0, 9_216.0, 0.012),
    ("source_addr/new_v2", 1_950.0, 12_544.0, 0.012),
    ("source_addr/new_v3", 2_060.0, 13_056.0, 0.012),
    ("source_addr/new_v4", 2_010.0, 12_800.0, 0.012),
    ("queue/push", 88.0, 140.0, 0.02),
    ("queue/drain_1024", 96_000.0, 151_552.0, 0.015),
    ("loader/attach", 11_800_000.0, 0.0, 0.05),
    ("loader/detach", 4_100_000.0, 0.0, 0.05),
    // From a lookup to a full rebuild of the table: 30 ns to 450 ms on one axis.
    ("table/rebuild", 450e6, 0.0, 0.02),
];

/// Benchmarks that call the classifier that became slower.
const CLASSIFIERS: [&str; 3] = ["fun_xdp_v3", "source_addr/new_v3", "queue/drain_1024"];

/// Events, in days from the start.
struct Story {
    /// A newer kernel: everything on the first machine becomes slightly slower.
    kernel: i64,
    /// A lookup replaces the rebuild of the table.
    lookup: i64,
    /// The classifier becomes slower, and is fixed.
    regression: std::ops::Range<i64>,
    /// A slower queue, not fixed yet.
    queue: i64,
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Noise around 1, with a tail towards slow values.
    fn noise(&mut self, size: f64) -> f64 {
        let bell = (0..4).map(|_| self.roll()).sum::<f64>() - 2.0;
        let spike = if self.roll() < 0.004 { self.roll() * 12.0 } else { 0.0 };
        1.0 + size * (bell * 1.7 + spike)
    }
}

/// The reports, oldest first.
pub(crate) fn reports(project: &ProjectName, now: OffsetDateTime, days: i64) -> Vec<Report> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let story = Story {
        kernel: days * 35 / 100,
        lookup: days * 55 / 100,
        regression: days * 74 / 100..days * 78 / 100,
        queue: days - 4,
    };
    let first = now - Duration::days(days) - Duration::hours(1);
    let mut reports = Vec::new();
    let mut main_commit = None;
    for day in 0..=days {
        let commits = if dice.roll() < 0.3 { 2 } else { 1 };
        for part in 0..commits {
            let time = first
                + Duration::days(day)
                + Duration::hours(9 * part)
                + Duration::seconds((dice.roll() * 3000.0) as i64);
            let hash = commit(&mut dice);
            for testbed in ["ci-runner", "arm-runner"] {
                // The second machine measures once a day.
                if testbed == "arm-runner" && part > 0 {
                    continue;
                }
                let mut report = report(&mut dice, &story, (project, "main", testbed), day, time);
                report.hash = Some(hash.clone());
                reports.push(report);
            }
            main_commit = Some((hash, time));
        }
        if day % 23 == 11 || day == days - 1 {
            let branch = if day == days - 1 {
                "tidy-fibonacci".to_owned()
            } else {
                format!("feature/{day}-cleanup")
            };
            let time = first + Duration::days(day) + Duration::hours(20);
            let mut report = report(&mut dice, &story, (project, &branch, "ci-runner"), day, time);
            report.hash = Some(commit(&mut dice));
            report.start_point = main_commit.clone().map(|(hash, time)| StartPoint {
                branch: known("main"),
                hash: Some(hash),
                until: Some(time),
                max_versions: 255,
            });
            if branch == "tidy-fibonacci" {
                worsen(&mut report);
            }
            reports.push(report);
        }
    }
    reports
}

/// The newest branch has the article's regression again.
fn worsen(report: &mut Report) {
    for benchmark in report.iterations.iter_mut().flat_map(|it| &mut it.benchmarks) {
        if CLASSIFIERS.contains(&benchmark.name.as_str()) {
            for (_, metric) in &mut benchmark.metrics {
                metric.value = (metric.value * 2.6).round();
                metric.lower_value = metric.lower_value.map(|end| end * 2.6);
                metric.upper_value = metric.upper_value.map(|end| end * 2.6);
            }
        }
    }
}

fn report(
    dice: &mut Dice,
    story: &Story,
    (project, branch, testbed): (&ProjectName, &str, &str),
    day: i64,
    time: OffsetDateTime,
) -> Report {
    let is_arm = testbed == "arm-runner";
    let machine = if is_arm { 1.34 } else { 1.0 };
    let kernel = if day >= story.kernel && !is_arm { 1.02 } else { 1.0 };
    let mut results = Results::default();
    for (name, time_ns, instructions, noise) in BENCHMARKS {
        let is_slow = CLASSIFIERS.contains(&name) && story.regression.contains(&day);
        let work = match name {
            "table/rebuild" if day >= story.lookup => 30.0 / 450e6,
            "queue/push" if day >= story.queue && !is_arm => 1.19,
            _ if is_slow => 2.6,
            _ => 1.0,
        };
        let value = time_ns * machine * kernel * work * dice.noise(noise);
        let spread = value * noise * (0.6 + dice.roll());
        let metric = Metric::new(value).within(value - spread, value + spread);
        let benchmark = BenchmarkName::new(name).expect("a name");
        results.add(benchmark.clone(), Measure::latency(), metric).expect("one of each");
        if instructions > 0.0 {
            let metric = Metric::new((instructions * work).round());
            results.add(benchmark, Measure::named("instructions"), metric).expect("one of each");
        }
    }
    let uuid = Uuid::from_u128(
        ((time.unix_timestamp_nanos() / 1_000_000) as u128) << 80
            | 0x7000_8000_0000_0000_0000
            | ((dice.roll() * 1e15) as u128),
    );
    let mut report = Report::new(
        uuid,
        project.clone(),
        known(branch),
        TestbedName::new(testbed).expect("a name"),
        time,
    );
    report.end_time = time + Duration::seconds(96);
    report.iterations = vec![results];
    report.environment = environment(story, day, is_arm);
    report
}

fn environment(story: &Story, day: i64, is_arm: bool) -> Environment {
    let kernel = if day >= story.kernel && !is_arm { "Linux 6.18.44" } else { "Linux 6.12.9" };
    let cpu = if is_arm { "Neoverse-N1" } else { "AMD EPYC 7763 64-Core Processor" };
    let compiler = if day >= story.lookup { "rustc 1.95.0" } else { "rustc 1.93.1" };
    Environment {
        kernel: Some(kernel.to_owned()),
        cpu_model: Some(cpu.to_owned()),
        governor: Some("performance".to_owned()),
        cores: Some(4),
        compiler: Some(compiler.to_owned()),
        wingbeat: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Environment::default()
    }
}

fn known(branch: &str) -> BranchName {
    BranchName::new(branch).expect("a name")
}

fn commit(dice: &mut Dice) -> String {
    (0..5).map(|_| format!("{:08x}", (dice.roll() * f64::from(u32::MAX)) as u32)).collect()
}
