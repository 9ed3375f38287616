//! Which functions explain a change.
//!
//! From the outermost function on, the largest gain is followed as long as one callee has most of it. What is
//! named is the last function on that way that is the user's own: the memory allocator is not guilty, whoever
//! calls it more often is. What the function gained is taken out, and the rest is looked at in the same way.

use serde::Serialize;

use crate::{
    side::Origin,
    tree::{Change, FunctionChange, Matched, Metric, Node, Tree},
};

/// Functions that are named at most.
const NAMED_MAX: usize = 3;

/// The way goes on to the largest callee if it, or all that are larger than chance together, have this part of
/// the gain.
const FOLLOWED_MIN: f64 = 0.6;

/// What explains less of the change is not named.
const SHARE_MIN: f64 = 0.1;

/// A difference of fewer standard deviations may be chance: a chance of 1 in 1,000, divided by the nodes that are
/// looked at, of which some thirty matter.
const DEVIATIONS_MIN: f64 = 4.0;

/// A change of the metric of fewer standard deviations is not explained: there may be none.
const METRIC_DEVIATIONS_MIN: f64 = 3.0;

/// A callee that gains more than this many times what its caller gains has got code of the caller: it was inlined
/// before.
const MOVED_MIN: f64 = 1.2;

/// A function that explains a part of the change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guilty {
    pub function: String,
    /// Source file and line, where they are known: that with the largest gain.
    pub place: Option<(String, u32)>,
    /// Of the function with all that it calls, on this way.
    pub change: Change,
    /// Its part of the change of the metric, 1 for all of it.
    pub share: f64,
    /// The callee that has most of it, if the function itself has not: `malloc`, `[sleeping]`.
    pub through: Option<String>,
    /// The functions from the outermost to this one.
    pub path: Vec<String>,
    /// Whether anybody's own code was found there.
    pub is_own: bool,
}

/// What explains the change of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub metric: Metric,
    /// The largest part first; empty if nothing is larger than chance.
    pub guilty: Vec<Guilty>,
    /// All functions, those that changed most in themselves first.
    pub functions: Vec<FunctionChange>,
    pub matched: Vec<Matched>,
    pub samples: (f64, f64),
    pub is_exact: bool,
    /// The smallest change of a function that would have been named, in units of the metric.
    pub smallest_visible: f64,
    pub root: Node,
}

/// Names what explains the change between two profiles.
pub fn explain(tree: &Tree) -> Explanation {
    let change = tree.change();
    let search = Search { direction: if change < 0.0 { -1.0 } else { 1.0 }, change };
    let changed =
        change.abs() >= METRIC_DEVIATIONS_MIN * tree.metric.before_sd.hypot(tree.metric.after_sd);
    let mut root = tree.root.clone();
    let mut guilty = Vec::new();
    while changed && guilty.len() < NAMED_MAX {
        let Some(found) = search.next(&root) else { break };
        take_out(&mut root, &found.path, found.change);
        guilty.push(found);
    }
    // Of the half of a profile that is least certain.
    let smallest_visible = match tree.is_exact {
        true => 1.0,
        false => (DEVIATIONS_MIN * half_sd(tree)).max(SHARE_MIN * change.abs()),
    };
    Explanation {
        metric: tree.metric,
        guilty,
        functions: tree.functions.clone(),
        matched: tree.matched.clone(),
        samples: tree.samples,
        is_exact: tree.is_exact,
        smallest_visible,
        root: tree.root.clone(),
    }
}

/// Standard deviation of the difference of a function that takes a tenth of the time.
fn half_sd(tree: &Tree) -> f64 {
    let (before, after) = (tree.samples.0.max(1.0), tree.samples.1.max(1.0));
    let share: f64 = 0.1;
    let of = |metric: f64, samples: f64| metric * (share * (1.0 - share) / samples).sqrt();
    of(tree.metric.before, before).hypot(of(tree.metric.after, after))
}

/// What a walk looks for.
#[derive(Clone, Copy)]
struct Search {
    /// 1 for what became slower, -1 for what became faster.
    direction: f64,
    /// The change of the metric.
    change: f64,
}

impl Search {
    fn gain(self, node: &Node) -> f64 {
        self.direction * node.total.difference()
    }

    fn is_significant(self, node: &Node) -> bool {
        self.direction * node.total.deviations() >= DEVIATIONS_MIN
            && self.gain(node) >= SHARE_MIN * self.change.abs()
            && self.gain(node) > 0.0
    }

    /// The gain of a function in itself and in code that is nobody's own, as far as this is called directly.
    fn own_gain(self, node: &Node) -> f64 {
        let foreign = node.children.iter().filter(|child| child.origin != Origin::Own);
        self.direction * node.own.difference()
            + foreign.map(|child| self.own_gain(child)).sum::<f64>()
    }

