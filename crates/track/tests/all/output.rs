//! Output of a run: a table, Bencher's JSON, comments.

mod comment;
mod human;
mod json;

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{
    adapter::Adapter,
    model::{threshold::Test, *},
    output::*,
};

struct Sample {
    report: Report,
    thresholds: Vec<Option<ThresholdModel>>,
    notices: Vec<Notice>,
    remarks: Vec<String>,
}

struct Case {
    benchmark: &'static str,
    measure: Measure,
    metric: Metric,
    test: Option<Test>,
    outcome: Outcome,
    baseline: Option<f64>,
    change: Option<[f64; 3]>,
    smallest_visible: Option<f64>,
    reason: Reason,
    status: Option<AlertStatus>,
}

impl Case {
    fn new(benchmark: &'static str, measure: &str, value: f64, outcome: Outcome) -> Self {
        Self {
            benchmark,
            measure: Measure::named(measure),
            metric: Metric::new(value),
            test: Some(Test::Auto),
            outcome,
            baseline: None,
            change: None,
            smallest_visible: None,
            reason: Reason::default(),
            status: None,
        }
    }
}

/// That many spreads from the usual level.
fn far(spreads: f64) -> Reason {
    ReasonKind::FarFromLevel { spreads, limit: 4.0, p: 0.0001 }.into()
}

/// The reason of a noisy metric.
fn noisy() -> Reason {
    ReasonKind::Noisy { spread: 0.4, spikes: 3, points: 9 }.into()
}

/// A reason that ends with a text of the environment.
fn new_since(change: &str) -> Reason {
    let note = ReasonNote::EnvironmentChanged { changes: vec![change.to_owned()] };
    Reason { notes: vec![note], ..far(7.5) }
}

fn benchmark(name: &str) -> BenchmarkName {
    BenchmarkName::new(name).expect("a name")
}

impl Sample {
    /// A report of one iteration with these metrics.
    fn of(cases: Vec<Case>) -> Self {
        let time = OffsetDateTime::from_unix_timestamp(1_767_225_600).expect("a time");
        let project = "Simple Profiler".parse().expect("a name");
        let (branch, testbed) = ("feature/x".parse(), "ci-runner".parse());
        let report = Report {
            hash: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
            start_point: Some(StartPoint {
                branch: "main".parse().expect("a name"),
                hash: Some("fedcba9876543210fedcba9876543210fedcba98".to_owned()),
                until: None,
                max_versions: 255,
            }),
            end_time: time + time::Duration::seconds(5),
            adapter: Adapter::RustDivan,
            environment: Environment {
                kernel: Some("Linux 6.18.44".to_owned()),
                ..Environment::default()
            },
            iterations: vec![Results::default()],
            ..Report::new(
                Uuid::from_u128(7),
                project,
                branch.expect("a name"),
                testbed.expect("a name"),
                time,
            )
        };
        let mut sample =
            Self { report, thresholds: Vec::new(), notices: Vec::new(), remarks: Vec::new() };
        for case in cases {
            sample.add(0, case);
        }
        sample
    }

    /// Adds a metric. The metrics of a benchmark must be consecutive.
    fn add(&mut self, iteration: u32, case: Case) {
        let place = usize::try_from(iteration).expect("a place");
        self.report.iterations.resize_with(place + 1, Results::default);
        let name = benchmark(case.benchmark);
        let results = &mut self.report.iterations[place];
        results.add(name.clone(), case.measure.clone(), case.metric).expect("added");
        let higher = case.measure.direction == Direction::HigherIsBetter;
        let limit = if higher { Limit::Lower } else { Limit::Upper };
        let is_beyond = matches!(case.outcome, Outcome::Worse | Outcome::Changed);
        let verdict = Verdict {
            outcome: case.outcome,
            test: case.test,
            boundary: case.baseline.map(|it| Boundary::around(it, it * 0.95, it * 1.05)),
            limit: is_beyond.then_some(limit),
            change: case.change.map(|[relative, lower, upper]| Change {
                relative,
                lower: Some(lower),
                upper: Some(upper),
            }),
            p: case.change.map(|_| 0.0001),
            smallest_visible: case.smallest_visible,
            points: 12,
            reason: case.reason,
            ..Verdict::new(iteration, name, case.measure.slug)
        };
        self.thresholds.push(case.test.map(ThresholdModel::new));
        if let Some(status) = case.status {
            let uuid = Uuid::from_u128(100 + self.report.alerts.len() as u128);
            let reason = (status != AlertStatus::Active).then(|| "known".to_owned());
            let alert = Alert { limit, status, reason, ..Alert::of(uuid, &verdict) };
            self.report.alerts.push(alert);
        }
        self.report.verdicts.push(verdict);
    }

