//! The stacks of both sides as one tree: frames are equal if all frames below them are. Sums by frame and by function.

use std::{borrow::Cow, cmp::Ordering, collections::HashMap};

use rustc_hash::FxHashMap;

use super::Colour;
use crate::{
    Explanation,
    names::{function, plain},
    origin::{Origin, is_guess},
    scale::{Change, Metric, Scales, Sum},
    side::Side,
};

/// Maximum depth; deeper frames count for the last one.
const DEPTH_MAX: usize = 1024;

/// Maximum number of frames; further ones count for their callers.
const FRAMES_MAX: usize = 1 << 20;

/// Both profiles, with a root frame for all of them.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) frames: Vec<Frame>,
    pub(super) names: Vec<Name>,
    /// Whether some code is taken for the author's only because the path of its source is unknown.
    pub(super) has_guesses: bool,
    scales: Scales,
}

#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) colour: Colour,
}

/// A frame with its callees.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub(super) name: u32,
    /// Indices in the tree, sorted by name.
    pub(super) children: Vec<u32>,
    pub(super) sums: [Sum; 2],
    pub(super) own_sums: [Sum; 2],
}

impl Tree {
    pub(super) fn of(before: &Side, after: &Side, explanation: &Explanation) -> Self {
        let mut builder = Builder::new(Scales::of(before, after, explanation.metric));
        let renamed = explanation.matched.iter();
        let renamed = renamed.map(|it| (it.before.as_str(), it.after.as_str())).collect();
        builder.add(before, 0, &renamed);
        builder.add(after, 1, &HashMap::new());
        builder.sorted()
    }

    /// A single profile: as the later side, with an empty earlier one.
    pub(super) fn single(side: &Side, total: f64) -> Self {
        let metric = Metric { before: 0.0, after: total, before_sd: 0.0, after_sd: 0.0 };
        let mut builder = Builder::new(Scales::of(side, side, metric));
        builder.add(side, 1, &HashMap::new());
        builder.sorted()
    }

    /// Weighted stacks of names, outermost first. Equal names of the same colour are one.
    pub(super) fn of_names(names: Vec<(String, Colour)>, stacks: &[(Vec<u32>, u64)]) -> Self {
        let total = stacks.iter().map(|(_, weight)| *weight as f64).sum();
        let mut builder = Builder::new(Scales::exact(total));
        builder.tree.names[0].colour = Colour(226, 226, 226);
        let ids = names.into_iter().map(|(text, colour)| builder.name(&text, colour, true));
        let ids: Vec<u32> = ids.collect();
        for (frames, weight) in stacks {
            let frames = frames.iter().filter_map(|frame| ids.get(*frame as usize).copied());
            builder.add_stack(frames, 1, Sum::exact(*weight as f64));
        }
        builder.sorted()
    }

    /// Names the frame of the whole after a function.
    pub(super) fn set_root(&mut self, function: &str, origin: Origin) {
        self.names[0] = Name { text: function.to_owned(), colour: colour_of(origin) };
    }

    fn name_of(&self, frame: &Frame) -> Option<&Name> {
        self.names.get(frame.name as usize)
    }

    pub(super) fn name(&self, frame: &Frame) -> &str {
        self.name_of(frame).map_or("", |name| &name.text)
    }

    pub(super) fn colour(&self, frame: &Frame) -> Colour {
        self.name_of(frame).map_or(colour_of(Origin::Library), |name| name.colour)
    }

    /// Converts weights of both sides to units of the metric.
    pub(super) fn scaled(&self, sums: [Sum; 2]) -> Change {
        self.scales.change(sums[0], sums[1])
    }

    /// Change of the frame including its callees.
    pub(super) fn change(&self, frame: &Frame) -> Change {
        self.scales.change(frame.sums[0], frame.sums[1])
    }

