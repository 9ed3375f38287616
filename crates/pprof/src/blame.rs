//! Attributes the time of each stack to its innermost own function. The memory allocator is not blamed for its
//! callers, nor a harness for its callees.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;

use crate::{
    names::{function, without_generics},
    origin::Origin,
    scale::{Change, Scales, Sum},
    side::{Frame, Side, Stack},
};

/// Two functions matched as one: their names differ in generic arguments only, and each side has exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Matched {
    pub before: String,
    pub after: String,
}

/// A source line, as numbered in the later version of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
    /// Whether the later version lacks the line: the number is then that of the earlier one.
    pub is_gone: bool,
}

/// A function's attributed weight, before and after.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blame {
    pub(crate) function: String,
    pub(crate) is_own: bool,
    /// Whether it is inlined on one side only.
    pub(crate) is_inlined_once: bool,
    pub(crate) change: Change,
    /// Its share of the profile, independent of the metric.
    pub(crate) share: Change,
    /// By the function's file and line.
    pub(crate) places: Vec<(Place, Change)>,
    /// By the innermost function called.
    pub(crate) leaves: Vec<(String, Change)>,
    /// By the calling own function.
    pub(crate) callers: Vec<(String, Change)>,
}

#[derive(Debug, Default)]
struct Sums {
    is_own: bool,
    all: Sum,
    places: BTreeMap<Place, Sum>,
    leaves: BTreeMap<String, Sum>,
    callers: BTreeMap<String, Sum>,
}

/// Function of samples without frames.
const NO_STACK: &str = "[no stack]";

/// Own functions that are inlined on one side only. The compiler attributes code inlined into them differently on
/// each side, so it counts as theirs.
fn inlined_once(before: &Side, after: &Side) -> HashSet<String> {
    let (before, after) = (inlined_part(before), inlined_part(after));
    let is_it = |name: &String, part: f64| {
        after.get(name).is_some_and(|other| (part > 0.5) != (*other > 0.5))
    };
    before.into_iter().filter(|(name, part)| is_it(name, *part)).map(|(name, _)| name).collect()
}

/// The inlined part of each own function's weight.
fn inlined_part(side: &Side) -> HashMap<String, f64> {
    let mut weights = vec![0.0; side.frames.len()];
    for stack in &side.stacks {
        for frame in &stack.frames {
            if let Some(weight) = weights.get_mut(*frame as usize) {
                *weight += stack.weight;
            }
        }
    }
    let mut sums: HashMap<String, [f64; 2]> = HashMap::new();
    for (frame, weight) in side.frames.iter().zip(weights) {
        if frame.origin == Origin::Own {
            let sums = sums.entry(function(&frame.name)).or_default();
            sums[usize::from(frame.is_inlined)] += weight;
        }
    }
    let sums = sums.into_iter().filter(|(_, [own, inlined])| own + inlined > 0.0);
    sums.map(|(name, [own, inlined])| (name, inlined / (own + inlined))).collect()
}

/// The innermost own function, or the one that it is inlined into if that is [`inlined_once`].
fn to_blame(frames: &[&Frame], inlined_once: &HashSet<String>) -> Option<usize> {
    let own = frames.iter().rposition(|frame| frame.origin == Origin::Own)?;
    let is_it = |at: usize| inlined_once.contains(&function(&frames[at].name));
    let mut at = own;
    while !is_it(at) {
        if !frames[at].is_inlined || at == 0 {
            return Some(own);
        }
        at -= 1;
    }
    Some(at)
}

