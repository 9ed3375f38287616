//! Assigns counters to memory, or to a register while a loop runs.
//!
//! A counter in memory takes four instructions, more than many blocks have, both to run and to
//! verify. A register that is unused in a whole loop can hold a counter there, at one instruction
//! per iteration: cleared on edges into the loop and added to memory on edges out of it. Or it can
//! hold the address of the counters, which saves one of four instructions per counter. The whole
//! function counts as a loop of one iteration.
//!
//! Registers hold no counters across instructions that may terminate the program: there would be no
//! exit edge to save them on.

use wingbeat_bpf_loader::code::Registers;

use super::{
    Subject,
    sites::{Counter, SCRATCH, SPILL_COST, Site, Sites, dead_at},
};
use crate::instrument::{
    graph::{Edge, EdgeKind},
    registers::Effects,
};

/// Instructions to count in memory, without loading the address.
const ADD_COST: f64 = 3.0;
/// Instructions to add a register to memory, including loading the address.
const FLUSH_COST: f64 = 4.0;
/// Cost of a callee-saved register (the x86-64 and arm64 JITs of Linux save those of r6 to r9 that a function uses).
const CALLEE_SAVED_COST: f64 = 2.0;

/// A loop or the whole function, with its held registers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Region {
    pub(super) parent: Option<usize>,
    /// Registers that the program itself uses within it.
    busy: Registers,
    escapes: bool,
    entry_frequency: f64,
    exit_frequency: f64,
    /// Registers held in it, alone or together with outer regions.
    pub(super) held: Registers,
    /// Registers held in it or in inner regions.
    held_within: Registers,
    /// Register that holds the address of the function's first counter.
    pub(super) base: Option<u8>,
    /// Counters in registers, by index.
    pub(super) counters: Vec<(usize, u8)>,
}

/// Counter locations of one function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Allocation {
    /// The loops, inner before outer, and last the function.
    pub(super) regions: Vec<Region>,
    /// By counter: its register, if any.
    pub(super) registers: Vec<Option<u8>>,
    /// By block, from the first of the function: the innermost region.
    region_of: Vec<usize>,
    first_block: usize,
}

/// A counter that may get a register.
#[derive(Clone, Copy)]
struct Candidate {
    counter: usize,
    frequency: f64,
    /// Registers that are free where it counts.
    dead: Registers,
}

impl Allocation {
    /// All counters in memory.
    pub(super) fn in_memory(subject: &Subject<'_>, sites: &Sites) -> Self {
        let function = &subject.graph.functions[subject.number];
        let whole = sites.nest.loops.len();
        let parents = sites.nest.loops.iter().map(|it| Some(it.parent.unwrap_or(whole)));
        let region = |parent| Region { parent, ..Region::default() };
        let loop_of = sites.nest.loop_of.iter();
        Self {
            regions: parents.chain([None]).map(region).collect(),
            registers: vec![None; sites.counters.len()],
            region_of: loop_of.map(|inner| inner.unwrap_or(whole)).collect(),
            first_block: function.blocks.start,
        }
    }

    /// Assigns registers where worthwhile, from inner to outer loops.
    pub(super) fn new(subject: &Subject<'_>, sites: &Sites) -> Self {
        let mut allocation = Self::in_memory(subject, sites);
        allocation.find_busy_registers(subject, sites);
        let mut waiting: Vec<Vec<Candidate>> = vec![Vec::new(); allocation.regions.len()];
        for (index, &Counter { site, frequency, .. }) in sites.counters.iter().enumerate() {
            let dead = dead_at(subject, site, Registers::NONE);
            let region = allocation.region_of_site(subject, site);
            waiting[region].push(Candidate { counter: index, frequency, dead });
        }
        for region in 0..allocation.regions.len() {
            let mut candidates = std::mem::take(&mut waiting[region]);
            candidates.sort_by(|a, b| b.frequency.total_cmp(&a.frequency));
            let left = allocation.decide(region, candidates);
            allocation.pass_up(region);
            if let Some(parent) = allocation.regions[region].parent {
                waiting[parent].extend(left);
            }
        }
        allocation.raise();
        allocation.settle();
        allocation
    }

