//! Queues and stacks.

use std::collections::{VecDeque, hash_map};

use wingbeat_bpf_loader::spec::MapType;

use super::maps::{E2BIG, EINVAL, ENOENT, EXISTING, Maps};
use crate::{Step, machine::Answer, memory::Memory};

/// How to take a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    Peek,
    Pop,
}

impl Maps<'_> {
    /// `bpf_map_push_elem`.
    pub(super) fn push(
        &mut self,
        memory: &Memory,
        [handle, value, flags]: [u64; 3],
    ) -> Step<Answer> {
        let (position, spec) = self.find(handle)?;
        let value = memory.bytes(value, spec.value_size as usize)?;
        let queue = self.queue(position)?;
        let is_full = queue.len() >= spec.entries_max as usize;
        match flags {
            0 if is_full => return Answer::of(E2BIG),
            // Drops the oldest.
            EXISTING if is_full => _ = queue.pop_front(),
            0 | EXISTING => {}
            _ => return Answer::of(EINVAL),
        }
        queue.push_back(value);
        Answer::of(0)
    }

    /// `bpf_map_pop_elem` and `bpf_map_peek_elem`.
    pub(super) fn take(
        &mut self,
        memory: &mut Memory,
        [handle, to]: [u64; 2],
        how: Take,
    ) -> Step<Answer> {
        let (position, spec) = self.find(handle)?;
        let is_stack = spec.r#type == MapType::STACK;
        let queue = self.queue(position)?;
        let found = if is_stack { queue.back() } else { queue.front() }.cloned();
        if how == Take::Pop {
            _ = if is_stack { queue.pop_back() } else { queue.pop_front() };
        }
        let result = if found.is_some() { 0 } else { ENOENT };
        memory.put(to, &found.unwrap_or_else(|| vec![0; spec.value_size as usize]))?;
        Answer::of(result)
    }

    fn queue(&mut self, position: usize) -> Step<&mut VecDeque<Vec<u8>>> {
        let kind = self.specs.get(position).map(|spec| spec.r#type);
        if !kind.is_some_and(MapType::is_queue) {
            return Err("a queue that is none".into());
        }
        Ok(match self.queues.entry(position) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => new.insert(self.contents.queue(position)?.into()),
        })
    }
}