/// Sums the weights attributed to each function.
fn by_blame(side: &Side, inlined_once: &HashSet<String>) -> BTreeMap<String, Sums> {
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for stack in &side.stacks {
        let frames = frames(side, stack);
        let own = to_blame(&frames, inlined_once);
        let library = || frames.iter().rposition(|frame| frame.origin == Origin::Library);
        let at = own.or_else(library).unwrap_or(frames.len().saturating_sub(1));
        let (Some(blamed), Some(leaf)) = (frames.get(at), frames.last()) else {
            all.entry(NO_STACK.to_owned()).or_default().all.add(stack);
            continue;
        };
        let name = function(&blamed.name);
        let sums = all.entry(name.clone()).or_default();
        sums.is_own |= own.is_some();
        sums.all.add(stack);
        if let (Some(file), Some(line)) = (&blamed.file, blamed.line) {
            let place = Place { file: file.clone(), line, is_gone: blamed.is_gone };
            sums.places.entry(place).or_default().add(stack);
        }
        sums.leaves.entry(function(&leaf.name)).or_default().add(stack);
        // Through library code, a function may call its own closure.
        let caller = frames[..at]
            .iter()
            .rev()
            .find(|frame| frame.origin == Origin::Own && function(&frame.name) != name);
        if let Some(caller) = caller {
            sums.callers.entry(function(&caller.name)).or_default().add(stack);
        }
    }
    all
}

fn frames<'s>(side: &'s Side, stack: &Stack) -> Vec<&'s Frame> {
    stack.frames.iter().filter_map(|frame| side.frames.get(*frame as usize)).collect()
}

/// Attributed weights by function, which add up to the metric, and the functions that were matched.
pub(crate) fn blame(before: &Side, after: &Side, scales: Scales) -> (Vec<Blame>, Vec<Matched>) {
    let inlined_once = inlined_once(before, after);
    let (before, mut after) = (by_blame(before, &inlined_once), by_blame(after, &inlined_once));
    let (mut blame, mut matched) = (Vec::new(), Vec::new());
    let mut alone: BTreeMap<String, [Vec<(String, Sums)>; 2]> = BTreeMap::new();
    for (name, sums) in before {
        match after.remove(&name) {
            Some(other) => {
                let is_inlined_once = inlined_once.contains(&name);
                blame.push(Blame { is_inlined_once, ..Blame::of(scales, name, sums, other) });
            }
            None => alone.entry(without_generics(&name)).or_default()[0].push((name, sums)),
        }
    }
    for (name, sums) in after {
        alone.entry(without_generics(&name)).or_default()[1].push((name, sums));
    }
    for (key, [mut before, mut after]) in alone {
        if before.len() == 1 && after.len() == 1 && !key.is_empty() {
            let ((old_name, old), (name, new)) = (before.remove(0), after.remove(0));
            matched.push(Matched { before: old_name, after: name.clone() });
            blame.push(Blame::of(scales, name, old, new));
        }
        let none = Sums::default;
        blame.extend(before.into_iter().map(|(name, it)| Blame::of(scales, name, it, none())));
        blame.extend(after.into_iter().map(|(name, it)| Blame::of(scales, name, none(), it)));
    }
    (blame, matched)
}

impl Blame {
    fn of(scales: Scales, function: String, before: Sums, after: Sums) -> Self {
        Self {
            function,
            is_own: before.is_own || after.is_own,
            is_inlined_once: false,
            change: scales.change(before.all, after.all),
            share: scales.shares().change(before.all, after.all),
            places: changes(scales, &before.places, &after.places),
            leaves: changes(scales, &before.leaves, &after.leaves),
            callers: changes(scales, &before.callers, &after.callers),
        }
    }
}

