//! Two profiles as one tree of calls, each node with what it takes before and after, in units of the metric.
//!
//! A node's value is its share of the profile times the metric, so that the differences of all nodes in
//! themselves add up to the change of the metric. Of code that is not the user's own the tree has what the user's own
//! code calls, and not what stands between two functions of it: harnesses and runtimes.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use crate::{
    blame::{Blame, frames},
    names::{Rule, plain, without_generics},
    side::{Frame, Origin, Side, Stack},
};

/// Frames of a stack that are looked at, from the outermost on. No real stack has more.
const DEPTH_MAX: usize = 2_000;

/// Shares differ from run to run by more than samples explain: code and data lie elsewhere. As a part of the
/// standard deviation of a single sample. By `cargo xtask peers guilty`, pairs of equal programs.
const RUN_TO_RUN: f64 = 0.03;

/// The metric that the profiles are of, before and after, with the standard deviation of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    pub before: f64,
    pub after: f64,
    pub before_sd: f64,
    pub after_sd: f64,
}

/// A value before and after, in units of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Change {
    pub before: f64,
    pub after: f64,
    /// Standard deviation of the difference; 0 for exact counts.
    pub sd: f64,
}

/// Two functions that were taken for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Matched {
    pub before: String,
    pub after: String,
    /// `generic arguments ignored`.
    pub rule: &'static str,
}

/// A function under its callers.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: String,
    pub origin: Origin,
    /// With all that it calls.
    pub total: Change,
    /// Without.
    pub own: Change,
    /// The largest gain first.
    pub children: Vec<Node>,
}

/// A function, wherever it was called.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionChange {
    pub name: String,
    /// With all that it calls, each sample once.
    pub total: Change,
    pub own: Change,
}

/// Both profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    pub root: Node,
    pub metric: Metric,
    pub functions: Vec<FunctionChange>,
    pub(crate) blame: Vec<Blame>,
    pub matched: Vec<Matched>,
    /// Samples before and after.
    pub samples: (f64, f64),
    pub is_exact: bool,
}

impl Change {
    pub fn difference(self) -> f64 {
        self.after - self.before
    }

    /// How many standard deviations the difference is from none. Infinite for an exact one.
    pub fn deviations(self) -> f64 {
        match self.difference() {
            0.0 => 0.0,
            difference => difference / self.sd,
        }
    }
}

/// Weight, and the variance of its sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    weight: f64,
    variance: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, stack: &Stack) {
        self.weight += stack.weight;
        // A count that varies as its own size does, each of the same mean weight.
        self.variance += stack.weight * stack.weight / stack.count;
    }
}

/// What turns weights of a profile into the metric.
#[derive(Debug, Clone, Copy)]
struct Scale {
    whole: Sum,
    metric: f64,
    metric_sd: f64,
    is_exact: bool,
}

impl Scale {
    /// The value of a part of the profile, and its variance.
    fn value(self, part: Sum) -> (f64, f64) {
        let share = part.weight / self.whole.weight;
        if self.is_exact {
            return (share * self.metric, 0.0);
        }
        let rest = (self.whole.variance - part.variance).max(0.0);
        let sampling = ((1.0 - share).powi(2) * part.variance + share.powi(2) * rest)
            / self.whole.weight.powi(2);
        let run_to_run = RUN_TO_RUN.powi(2) * share * (1.0 - share);
        let variance =
            self.metric.powi(2) * (sampling + run_to_run) + (share * self.metric_sd).powi(2);
        (share * self.metric, variance)
    }
}

/// The calls of one profile.
#[derive(Debug, Default)]
struct Calls {
    raw: String,
    origin: Option<Origin>,
    total: Sum,
    own: Sum,
    children: BTreeMap<String, Calls>,
}

impl Calls {
    fn of(side: &Side) -> Self {
        let mut root = Self::default();
        for stack in &side.stacks {
            root.total.add(stack);
            let mut at = &mut root;
            for frame in shown(side, stack).take(DEPTH_MAX) {
                at = at.children.entry(plain(&frame.name).into_owned()).or_default();
                if at.origin.is_none() {
                    at.raw.clone_from(&frame.name);
                    at.origin = Some(frame.origin);
                }
                at.total.add(stack);
            }
            at.own.add(stack);
        }
        root
    }
}

/// The frames of a stack that make its way: all of the user's own, and what the last of them calls. What a harness or
/// a runtime does in between takes many ways to the same function. Without any own frame, all.
fn shown<'s>(side: &'s Side, stack: &Stack) -> impl Iterator<Item = &'s Frame> {
    let frames = frames(side, stack);
    let last = frames.iter().rposition(|frame| frame.origin == Origin::Own);
    frames.into_iter().enumerate().filter_map(move |(at, frame)| {
        let is_between = last.is_some_and(|last| at < last) && frame.origin != Origin::Own;
        (!is_between).then_some(frame)
    })
}

