//! Stacks as the document has them: a tree for each thread.
//!
//! The crate looks up every node of the tree by hash. Handed over in the order of a walk through
//! the tree, stacks need that only where they leave the one before: most of their outer frames are
//! shared.

use fxprof_processed_profile as fx;
use rustc_hash::FxHashMap;

use crate::model::{FrameId, Profile, StackId, ThreadId};

/// The handles of all stacks that occur, by thread. An empty stack has none.
pub(super) type StackHandles = FxHashMap<(ThreadId, StackId), Option<fx::StackHandle>>;

/// Adds the stacks of all samples and intervals to the document.
pub(super) fn intern(
    profile: &Profile,
    frames: &[Vec<fx::FrameInfo>],
    threads: &[fx::ThreadHandle],
    document: &mut fx::Profile,
) -> StackHandles {
    let of_samples = profile.samples.iter().map(|sample| (sample.thread, sample.stack));
    let of_intervals = profile.intervals.iter().map(|interval| {
        let blocked = &profile.blocked[interval.blocked as usize];
        (blocked.thread, blocked.stack)
    });
    let mut handles: StackHandles = of_samples.chain(of_intervals).map(|key| (key, None)).collect();
    let mut keys: Vec<(ThreadId, StackId)> = handles.keys().copied().collect();
    let outermost_first = |stack: StackId| profile.stacks[stack as usize].frames.iter().rev();
    keys.sort_unstable_by(|&(a_thread, a), &(b_thread, b)| {
        let frames = || outermost_first(a).cmp(outermost_first(b));
        a_thread.cmp(&b_thread).then_with(frames).then(a.cmp(&b))
    });
    for stacks in keys.chunk_by(|a, b| a.0 == b.0) {
        let thread = threads[stacks[0].0 as usize];
        let mut branch = Branch { thread, frames, known: FxHashMap::default(), path: Vec::new() };
        for &key in stacks {
            handles.insert(key, branch.follow(outermost_first(key.1), document));
        }
    }
    handles
}

/// The branch of a thread's tree that was added last.
struct Branch<'a> {
    thread: fx::ThreadHandle,
    frames: &'a [Vec<fx::FrameInfo>],
    /// Frames that the thread has already.
    known: FxHashMap<FrameId, Vec<fx::FrameHandle>>,
    /// The frames of the branch, outermost first, and the node that each ends at.
    path: Vec<(FrameId, Option<fx::StackHandle>)>,
}

impl Branch<'_> {
    /// Goes back to where a stack leaves the branch, and from there along the stack to its end.
    fn follow<'b>(
        &mut self,
        stack: impl Iterator<Item = &'b FrameId> + Clone,
        document: &mut fx::Profile,
    ) -> Option<fx::StackHandle> {
        let shared = self.path.iter().zip(stack.clone()).take_while(|((a, _), b)| a == *b).count();
        self.path.truncate(shared);
        let mut node = self.path.last().and_then(|&(_, node)| node);
        for &id in stack.skip(shared) {
            let frame = self.known.entry(id).or_insert_with(|| {
                let infos = self.frames[id as usize].iter().cloned();
                infos.map(|info| document.intern_frame(self.thread, info)).collect()
            });
            for &frame in frame.iter() {
                node = Some(document.intern_stack(self.thread, node, frame));
            }
            self.path.push((id, node));
        }
        node
    }
}
