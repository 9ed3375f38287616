//! Maps: user-space shadows of the kernel's maps.

use std::collections::{HashMap, VecDeque, hash_map};

use wingbeat_bpf_loader::spec::{MapSpec, MapType, Slot};

use super::Contents;
use crate::{Step, machine::Answer, memory::Memory};

/// Base address of maps; nothing is readable there.
const MAPS: u64 = 0x6000_0000;
/// Distance between map addresses.
const MAP: u64 = 64;

/// Flags of an update (include/uapi/linux/bpf.h).
const NOT_EXISTING: u64 = 1;
pub(super) const EXISTING: u64 = 2;
const LOCKED: u64 = 4;

pub(super) const ENOENT: i64 = -2;
pub(super) const E2BIG: i64 = -7;
const EEXIST: i64 = -17;
pub(super) const EINVAL: i64 = -22;

/// Values of queues and stacks, oldest first, by map index.
pub(super) type Queues = HashMap<usize, VecDeque<Vec<u8>>>;

pub(super) struct Maps<'a> {
    pub(super) specs: &'a [MapSpec],
    pub(super) contents: &'a mut dyn Contents,
    /// Addresses of the values looked up so far, by map and key; `None` if there is no entry.
    shadows: HashMap<(usize, Vec<u8>), Option<u64>>,
    pub(super) queues: Queues,
}

impl<'a> Maps<'a> {
    pub(super) fn new(specs: &'a [MapSpec], contents: &'a mut dyn Contents) -> Self {
        Self { specs, contents, shadows: HashMap::new(), queues: Queues::new() }
    }

    /// The handle by which a program references a map.
    pub(super) fn handle(&self, position: usize) -> Step<u64> {
        match self.specs.get(position) {
            Some(_) => Ok(MAPS + MAP * position as u64),
            None => Err("a map that the object does not have".into()),
        }
    }

    /// The map of a handle.
    pub(super) fn find(&self, handle: u64) -> Step<(usize, &'a MapSpec)> {
        let distance = handle.checked_sub(MAPS).filter(|distance| distance % MAP == 0);
        let position = distance.and_then(|distance| usize::try_from(distance / MAP).ok());
        let found = position.and_then(|position| Some((position, self.specs.get(position)?)));
        found.ok_or_else(|| "a map that is none".into())
    }

    /// Address of a value; `None` if there is no such entry.
    pub(super) fn value(
        &mut self,
        memory: &mut Memory,
        position: usize,
        key: &[u8],
    ) -> Step<Option<u64>> {
        let shadow = (position, key.to_vec());
        if let Some(found) = self.shadows.get(&shadow) {
            return Ok(*found);
        }
        let spec = self.specs.get(position).ok_or("a map that the object does not have")?;
        let address = match spec.r#type {
            MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS => self.inner(spec, key)?,
            _ => {
                let found = self.contents.lookup(position, key)?;
                found.map(|value| memory.allocate(value))
            }
        };
        self.shadows.insert(shadow, address);
        Ok(address)
    }

    /// The inner map of the object at this key.
    fn inner(&self, spec: &MapSpec, key: &[u8]) -> Step<Option<u64>> {
        let slot = spec.slots.iter().rev().find(|(index, _)| index.to_le_bytes() == key);
        let Some((_, Slot::Map(name))) = slot else { return Ok(None) };
        let position = self.specs.iter().position(|map| map.name == *name);
        position.map(|position| self.handle(position)).transpose()
    }

    pub(super) fn lookup(&mut self, memory: &mut Memory, handle: u64, key: u64) -> Step<Answer> {
        let (position, spec) = self.find(handle)?;
        let key = memory.bytes(key, spec.key_size as usize)?;
        Ok(Answer::Value(self.value(memory, position, &key)?.unwrap_or(0)))
    }

    pub(super) fn update(
        &mut self,
        memory: &mut Memory,
        handle: u64,
        [key, value, flags]: [u64; 3],
    ) -> Step<Answer> {
        let (position, spec) = self.find(handle)?;
        let key = memory.bytes(key, spec.key_size as usize)?;
        let value = memory.bytes(value, spec.value_size as usize)?;
        if spec.r#type == MapType::LPM_TRIE || !(spec.r#type.is_array() || spec.r#type.is_hash()) {
            let what = format!("an update of {}, a map of type {}", spec.name, spec.r#type);
            return Err(what.into());
        }
        let old = self.value(memory, position, &key)?;
        let flags = flags & !LOCKED;
        match old {
            _ if flags > EXISTING => return Answer::of(EINVAL),
            None if spec.r#type.is_array() => return Answer::of(E2BIG),
            Some(_) if flags == NOT_EXISTING => return Answer::of(EEXIST),
            None if flags == EXISTING => return Answer::of(ENOENT),
            Some(address) if spec.r#type.is_array() => memory.put(address, &value)?,
            // An update replaces the entry of a hash table.
            _ => _ = self.shadows.insert((position, key), Some(memory.allocate(value))),
        }
        Answer::of(0)
    }

    pub(super) fn delete(&mut self, memory: &mut Memory, handle: u64, key: u64) -> Step<Answer> {
        let (position, spec) = self.find(handle)?;
        let key = memory.bytes(key, spec.key_size as usize)?;
        if spec.r#type.is_array() {
            return Answer::of(EINVAL);
        }
        if spec.r#type == MapType::LPM_TRIE || !spec.r#type.is_hash() {
            let what = format!("a deletion from {}, a map of type {}", spec.name, spec.r#type);
            return Err(what.into());
        }
        let old = self.value(memory, position, &key)?;
        self.shadows.insert((position, key), None);
        Answer::of(if old.is_some() { 0 } else { ENOENT })
    }

    /// Iterates over all elements of an array.
    pub(super) fn for_each(
        &mut self,
        memory: &mut Memory,
        handle: u64,
        [callback, context, flags]: [u64; 3],
    ) -> Step<Answer> {
        let (position, spec) = self.find(handle)?;
        if flags != 0 {
            return Answer::of(EINVAL);
        }
        if !spec.r#type.is_array() {
            let what = format!("a walk over {}, whose order only the kernel knows", spec.name);
            return Err(what.into());
        }
        let mut elements = Vec::new();
        for index in 0..spec.entries_max {
            let key = index.to_le_bytes();
            let Some(value) = self.value(memory, position, &key)? else { break };
            elements.push([handle, memory.allocate(key.to_vec()), value]);
        }
        Ok(Answer::ForEach { callback, elements, context })
    }
}

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
