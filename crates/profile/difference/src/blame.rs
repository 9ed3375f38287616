//! Who is to blame for the time of a stack: the innermost function in it that is the user's own. The memory
//! allocator is not guilty, whoever calls it is; nor is a harness, which calls everything.

use std::collections::{BTreeMap, HashSet};

use crate::{
    names::{plain, without_generics},
    side::{Frame, Origin, Side, Stack},
    tree::{Change, Merge, Sum},
};

/// What a function is to blame for, before and after.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blame {
    pub(crate) function: String,
    pub(crate) is_own: bool,
    pub(crate) change: Change,
    /// By file and line of the function.
    pub(crate) places: Vec<((String, u32), Change)>,
    /// By the innermost function that it calls.
    pub(crate) leaves: Vec<(String, Change)>,
    /// By the user's own function that calls it.
    pub(crate) callers: Vec<(String, Change)>,
}

#[derive(Debug, Default)]
struct Sums {
    is_own: bool,
    all: Sum,
    places: BTreeMap<(String, u32), Sum>,
    leaves: BTreeMap<String, Sum>,
    callers: BTreeMap<String, Sum>,
}

/// Adds up what each function of a profile is to blame for.
fn by_blame(side: &Side) -> BTreeMap<String, Sums> {
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for stack in &side.stacks {
        let frames = frames(side, stack);
        let own = frames.iter().rposition(|frame| frame.origin == Origin::Own);
        let library = || frames.iter().rposition(|frame| frame.origin == Origin::Library);
        let Some(at) = own.or_else(library) else { continue };
        let (Some(blamed), Some(leaf)) = (frames.get(at), frames.last()) else { continue };
        let sums = all.entry(plain(&blamed.name).into_owned()).or_default();
        sums.is_own |= own.is_some();
        sums.all.add(stack);
        if let (Some(file), Some(line)) = (&blamed.file, blamed.line) {
            sums.places.entry((file.clone(), line)).or_default().add(stack);
        }
        sums.leaves.entry(plain(&leaf.name).into_owned()).or_default().add(stack);
        // A closure is called by the function that it stands in, through code of others.
        let caller = frames[..at]
            .iter()
            .rev()
            .find(|frame| frame.origin == Origin::Own && plain(&frame.name) != plain(&blamed.name));
        if let Some(caller) = caller {
            sums.callers.entry(plain(&caller.name).into_owned()).or_default().add(stack);
        }
    }
    all
}

pub(crate) fn frames<'s>(side: &'s Side, stack: &Stack) -> Vec<&'s Frame> {
    stack.frames.iter().filter_map(|frame| side.frames.get(*frame as usize)).collect()
}

impl Merge {
    /// What functions are to blame for. Functions whose names differ in generic arguments only are one, if
    /// there is exactly one of them on each side.
    pub(crate) fn blame(&mut self, before: &Side, after: &Side) -> Vec<Blame> {
        let (before, mut after) = (by_blame(before), by_blame(after));
        let mut pairs: Vec<(String, Option<Sums>, Option<Sums>)> = Vec::new();
        let mut alone: BTreeMap<String, Vec<(String, Sums)>> = BTreeMap::new();
        for (name, sums) in before {
            match after.remove(&name) {
                Some(other) => pairs.push((name, Some(sums), Some(other))),
                None => alone.entry(without_generics(&name)).or_default().push((name, sums)),
            }
        }
        let mut left: BTreeMap<String, Vec<(String, Sums)>> = BTreeMap::new();
        for (name, sums) in after {
            left.entry(without_generics(&name)).or_default().push((name, sums));
        }
        for (key, mut olds) in alone {
            let mut news = left.remove(&key).unwrap_or_default();
            if olds.len() == 1 && news.len() == 1 && !key.is_empty() {
                let ((old_name, old), (name, new)) = (olds.remove(0), news.remove(0));
                self.note_generics(&old_name, &name);
                pairs.push((name, Some(old), Some(new)));
            }
            pairs.extend(olds.into_iter().map(|(name, sums)| (name, Some(sums), None)));
            pairs.extend(news.into_iter().map(|(name, sums)| (name, None, Some(sums))));
        }
        let news = left.into_values().flatten();
        pairs.extend(news.map(|(name, sums)| (name, None, Some(sums))));
        pairs.into_iter().map(|(name, old, new)| self.blamed(name, old, new)).collect()
    }

    fn blamed(&self, function: String, before: Option<Sums>, after: Option<Sums>) -> Blame {
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        Blame {
            function,
            is_own: before.is_own || after.is_own,
            change: self.change(Some(before.all), Some(after.all)),
            places: self.changes(&before.places, &after.places),
            leaves: self.changes(&before.leaves, &after.leaves),
            callers: self.changes(&before.callers, &after.callers),
        }
    }

    fn changes<K: Ord + Clone + std::hash::Hash>(
        &self,
        before: &BTreeMap<K, Sum>,
        after: &BTreeMap<K, Sum>,
    ) -> Vec<(K, Change)> {
        let keys: HashSet<&K> = before.keys().chain(after.keys()).collect();
        let mut changes: Vec<(K, Change)> = keys
            .into_iter()
            .map(|key| {
                (key.clone(), self.change(before.get(key).copied(), after.get(key).copied()))
            })
            .collect();
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        changes
    }
}