impl Tree {
    pub fn of(before: &Side, after: &Side, metric: Metric) -> Self {
        let mut merge = Merge {
            before: Scale::of(before, metric.before, metric.before_sd),
            after: Scale::of(after, metric.after, metric.after_sd),
            matched: Vec::new(),
        };
        let (calls_before, calls_after) = (Calls::of(before), Calls::of(after));
        let root = merge.node(String::new(), Some(&calls_before), Some(&calls_after));
        let functions = merge.functions(before, after);
        let blame = merge.blame(before, after);
        let mut matched = merge.matched;
        let mut known = HashSet::new();
        matched.retain(|it| known.insert((it.before.clone(), it.after.clone())));
        let samples = (before.samples(), after.samples());
        Self { root, metric, functions, blame, matched, samples, is_exact: before.is_exact }
    }

    /// By how much the metric changed.
    pub fn change(&self) -> f64 {
        self.metric.after - self.metric.before
    }
}

impl Scale {
    fn of(side: &Side, metric: f64, metric_sd: f64) -> Self {
        let mut whole = Sum::default();
        side.stacks.iter().for_each(|stack| whole.add(stack));
        Self { whole, metric, metric_sd, is_exact: side.is_exact }
    }
}

pub(crate) struct Merge {
    before: Scale,
    after: Scale,
    matched: Vec<Matched>,
}

impl Merge {
    pub(crate) fn note_generics(&mut self, before: &str, after: &str) {
        let (before, after) = (before.to_owned(), after.to_owned());
        self.matched.push(Matched { before, after, rule: Rule::Generics.words() });
    }

    pub(crate) fn change(&self, before: Option<Sum>, after: Option<Sum>) -> Change {
        let (before, before_variance) = self.before.value(before.unwrap_or_default());
        let (after, after_variance) = self.after.value(after.unwrap_or_default());
        Change { before, after, sd: (before_variance + after_variance).sqrt() }
    }

    fn node(&mut self, name: String, before: Option<&Calls>, after: Option<&Calls>) -> Node {
        let both = [before, after];
        let origin =
            both.iter().flatten().find_map(|calls| calls.origin).unwrap_or(Origin::Library);
        if let [Some(before), Some(after)] = both
            && before.raw != after.raw
        {
            let is_suffix = plain(&before.raw) == plain(&after.raw);
            let rule = if is_suffix { Rule::Suffix } else { Rule::Generics };
            let (before, after) = (before.raw.clone(), after.raw.clone());
            self.matched.push(Matched { before, after, rule: rule.words() });
        }
        let pairs = pairs(before, after);
        let mut children: Vec<Node> =
            pairs.into_iter().map(|(name, before, after)| self.node(name, before, after)).collect();
        children.sort_by(|a, b| b.total.difference().total_cmp(&a.total.difference()));
        let total = self.change(before.map(|it| it.total), after.map(|it| it.total));
        let own = self.change(before.map(|it| it.own), after.map(|it| it.own));
        Node { name, origin, total, own, children }
    }

    fn functions(&self, before: &Side, after: &Side) -> Vec<FunctionChange> {
        let (before, after) = (by_function(before), by_function(after));
        let names: HashSet<&String> = before.keys().chain(after.keys()).collect();
        let mut functions: Vec<FunctionChange> = names
            .into_iter()
            .map(|name| {
                let of =
                    |sums: &HashMap<String, [Sum; 2]>, at: usize| sums.get(name).map(|it| it[at]);
                FunctionChange {
                    name: name.clone(),
                    total: self.change(of(&before, 0), of(&after, 0)),
                    own: self.change(of(&before, 1), of(&after, 1)),
                }
            })
            .collect();
        functions.sort_by(|a, b| {
            let size = |it: &FunctionChange| it.own.difference().abs();
            size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name))
        });
        functions
    }
}

/// The children of both that belong together. What has no partner of its name gets one whose name differs in
/// generic arguments only, if there is exactly one.
fn pairs<'c>(
    before: Option<&'c Calls>,
    after: Option<&'c Calls>,
) -> Vec<(String, Option<&'c Calls>, Option<&'c Calls>)> {
    static NONE: BTreeMap<String, Calls> = BTreeMap::new();
    let before = before.map_or(&NONE, |calls| &calls.children);
    let after = after.map_or(&NONE, |calls| &calls.children);
    let mut pairs = Vec::new();
    let mut alone: BTreeMap<String, [Vec<(&String, &Calls)>; 2]> = BTreeMap::new();
    for (name, calls) in before {
        match after.get(name) {
            Some(other) => pairs.push((name.clone(), Some(calls), Some(other))),
            None => alone.entry(without_generics(name)).or_default()[0].push((name, calls)),
        }
    }
    for (name, calls) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        alone.entry(without_generics(name)).or_default()[1].push((name, calls));
    }
    for (key, [before, after]) in alone {
        if let ([(_, before)], [(name, after)]) = (&before[..], &after[..])
            && !key.is_empty()
        {
            pairs.push(((*name).clone(), Some(*before), Some(*after)));
            continue;
        }
        pairs.extend(before.into_iter().map(|(name, calls)| (name.clone(), Some(calls), None)));
        pairs.extend(after.into_iter().map(|(name, calls)| (name.clone(), None, Some(calls))));
    }
    pairs
}

