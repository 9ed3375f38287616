//! Emits the instructions of counters.

use std::{cell::LazyCell, collections::BTreeMap};

use wingbeat_bpf_loader::code::{Insn, Registers, op};

use super::{
    NotInstrumentable, SLOT_BYTES, Subject,
    register_allocation::Allocation,
    sites::{Counter, Site, best_place},
};
use crate::instrument::{
    frame::STACK_BYTES_MAX,
    graph::{Edge, EdgeKind},
    wrapper::{alu, alu_immediate, load, load_map_value, store},
};

/// Insertion point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Location {
    Before(usize),
    /// On an edge.
    Edge(usize),
}

/// Action at a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Increment in memory.
    Add { slot: usize },
    /// Increment in a register.
    Bump { register: u8 },
    /// Add a register to memory.
    Flush { slot: usize, register: u8 },
    /// Clear a counter register.
    Zero { register: u8 },
    /// Load the address of the function's first counter.
    Base { register: u8 },
}

/// Order of the actions at one location. Registers of a loop are saved before another loop takes
/// them; registers of the function are set up before and saved after everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    LeaveLoop,
    EnterFunction,
    Count,
    EnterLoop,
    LeaveFunction,
}

type Actions = BTreeMap<Location, Vec<(Rank, Action)>>;

/// The instructions for all counters of a function.
pub(super) fn insertions(
    subject: &Subject<'_>,
    counters: &[Counter],
    allocation: &Allocation,
) -> Result<Vec<(Location, Vec<Insn>)>, NotInstrumentable> {
    let mut actions = Actions::new();
    count(subject, counters, allocation, &mut actions);
    cross(subject, counters, allocation, &mut actions);
    let base_slot = counters.first().map_or(0, |counter| counter.slot);
    // Computed only if registers must be saved.
    let depth_bytes = LazyCell::new(|| subject.depth_bytes());
    let written = actions.into_iter().map(|(location, mut actions)| {
        actions.sort_by_key(|&(rank, _)| rank);
        let place = InsertionPlace::new(subject, allocation, location, base_slot);
        let insns = place.write(&actions, &|| *depth_bytes);
        let insns = insns.ok_or_else(|| NotInstrumentable::StackFull {
            function: subject.name(),
            insn_index: place.insn_index,
            depth_bytes: *depth_bytes,
        });
        Ok((location, insns?))
    });
    written.collect()
}

fn count(
    subject: &Subject<'_>,
    counters: &[Counter],
    allocation: &Allocation,
    actions: &mut Actions,
) {
    for (counter, &register) in counters.iter().zip(&allocation.registers) {
        let location = match counter.site {
            Site::Inside(block) => {
                let region = allocation.region_of(Some(block));
                let held = region.map_or(Registers::NONE, |region| allocation.regions[region].held);
                Location::Before(best_place(subject, &subject.graph.blocks[block], held))
            }
            Site::Edge(edge) => Location::Edge(edge),
        };
        let action = match register {
            Some(register) => Action::Bump { register },
            None => Action::Add { slot: counter.slot },
        };
        actions.entry(location).or_default().push((Rank::Count, action));
    }
}

/// Actions on edges into and out of regions that hold registers.
fn cross(
    subject: &Subject<'_>,
    counters: &[Counter],
    allocation: &Allocation,
    actions: &mut Actions,
) {
    let function = &subject.graph.functions[subject.number];
    for number in function.edges.clone() {
        let edge = subject.graph.edges[number];
        let (entered, left) = allocation.crossed(edge);
        let mut add = |location, rank, action| {
            actions.entry(location).or_default().push((rank, action));
        };
        for region in left.into_iter().map(|it| &allocation.regions[it]) {
            let is_whole = region.parent.is_none();
            let rank = if is_whole { Rank::LeaveFunction } else { Rank::LeaveLoop };
            for &(counter, register) in &region.counters {
                let slot = counters[counter].slot;
                add(way_out(subject, number, edge), rank, Action::Flush { slot, register });
            }
        }
        for region in entered.into_iter().map(|it| &allocation.regions[it]) {
            let is_whole = region.parent.is_none();
            let rank = if is_whole { Rank::EnterFunction } else { Rank::EnterLoop };
            let zeros = region.counters.iter().map(|&(_, register)| Action::Zero { register });
            let base = region.base.map(|register| Action::Base { register });
            for action in zeros.chain(base) {
                add(way_in(subject, number, edge), rank, action);
            }
        }
    }
}