    /// A region and its outer regions, from the inside.
    pub(super) fn around(&self, inner: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(inner), |&inner| self.regions[inner].parent)
    }

    /// The innermost region of a block; `None` outside of the function.
    pub(super) fn region_of(&self, block: Option<usize>) -> Option<usize> {
        self.region_of.get(block?.checked_sub(self.first_block)?).copied()
    }

    /// Innermost region that contains both ends of an edge. An edge into the function counts as inside of it.
    pub(super) fn region_of_edge(&self, edge: Edge) -> usize {
        let whole = self.regions.len() - 1;
        let (from, to) = (self.region_of(edge.from), self.region_of(edge.to));
        let (Some(from), Some(to)) = (from, to) else { return whole };
        let inside = |region: usize| self.around(to).any(|it| it == region);
        self.around(from).find(|&region| inside(region)).unwrap_or(whole)
    }

    /// Regions that an edge enters, and regions that it leaves.
    pub(super) fn crossed(&self, edge: Edge) -> (Vec<usize>, Vec<usize>) {
        if self.region_of(edge.from) == self.region_of(edge.to) {
            return (Vec::new(), Vec::new());
        }
        let around = |block| self.region_of(block).map(|it| self.around(it)).into_iter().flatten();
        let difference =
            |a, b| around(a).filter(|&region| !around(b).any(|it| it == region)).collect();
        (difference(edge.to, edge.from), difference(edge.from, edge.to))
    }

    fn region_of_site(&self, subject: &Subject<'_>, site: Site) -> usize {
        match site {
            Site::Inside(block) => self.region_of(Some(block)).unwrap_or(self.regions.len() - 1),
            Site::Edge(edge) => self.region_of_edge(subject.graph.edges[edge]),
        }
    }

    /// Computes registers used by each region, and frequencies of entry and exit.
    fn find_busy_registers(&mut self, subject: &Subject<'_>, sites: &Sites) {
        let graph = subject.graph;
        let function = &graph.functions[subject.number];
        for block in function.blocks.clone() {
            let Some(region) = self.region_of(Some(block)) else { continue };
            let mut busy = Registers::NONE;
            for index in graph.blocks[block].insns.clone() {
                if !graph.is_second_half(index) {
                    let effects = Effects::of(subject.code.insns[index]).unwrap_or_default();
                    let live = subject.liveness.live_before(index);
                    busy = busy.or(live).or(effects.uses).or(effects.writes);
                }
            }
            self.regions[region].busy = self.regions[region].busy.or(busy);
        }
        for (edge, &frequency) in function.edges.clone().zip(&sites.nest.edge_frequencies) {
            let edge = graph.edges[edge];
            let (entered, left) = self.crossed(edge);
            for region in entered {
                self.regions[region].entry_frequency += frequency;
            }
            for region in left {
                self.regions[region].exit_frequency += frequency;
                self.regions[region].escapes |= edge.kind == EdgeKind::Escape;
            }
        }
        for region in 0..self.regions.len() {
            if let Some(parent) = self.regions[region].parent {
                self.regions[parent].busy = self.regions[parent].busy.or(self.regions[region].busy);
            }
        }
    }

    /// Decides how many counters of a region get registers, and whether the address does. Returns
    /// the counters that stay in memory without an address register.
    fn decide(&mut self, region: usize, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let it = &self.regions[region];
        let free: Vec<u8> =
            Registers::WRITABLE.without(it.busy).without(it.held_within).iter().collect();
        let counters_max = if it.escapes { 0 } else { free.len().min(candidates.len()) };
        let mut best = (f64::INFINITY, 0, false);
        for counters in 0..=counters_max {
            for has_base in [false, true] {
                let taken = counters + usize::from(has_base);
                if let Some(taken) = free.get(..taken) {
                    let cost = self.cost(region, &candidates, counters, has_base, taken);
                    if cost < best.0 {
                        best = (cost, counters, has_base);
                    }
                }
            }
        }
        let (_, counters, has_base) = best;
        let it = &mut self.regions[region];
        let (in_registers, in_memory) = candidates.split_at(counters);
        it.counters = in_registers.iter().map(|it| it.counter).zip(free.iter().copied()).collect();
        it.base = free.get(counters).copied().filter(|_| has_base);
        let own = it.counters.iter().map(|&(_, register)| register).chain(it.base);
        it.held_within = it.held_within.or(own.collect());
        if has_base { Vec::new() } else { in_memory.to_vec() }
    }

    /// Instructions for the counters of a region per call of the function, given the number of them in registers.
    fn cost(
        &self,
        region: usize,
        candidates: &[Candidate],
        counters: usize,
        has_base: bool,
        taken: &[u8],
    ) -> f64 {
        let it = &self.regions[region];
        let is_whole = it.parent.is_none();
        let saved = taken.iter().filter(|&&register| register >= 6 && is_whole).count();
        let (in_registers, in_memory) = candidates.split_at(counters);
        let counting: f64 = in_registers.iter().map(|it| it.frequency).sum();
        let held = counters as f64 * (it.entry_frequency + it.exit_frequency * FLUSH_COST);
        let base = f64::from(u8::from(has_base));
        let taken: Registers = taken.iter().copied().collect();
        let needed = SCRATCH - u32::from(has_base);
        let in_memory = in_memory.iter().map(|it| {
            let missing = needed.saturating_sub(it.dead.without(taken).len());
            it.frequency * (ADD_COST + 1.0 - base + SPILL_COST * f64::from(missing))
        });
        let in_memory: f64 = in_memory.sum();
        let setting_up = base * it.entry_frequency + CALLEE_SAVED_COST * saved as f64;
        counting + held + in_memory + setting_up
    }

    /// Removes taken registers from the outer region.
    fn pass_up(&mut self, region: usize) {
        if let Some(parent) = self.regions[region].parent {
            let within = self.regions[region].held_within;
            self.regions[parent].held_within = self.regions[parent].held_within.or(within);
        }
    }

    /// Holds registers across several loops where that is cheaper and they are not needed otherwise.
    fn raise(&mut self) {
        // By region and register: number of holders, in the region itself and its direct children.
        let mut holders = vec![[0_u32; 10]; self.regions.len()];
        for (number, region) in self.regions.iter().enumerate() {
            for register in region.own().iter() {
                holders[number][usize::from(register)] += 1;
            }
            for register in region.parent.map_or(Registers::NONE, |_| region.held_within).iter() {
                let parent = region.parent.unwrap_or(number);
                holders[parent][usize::from(register)] += 1;
            }
        }
        for number in 0..self.regions.len() {
            let Some(parent) = self.regions[number].parent else { continue };
            let (inner, outer) = (&self.regions[number], &self.regions[parent]);
            let is_free = |register: u8| {
                !outer.busy.has(register) && holders[parent][usize::from(register)] == 1
            };
            let traffic = |it: &Region| it.entry_frequency + it.exit_frequency * FLUSH_COST;
            let may_rise = !outer.escapes && traffic(outer) < traffic(inner);
            let rises = |&(_, register): &(usize, u8)| may_rise && is_free(register);
            let (raised, kept): (Vec<_>, Vec<_>) = inner.counters.iter().partition(|it| rises(it));
            let base_rises = outer.base.is_none() && outer.entry_frequency < inner.entry_frequency;
            let base = inner.base.filter(|&base| base_rises && is_free(base));
            self.regions[number].counters = kept;
            self.regions[parent].counters.extend(raised);
            if base.is_some() {
                self.regions[number].base = None;
                self.regions[parent].base = base;
            }
        }
    }

    /// Drops addresses that an outer region also holds, and records the holders.
    fn settle(&mut self) {
        for region in (0..self.regions.len()).rev() {
            let outer = self.regions[region].parent;
            let has_base =
                outer.is_some_and(|it| self.around(it).any(|it| self.regions[it].base.is_some()));
            if has_base {
                self.regions[region].base = None;
            }
            let around = outer.map_or(Registers::NONE, |it| self.regions[it].held);
            self.regions[region].held = around.or(self.regions[region].own());
        }
        for region in &self.regions {
            for &(counter, register) in &region.counters {
                self.registers[counter] = Some(register);
            }
        }
    }
}

impl Region {
    /// Registers that are held because of this region.
    fn own(&self) -> Registers {
        self.counters.iter().map(|&(_, register)| register).chain(self.base).collect()
    }
}
