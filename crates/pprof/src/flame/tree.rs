//! The stacks of both sides as one tree: frames are equal if all frames below them are.

use std::{borrow::Cow, collections::HashMap};

use rustc_hash::FxHashMap;

use crate::{
    Explanation,
    names::{function, plain},
    origin::Origin,
    scale::{Change, Metric, Scales, Sum},
    side::Side,
};

/// Maximum depth; deeper frames count for the last one.
const DEPTH_MAX: usize = 512;

/// Maximum number of frames; further ones count for their callers.
const FRAMES_MAX: usize = 1 << 20;

/// Both profiles, with a root frame for all of them.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) frames: Vec<Frame>,
    pub(super) names: Vec<(String, Origin)>,
    scales: Scales,
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

    pub(super) fn name(&self, frame: &Frame) -> &str {
        self.names.get(frame.name as usize).map_or("", |(name, _)| name)
    }

    pub(super) fn origin(&self, frame: &Frame) -> Origin {
        self.names.get(frame.name as usize).map_or(Origin::Library, |(_, origin)| *origin)
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

struct Builder {
    tree: Tree,
    known_names: FxHashMap<String, u32>,
    /// By caller and name.
    known: FxHashMap<(u32, u32), u32>,
}

impl Builder {
    fn new(scales: Scales) -> Self {
        let names = vec![("all".to_owned(), Origin::Library)];
        Self {
            tree: Tree { frames: vec![Frame::default()], names, scales },
            known_names: FxHashMap::default(),
            known: FxHashMap::default(),
        }
    }

    fn add(&mut self, side: &Side, at: usize, renamed: &HashMap<&str, &str>) {
        let names: Vec<u32> = side
            .frames
            .iter()
            .map(|frame| {
                let name = plain(&frame.name);
                // Including its closures.
                let function = function(&name);
                let after = renamed.get(&*function);
                let after = after.map(|after| format!("{after}{}", &name[function.len()..]));
                self.name(&after.map_or(name, Cow::Owned), frame.origin)
            })
            .collect();
        for stack in &side.stacks {
            let mut place = 0;
            self.tree.frames[0].sums[at].add(stack);
            for frame in stack.frames.iter().take(DEPTH_MAX) {
                let Some(name) = names.get(*frame as usize) else { break };
                let Some(child) = self.child(place, *name) else { break };
                place = child;
                self.tree.frames[place as usize].sums[at].add(stack);
            }
            self.tree.frames[place as usize].own_sums[at].add(stack);
        }
    }

    fn name(&mut self, name: &str, origin: Origin) -> u32 {
        if let Some(known) = self.known_names.get(name) {
            return *known;
        }
        // There are fewer names than bytes in a profile.
        let id = u32::try_from(self.tree.names.len()).unwrap_or(u32::MAX);
        self.tree.names.push((name.to_owned(), origin));
        self.known_names.insert(name.to_owned(), id);
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
            children.sort_by_key(|child| tree.name(&tree.frames[*child as usize]));
            self.tree.frames[place].children = children;
        }
        self.tree
    }
}
