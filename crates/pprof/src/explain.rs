//! Finds the functions that explain a change: those with a larger part of it than chance explains.

use serde::Serialize;

use crate::{
    blame::{Blame, Matched, Place, blame},
    scale::{Change, Metric, RUN_TO_RUN, Scales},
    side::Side,
};

/// Maximum number of functions to name.
const NAMED_MAX: usize = 3;

/// Minimum part of the change to name a function.
const SHARE_MIN: f64 = 0.1;

/// Minimum standard deviations of a function's difference: a probability of 1 in 1,000, divided by the functions
/// tested, of which some thirty matter.
const DEVIATIONS_MIN: f64 = 4.0;

/// Below this many standard deviations, a change of the metric may come from the machine, which slows all
/// functions alike. Then only functions whose share changed are named.
const METRIC_DEVIATIONS_MIN: f64 = 3.0;

/// From this many standard deviations of its share on, a function changed differently from all others.
const SHARE_DEVIATIONS_MIN: f64 = 3.0;

/// Minimum change of a listed function, as a part of the metric.
const LISTED_MIN: f64 = 0.001;

/// A callee or line is mentioned if it has at least this part of a function's gain.
const MOST: f64 = 0.5;

/// A function that explains part of the change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guilty {
    pub function: String,
    /// Source file and line with the largest gain, if known, and the attributed change.
    pub place: Option<(Place, Change)>,
    /// Of the function, including library functions that it calls.
    pub change: Change,
    /// Part of the metric's change, 1 for all of it.
    pub share: f64,
    /// The library function with most of it, if it is not the function's own: `malloc`, `[sleeping]`.
    pub through: Option<String>,
    /// The calling own function.
    pub caller: Option<String>,
    /// Whether the code belonged to the caller before, inlined there.
    pub was_inlined: bool,
    /// Whether the function is own code.
    pub is_own: bool,
}

/// Explanation of a metric's change.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub metric: Metric,
    /// Largest part first; empty if nothing exceeds chance.
    pub guilty: Vec<Guilty>,
    /// The change attributed to each function, including library functions that it calls. Largest difference first.
    pub blame: Vec<(String, Change)>,
    pub matched: Vec<Matched>,
    pub samples: (f64, f64),
    pub is_exact: bool,
    /// Whether functions changed significantly but all alike: a busy machine, or a different one.
    pub is_alike: bool,
    /// Smallest change of a function that would have been named, in units of the metric.
    pub smallest_visible: f64,
}

impl Explanation {
    /// The change of the metric.
    pub fn whole(&self) -> Change {
        let Metric { before, after, before_sd, after_sd } = self.metric;
        Change { before, after, sd: before_sd.hypot(after_sd) }
    }

    /// Functions with a significant change, largest difference first, with their part of the metric's change, if
    /// that changed.
    pub fn listed(&self) -> impl Iterator<Item = (&str, Change, Option<f64>)> {
        let least = LISTED_MIN * self.metric.after.abs().max(self.metric.before.abs());
        let whole = self.whole().difference();
        let changed = self.blame.iter().filter(move |(_, it)| it.difference().abs() >= least);
        changed.map(move |(function, change)| {
            let share = change.difference() / whole;
            (function.as_str(), *change, Some(share).filter(|share| share.is_finite()))
        })
    }
}

/// Explains the change between two profiles of a benchmark, given the metric of each run.
///
/// # Errors
///
/// The profiles count different values, or the programs have nothing in common.
pub fn compare(before: &Side, after: &Side, metric: Metric) -> anyhow::Result<Explanation> {
    before.check_comparable(after)?;
    let (all, matched) = blame(before, after, Scales::of(before, after, metric));
    let change = metric.after - metric.before;
    let metric_sd = metric.before_sd.hypot(metric.after_sd);
    let is_certain = change.abs() >= METRIC_DEVIATIONS_MIN * metric_sd;
    let direction = change.signum();
    let search = Search { direction, change, before: metric.before, is_certain, blame: &all };
    let mut guilty = if change != 0.0 { search.guilty() } else { Vec::new() };
    let is_alike = guilty.is_empty() && search.takes_longer().next().is_some();
    guilty.truncate(NAMED_MAX);
    let (samples, is_exact) = ((before.samples(), after.samples()), before.is_exact);
    let noise = if is_exact { 0.0 } else { DEVIATIONS_MIN * typical_sd(metric, samples) };
    let smallest_visible = noise.max(SHARE_MIN * change.abs());
    let mut blame: Vec<_> = all.into_iter().map(|it| (it.function, it.change)).collect();
    blame.sort_by(|a, b| b.1.difference().abs().total_cmp(&a.1.difference().abs()));
    Ok(Explanation {
        metric,
        guilty,
        blame,
        matched,
        samples,
        is_exact,
        is_alike,
        smallest_visible,
    })
}

