//! Names that attack a page, and a large report.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::model::{
    BenchmarkName, BranchName, Measure, Metric, ProjectName, Report, Results, TestbedName,
};

pub(crate) const PROJECT: &str = "<img src=x onerror=alert(1)>\u{202e}\"'";

/// Benchmark names that end a script, change the direction of text, or offer no line break.
fn names() -> Vec<String> {
    vec![
        "</script><script>alert(1)</script>".to_owned(),
        "<svg onload=alert(1)>".to_owned(),
        "right-to-left \u{202e}txt.exe\u{202c} \u{5d0}\u{5d1}\u{5d2}".to_owned(),
        "\" onmouseover=\"alert(1)".to_owned(),
        "../../../etc/passwd?x=1&y=2#z".to_owned(),
        "%2e%2e/%00/{project}".to_owned(),
        "x".repeat(1024),
        "é\u{300}\u{301}\u{302}\u{303} zero\u{200b}width \u{1f980}".to_owned(),
    ]
}

/// Thirty reports with such names, the last one slower.
pub(crate) fn reports(project: &ProjectName, now: OffsetDateTime) -> Vec<Report> {
    let report = |number: i64| {
        let mut results = Results::default();
        for (place, name) in names().into_iter().enumerate() {
            let slow = if number == 29 { 1.5 } else { 1.0 };
            let value = 100.0 * (place + 1) as f64 * (1.0 + 0.002 * (number % 5) as f64) * slow;
            let name = BenchmarkName::new(name).expect("a name");
            let measure = match place % 3 {
                0 => Measure::latency(),
                1 => Measure::named("</title><b>µs & more"),
                _ => Measure::named("instructions"),
            };
            results.add(name, measure, Metric::new(value)).expect("one of each");
        }
        results.fail(
            BenchmarkName::new("<b>fails").expect("a name"),
            "</td></table><script>alert(2)</script>",
        );
        let branch = if number % 10 == 9 { "feature/<b>&'\"\u{202e}" } else { "main" };
        let time = now - Duration::days(30 - number);
        let mut report = one(project, branch, "<i>bed\u{202e}", number as u128 + 1000, time);
        report.hash = Some("javascript:alert(1)".to_owned());
        report.iterations = vec![results];
        report.environment.kernel = Some(format!("<b>{}", number / 10));
        report
    };
    (0..30).map(report).collect()
}

/// Three reports of 5,000 metrics.
pub(crate) fn large(project: &ProjectName, now: OffsetDateTime) -> Vec<Report> {
    let report = |number: i64| {
        let mut results = Results::default();
        for place in 0..5000_u32 {
            let name = BenchmarkName::new(format!("suite_{:02}/case_{place:04}", place / 250))
                .expect("a name");
            let value = f64::from(place + 10) * (1.0 + 0.001 * (number % 3) as f64);
            results.add(name, Measure::latency(), Metric::new(value)).expect("one of each");
        }
        let mut report =
            one(project, "main", "bed", number as u128 + 5000, now - Duration::days(9 - number));
        report.hash = Some(format!("{:040x}", number + 1));
        report.iterations = vec![results];
        report
    };
    (0..8).map(report).collect()
}

fn one(
    project: &ProjectName,
    branch: &str,
    testbed: &str,
    uuid: u128,
    time: OffsetDateTime,
) -> Report {
    Report::new(
        Uuid::from_u128(uuid),
        project.clone(),
        BranchName::new(branch).expect("a name"),
        TestbedName::new(testbed).expect("a name"),
        time,
    )
}
