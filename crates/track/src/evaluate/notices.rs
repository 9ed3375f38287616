//! Notices of a run: unanswered alerts whose level became usual, because from then on the same value raises no alert,
//! which is reported once; drifting levels, which raise none; thresholds that match nothing, and missing benchmarks,
//! because a typo or a crash must not look like a report without alerts.

use std::collections::BTreeSet;

use wingbeat_stats::{drift, sample};
use wingbeat_text::{first_few, plural, share};

use crate::{
    model::{
        AlertStatus, BenchmarkName, MeasureKind, Notice, NoticeKind, NoticeText, Outcome, Past,
        PastPoint, PastReport, PastSeries, Report, Slug, Threshold, Verdict,
        notice::Drifted,
        threshold::{Test, matches_glob},
    },
    output::short_hash,
    verdict::Series,
};

/// Maximum number of points before the alerts that determine the previous level.
const BEFORE_MAX: usize = 20;

/// A notice if this report is the first without an alert at the level of the alerts before it.
pub(super) fn of_absorbed<'a>(
    past: &[PastReport],
    series: impl Iterator<Item = (&'a Series<'a>, &'a Verdict)>,
) -> Vec<Notice> {
    let found: Vec<String> = series
        .filter(|(series, verdict)| {
            series.measure.kind == MeasureKind::Noisy
                && verdict.test == Some(Test::Auto)
                && verdict.outcome == Outcome::NoChange
        })
        .filter_map(|(series, verdict)| {
            let baseline = verdict.boundary?.baseline?;
            let (change, first) = absorbed(series.history, baseline)?;
            let since = past.get(first.report).and_then(|report| report.hash.as_deref());
            let since = since.map(|hash| format!(" since {}", short_hash(hash)));
            let (name, change) = (&verdict.benchmark, share::change(change));
            Some(format!("{name} {} {change}{}", verdict.measure, since.unwrap_or_default()))
        })
        .collect();
    let metrics = found.len();
    if metrics == 0 {
        return Vec::new();
    }
    let text = NoticeText {
        cause: format!("alerts have been open for a long time: {}", first_few(found.into_iter())),
        effect: "their level is now the usual one".to_owned(),
        next_step: String::new(),
    };
    vec![Notice { kind: NoticeKind::AlertIsUsual { metrics }, text }]
}

/// A notice if values stay at a level for which an earlier commit raised the alert.
pub(super) fn of_known<'a>(
    verdicts: impl Iterator<Item = (&'a Verdict, &'a str)>,
) -> Option<Notice> {
    let known: Vec<String> = verdicts
        .map(|(it, hash)| {
            let change = it.change.map(|it| share::change(it.relative) + " ").unwrap_or_default();
            format!("{} {} ({change}since {hash})", it.benchmark, it.measure)
        })
        .collect();
    let metrics = known.len();
    let cause = format!("earlier commits raised alerts about {}", first_few(known.into_iter()));
    let effect = "what stays as bad raises none again".to_owned();
    let text = NoticeText { cause, effect, next_step: String::new() };
    (metrics > 0).then_some(Notice { kind: NoticeKind::AlertOfEarlier { metrics }, text })
}

/// The distance of the values since an open alert from those before it, and the alert, if all of them deviated and the
/// baseline is nearer to them. Later reports at that value raised none.
fn absorbed(points: &[PastPoint], baseline: f64) -> Option<(f64, &PastPoint)> {
    let is_off = |point: &&PastPoint| {
        point.outcome.is_some_and(|it| matches!(it, Outcome::Worse | Outcome::Changed))
    };
    let is_open =
        |point: &PastPoint| point.alert.is_some_and(|(_, status)| status != AlertStatus::Dismissed);
    let quiet = points.len() - points.iter().rev().take_while(is_off).count();
    let first = quiet + points.get(quiet..)?.iter().position(is_open)?;
    let (before, since) = points.split_at_checked(first).filter(|(it, _)| !it.is_empty())?;
    let old = median(&before[before.len().saturating_sub(BEFORE_MAX)..]);
    let new = median(since);
    let change = (new - old) / old.abs();
    let is_nearer = (baseline - new).abs() < (baseline - old).abs();
    (is_nearer && change.is_finite()).then_some((change, since.first()?))
}

