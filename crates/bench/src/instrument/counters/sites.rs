//! Which edges and blocks of a function are counted, and where.

use wingbeat_bpf::code::Registers;

use crate::instrument::{
    counters::Subject,
    flow::{Link, Net},
    graph::{Block, Edge, EdgeKind},
    nest::Nest,
};

/// Registers that a counter in memory needs: one for its address, one for its value.
pub(super) const SCRATCH: u32 = 2;
/// Instructions of a counter in memory, roughly: some share the load of the address.
const MEMORY_COST: f64 = 3.0;
/// Instructions to save and restore a register.
pub(super) const SPILL_COST: f64 = 2.0;
/// What the detour of a jump costs beside the counter: a `goto`, and a taken jump more.
const DETOUR_COST: f64 = 2.0;

/// The counters of one function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sites {
    /// The function as a net: its edges, then a link through each block.
    pub(super) net: Net,
    /// By link: the slot of its counter.
    pub(super) slots: Vec<Option<usize>>,
    /// Is the number of calls known from the blocks that call the function?
    pub(super) calls_known: bool,
    pub(super) counters: Vec<Counter>,
    pub(super) nest: Nest,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counter {
    /// Its number in the map's value.
    pub(super) slot: usize,
    pub(super) site: Site,
    /// How often it counts per call of the function, roughly.
    pub(super) frequency: f64,
}

/// Where a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// Anywhere in a block.
    Inside(usize),
    /// On the way of an edge.
    Edge(usize),
}

impl Sites {
    /// Chooses what to count, and gives each counter a slot from the next free one.
    pub(super) fn new(subject: &Subject<'_>, next_slot: &mut usize) -> Self {
        let graph = subject.graph;
        let function = &graph.functions[subject.number];
        let nest = Nest::new(graph, function);
        let first = function.blocks.start;
        // Node 0 is outside; each block has a node for what arrives and one for what leaves.
        let arrival = |block: Option<usize>| block.map_or(0, |block| 1 + 2 * (block - first));
        let departure = |block: Option<usize>| block.map_or(0, |block| 2 + 2 * (block - first));
        let calls_known =
            subject.number != 0 && !function.is_callback && !function.callers.is_empty();

        let mut links = Vec::with_capacity(function.edges.len() + function.blocks.len());
        let mut places = Vec::with_capacity(links.capacity());
        for (edge, &frequency) in function.edges.clone().zip(&nest.edge_frequencies) {
            let Edge { from, to, kind } = graph.edges[edge];
            let site = site_of_edge(subject, edge);
            let cost = match site {
                _ if kind == EdgeKind::Enter && calls_known => -1.0,
                Some(site) => frequency * cost(subject, site, kind),
                None => f64::INFINITY,
            };
            links.push((Link { from: departure(from), to: arrival(to) }, cost));
            places.push(site.map(|site| (site, frequency)));
        }
        for (block, &frequency) in function.blocks.clone().zip(&nest.block_frequencies) {
            let site = Site::Inside(block);
            let cost = frequency * cost(subject, site, EdgeKind::FallThrough);
            links.push((Link { from: arrival(Some(block)), to: departure(Some(block)) }, cost));
            places.push(Some((site, frequency)));
        }

        let net = Net::new(1 + 2 * function.blocks.len(), links);
        let mut sites =
            Self { net, slots: vec![None; places.len()], calls_known, counters: Vec::new(), nest };
        for (link, place) in places.into_iter().enumerate() {
            // The first link is the edge that enters the function.
            let is_known = link == 0 && calls_known;
            let Some((site, frequency)) = place.filter(|_| sites.net.is_counted(link) && !is_known)
            else {
                continue;
            };
            sites.slots[link] = Some(*next_slot);
            sites.counters.push(Counter { slot: *next_slot, site, frequency });
            *next_slot += 1;
        }
        sites
    }
}

/// Where an edge is counted; `None` if it cannot be.
fn site_of_edge(subject: &Subject<'_>, edge: usize) -> Option<Site> {
    let graph = subject.graph;
    let Edge { from, to, kind } = graph.edges[edge];
    let only_way_out = from.filter(|&from| graph.blocks[from].outgoing.len() == 1);
    let only_way_in = to.filter(|&to| graph.incoming(to).len() == 1);
    match kind {
        EdgeKind::Escape => None,
        _ => Some(only_way_out.or(only_way_in).map_or(Site::Edge(edge), Site::Inside)),
    }
}

/// Instructions that a counter takes there.
fn cost(subject: &Subject<'_>, site: Site, kind: EdgeKind) -> f64 {
    let free = dead_at(subject, site, Registers::NONE).len();
    let detour = match (site, kind) {
        (Site::Edge(_), EdgeKind::Taken) => DETOUR_COST,
        _ => 0.0,
    };
    MEMORY_COST + SPILL_COST * f64::from(SCRATCH.saturating_sub(free)) + detour
}

/// Registers that are free at the best place of a site, not counting those that are held.
pub(super) fn dead_at(subject: &Subject<'_>, site: Site, held: Registers) -> Registers {
    let index = match site {
        Site::Inside(block) => best_place(subject, &subject.graph.blocks[block], held),
        Site::Edge(edge) => {
            let to = subject.graph.edges[edge].to;
            to.map_or(0, |to| subject.graph.blocks[to].insns.start)
        }
    };
    subject.liveness.dead_before(index).without(held)
}

/// The first instruction of a block before which most registers are free, or enough.
pub(super) fn best_place(subject: &Subject<'_>, block: &Block, held: Registers) -> usize {
    let mut best = (0, block.insns.start);
    for index in block.insns.clone() {
        if subject.graph.is_second_half(index) {
            continue;
        }
        let free = subject.liveness.dead_before(index).without(held).len();
        if free > best.0 {
            best = (free, index);
        }
        if free >= SCRATCH {
            break;
        }
    }
    best.1
}