    /// Change of the frame without its callees.
    pub(super) fn own_change(&self, frame: &Frame) -> Change {
        self.scales.change(frame.own_sums[0], frame.own_sums[1])
    }
}

impl Frame {
    /// Weight on the side that determines the widths.
    pub(super) fn weight(&self, is_before: bool) -> f64 {
        self.sums[usize::from(!is_before)].weight
    }
}

/// Colour of a profile that is not compared.
fn colour_of(origin: Origin) -> Colour {
    match origin {
        Origin::Own => Colour(0xf7, 0xa9, 0x8c),
        Origin::Library => Colour(0xf3, 0xdf, 0x9f),
        Origin::Kernel => Colour(0xa9, 0xcd, 0xf0),
        Origin::State => Colour(0xc9, 0xb8, 0xf0),
    }
}

struct Builder {
    tree: Tree,
    /// With the colour only if that distinguishes names.
    known_names: FxHashMap<(String, Option<Colour>), u32>,
    /// By caller and name.
    known: FxHashMap<(u32, u32), u32>,
}

impl Builder {
    fn new(scales: Scales) -> Self {
        let root = Name { text: "all".to_owned(), colour: colour_of(Origin::Library) };
        Self {
            tree: Tree {
                frames: vec![Frame::default()],
                names: vec![root],
                has_guesses: false,
                scales,
            },
            known_names: FxHashMap::default(),
            known: FxHashMap::default(),
        }
    }

    fn add(&mut self, side: &Side, at: usize, renamed: &HashMap<&str, &str>) {
        self.tree.has_guesses |= side.frames.iter().any(|frame| {
            frame.origin == Origin::Own && is_guess(&frame.name, frame.file.as_deref())
        });
        let names: Vec<u32> = side
            .frames
            .iter()
            .map(|frame| {
                let name = plain(&frame.name);
                // Including its closures.
                let function = function(&name);
                let after = renamed.get(&*function);
                let after = after.map(|after| format!("{after}{}", &name[function.len()..]));
                self.name(&after.map_or(name, Cow::Owned), colour_of(frame.origin), false)
            })
            .collect();
        for stack in &side.stacks {
            let frames = stack.frames.iter().map_while(|it| names.get(*it as usize).copied());
            self.add_stack(frames, at, Sum::of(stack));
        }
    }

    fn add_stack(&mut self, frames: impl Iterator<Item = u32>, at: usize, sum: Sum) {
        let mut place = 0;
        self.tree.frames[0].sums[at].join(sum);
        for name in frames.take(DEPTH_MAX) {
            let Some(child) = self.child(place, name) else { break };
            place = child;
            self.tree.frames[place as usize].sums[at].join(sum);
        }
        self.tree.frames[place as usize].own_sums[at].join(sum);
    }

    /// The number of a name. Unless the colour distinguishes it, the first colour is used.
    fn name(&mut self, text: &str, colour: Colour, is_distinct: bool) -> u32 {
        // There are fewer names than bytes in a profile.
        let next = u32::try_from(self.tree.names.len()).unwrap_or(u32::MAX);
        let key = (text.to_owned(), is_distinct.then_some(colour));
        let id = *self.known_names.entry(key).or_insert(next);
        if id == next {
            self.tree.names.push(Name { text: text.to_owned(), colour });
        }
        id
    }

    /// The callee of a frame with this name; `None` if the tree is full.
    fn child(&mut self, parent: u32, name: u32) -> Option<u32> {
        if let Some(known) = self.known.get(&(parent, name)) {
            return Some(*known);
        }
        let place = u32::try_from(self.tree.frames.len()).ok()?;
        if place as usize >= FRAMES_MAX {
            return None;
        }
        self.tree.frames.push(Frame { name, ..Frame::default() });
        self.tree.frames[parent as usize].children.push(place);
        self.known.insert((parent, name), place);
        Some(place)
    }