fn changes<K: Ord + Clone>(
    scales: Scales,
    before: &BTreeMap<K, Sum>,
    after: &BTreeMap<K, Sum>,
) -> Vec<(K, Change)> {
    let keys: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    let of = |sums: &BTreeMap<K, Sum>, key: &K| sums.get(key).copied().unwrap_or_default();
    let change = |key: &K| (key.clone(), scales.change(of(before, key), of(after, key)));
    keys.into_iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Metric, side::tests::side};

    const METRIC: Metric = Metric { before: 100.0, after: 150.0, before_sd: 1.0, after_sd: 1.0 };

    fn blamed(before: &Side, after: &Side) -> (Vec<Blame>, Vec<Matched>) {
        blame(before, after, Scales::of(before, after, METRIC))
    }

    fn find<'b>(blame: &'b [Blame], name: &str) -> &'b Blame {
        blame.iter().find(|it| it.function == name).expect("it is to blame")
    }

    #[test]
    fn values_are_shares_of_the_metric() {
        let (before, after) = (side("main;a 50\nmain;b 50"), side("main;a 50\nmain;b 100"));
        let (found, _) = blamed(&before, &after);
        assert!(find(&found, "a").change.difference().abs() < 1e-9);
        let b = find(&found, "b").change;
        assert_eq!((b.before, b.after), (50.0, 100.0));
    }

    #[test]
    fn the_innermost_own_function_is_to_blame() {
        let check = |stack: &str, expected: &str| {
            let one = side(&format!("{stack} 1"));
            let (found, _) = blamed(&one, &one);
            let names: Vec<_> = found.iter().map(|it| it.function.as_str()).collect();
            assert_eq!(names, [expected], "{stack}");
        };
        check("lib:main;a;lib:harness;b;lib:malloc;kernel:fault", "b");
        check("f;f;f", "f");
        check("lib:main;lib:x;kernel:fault", "x");
        check("kernel:fault;state:[sleeping]", "[sleeping]");
    }

    #[test]
    fn what_is_inlined_in_a_function_that_was_inlined_is_its_own() {
        let check = |before: &str, after: &str, expected: &[&str]| {
            let (found, _) = blamed(&side(before), &side(after));
            let names: Vec<_> = found.iter().map(|it| it.function.as_str()).collect();
            assert_eq!(names, expected, "{before}\n{after}");
        };
        let inlined = "main;parse;~next;~bump 10";
        check(inlined, "main;parse;next;~bump;~advance 20", &["next"]);
        check(inlined, "main;parse;next;lib:copy 20", &["next"]);
        // A function that it calls is separate, and those inlined on both sides are treated as before.
        check(inlined, "main;parse;next;bump 20", &["bump"]);
        check(inlined, "main;parse;~next;~advance 20", &["advance", "bump"]);
    }

    #[test]
    fn renamed_functions_are_matched_and_said() {
        let before = side("main;f::<u8> 10\nmain;g::h0123456789abcdef 10");
        let after = side("main;f::<u16> 10\nmain;g::hfedcba9876543210 10");
        let (found, matched) = blamed(&before, &after);
        assert_eq!(found.len(), 2);
        let renamed = Matched { before: "f::<u8>".to_owned(), after: "f::<u16>".to_owned() };
        assert_eq!(matched, [renamed]);
        // Two candidates are not matched.
        let (found, matched) = blamed(&before, &side("main;f::<u16> 10\nmain;f::<u32> 10"));
        assert_eq!((found.len(), matched.len()), (4, 0));
    }

    #[test]
    fn exact_counts_have_no_error() {
        let exact = |text| Side { is_exact: true, ..side(text) };
        let (found, _) = blamed(&exact("f@3 10"), &exact("f@3 10\nf@4 5"));
        let f = find(&found, "f");
        assert_eq!((f.change.sd, f.change.deviations()), (0.0, f64::INFINITY));
        let line = f.places.iter().find(|(place, _)| place.line == 4).expect("a line");
        assert!((line.1.difference() - 50.0).abs() < 1e-9, "{line:?}");
    }

    fn stacks() -> impl Strategy<Value = String> {
        let frames = vec!["a", "b", "lib:c", "kernel:d", "state:[e]", "f::<u8>", "f::<u16>"];
        let stack = (prop::collection::vec(prop::sample::select(frames), 1..6), 1..1000_u32)
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
            let (before, after) = (side(&before), side(&after));
            let metric = Metric { before: values.0, after: values.1, before_sd: 0.0, after_sd: 0.0 };
            let (found, _) = blame(&before, &after, Scales::of(&before, &after, metric));
            let sum: f64 = found.iter().map(|it| it.change.difference()).sum();
            let scale = values.0.max(values.1);
            prop_assert!((sum - (values.1 - values.0)).abs() < 1e-9 * scale, "{sum}");
        }
    }
}