    fn page(&self) -> Page<'_> {
        Page {
            report: &self.report,
            thresholds: &self.thresholds,
            version_number: Some(3),
            start_point_number: Some(9),
            start_point_hash: Some("89abcdef0123456789abcdef0123456789abcdef"),
            notices: &self.notices,
            remarks: &self.remarks,
            explained: &[],
            store: None,
        }
    }
}

/// One of each: worse, better, changed, unchanged, new, not judged, failed.
fn mixed() -> Sample {
    let case = Case::new;
    let mut sample = Sample::of(vec![
        Case {
            metric: Metric::new(1010.0).within(1000.0, 1020.0),
            baseline: Some(1000.0),
            change: Some([0.01, -0.005, 0.025]),
            smallest_visible: Some(0.013),
            reason: far(1.0),
            ..case("parse/small", "latency", 0.0, Outcome::NoChange)
        },
        case("parse/new", "latency", 2500.0, Outcome::TooLittleHistory),
        Case {
            metric: Metric::new(1200.0).within(1150.0, 1250.0).with_samples(vec![1150.0, 1250.0]),
            baseline: Some(1000.0),
            change: Some([0.2, 0.18, 0.22]),
            smallest_visible: Some(0.03),
            reason: far(7.5),
            status: Some(AlertStatus::Active),
            ..case("parse/large", "latency", 0.0, Outcome::Worse)
        },
        Case {
            baseline: Some(120.0),
            change: Some([0.275, 0.275, 0.275]),
            reason: ReasonKind::Differs { before: 120.0, difference: 33.0, commit: None }.into(),
            status: Some(AlertStatus::Active),
            ..case("parse/large", "instructions", 153.0, Outcome::Worse)
        },
        Case {
            baseline: Some(2e6),
            change: Some([0.5, 0.4, 0.6]),
            ..case("write", "throughput", 3e6, Outcome::Better)
        },
        Case { test: None, ..case("write", "My Score", 88.0, Outcome::NotJudged) },
        Case {
            test: Some(Test::TTest),
            baseline: Some(10.0),
            status: Some(AlertStatus::Silenced),
            reason: ReasonKind::BeyondLimit { side: Limit::Upper, limit: 10.5, value: 20.0 }.into(),
            ..case("write", "build-time", 20.0, Outcome::Worse)
        },
    ]);
    sample.report.iterations[0].fail(benchmark("read"), "exit code 1");
    let cause = "the environment is not that of the last report: kernel 6.12 → 6.18".to_owned();
    let kind = NoticeKind::EnvironmentChanged { changes: vec!["kernel 6.12 → 6.18".into()] };
    sample.notices.push(Notice { kind, text: NoticeText { cause, ..NoticeText::default() } });
    sample.remarks.push("version abc stands in for def".to_owned());
    sample
}

fn quiet(count: usize) -> Sample {
    let mut sample = Sample::of(Vec::new());
    for number in 0..count {
        let name: &'static str = format!("case_{number}").leak();
        let case = Case::new(name, "latency", 1000.0, Outcome::NoChange);
        let (baseline, smallest_visible) = (Some(1000.0), Some(0.013));
        sample.add(0, Case { baseline, smallest_visible, ..case });
    }
    sample
}

fn custom(name: &str) -> Measure {
    Measure::custom(name.to_owned(), "widgets", Direction::Unknown, MeasureKind::Noisy)
}