/// Standard deviation of the difference of a function that takes a tenth of the time.
fn typical_sd(metric: Metric, samples: (f64, f64)) -> f64 {
    let share: f64 = 0.1;
    let of = |metric: f64, samples: f64| {
        metric * (share * (1.0 - share) * (samples.max(1.0).recip() + RUN_TO_RUN.powi(2))).sqrt()
    };
    of(metric.before, samples.0).hypot(of(metric.after, samples.1))
}

/// Parameters of the search.
#[derive(Clone, Copy)]
struct Search<'t> {
    /// 1 to find slower functions, -1 to find faster ones.
    direction: f64,
    /// The change of the metric.
    change: f64,
    /// The metric before.
    before: f64,
    /// Whether the metric changed by more than machine noise.
    is_certain: bool,
    blame: &'t [Blame],
}

impl<'t> Search<'t> {
    fn gain(self, change: Change) -> f64 {
        self.direction * change.difference()
    }

    fn guilty(self) -> Vec<Guilty> {
        let takes_more = |blame: &&Blame| {
            self.direction * blame.share.deviations() >= DEVIATIONS_MIN && self.is_large(blame)
        };
        let significant =
            |blame: &&Blame| takes_more(blame) || self.is_longer(blame) && !self.is_alike(blame);
        let mut guilty: Vec<Guilty> =
            self.blame.iter().filter(significant).map(|blame| self.named(blame)).collect();
        // Own code first: changes in library code are rarely the cause.
        guilty.sort_by(|a, b| b.is_own.cmp(&a.is_own).then(b.share.total_cmp(&a.share)));
        guilty
    }

