//! Minimizes the set of edges to count.
//!
//! The flow into a block equals the flow out of it (D. E. Knuth and F. R. Stevenson, "Optimal
//! measurement points for program frequency counts", BIT 13, 1973). A function is a network of
//! links: its edges, one link through each block, and one node for the outside. Links on a spanning
//! tree need no counters, so a tree of the most expensive links leaves the cheapest to count.

/// A directed link between two nodes of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Source node.
    pub from: usize,
    pub to: usize,
}

/// A network, with the choice of links to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    nodes: usize,
    links: Vec<Link>,
    in_tree: Vec<bool>,
    /// Nodes from the leaves of the tree inwards, each with the link towards the root.
    inwards: Vec<(usize, usize)>,
}

impl Net {
    /// Builds a network of nodes numbered from 0 and links with the cost of counting each. Infinite
    /// cost marks links that cannot be counted; they must not form a cycle.
    pub fn new(nodes: usize, links: Vec<(Link, f64)>) -> Self {
        let in_tree = dearest_tree(nodes, &links);
        let links: Vec<Link> = links.into_iter().map(|(link, _)| link).collect();
        let inwards = inwards(nodes, &links, &in_tree);
        Self { nodes, links, in_tree, inwards }
    }

    /// Whether this link has to be counted.
    pub fn is_counted(&self, link: usize) -> bool {
        self.in_tree.get(link) == Some(&false)
    }

    /// Computes the flow along each link from that along the counted links; values for other links
    /// are ignored. Contradictory counts give wrong results, but do not fail.
    pub fn solve(&self, counted: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut flows = vec![0; self.links.len()];
        // Inflow minus outflow of each node.
        let mut surplus = vec![0_u64; self.nodes];
        for (index, link) in self.links.iter().enumerate().filter(|it| self.is_counted(it.0)) {
            flows[index] = counted(index);
            surplus[link.from] = surplus[link.from].wrapping_sub(flows[index]);
            surplus[link.to] = surplus[link.to].wrapping_add(flows[index]);
        }
        for &(node, index) in &self.inwards {
            let link = self.links[index];
            flows[index] = match link.from == node {
                true => surplus[node],
                false => surplus[node].wrapping_neg(),
            };
            surplus[link.from] = surplus[link.from].wrapping_sub(flows[index]);
            surplus[link.to] = surplus[link.to].wrapping_add(flows[index]);
        }
        flows
    }
}

/// Kruskal's algorithm.
fn dearest_tree(nodes: usize, links: &[(Link, f64)]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by(|&a, &b| links[b].1.total_cmp(&links[a].1));
    let mut groups: Vec<usize> = (0..nodes).collect();
    let mut in_tree = vec![false; links.len()];
    for index in order {
        let (link, _) = links[index];
        let (from, to) = (find(&mut groups, link.from), find(&mut groups, link.to));
        in_tree[index] = from != to;
        groups[from] = to;
    }
    in_tree
}

/// Representative of a node's group (union-find).
pub(super) fn find(groups: &mut [usize], mut node: usize) -> usize {
    while groups[node] != node {
        groups[node] = groups[groups[node]];
        node = groups[node];
    }
    node
}

fn inwards(nodes: usize, links: &[Link], in_tree: &[bool]) -> Vec<(usize, usize)> {
    let mut neighbours = vec![Vec::new(); nodes];
    for (index, link) in links.iter().enumerate().filter(|it| in_tree[it.0]) {
        neighbours[link.from].push((link.to, index));
        neighbours[link.to].push((link.from, index));
    }
    let mut outwards = Vec::with_capacity(nodes);
    let mut seen = vec![false; nodes];
    for root in 0..nodes {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            for &(neighbour, link) in &neighbours[node] {
                if !std::mem::replace(&mut seen[neighbour], true) {
                    outwards.push((neighbour, link));
                    open.push(neighbour);
                }
            }
        }
    }
    outwards.reverse();
    outwards
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(nodes: usize, links: &[(usize, usize, f64)]) -> Net {
        Net::new(nodes, links.iter().map(|&(from, to, cost)| (Link { from, to }, cost)).collect())
    }

    #[test]
    fn a_branch_that_joins() {
        // 0 is outside: 0 → 1 → (2 or 3) → 4 → 0
        let links = [(0, 1, 1.0), (1, 2, 0.6), (1, 3, 0.4), (2, 4, 0.6), (3, 4, 0.4), (4, 0, 1.0)];
        let net = net(5, &links);
        let counted: Vec<usize> = (0..6).filter(|&link| net.is_counted(link)).collect();
        assert_eq!(counted.len(), 2, "six links, four of them in a tree of five nodes");
        assert!(counted.iter().all(|link| [2, 4, 1, 3].contains(link)), "{counted:?}");
        let flows = [10, 7, 3, 7, 3, 10];
        assert_eq!(net.solve(|link| flows[link]), flows);
    }

    #[test]
    fn what_cannot_be_counted_is_not() {
        let net = net(2, &[(0, 1, 1.0), (1, 0, f64::INFINITY), (1, 0, 0.5)]);
        assert_eq!([0, 1, 2].map(|link| net.is_counted(link)), [true, false, true]);
        assert_eq!(net.solve(|link| [9, 0, 4][link]), [9, 5, 4]);
    }

    proptest! {
        /// Reconstructs random walks from and to node 0 through a random network from the counted links alone.
        #[test]
        fn flows_are_found_again(
            links in prop::collection::vec((0..6_usize, 0..6_usize, 0..100_u32), 1..20),
            steps in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        ) {
            let links: Vec<_> =
                links.into_iter().map(|(from, to, cost)| (from, to, f64::from(cost))).collect();
            let net = net(6, &links);
            let mut flows = vec![0; links.len()];
            let (mut node, mut path) = (0, Vec::new());
            for step in steps {
                let ways: Vec<usize> =
                    (0..links.len()).filter(|&link| links[link].0 == node).collect();
                if ways.is_empty() {
                    break;
                }
                let way = ways[step.index(ways.len())];
                path.push(way);
                node = links[way].1;
                if node == 0 {
                    path.drain(..).for_each(|link| flows[link] += 1);
                }
            }
            prop_assert_eq!(net.solve(|link| flows[link]), flows);
        }
    }
}
