//! Selects the edges and blocks of a function to count, and where.

use wingbeat_bpf_loader::code::Registers;

use crate::instrument::{
    counters::Subject,
    flow::{Link, Net},
    graph::{Block, Edge, EdgeKind},
    loops::LoopNest,
};

/// Scratch registers of a counter in memory: one for its address, one for its value.
pub(super) const SCRATCH: u32 = 2;
/// Approximate instructions of a counter in memory: some share the load of the address.
const MEMORY_COST: f64 = 3.0;
/// Instructions to save and restore a register.
pub(super) const SPILL_COST: f64 = 2.0;
/// Additional cost of detouring a jump: a `goto` and another taken jump.
const DETOUR_COST: f64 = 2.0;

/// The counters of one function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sites {
    /// The function as a flow network: its edges, then a link through each block.
    pub(super) net: Net,
    /// By link: the slot of its counter.
    pub(super) slots: Vec<Option<usize>>,
    /// Whether the number of calls is known from the calling blocks.
    pub(super) calls_known: bool,
    pub(super) counters: Vec<Counter>,
    pub(super) nest: LoopNest,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counter {
    /// Its index in the map's value.
    pub(super) slot: usize,
    pub(super) site: Site,
    /// Estimated executions per call of the function.
    pub(super) frequency: f64,
}

/// Location of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Site {
    /// Anywhere in a block.
    Inside(usize),
    /// On an edge.
    Edge(usize),
}

impl Sites {
    /// Selects counters and assigns slots, starting at the next free one.
    pub(super) fn new(subject: &Subject<'_>, next_slot: &mut usize) -> Self {
        let graph = subject.graph;
        let function = &graph.functions[subject.number];
        let nest = LoopNest::new(graph, function);
        let first = function.blocks.start;
        // Node 0 is outside; each block has an entry and an exit node.
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

/// Where to count an edge; `None` if impossible.
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

/// Instructions of a counter at this location.
fn cost(subject: &Subject<'_>, site: Site, kind: EdgeKind) -> f64 {
    let free = dead_at(subject, site, Registers::NONE).len();
    let detour = match (site, kind) {
        (Site::Edge(_), EdgeKind::Taken) => DETOUR_COST,
        _ => 0.0,
    };
    MEMORY_COST + SPILL_COST * f64::from(SCRATCH.saturating_sub(free)) + detour
}

/// Free registers at the best insertion point of a site, excluding held ones.
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

/// First instruction of a block with the most free registers before it, or enough.
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
