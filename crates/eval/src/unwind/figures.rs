//! The figures of a run, and how they differ from perf's. Pure: stacks in, numbers out.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    cost::Cost,
    functions::{Function, Functions},
    stacks::Stacks,
    tools::Run,
};

/// So many functions with most total time are compared.
const COMPARED: usize = 10;

/// What a tool saw of user code.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Samples with a user stack.
    samples: u64,
    /// Of these, how many stacks begin where a process or a thread begins.
    rooted: u64,
    frames: u64,
    /// Samples with this function anywhere on the stack.
    totals: HashMap<Function, u64>,
}

/// A run of a tool, as the tables show it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) samples: u64,
    pub(super) lost: u64,
    /// Share of complete stacks.
    pub(super) complete: Option<f64>,
    pub(super) depth: Option<f64>,
    pub(super) depth_from_perf: Option<f64>,
    /// The largest difference of a function's share of samples, and of which.
    pub(super) from_perf: Option<f64>,
    pub(super) function: String,
    pub(super) bytes_per_sample: Option<f64>,
    pub(super) slowdown: Option<f64>,
    /// CPU seconds of the tool for 10,000 samples, and what of it is for what.
    pub(super) own_s_per_10k: Option<f64>,
    pub(super) recording_s_per_10k: Option<f64>,
    pub(super) symbols_s_per_10k: Option<f64>,
    pub(super) writing_s_per_10k: Option<f64>,
    pub(super) memory_mb: Option<f64>,
    #[serde(default)]
    pub(super) recording_memory_mb: Option<f64>,
}

impl Figures {
    /// Of a run whose target costs this alone, beside what perf saw.
    pub(super) fn of(
        run: &Run,
        seen: &Seen,
        perf: Option<&Seen>,
        alone: &Cost,
        functions: &Functions,
    ) -> Self {
        let gap = perf.and_then(|perf| seen.largest_difference(perf));
        let function = gap.as_ref().map(|(_, function)| functions.name(function));
        let own_ns = run.cost.own_ns(alone);
        let later_ns = run.symbols_ns.unwrap_or(0) + run.writing_ns.unwrap_or(0);
        let s_per_10k =
            |ns: u64| (run.samples > 0).then(|| ns as f64 / 1e9 / run.samples as f64 * 1e4);
        let rss_max_bytes = run.cost.usage.rss_max_bytes;
        let mb = |bytes: u64| (bytes > 0).then_some(bytes as f64 / 1e6);
        // What does nothing after the recording had its most while it recorded.
        let only_records = run.symbols_ns.is_none().then_some(rss_max_bytes);
        Self {
            samples: run.samples,
            lost: run.lost,
            complete: run.complete.or_else(|| seen.complete()),
            depth: seen.depth(),
            depth_from_perf: perf.and_then(|perf| Some(seen.depth()? - perf.depth()?)),
            from_perf: gap.as_ref().map(|(gap, _)| *gap),
            function: function.unwrap_or_default().to_owned(),
            bytes_per_sample: run.bytes_per_sample,
            slowdown: run.cost.slowdown(alone),
            own_s_per_10k: s_per_10k(own_ns),
            recording_s_per_10k: s_per_10k(own_ns.saturating_sub(later_ns)),
            symbols_s_per_10k: run.symbols_ns.and_then(s_per_10k),
            writing_s_per_10k: run.writing_ns.and_then(s_per_10k),
            memory_mb: mb(rss_max_bytes),
            recording_memory_mb: run.recording_bytes.or(only_records).and_then(mb),
        }
    }
}

impl Seen {
    /// `known` are the functions of the frames.
    pub(super) fn of(
        stacks: &Stacks,
        known: &[Function],
        is_root: impl Fn(&Function) -> bool,
    ) -> Self {
        let mut seen = Self::default();
        for (stack, samples) in &stacks.stacks {
            let Some(&outermost) = stack.last() else { continue };
            seen.samples += samples;
            seen.frames += samples * stack.len() as u64;
            seen.rooted += samples * u64::from(is_root(&known[outermost]));
            let once: HashSet<&Function> = stack.iter().map(|&frame| &known[frame]).collect();
            for function in once {
                *seen.totals.entry(function.clone()).or_default() += samples;
            }
        }
        seen
    }

    fn complete(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.rooted as f64 / self.samples as f64)
    }

    fn depth(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.frames as f64 / self.samples as f64)
    }

    fn share(&self, function: &Function) -> f64 {
        self.totals.get(function).map_or(0.0, |&total| total as f64 / self.samples as f64)
    }

    /// The largest difference among the functions that have most total time with the other.
    fn largest_difference(&self, other: &Self) -> Option<(f64, Function)> {
        if self.samples == 0 {
            return None;
        }
        let mut most: Vec<_> = other.totals.iter().collect();
        most.sort_by(|(a, a_total), (b, b_total)| b_total.cmp(a_total).then(a.cmp(b)));
        let compared = most.into_iter().take(COMPARED).map(|(function, _)| function);
        let gaps = compared.map(|it| (self.share(it) - other.share(it), it.clone()));
        gaps.max_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks of functions by name, innermost first.
    fn seen(stacks: &[(&str, u64)]) -> Seen {
        let (mut made, mut known) = (Stacks::default(), Vec::new());
        for (stack, samples) in stacks {
            let first = known.len();
            known.extend(stack.split_whitespace().map(|name| Function::Named(name.to_owned())));
            made.stacks.push(((first..known.len()).collect(), *samples));
        }
        let is_root = |function: &Function| *function == Function::Named("_start".to_owned());
        Seen::of(&made, &known, is_root)
    }

    #[test]
    fn depth_and_completeness() {
        let check = |stacks: &[(&str, u64)], expected| {
            let seen = seen(stacks);
            assert_eq!((seen.complete(), seen.depth()), expected, "{stacks:?}");
        };
        check(&[("b a _start", 3), ("a", 1), ("", 5)], (Some(0.75), Some(2.5)));
        check(&[("a a _start", 1)], (Some(1.0), Some(3.0)));
        check(&[], (None, None));
    }

    #[test]
    fn the_largest_difference_counts() {
        let theirs = seen(&[("b a _start", 50), ("a a _start", 50)]);
        let ours = seen(&[("b a _start", 25), ("a _start", 75)]);
        let (gap, function) = ours.largest_difference(&theirs).expect("functions");
        assert_eq!((gap, function), (-0.25, Function::Named("b".to_owned())));
        assert_eq!(seen(&[]).largest_difference(&theirs), None);
    }
}
