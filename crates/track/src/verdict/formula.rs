//! The seven tests whose boundary is a formula, and the comparison of exact measures. The tests are as in Bencher, with two differences: equal values still have limits,
//! and fixed limits apply to the first report, too. Shares of a negative baseline use its absolute value, so that the
//! lower limit is always the lower one.

use wingbeat_stats::{
    normal,
    sample::{mean_of, quantile_of_sorted},
    student,
};

use super::history::History;
use crate::model::{
    Boundary, Change, Limit, Outcome, Reason, ReasonKind, ThresholdModel, Verdict, reason::finite,
    short_hash, threshold::Test,
};

/// The 90 % quantile of the standard normal distribution.
const NINE_OF_TEN: f64 = 1.281_551_565_544_600_4;

pub(super) fn judge(history: &History<'_>, verdict: &mut Verdict) {
    let History { series, model, .. } = history;
    if model.lower_boundary.is_none() && model.upper_boundary.is_none() {
        verdict.reason = ReasonKind::NoBoundary { test: model.test }.into();
        return;
    }
    let least = points_min(model.test);
    if !history.suffices(least) {
        return verdict.wait(history.shortage(least));
    }
    let values = history.values();
    let Some(boundary) = boundary(model, &values) else {
        return verdict.wait(ReasonKind::NoLimits { test: model.test });
    };
    let value = series.metric.value;
    let below = boundary.lower_limit.filter(|&limit| value < limit);
    let above = boundary.upper_limit.filter(|&limit| value > limit);
    verdict.boundary = Some(boundary);
    verdict.outcome = Outcome::NoChange;
    if let Some(baseline) = boundary.baseline {
        verdict.change = Change::exactly(value, baseline);
        let spread = deviation(&values, mean_of(&values)).unwrap_or(0.0);
        let distances = [
            boundary.lower_limit.map(|limit| baseline - limit),
            boundary.upper_limit.map(|limit| limit - baseline),
        ];
        let distance = distances.into_iter().flatten().fold(0.0, f64::max);
        let visible = (distance + NINE_OF_TEN * spread) / baseline.abs();
        verdict.smallest_visible = visible.is_finite().then_some(visible);
    }
    let below = below.map(|limit| (Limit::Lower, limit));
    let crossed = below.or(above.map(|limit| (Limit::Upper, limit)));
    verdict.reason = match crossed {
        Some((side, limit)) => {
            verdict.cross(side, series.measure.direction);
            let reason = ReasonKind::BeyondLimit { side, limit, value };
            Reason::from(reason).with_news(history.news)
        }
        None => ReasonKind::WithinLimits.into(),
    };
}

/// Minimum number of points for the test to have a boundary.
fn points_min(test: Test) -> usize {
    match test {
        Test::Static => 0,
        Test::Percentage | Test::Iqr => 1,
        _ => 2,
    }
}

/// The boundary from values in time order; `None` if the formula has none.
fn boundary(model: &ThresholdModel, values: &[f64]) -> Option<Boundary> {
    let (lower, upper) = (model.lower_boundary, model.upper_boundary);
    let around = |baseline: f64, below: Option<f64>, above: Option<f64>| {
        let limits = [below.map(|below| baseline - below), above.map(|above| baseline + above)];
        let is_finite = limits.iter().flatten().all(|limit| limit.is_finite());
        (baseline.is_finite() && is_finite).then_some(Boundary {
            baseline: Some(baseline),
            lower_limit: limits[0],
            upper_limit: limits[1],
        })
    };
    let both = |baseline: f64, distance: &dyn Fn(f64) -> f64| {
        around(baseline, lower.map(distance), upper.map(distance))
    };
    let count = values.len() as f64;
    match model.test {
        Test::Static => Some(Boundary { baseline: None, lower_limit: lower, upper_limit: upper }),
        // The mean of equal values may differ from them by rounding.
        _ if is_constant(values) => both(*values.first()?, &|setting| {
            if model.test == Test::Percentage { values[0].abs() * setting } else { 0.0 }
        }),
        Test::Percentage => {
            let mean = mean_of(values);
            both(mean, &|share| mean.abs() * share)
        }
        Test::ZScore => {
            let mean = mean_of(values);
            let s = deviation(values, mean)?;
            both(mean, &|p| normal::quantile(p) * s)
        }
        Test::TTest => {
            let mean = mean_of(values);
            let scale = deviation(values, mean)? * (1.0 + 1.0 / count).sqrt();
            both(mean, &|p| student::quantile(p, count - 1.0) * scale)
        }
        Test::LogNormal => {
            if values.iter().any(|&value| value <= 0.0) {
                return None;
            }
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let middle = mean_of(&logs);
            let d = deviation(&logs, middle)?;
            // Bencher's lower limit is the upper one, mirrored at the median.
            both(middle.exp(), &|p| (middle + normal::quantile(p) * d).exp() - middle.exp())
        }
        Test::Iqr => {
            let [q1, q2, q3] = quartiles(values);
            both(q2, &|times| times * (q3 - q1))
        }
        Test::DeltaIqr => {
            let newest_first: Vec<f64> = values.iter().rev().copied().collect();
            let steps = newest_first.windows(2).map(|pair| ((pair[1] - pair[0]) / pair[0]).abs());
            let steps: Vec<f64> = steps.collect();
            if steps.is_empty() || steps.iter().any(|step| !step.is_finite()) {
                return None;
            }
            let [d1, _, d3] = quartiles(&steps);
            let [_, q2, _] = quartiles(values);
            both(q2, &|times| q2.abs() * times * (d3 - d1))
        }
        Test::ChangePoint | Test::Auto => None,
    }
}

fn is_constant(values: &[f64]) -> bool {
    values.split_first().is_some_and(|(first, rest)| rest.iter().all(|value| value == first))
}

fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() as f64 - 1.0)).sqrt())
}

/// Linear interpolation at the rank p · (n − 1).
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|q| quantile_of_sorted(&sorted, q))
}

/// Judges an exact measure: compared with the last value, without statistics.
pub(super) fn judge_exact(history: &History<'_>, verdict: &mut Verdict) {
    let History { series, model, .. } = history;
    let Some(last) = history.points.last().filter(|_| history.suffices(1)) else {
        return verdict.wait(history.shortage(1));
    };
    let (value, before) = (series.metric.value, last.value);
    let (below, above) = (model.lower_boundary.unwrap_or(0.0), model.upper_boundary.unwrap_or(0.0));
    let (lower, upper) = (before - below * before.abs(), before + above * before.abs());
    verdict.boundary = Some(Boundary::around(before, lower, upper));
    verdict.change = Change::exactly(value, before);
    verdict.smallest_visible = (before != 0.0).then_some(below.max(above));
    let crossed = match () {
        () if value < lower => Some(Limit::Lower),
        () if value > upper => Some(Limit::Upper),
        () => None,
    };
    let commit = history.hash(last.report).map(|hash| short_hash(hash).to_owned());
    let Some(limit) = crossed else {
        verdict.outcome = Outcome::NoChange;
        verdict.reason = match value == before {
            true => ReasonKind::Same { commit }.into(),
            false => ReasonKind::WithinTolerance { commit }.into(),
        };
        return;
    };
    verdict.cross(limit, series.measure.direction);
    let difference = finite(value - before);
    let reason = ReasonKind::Differs { before, difference, commit };
    verdict.reason = Reason::from(reason).with_news(history.news);
}