/// What functions take with all that they call, and by themselves.
fn by_function(side: &Side) -> HashMap<String, [Sum; 2]> {
    let mut sums: HashMap<String, [Sum; 2]> = HashMap::new();
    let names: Vec<String> = side.frames.iter().map(|it| plain(&it.name).into_owned()).collect();
    let mut seen = HashSet::new();
    for stack in &side.stacks {
        seen.clear();
        for frame in &stack.frames {
            let Some(name) = names.get(*frame as usize) else { continue };
            if seen.insert(name) {
                sums.entry(name.clone()).or_default()[0].add(stack);
            }
        }
        let last = stack.frames.last().and_then(|frame| names.get(*frame as usize));
        if let Some(last) = last {
            sums.entry(last.clone()).or_default()[1].add(stack);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::side::tests::side;

    const METRIC: Metric = Metric { before: 100.0, after: 150.0, before_sd: 1.0, after_sd: 1.0 };

    fn own_differences(node: &Node) -> f64 {
        node.own.difference() + node.children.iter().map(own_differences).sum::<f64>()
    }

    fn find<'n>(node: &'n Node, name: &str) -> &'n Node {
        let found = node.children.iter().find(|child| child.name == name);
        found.unwrap_or_else(|| panic!("{name} is not below {}", node.name))
    }

    #[test]
    fn values_are_shares_of_the_metric() {
        let (before, after) = (side("main;a 50\nmain;b 50"), side("main;a 50\nmain;b 100"));
        let tree = Tree::of(&before, &after, METRIC);
        let main = find(&tree.root, "main");
        assert!((main.total.difference() - 50.0).abs() < 1e-9);
        assert!(find(main, "a").total.difference().abs() < 1e-9);
        let b = find(main, "b").total;
        assert!((b.before, b.after) == (50.0, 100.0), "{b:?}");
        assert_eq!(main.children[0].name, "b", "the largest gain first");
        let [first, ..] = &tree.functions[..] else { panic!("functions") };
        assert_eq!((first.name.as_str(), first.own.after), ("b", 100.0));
    }

    #[test]
    fn recursion_counts_once() {
        let tree = Tree::of(&side("f;f;f 10"), &side("f;f 10"), METRIC);
        let f = tree.functions.iter().find(|function| function.name == "f").expect("f");
        assert_eq!((f.total.before, f.total.after), (100.0, 150.0));
    }

    #[test]
    fn renamed_functions_are_matched_and_said() {
        let before = side("main;f::<u8> 10\nmain;g::h0123456789abcdef 10");
        let after = side("main;f::<u16> 10\nmain;g::hfedcba9876543210 10");
        let tree = Tree::of(&before, &after, METRIC);
        let main = find(&tree.root, "main");
        assert_eq!(main.children.len(), 2);
        let rules: Vec<_> = tree.matched.iter().map(|it| (it.after.as_str(), it.rule)).collect();
        let expected = [
            ("g::hfedcba9876543210", "compiler suffixes ignored"),
            ("f::<u16>", "generic arguments ignored"),
        ];
        assert_eq!(rules, expected);
        // Two that might be meant are none.
        let after = side("main;f::<u16> 10\nmain;f::<u32> 10");
        let tree = Tree::of(&before, &after, METRIC);
        assert_eq!(find(&tree.root, "main").children.len(), 4);
    }

    #[test]
    fn exact_counts_have_no_error() {
        let exact = |text| Side { kind: "instructions count".into(), is_exact: true, ..side(text) };
        let tree = Tree::of(&exact("f@3 10"), &exact("f@3 10\nf@4 5"), METRIC);
        let f = find(&tree.root, "f");
        assert_eq!((f.total.sd, f.total.deviations()), (0.0, f64::INFINITY));
    }

    fn stacks() -> impl Strategy<Value = String> {
        let frame =
            prop::sample::select(vec!["a", "b", "lib:c", "kernel:d", "f::<u8>", "f::<u16>"]);
        let stack = (prop::collection::vec(frame, 1..6), 1..1000_u32)
            .prop_map(|(frames, count)| format!("{} {count}\n", frames.join(";")));
        prop::collection::vec(stack, 1..20).prop_map(|stacks| stacks.concat())
    }

    proptest! {
        #[test]
        fn differences_add_up_to_the_change(
            before in stacks(),
            after in stacks(),
            values in (0.001..1e9_f64, 0.001..1e9_f64),
        ) {
            let metric = Metric { before: values.0, after: values.1, before_sd: 0.0, after_sd: 0.0 };
            let tree = Tree::of(&side(&before), &side(&after), metric);
            let scale = values.0.max(values.1);
            prop_assert!((own_differences(&tree.root) - tree.change()).abs() < 1e-9 * scale);
            let total = tree.root.total.difference();
            prop_assert!((total - tree.change()).abs() < 1e-9 * scale);
        }
    }
}