    /// The callee to go on with, and whether the function itself only moved into it.
    fn callee(self, at: &Node) -> (Option<&Node>, bool) {
        let largest = at.children.iter().max_by(|a, b| self.gain(a).total_cmp(&self.gain(b)));
        let Some(child) = largest else { return (None, false) };
        if self.is_significant(child) && self.gain(child) > MOVED_MIN * self.gain(at) {
            return (None, true);
        }
        let significant = at.children.iter().filter(|child| self.is_significant(child));
        let explained: f64 = significant.map(|child| self.gain(child)).sum();
        let is_followed = self.gain(child).max(explained) >= FOLLOWED_MIN * self.gain(at);
        (is_followed.then_some(child), false)
    }

    /// Walks along the largest gain.
    fn next(self, root: &Node) -> Option<Guilty> {
        let mut path: Vec<&Node> = Vec::new();
        let mut has_moved = false;
        let mut at = root;
        while !has_moved {
            let (callee, moved) = self.callee(at);
            // A root has nothing that could move.
            has_moved = moved && !path.is_empty();
            let Some(child) = callee else { break };
            path.push(child);
            at = child;
        }
        let own = path.iter().rposition(|node| node.origin == Origin::Own);
        let found = own.or_else(|| path.iter().rposition(|node| node.origin == Origin::Library))?;
        let node = path[found];
        // All of a program became slower, and nothing in it more than the rest.
        let is_place = has_moved || self.own_gain(node) >= 0.5 * self.gain(node);
        if !is_place || !self.is_significant(node) {
            return None;
        }
        let has_itself = self.direction * node.own.difference() >= 0.5 * self.gain(node);
        let leaf = path.last().filter(|leaf| !has_itself && leaf.name != node.name);
        let share = if self.change == 0.0 { 0.0 } else { node.total.difference() / self.change };
        Some(Guilty {
            function: node.name.clone(),
            place: place(node, self.direction),
            change: node.total,
            share,
            through: leaf.map(|leaf| leaf.name.clone()),
            path: path[..=found].iter().map(|node| node.name.clone()).collect(),
            is_own: own.is_some(),
        })
    }
}

/// The line of a function with the largest gain.
fn place(node: &Node, direction: f64) -> Option<(String, u32)> {
    let gain = |change: &Change| direction * change.difference();
    let best = node.places.iter().max_by(|a, b| gain(a.1).total_cmp(&gain(b.1)))?;
    Some(best.0.clone())
}

/// Takes the gain of a function out of its callers, and what it calls out of the tree.
fn take_out(root: &mut Node, path: &[String], change: Change) {
    let mut at = root;
    for (depth, name) in path.iter().enumerate() {
        at.total.after -= change.difference();
        let Some(child) = at.children.iter().position(|child| child.name == *name) else { return };
        if depth + 1 == path.len() {
            at.children.remove(child);
            return;
        }
        at = &mut at.children[child];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::tests::side;

    /// The functions that are named when a metric of 100 becomes `after`.
    fn named(before: &str, after: &str, metric_after: f64) -> Vec<String> {
        let metric = Metric { before: 100.0, after: metric_after, before_sd: 1.0, after_sd: 1.0 };
        let tree = Tree::of(&side(before), &side(after), metric);
        explain(&tree).guilty.into_iter().map(|guilty| guilty.function).collect()
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
        let found = explain(&Tree::of(&side(before), &side(after), metric));
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
    fn lost_inlining_is_the_caller() {
        // What was the caller's own is a callee's now, and a little more.
        check(
            "bench;outer 8000\nbench;rest 2000",
            "bench;outer 1000\nbench;outer;step 11000\nbench;rest 2000",
            140.0,
            &["outer"],
        );
    }

    #[test]
    fn two_changes_are_both_named() {
        let before = "bench;a 2000\nbench;b 2000\nbench;c 6000";
        let after = "bench;a 6000\nbench;b 5000\nbench;c 6000";
        check(before, after, 170.0, &["a", "b"]);
    }

    #[test]
    fn noise_names_nobody() {
        let before = "bench;a 5000\nbench;b 5000";
        check(before, "bench;a 5060\nbench;b 4950", 100.0, &[]);
        check(before, "bench;a 5060\nbench;b 4950", 101.0, &[]);
        check("bench;a 5\nbench;b 5", "bench;a 7\nbench;b 4", 110.0, &[]);
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
        let exact = |text| crate::Side { is_exact: true, ..side(text) };
        let metric = Metric { before: 59.0, after: 153.0, before_sd: 0.0, after_sd: 0.0 };
        let tree = Tree::of(&exact("xdp@3 59"), &exact("xdp@3 59\nxdp;fibonacci@9 94"), metric);
        let found = explain(&tree);
        assert_eq!(found.guilty[0].function, "fibonacci");
        assert_eq!(found.guilty[0].place, Some(("src/lib.rs".to_owned(), 9)));
        assert!((found.guilty[0].change.difference() - 94.0).abs() < 1e-9);
    }
}