/// A notice if levels moved slowly and far, and no earlier report said so. Metrics that stand out are reported anyway.
pub(super) fn of_drift<'a>(
    series: impl Iterator<Item = (&'a Series<'a>, &'a Verdict)>,
) -> Vec<Notice> {
    let drifted = |(series, verdict): (&Series<'_>, &Verdict)| {
        let is_asked = series.measure.kind == MeasureKind::Noisy && !series.is_ignored;
        if series.iteration != 0 || !is_asked || verdict.test != Some(Test::Auto) {
            return None;
        }
        let first = series.history.iter().filter(|point| point.iteration == 0);
        let mut values: Vec<f64> = first.map(|point| point.value).collect();
        values.push(series.metric.value);
        let drift = drift::find_new(&values)?;
        Some(Drifted {
            benchmark: series.benchmark.clone(),
            measure: series.measure.slug.clone(),
            change: drift.relative(),
            reports: drift.points,
        })
    };
    let metrics: Vec<Drifted> = series.filter_map(drifted).collect();
    if metrics.is_empty() {
        return Vec::new();
    }
    let text = NoticeText {
        cause: format!("a slow drift: {}", first_few(metrics.iter().map(Drifted::to_string))),
        effect: "no report stands out from those before it, so none raises an alert".to_owned(),
        next_step: "`wingbeat plot` shows it".to_owned(),
    };
    vec![Notice { kind: NoticeKind::Drifted { metrics }, text }]
}

fn median(points: &[PastPoint]) -> f64 {
    sample::median(points.iter().map(|point| point.value).collect())
}

/// A notice if measures have an alert for a change that may be an improvement, unless the user declared them
/// undirected.
pub(super) fn of_undirected<'a>(
    report: &Report,
    alerts: impl Iterator<Item = (&'a Series<'a>, &'a Verdict)>,
) -> Option<Notice> {
    let has_limits = |series: &Series<'_>| {
        series.model.is_some_and(|it| it.lower_boundary.or(it.upper_boundary).is_some())
    };
    let is_said = |measure| report.iterations.iter().any(|it| it.is_undirected(measure));
    let undirected = alerts
        .filter(|(series, it)| it.outcome == Outcome::Changed && !has_limits(series))
        .filter(|(series, _)| !is_said(series.measure))
        .map(|(series, _)| (&series.measure.slug, series.measure.label()));
    let (slugs, labels): (BTreeSet<&Slug>, BTreeSet<&str>) = undirected.unzip();
    if slugs.is_empty() {
        return None;
    }
    let text = NoticeText {
        cause: format!(
            "the better direction of {} is unknown",
            first_few(labels.into_iter().map(str::to_owned))
        ),
        effect: "a change in either direction raises an alert".to_owned(),
        next_step:
            "set `direction` of a [[measure]] in wingbeat.toml, or next to the value in the JSON"
                .to_owned(),
    };
    let measures = slugs.into_iter().cloned().collect();
    Some(Notice { kind: NoticeKind::DirectionUnknown { measures }, text })
}

/// Boundaries beyond this share of the baseline, upwards and downwards, get a notice.
const WIDE: f64 = 1.0;

/// A notice for each threshold whose boundary is a share, but looks like a percentage.
pub(super) fn of_wide(thresholds: &[Threshold]) -> Vec<Notice> {
    let wide = thresholds.iter().filter_map(|Threshold { measure, benchmark, model }| {
        if !matches!(model.test, Test::Percentage | Test::Auto | Test::ChangePoint) {
            return None;
        }
        let upper = model.upper_boundary.filter(|&upper| upper > WIDE);
        let lower = model.lower_boundary.filter(|&lower| lower >= WIDE);
        let (side, boundary) = upper.map(|it| ("upper", it)).or(lower.map(|it| ("lower", it)))?;
        let [is, meant] = [boundary, boundary / 100.0].map(share::size);
        let text = NoticeText {
            cause: format!(
                "the {side} boundary {boundary} of the threshold for {measure} is a share, {is}"
            ),
            effect: String::new(),
            next_step: format!("write {} if you mean {meant}", boundary / 100.0),
        };
        let (measure, benchmark) = (measure.clone(), benchmark.clone());
        Some(Notice { kind: NoticeKind::WideThreshold { measure, benchmark }, text })
    });
    wide.collect()
}