/// The latest location through which all executions of an edge pass and no others.
fn way_in(subject: &Subject<'_>, number: usize, edge: Edge) -> Location {
    let blocks = &subject.graph.blocks;
    match (edge.kind, edge.from, edge.to) {
        (EdgeKind::Enter, _, Some(to)) if subject.graph.incoming(to).len() == 1 => {
            Location::Before(blocks[to].insns.start)
        }
        (EdgeKind::Taken, Some(from), _) if blocks[from].outgoing.len() == 1 => {
            Location::Before(blocks[from].last)
        }
        _ => Location::Edge(number),
    }
}

/// The earliest location through which all executions of an edge pass and no others.
fn way_out(subject: &Subject<'_>, number: usize, edge: Edge) -> Location {
    let blocks = &subject.graph.blocks;
    match (edge.kind, edge.from, edge.to) {
        (EdgeKind::Leave, Some(from), _) => Location::Before(blocks[from].last),
        (_, _, Some(to)) if subject.graph.incoming(to).len() == 1 => {
            Location::Before(blocks[to].insns.start)
        }
        _ => Location::Edge(number),
    }
}

/// Resources available at a location.
struct InsertionPlace {
    insn_index: usize,
    dead: Registers,
    /// Registers that may be saved and restored.
    readable: Registers,
    held: Registers,
    /// Register that holds the address of slot `base_slot`.
    base: Option<u8>,
    base_slot: usize,
    map_fd: i32,
}

impl InsertionPlace {
    fn new(
        subject: &Subject<'_>,
        allocation: &Allocation,
        location: Location,
        base_slot: usize,
    ) -> Self {
        let graph = subject.graph;
        let (insn_index, region) = match location {
            Location::Before(index) => {
                let block = graph.blocks.partition_point(|block| block.insns.end <= index);
                (index, allocation.region_of(Some(block)))
            }
            Location::Edge(edge) => {
                let edge = graph.edges[edge];
                let start = edge.to.map_or(0, |to| graph.blocks[to].insns.start);
                (start, Some(allocation.region_of_edge(edge)))
            }
        };
        let around = || region.into_iter().flat_map(|region| allocation.around(region));
        let live = subject.liveness.live_before(insn_index);
        Self {
            insn_index,
            dead: subject.liveness.dead_before(insn_index),
            readable: live.and(subject.liveness.set_before(insn_index)).and(Registers::WRITABLE),
            held: region.map_or(Registers::NONE, |region| allocation.regions[region].held),
            base: around().find_map(|region| allocation.regions[region].base),
            base_slot,
            map_fd: subject.options.map_fd,
        }
    }

    /// Instructions for the actions; `None` if a frame of `depth_bytes` has no room to save a register.
    fn write(
        &self,
        actions: &[(Rank, Action)],
        depth_bytes: &dyn Fn() -> u32,
    ) -> Option<Vec<Insn>> {
        let touches_memory = |action| matches!(action, Action::Add { .. } | Action::Flush { .. });
        let mentioned: Registers = actions.iter().filter_map(|&(_, it)| it.register()).collect();
        let mut scratch = Scratch::new(self, mentioned, depth_bytes);
        let base = self.base.map(|it| (it, self.base_slot));
        let mut address = Address { map_fd: self.map_fd, base, loaded: None };
        let mut middle = Vec::new();
        let mut value = None;
        for &(_, action) in actions {
            let value = match value {
                _ if !touches_memory(action) => 0,
                Some(value) => value,
                None => *value.insert(scratch.take()?),
            };
            match action {
                Action::Bump { register } => middle.push(alu_immediate(op::ADD, register, 1)),
                Action::Zero { register } => middle.push(alu_immediate(op::MOV, register, 0)),
                Action::Base { register } => {
                    middle.extend(load_address(register, self.map_fd, self.base_slot));
                }
                Action::Add { slot } | Action::Flush { slot, .. } => {
                    let (base, offset) = address.of(slot, &mut scratch, &mut middle)?;
                    let sum = match action.register() {
                        Some(register) => alu(op::ADD, value, register),
                        None => alu_immediate(op::ADD, value, 1),
                    };
                    middle.extend([load(value, base, offset), sum, store(base, offset, value)]);
                }
            }
        }
        let (mut insns, restores) = scratch.spills();
        insns.extend(middle);
        insns.extend(restores);
        Some(insns)
    }
}