    /// The tree in an order independent of that of the stacks.
    fn sorted(mut self) -> Tree {
        for place in 0..self.tree.frames.len() {
            let mut children = std::mem::take(&mut self.tree.frames[place].children);
            let tree = &self.tree;
            children.sort_by_key(|child| {
                let frame = &tree.frames[*child as usize];
                (tree.name(frame), tree.colour(frame))
            });
            self.tree.frames[place].children = children;
        }
        self.tree
    }
}

/// A function of one or two profiles, in units of the metric.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRow {
    pub name: String,
    pub own: Change,
    /// Including callees; recursion counts once.
    pub total: Change,
}

/// Sums of a name.
#[derive(Clone, Copy, Default)]
struct Found {
    own: [Sum; 2],
    total: [Sum; 2],
    /// Number of open frames with the name.
    open: u32,
}

impl Tree {
    /// Own and total cost of each function, sorted by change if two profiles are compared, otherwise by own cost.
    pub(super) fn functions(&self) -> Vec<FunctionRow> {
        let tree = self;
        let mut found = vec![Found::default(); tree.names.len()];
        // Frames to enter or leave.
        let mut open = vec![(0, true)];
        while let Some((place, is_entered)) = open.pop() {
            let frame = &tree.frames[place];
            let Some(of_name) = found.get_mut(frame.name as usize) else { continue };
            if !is_entered {
                of_name.open -= 1;
                continue;
            }
            for side in 0..2 {
                of_name.own[side].join(frame.own_sums[side]);
                if of_name.open == 0 {
                    of_name.total[side].join(frame.sums[side]);
                }
            }
            of_name.open += 1;
            open.push((place, false));
            open.extend(frame.children.iter().map(|child| (*child as usize, true)));
        }
        // The first name is that of the root.
        let rows = tree.names.iter().zip(found).skip(1).map(|(name, found)| FunctionRow {
            name: name.text.clone(),
            own: tree.scaled(found.own),
            total: tree.scaled(found.total),
        });
        let mut rows: Vec<FunctionRow> = rows.collect();
        rows.sort_by(order);
        rows
    }
}

fn order(a: &FunctionRow, b: &FunctionRow) -> Ordering {
    let size = |row: &FunctionRow| row.own.difference().abs();
    let total = |row: &FunctionRow| row.total.difference().abs();
    size(b)
        .total_cmp(&size(a))
        .then_with(|| total(b).total_cmp(&total(a)))
        .then_with(|| a.name.cmp(&b.name))
}

#[cfg(test)]
mod tests {
    use crate::{Flame, Metric, compare, side::tests::side};

    #[test]
    fn functions_that_call_themselves_count_once() {
        let flame = Flame::single(&side("main;a;b;a 4\nmain;a 2\nmain;b 2\nmain 1"), 9.0);
        let rows = flame.functions().into_iter();
        let rows: Vec<_> = rows.map(|it| (it.name, it.own.after, it.total.after)).collect();
        let expected = [("a", 6.0, 6.0), ("b", 2.0, 6.0), ("main", 1.0, 9.0)];
        assert_eq!(rows, expected.map(|(name, own, total)| (name.to_owned(), own, total)));
    }

    #[test]
    fn what_changed_most_comes_first() {
        let metric = Metric { before: 10.0, after: 20.0, before_sd: 0.0, after_sd: 0.0 };
        let (before, after) = (side("main;a 6\nmain;b 4"), side("main;a 15\nmain;b 3\nmain;c 2"));
        let explanation = compare(&before, &after, metric).expect("comparable");
        let rows = Flame::of(&before, &after, &explanation).functions().into_iter();
        let rows: Vec<_> =
            rows.map(|it| (it.name, it.own.difference(), it.total.difference())).collect();
        let expected = [("a", 9.0, 9.0), ("c", 2.0, 2.0), ("b", -1.0, -1.0), ("main", 0.0, 10.0)];
        assert_eq!(rows, expected.map(|(name, own, total)| (name.to_owned(), own, total)));
    }
}