/// A notice about benchmarks that the last report had and this one lacks. The last report is the newest of history with
/// a benchmark in common, since jobs may share a branch and report different benchmarks; if there is none, the newest.
/// Benchmarks in another report of the same commit are not missing.
pub(super) fn of_missing(report: &Report, pasts: [&Past; 2]) -> Option<Notice> {
    let mut here: BTreeSet<&BenchmarkName> =
        report.metrics().map(|(_, benchmark, ..)| &benchmark.name).collect();
    here.extend(report.failures().map(|(_, failure)| &failure.name));
    let [history, _] = pasts;
    let newest = |is_asked: &dyn Fn(&BenchmarkName) -> bool| {
        let series = history.series.iter().filter(|series| is_asked(&series.benchmark));
        series.filter_map(|series| series.points.last()).map(|point| point.report).max()
    };
    let last = newest(&|name| here.contains(name)).or_else(|| newest(&|_| true))?;
    let same_commit: BTreeSet<_> = pasts.into_iter().flat_map(|it| of_commit(it, report)).collect();
    let is_in_last = |series: &&PastSeries| {
        let newest = series.points.iter().rev().take_while(|point| point.report >= last);
        newest.into_iter().any(|point| point.report == last)
    };
    let of_last: BTreeSet<&BenchmarkName> =
        history.series.iter().filter(is_in_last).map(|series| &series.benchmark).collect();
    let is_missing =
        |name: &&&BenchmarkName| !here.contains(**name) && !same_commit.contains(**name);
    let missing: Vec<BenchmarkName> =
        of_last.iter().filter(is_missing).map(|name| (*name).clone()).collect();
    let (count, of) = (missing.len(), of_last.len());
    if count == 0 {
        return None;
    }
    let at = history.reports.get(last).and_then(|past| past.hash.as_deref());
    let at = at.map(|hash| format!(" at {}", short_hash(hash))).unwrap_or_default();
    let are = if count == 1 { "is" } else { "are" };
    let named = first_few(missing.iter().map(ToString::to_string));
    let text = NoticeText {
        cause: format!(
            "{count} of {} of the last report{at} {are} missing",
            plural(of, "benchmark")
        ),
        effect: named,
        next_step: if count == of { "were they renamed?".to_owned() } else { String::new() },
    };
    Some(Notice { kind: NoticeKind::Missing { benchmarks: missing, of }, text })
}

/// Benchmarks in other reports of the same commit on the same branch.
fn of_commit<'p>(past: &'p Past, report: &Report) -> Vec<&'p BenchmarkName> {
    let is_it = |past: &PastReport| {
        past.branch == report.branch && past.hash.is_some() && past.hash == report.hash
    };
    let are: Vec<bool> = past.reports.iter().map(is_it).collect();
    if !are.contains(&true) {
        return Vec::new();
    }
    let has =
        |series: &&PastSeries| series.points.iter().any(|it| are.get(it.report) == Some(&true));
    past.series.iter().filter(has).map(|series| &series.benchmark).collect()
}

/// Maximum number of measures listed.
const LISTED_MAX: usize = 8;

/// A notice for each threshold without a boundary, or without a matching metric in the report.
pub(super) fn of_idle(thresholds: &[Threshold], report: &Report) -> Vec<Notice> {
    let measures: BTreeSet<&Slug> =
        report.metrics().map(|(.., measure, _)| &measure.slug).collect();
    // Without metrics, the notice says only that.
    if measures.is_empty() {
        return Vec::new();
    }
    let fits = |threshold: &Threshold| {
        let glob = threshold.benchmark.as_deref();
        report.metrics().any(|(_, it, measure, _)| {
            glob.is_none_or(|glob| matches_glob(glob, it.name.as_str()))
                && measure.slug == threshold.measure
        })
    };
    let text = |threshold: &Threshold| {
        let Threshold { measure, benchmark, model } = threshold;
        let needs_boundary = !matches!(model.test, Test::Auto | Test::ChangePoint);
        let (cause, next_step) = match benchmark {
            _ if needs_boundary
                && model.lower_boundary.is_none()
                && model.upper_boundary.is_none() =>
            {
                let step = "set the upper or the lower one (--threshold-upper-boundary, or upper-boundary \
                            in wingbeat.toml)";
                (format!("{} needs a boundary", model.test), step.to_owned())
            }
            _ if fits(threshold) => return None,
            Some(glob) if measures.contains(measure) => (
                format!("no benchmark with the measure {measure} matches {glob:?}"),
                "correct the glob, or remove the threshold".to_owned(),
            ),
            _ => (
                format!("no benchmark has the measure {measure}"),
                format!("use a measure of the results: {}", listed(&measures)),
            ),
        };
        let effect = format!("the threshold for {measure} judges nothing");
        Some(NoticeText { cause, effect, next_step })
    };
    let notice = |threshold: &Threshold| {
        let text = text(threshold)?;
        let Threshold { measure, benchmark, .. } = threshold.clone();
        Some(Notice { kind: NoticeKind::IdleThreshold { measure, benchmark }, text })
    };
    thresholds.iter().filter_map(notice).collect()
}