impl Action {
    /// The register that the action uses.
    fn register(self) -> Option<u8> {
        match self {
            Self::Add { .. } => None,
            Self::Bump { register }
            | Self::Flush { register, .. }
            | Self::Zero { register }
            | Self::Base { register } => Some(register),
        }
    }
}

/// Scratch registers: free ones first, then ones to save and restore.
struct Scratch<'a> {
    free: Registers,
    readable: Registers,
    spilled: Vec<(u8, i16)>,
    /// Depth of the frame; registers are saved below.
    depth_bytes: &'a dyn Fn() -> u32,
}

impl<'a> Scratch<'a> {
    fn new(place: &InsertionPlace, mentioned: Registers, depth_bytes: &'a dyn Fn() -> u32) -> Self {
        let taken = place.held.or(mentioned);
        Self {
            free: place.dead.without(taken),
            readable: place.readable.without(taken),
            spilled: Vec::new(),
            depth_bytes,
        }
    }

    fn take(&mut self) -> Option<u8> {
        if let Some(register) = self.free.first() {
            self.free = self.free.without(Registers::one(register));
            return Some(register);
        }
        let slot_bytes = (self.depth_bytes)() + 8 * (self.spilled.len() as u32 + 1);
        let slot = i16::try_from(slot_bytes).ok().filter(|_| slot_bytes <= STACK_BYTES_MAX)?;
        let register = self.readable.first()?;
        self.readable = self.readable.without(Registers::one(register));
        self.spilled.push((register, -slot));
        Some(register)
    }

    /// Instructions that save and restore the registers.
    fn spills(&self) -> (Vec<Insn>, Vec<Insn>) {
        const FRAME: u8 = Registers::FRAME_POINTER;
        let saves = self.spilled.iter().map(|&(it, slot)| store(FRAME, slot, it));
        let restores = self.spilled.iter().map(|&(it, slot)| load(it, FRAME, slot));
        (saves.collect(), restores.collect())
    }
}

/// Registers with counter addresses, each with the slot that it points to.
struct Address {
    map_fd: i32,
    base: Option<(u8, usize)>,
    loaded: Option<(u8, usize)>,
}

impl Address {
    /// Register and offset that address a counter.
    fn of(
        &mut self,
        slot: usize,
        scratch: &mut Scratch<'_>,
        insns: &mut Vec<Insn>,
    ) -> Option<(u8, i16)> {
        let near = |(register, base): (u8, usize)| {
            let slots = i64::try_from(slot).ok()?.checked_sub(i64::try_from(base).ok()?)?;
            let offset = i16::try_from(slots.checked_mul(i64::from(SLOT_BYTES))?).ok()?;
            Some((register, offset))
        };
        if let Some(at) = self.base.and_then(near).or_else(|| self.loaded.and_then(near)) {
            return Some(at);
        }
        let register = match self.loaded {
            Some((register, _)) => register,
            None => scratch.take()?,
        };
        self.loaded = Some((register, slot));
        insns.extend(load_address(register, self.map_fd, slot));
        Some((register, 0))
    }
}

/// Loads the address of a counter into a register.
fn load_address(register: u8, map_fd: i32, slot: usize) -> [Insn; 2] {
    // Fewer than 2^29 / 8 slots, checked by `instrument`.
    let offset = i32::try_from(slot * SLOT_BYTES as usize).unwrap_or(i32::MAX);
    load_map_value(register, map_fd, offset)
}
