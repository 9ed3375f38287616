//! Numbers distinct raw stacks, so that a sample takes a few bytes.

use rustc_hash::FxHashMap;

use crate::model::{BrokenReason, Completeness};
use crate::recorder::address_spaces::GenerationId;

pub(crate) type RawStackId = u32;

/// Interner stacks of addresses.
///
/// A stack is stored as one slice of words: one for its generation, completeness and number of kernel frames, then
/// the frames, user before kernel, each innermost first.
#[derive(Debug, Default)]
pub struct RawStacks {
    ids: FxHashMap<Box<[u64]>, RawStackId>,
    /// Reused to build keys, so that known stacks need no allocation.
    key: Vec<u64>,
}

/// A decoded stack of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawStack<'a> {
    pub generation: GenerationId,
    pub completeness: Completeness,
    pub user: &'a [u64],
    pub kernel: &'a [u64],
}

impl RawStacks {
    /// Returns the number of a stack.
    pub fn intern(
        &mut self,
        generation: u32,
        completeness: Completeness,
        user: impl IntoIterator<Item = u64>,
        kernel: impl ExactSizeIterator<Item = u64>,
    ) -> u32 {
        self.key.clear();
        let kernel_frames = kernel.len() as u64;
        let head = u64::from(generation) << 32 | kernel_frames << 8 | encode(completeness);
        self.key.push(head);
        self.key.extend(user);
        self.key.extend(kernel);
        if let Some(&id) = self.ids.get(self.key.as_slice()) {
            return id;
        }
        let id = self.ids.len() as RawStackId;
        self.ids.insert(self.key.as_slice().into(), id);
        id
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// All stacks, by number.
    pub(crate) fn in_order(&self) -> Vec<RawStack<'_>> {
        let mut keys: Vec<(&[u64], RawStackId)> =
            self.ids.iter().map(|(key, id)| (&**key, *id)).collect();
        keys.sort_unstable_by_key(|(_, id)| *id);
        keys.into_iter().filter_map(|(key, _)| take_apart(key)).collect()
    }
}

fn take_apart(key: &[u64]) -> Option<RawStack<'_>> {
    let (head, frames) = key.split_first()?;
    let kernel_frames = (head >> 8 & 0xffff) as usize;
    let (user, kernel) = frames.split_at_checked(frames.len().checked_sub(kernel_frames)?)?;
    let generation = (head >> 32) as GenerationId;
    Some(RawStack { generation, completeness: decode(*head & 0xff), user, kernel })
}

const CODES: [Completeness; 8] = [
    Completeness::Complete,
    Completeness::Truncated,
    Completeness::Broken(BrokenReason::Unreadable),
    Completeness::Broken(BrokenReason::NoFramePointer),
    Completeness::Broken(BrokenReason::BadReturnAddress),
    Completeness::Broken(BrokenReason::NotTaken),
    Completeness::Broken(BrokenReason::Unsupported),
    Completeness::Broken(BrokenReason::NoTable),
];

fn encode(completeness: Completeness) -> u64 {
    CODES.iter().position(|code| *code == completeness).unwrap_or(0) as u64
}

fn decode(code: u64) -> Completeness {
    CODES.get(code as usize).copied().unwrap_or(Completeness::Complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_share_a_number_and_come_back_whole() {
        let mut stacks = RawStacks::default();
        let broken = Completeness::Broken(BrokenReason::BadReturnAddress);
        let mut intern = |generation, completeness, user: &[u64], kernel: &[u64]| {
            stacks.intern(generation, completeness, user.iter().copied(), kernel.iter().copied())
        };
        let first = intern(1, Completeness::Complete, &[1, 2], &[3]);
        assert_eq!(intern(1, Completeness::Complete, &[1, 2], &[3]), first);
        // The same words, with another split or meaning.
        assert_ne!(intern(1, Completeness::Complete, &[1], &[2, 3]), first);
        assert_ne!(intern(2, Completeness::Complete, &[1, 2], &[3]), first);
        assert_ne!(intern(1, broken, &[1, 2], &[3]), first);
        let all = stacks.in_order();
        assert_eq!(all.len(), 4);
        assert_eq!((all[0].user, all[0].kernel), ([1, 2].as_slice(), [3].as_slice()));
        assert_eq!((all[1].user, all[1].kernel), ([1].as_slice(), [2, 3].as_slice()));
        assert_eq!((all[2].generation, all[3].completeness), (2, broken));
    }
}