/// Measures in a sentence.
fn listed(measures: &BTreeSet<&Slug>) -> String {
    let mut texts: Vec<String> =
        measures.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    if measures.len() > LISTED_MAX {
        texts.push(format!("{} more", measures.len() - LISTED_MAX));
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        adapter::Adapter,
        model::{Description, Limit, Measure, Metric, Results, threshold::ThresholdModel},
        run::Fold,
    };

    /// A report of `main` with a latency of each of these benchmarks.
    fn report(hash: &str, names: &[&str]) -> Report {
        let mut results = Results::default();
        for name in names {
            let name = BenchmarkName::new(*name).expect("a name");
            results.add(name, Measure::latency(), Metric::new(1.0)).expect("added");
        }
        let report = Report::new(
            uuid::Uuid::nil(),
            "p".parse().expect("a name"),
            "main".parse().expect("a name"),
            "box".parse().expect("a name"),
            time::OffsetDateTime::UNIX_EPOCH,
        );
        Report { hash: Some(hash.to_owned()), iterations: vec![results], ..report }
    }

    #[test]
    fn benchmarks_that_vanish() {
        let check = |past: &[(&str, &[&str])], now: (&str, &[&str]), expected: Option<&str>| {
            let names: BTreeSet<&str> =
                past.iter().flat_map(|(_, names)| *names).copied().collect();
            let series = |name: &str| PastSeries {
                benchmark: BenchmarkName::new(name).expect("a name"),
                measure: Measure::latency(),
                points: (past.iter().enumerate())
                    .filter(|(_, (_, names))| names.contains(&name))
                    .map(|(at, _)| PastPoint::new(at, 1.0))
                    .collect(),
            };
            let now = report(now.0, now.1);
            let of_past = |(hash, _): &(&str, &[&str])| PastReport {
                hash: Some((*hash).to_owned()),
                ..PastReport::at(now.branch.clone(), now.start_time)
            };
            let past = Past {
                reports: past.iter().map(of_past).collect(),
                series: names.into_iter().map(series).collect(),
            };
            let found = of_missing(&now, [&past, &past]).map(|notice| notice.text.cause);
            assert_eq!(found.as_deref(), expected);
        };
        let (abc, xy, ab): (&[&str], &[&str], &[&str]) =
            (&["a", "b", "c/d"], &["x", "y"], &["a", "b"]);
        check(&[("1", abc)], ("2", abc), None);
        let one = "1 of 3 benchmarks of the last report at 1 is missing";
        check(&[("1", abc)], ("2", &["a", "b2", "c/d"]), Some(one));
        let all = "3 of 3 benchmarks of the last report at 1 are missing";
        check(&[("1", abc)], ("2", &["zzz"]), Some(all));
        check(&[], ("1", &["a"]), None);
        // Jobs that share a branch and report different benchmarks.
        check(&[("1", abc), ("2", xy)], ("3", abc), None);
        let one = "1 of 2 benchmarks of the last report at 2 is missing";
        check(&[("1", abc), ("2", xy)], ("3", &["x"]), Some(one));
        // A new suite in another step of the same job is not the old one renamed.
        check(&[("1", ab), ("2", ab)], ("2", &["new"]), None);
        let one = "1 of 1 benchmark of the last report at 2 is missing";
        check(&[("1", ab), ("2", ab), ("2", &["new"])], ("3", &["newer"]), Some(one));
    }

    fn sentence(notice: &Notice) -> String {
        let NoticeText { cause, effect, next_step } = &notice.text;
        format!("{cause}; {effect}; {next_step}")
    }

    #[test]
    fn thresholds_that_judge_nothing() {
        let check = |measure: &str, benchmark: Option<&str>, test, expected: Option<&str>| {
            let (measure, model) = (Measure::named(measure).slug, ThresholdModel::new(test));
            let benchmark = benchmark.map(str::to_owned);
            let threshold = Threshold { measure, benchmark, model };
            let found = of_idle(&[threshold], &report("1", &["a"]));
            assert_eq!(found.first().map(sentence).as_deref(), expected);
        };
        check("latency", None, Test::Auto, None);
        check("latency", Some("a*"), Test::Auto, None);
        let typo = "no benchmark has the measure latncy; the threshold for latncy judges nothing; \
                    use a measure of the results: latency";
        check("latncy", None, Test::Auto, Some(typo));
        let glob = "no benchmark with the measure latency matches \"b*\"; the threshold for \
                    latency judges nothing; correct the glob, or remove the threshold";
        check("latency", Some("b*"), Test::Auto, Some(glob));
        let open = "t_test needs a boundary; the threshold for latency judges nothing; set the \
                    upper or the lower one (--threshold-upper-boundary, or upper-boundary in \
                    wingbeat.toml)";
        check("latency", None, Test::TTest, Some(open));
    }

    #[test]
    fn shares_that_look_like_percentages() {
        let check = |test, lower, upper, expected: &str| {
            let model = ThresholdModel::new(test).within(lower, upper);
            let measure = Measure::latency().slug;
            let found = of_wide(&[Threshold { measure, benchmark: None, model }]);
            let found = found.first().map(sentence).unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        };
        check(Test::Percentage, None, Some(10.0), "write 0.1 if you mean 10 %");
        check(Test::Percentage, Some(1.0), None, "the lower boundary 1 ");
        check(Test::Auto, None, Some(5.0), "write 0.05");
        check(Test::Percentage, None, Some(1.0), "");
        check(Test::Static, None, Some(10.0), "");
        check(Test::Iqr, None, Some(10.0), "");
    }

    #[test]
    fn alerts_that_became_the_level() {
        let check = |values: &[f64], open_alerts: usize, baseline, expected: Option<f64>| {
            let first = values.len() - open_alerts;
            let point = |(report, &value): (usize, &f64)| PastPoint {
                alert: (report >= first).then_some((Limit::Upper, AlertStatus::Active)),
                outcome: (report >= first).then_some(Outcome::Worse),
                ..PastPoint::new(report, value)
            };
            let points: Vec<PastPoint> = values.iter().enumerate().map(point).collect();
            let found = absorbed(&points, baseline);
            assert_eq!(found.map(|(change, _)| change), expected, "{values:?}");
            assert!(found.is_none_or(|(_, point)| point.report == first));
        };
        let (old, new) = (100.0, 150.0);
        check(&[old, old, new, new, new], 3, new, Some(0.5));
        check(&[old, old, new, new, new], 3, old, None);
        check(&[old, 80.0, old], 0, old, None);
        check(&[new, new], 2, new, None);
        check(&[old, new, new], 0, new, None);
        check(&[0.0, new], 1, new, None);
        check(&[], 0, 1.0, None);
    }

    #[test]
    fn a_direction_that_the_user_calls_unknown() {
        let (name, measure) = (BenchmarkName::new("a").expect("a name"), Measure::named("p99"));
        let metric = Metric::new(1.0);
        let series = Series::new(&name, &measure, &metric);
        let outcome = Outcome::Changed;
        let verdict = Verdict { outcome, ..Verdict::new(0, name.clone(), measure.slug.clone()) };
        let check = |results: Results, is_told: bool| {
            // A server receives them as JSON.
            let results = serde_json::to_value(results).expect("JSON");
            let iterations = vec![serde_json::from_value(results).expect("results")];
            let report = Report { iterations, ..report("1", &[]) };
            let found = of_undirected(&report, [(&series, &verdict)].into_iter());
            assert_eq!(found.is_some(), is_told);
        };
        let printed = |said: &str| {
            let text = format!("{{\"a\": {{\"p99\": {{\"value\": 1{said}}}}}}}");
            Adapter::Json.parse(text.as_bytes(), None).expect("results")
        };
        check(printed(""), true);
        check(printed(", \"direction\": \"unknown\""), false);
        for (said, is_told) in [("{}", true), (r#"{"direction": "unknown"}"#, false)] {
            let mut results = printed("");
            let description: Description = serde_json::from_str(said).expect("a description");
            let described = [("p99".parse().expect("a name"), description)];
            results.describe(&described).expect("described");
            check(Fold::Mean.fold(vec![results, printed("")]), is_told);
        }
    }
}
