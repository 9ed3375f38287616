//! A store with a history, and the binary on it.

use std::{path::PathBuf, process::Command};

use tempfile::TempDir;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::{
    model::{
        Alert, AlertStatus, BenchmarkName, Boundary, Change, Environment, Limit, Measure, Metric,
        Outcome, ReasonKind, Report, Results, StartPoint, Verdict,
    },
    store::Store,
};

use crate::{ran::Ran, repository::WINGBEAT};

/// Reports on `main`.
pub(crate) const REPORTS: u64 = 24;

/// A folder with a store.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    /// Without a store.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// With a history: two benchmarks on `main`, one of which regresses, with an alert; a kernel update in between; and
    /// a branch from it.
    pub(crate) fn with_history() -> Self {
        let place = Self::empty();
        let mut store = Store::open(place.store()).expect("a store");
        for number in 0..REPORTS {
            store.insert(&report(number)).expect("stored");
        }
        store.insert(&feature()).expect("stored");
        place
    }

    /// Adds three reports on `main`, with an alert each: of `parse/small`, `print` and `parse/small`, whose UUIDs end
    /// in 2, 1 and 3.
    pub(crate) fn add_alerts(&self) {
        let mut store = Store::open(self.store()).expect("a store");
        for (at, benchmark, number) in
            [(1, "parse/small", 2), (2, "print", 1), (3, "parse/small", 3)]
        {
            let mut report = report(REPORTS + at);
            worse(&mut report);
            let benchmark: BenchmarkName = benchmark.parse().expect("a name");
            report.verdicts[0].benchmark = benchmark.clone();
            report.alerts[0].benchmark = benchmark;
            report.alerts[0].uuid = Uuid::from_u128(0xa1e7 << 112 | number);
            store.insert(&report).expect("stored");
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("results.db")
    }

    pub(crate) fn wingbeat(&self, args: &[&str]) -> Ran {
        Ran::of(self.command().args(args).arg("--store").arg(self.store()))
    }

    /// The binary in that folder, without settings from the environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(WINGBEAT);
        command.current_dir(self.folder.path());
        command.env_remove("WINGBEAT_STORE").env_remove("WINGBEAT_PROJECT");
        command
    }
}

fn report(number: u64) -> Report {
    let start = OffsetDateTime::from_unix_timestamp(1_795_298_672).expect("a time");
    let start_time = start + Duration::hours(number.cast_signed());
    // Deterministic, but not constant.
    let noise = 1.0 + (number * 7 % 5) as f64 / 500.0;
    let slow = if number < 14 { 1000.0 } else { 1300.0 };
    let mut results = Results::default();
    for (name, value) in [("parse/small", slow * noise), ("print", 2000.0 * noise)] {
        let metric = Metric::new(value).within(value * 0.98, value * 1.02);
        let name = name.parse().expect("a name");
        results.add(name, Measure::latency(), metric).expect("added");
    }
    let (project, branch) = ("parser".parse(), "main".parse().expect("a name"));
    let testbed = "ci-runner".parse().expect("a name");
    let mut report = Report {
        hash: Some(format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        end_time: start_time + Duration::seconds(3),
        environment: Environment {
            kernel: Some(if number < 8 { "Linux 6.12" } else { "Linux 6.18" }.to_owned()),
            ..Environment::default()
        },
        iterations: vec![results],
        ..Report::new(uuid(number), project.expect("a name"), branch, testbed, start_time)
    };
    if number == 14 {
        worse(&mut report);
    }
    report
}

/// UUIDs with a common prefix, ending in their number.
pub(crate) fn uuid(number: u64) -> Uuid {
    Uuid::from_u64_pair(0x01a2_0043_e53a_7391, 0x9000_0000_0000_0000 | number << 4 | 0xf)
}

pub(crate) fn alert() -> Uuid {
    Uuid::from_u128(0xa1e7_0000_0000_0000_0000_0000_0000_beef)
}

fn worse(report: &mut Report) {
    let benchmark = "parse/small".parse().expect("a name");
    let boundary =
        Boundary { baseline: Some(1004.0), lower_limit: None, upper_limit: Some(1050.0) };
    report.verdicts.push(Verdict {
        iteration: 0,
        benchmark,
        measure: Measure::latency().slug,
        outcome: Outcome::Worse,
        test: None,
        boundary: Some(boundary),
        limit: Some(Limit::Upper),
        change: Some(Change { relative: 0.3, lower: Some(0.28), upper: Some(0.32) }),
        p: Some(1e-6),
        smallest_visible: Some(0.02),
        points: 14,
        reason: ReasonKind::WithinLimits.into(),
    });
    report.alerts.push(Alert {
        uuid: alert(),
        iteration: 0,
        benchmark: "parse/small".parse().expect("a name"),
        measure: Measure::latency().slug,
        limit: Limit::Upper,
        status: AlertStatus::Active,
        reason: None,
    });
}

fn feature() -> Report {
    let start = StartPoint {
        branch: "main".parse().expect("a name"),
        hash: None,
        until: None,
        max_versions: 255,
    };
    let branch = "feature/fast".parse().expect("a name");
    Report { branch, start_point: Some(start), ..report(REPORTS) }
}