    /// Functions that changed by more than chance, if the metric did.
    fn takes_longer(self) -> impl Iterator<Item = &'t Blame> {
        self.blame.iter().filter(move |blame| self.is_longer(blame))
    }

    fn is_longer(self, blame: &Blame) -> bool {
        let deviations = self.direction * blame.change.deviations();
        self.is_certain && deviations >= DEVIATIONS_MIN && self.is_large(blame)
    }

    fn is_large(self, blame: &Blame) -> bool {
        self.gain(blame.change) >= SHARE_MIN * self.change.abs()
    }

    /// Whether a function changed like all others, as on a busy machine: its share stayed constant, although it
    /// would have moved visibly if only this function had changed.
    fn is_alike(self, blame: &Blame) -> bool {
        let difference = blame.change.difference();
        let alone = (blame.change.before + difference) / (self.before + difference);
        let (expected, found) = (alone - blame.share.before, blame.share.difference());
        let is_visible = blame.share.sd > 0.0 && expected.abs() >= DEVIATIONS_MIN * blame.share.sd;
        // If several functions changed, each has less of the whole than alone.
        let least = (expected.abs() / 2.0).min(SHARE_DEVIATIONS_MIN * blame.share.sd);
        is_visible && found * expected.signum() < least
    }

    fn named(self, blame: &Blame) -> Guilty {
        let gain = self.gain(blame.change);
        let place = self.most(&blame.places, 0.0);
        let leaf = self.most(&blame.leaves, MOST * gain).map(|(leaf, _)| leaf);
        let caller = self.most(&blame.callers, MOST * gain).map(|(caller, _)| caller);
        let mut found = Guilty {
            function: blame.function.clone(),
            place,
            change: blame.change,
            share: blame.change.difference() / self.change,
            through: leaf.filter(|leaf| *leaf != blame.function),
            caller,
            was_inlined: blame.is_inlined_once,
            is_own: blame.is_own,
        };
        self.add_what_was_inlined(&mut found);
        found
    }

    /// A new function may have been part of its caller, which lost that much. Merges the two in that case.
    fn add_what_was_inlined(self, found: &mut Guilty) {
        let is_new = found.change.before == 0.0 || found.change.after == 0.0;
        let caller = found.caller.as_ref().filter(|_| is_new);
        let caller = caller.and_then(|name| self.blame.iter().find(|it| it.function == *name));
        let Some(caller) = caller else { return };
        let lost = -self.gain(caller.change);
        if lost < SHARE_MIN * self.gain(found.change) {
            return;
        }
        found.change.before += caller.change.before;
        found.change.after += caller.change.after;
        found.change.sd = found.change.sd.hypot(caller.change.sd);
        found.share = found.change.difference() / self.change;
        found.was_inlined = true;
    }

    /// The largest gain, if it is at least `least`.
    fn most<K: Clone>(self, changes: &[(K, Change)], least: f64) -> Option<(K, Change)> {
        let by_gain =
            |a: &&(K, Change), b: &&(K, Change)| self.gain(a.1).total_cmp(&self.gain(b.1));
        let found = changes.iter().max_by(by_gain)?;
        let gain = self.gain(found.1);
        (gain > 0.0 && gain >= least).then(|| found.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::tests::side;

    /// The functions named when a metric of 100 becomes `after`.
    fn named(before: &str, after: &str, metric_after: f64) -> Vec<String> {
        let metric = Metric { before: 100.0, after: metric_after, before_sd: 1.0, after_sd: 1.0 };
        let found = compare(&side(before), &side(after), metric).expect("comparable");
        found.guilty.into_iter().map(|guilty| guilty.function).collect()
    }

    fn check(before: &str, after: &str, metric_after: f64, expected: &[&str]) {
        assert_eq!(named(before, after, metric_after), expected, "{before}\n{after}");
    }

    #[test]
    fn a_slower_function() {
        let before = "lib:main;bench;parse 5000\nlib:main;bench;print 5000";
        let after = "lib:main;bench;parse 10000\nlib:main;bench;print 5000";
        check(before, after, 150.0, &["parse"]);
        // And a faster one.
        check(after, before, 66.7, &["parse"]);
    }

    #[test]
    fn what_is_called_more_often_is_not_guilty() {
        let before = "bench;parse 5000\nbench;print;lib:malloc 1000\nbench;print 4000";
        let after = "bench;parse 5000\nbench;parse;lib:malloc 5000\nbench;print;lib:malloc 1000\nbench;print 4000";
        check(before, after, 150.0, &["parse"]);
        let metric = Metric { before: 100.0, after: 150.0, before_sd: 1.0, after_sd: 1.0 };
        let found = compare(&side(before), &side(after), metric).expect("comparable");
        assert_eq!(found.guilty[0].through.as_deref(), Some("malloc"));
        assert!((found.guilty[0].share - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_lock_a_sleep_and_a_system_call() {
        for leaf in [
            "lib:lock;kernel:futex_wait;state:[sleeping]",
            "lib:sleep;state:[sleeping]",
            "lib:write;kernel:vfs_write",
        ] {
            let before = "bench;work 5000";
            let after = format!("bench;work 5000\nbench;work;_oops;{leaf} 5000");
            check(before, &after, 200.0, &["_oops"]);
        }
    }

    #[test]
    fn lost_inlining_counts_what_the_caller_lost() {
        // The caller's own code is now a callee's, and a little more.
        check(
            "bench;outer 8000\nbench;rest 2000",
            "bench;outer 1000\nbench;outer;step 11000\nbench;rest 2000",
            140.0,
            &["step"],
        );
    }

    #[test]
    fn two_changes_are_both_named() {
        let before = "bench;a 2000\nbench;b 2000\nbench;c 6000";
        let after = "bench;a 6000\nbench;b 5000\nbench;c 6000";
        check(before, after, 170.0, &["a", "b"]);
    }

    #[test]
    fn a_function_on_two_ways_is_named_once() {
        let before = "bench;lib:fold;work 2000\nbench;lib:count;work 2000\nbench;c 6000";
        let after = "bench;lib:fold;work 6000\nbench;lib:count;work 5000\nbench;c 6000";
        check(before, after, 170.0, &["work"]);
    }

    #[test]
    fn ways_through_a_harness_do_not_divide_a_function() {
        // Few and long: each path alone would be chance.
        let before = "lib:warm_up;bench;run 1500\nlib:measure;bench;run 1500";
        let sleep = "bench;run;_oops;lib:sleep;state:[sleeping]";
        let after =
            format!("lib:warm_up;bench;run 2\nlib:warm_up;{sleep} 700\nlib:measure;{sleep} 300");
        check(before, &after, 100_000.0, &["_oops"]);
    }

    #[test]
    fn noise_names_nobody() {
        let before = "bench;a 5000\nbench;b 5000";
        check(before, "bench;a 5060\nbench;b 4950", 100.0, &[]);
        check(before, "bench;a 5060\nbench;b 4950", 101.0, &[]);
        check("bench;a 5\nbench;b 5", "bench;a 7\nbench;b 4", 110.0, &[]);
    }

    #[test]
    fn a_noisy_metric_leaves_the_shares() {
        let check = |after: &str, metric_after: f64, sd: f64, expected: &[&str]| {
            let metric = Metric { before: 100.0, after: metric_after, before_sd: sd, after_sd: sd };
            let before = side("bench;a 4000\nbench;b 4000\nbench;lock 400");
            let found = compare(&before, &side(after), metric).expect("comparable");
            let names: Vec<_> = found.guilty.iter().map(|it| it.function.as_str()).collect();
            assert_eq!(names, expected, "{after}, {sd}");
        };
        let slower = "bench;a 4000\nbench;b 4000\nbench;lock 4600";
        check(slower, 150.0, 1.0, &["lock"]);
        check(slower, 150.0, 20.0, &["lock"]);
        check(slower, 150.0, 40.0, &["lock"]);
        // The machine slows all of it.
        let alike = "bench;a 6000\nbench;b 6000\nbench;lock 600";
        check(alike, 200.0, 20.0, &[]);
        check(alike, 200.0, 1.0, &[]);
    }

    #[test]
    fn what_grew_more_than_the_whole_is_named() {
        // The share changes by little more than chance, since others grew as well.
        let before = "bench;split 360\nbench;sum 300\nbench;rest 340";
        let after = "bench;split 470\nbench;sum 400\nbench;rest 130";
        check(before, after, 210.0, &["split"]);
    }

    #[test]
    fn a_closure_is_its_function() {
        let before = "bench;f 1000\nbench;f::{{closure}} 1000\nbench;g 2000";
        let after = "bench;f 3000\nbench;f::{{closure}}::{closure#1} 3000\nbench;g 2000";
        check(before, after, 200.0, &["f"]);
    }

    #[test]
    fn library_code_is_named_where_there_is_no_other() {
        check(
            "lib:main;lib:x 1000\nlib:main;lib:y 1000",
            "lib:main;lib:x 3000\nlib:main;lib:y 1000",
            200.0,
            &["x"],
        );
    }

    #[test]
    fn lines_of_exact_counts() {
        let exact = |text| Side { is_exact: true, ..side(text) };
        let metric = Metric { before: 59.0, after: 153.0, before_sd: 0.0, after_sd: 0.0 };
        let (before, after) = (exact("xdp@3 59"), exact("xdp@3 59\nxdp;fibonacci@9 94"));
        let found = compare(&before, &after, metric).expect("comparable");
        assert_eq!(found.guilty[0].function, "fibonacci");
        let (place, change) = found.guilty[0].place.clone().expect("a place");
        assert_eq!((place.file.as_str(), place.line), ("src/lib.rs", 9));
        assert_eq!((change.before, change.after), (0.0, 94.0));
        assert!((found.guilty[0].change.difference() - 94.0).abs() < 1e-9);
    }

    #[test]
    fn lines_that_moved_are_the_same_lines() {
        let exact = |text| Side { is_exact: true, ..side(text) };
        let (before, after) = (exact("xdp@3 50\nxdp@4 9"), exact("xdp@5 50\nxdp@3 9\nxdp@7 20"));
        let place = |before: &Side| {
            let metric = Metric::of_totals(before, &after);
            let found = compare(before, &after, metric).expect("comparable");
            found.guilty[0].place.clone().expect("a place").0.line
        };
        assert_eq!(place(&before), 5, "by their numbers alone");
        let moved = |_: &str, line: u32| Some((line == 3).then_some(5));
        let before = before.renumbered(&moved);
        assert_eq!(place(&before), 7);
        let after = exact("xdp@5 50");
        let metric = Metric::of_totals(&before, &after);
        let found = compare(&before, &after, metric).expect("comparable");
        let (place, _) = found.guilty[0].place.clone().expect("a place");
        assert_eq!((place.line, place.is_gone), (4, true));
    }
}
