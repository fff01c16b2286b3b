//! Which leads of a replica move.

use super::NodeLoad;

/// A lead that goes to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadMove {
    /// The place of the shard.
    pub shard: usize,
    /// The place of the node that leads it.
    pub from: usize,
    /// The place of the node that takes over.
    pub to: usize,
}

/// Leads of the candidates, by node; `None`: the node may not be given any.
struct Led(Vec<Option<usize>>);

impl Led {
    fn of(nodes: &[NodeLoad], leads: &[Option<usize>]) -> Self {
        let mut led = Self(nodes.iter().map(|node| node.is_candidate().then_some(0)).collect());
        leads.iter().flatten().for_each(|node| led.change(*node, |count| count + 1));
        led
    }

    fn count(&self, node: usize) -> Option<usize> {
        self.0.get(node).copied().flatten()
    }

    fn candidates(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// The candidate that leads the fewest, the first of equals.
    fn fewest(&self) -> Option<usize> {
        let led = self.0.iter().enumerate().filter_map(|(node, count)| Some((node, (*count)?)));
        led.min_by_key(|(_, count)| *count).map(|(node, _)| node)
    }

    fn change(&mut self, node: usize, by: impl Fn(usize) -> usize) {
        if let Some(Some(count)) = self.0.get_mut(node) {
            *count = by(*count);
        }
    }

    fn shift(&mut self, from: usize, to: usize) {
        self.change(from, |count| count.saturating_sub(1));
        self.change(to, |count| count + 1);
    }
}

/// Takes every lead from nodes that are read-only, each to the candidate that leads the fewest.
pub(super) fn drain_leads(nodes: &[NodeLoad], leads: &[Option<usize>]) -> Vec<LeadMove> {
    let mut led = Led::of(nodes, leads);
    let mut moves = Vec::new();
    for (shard, from) in leads.iter().enumerate().filter_map(|(shard, node)| Some((shard, (*node)?))) {
        if nodes.get(from).is_some_and(|node| !node.writable)
            && let Some(to) = led.fewest()
        {
            led.shift(from, to);
            moves.push(LeadMove { shard, from, to });
        }
    }
    moves
}

/// Evens leads out: no candidate should lead more than all shards by the number of candidates, rounded up. At most
/// `limit` leads move.
pub(super) fn balance_leads(nodes: &[NodeLoad], leads: &[Option<usize>], limit: usize) -> Vec<LeadMove> {
    let mut led = Led::of(nodes, leads);
    if led.candidates() == 0 {
        return Vec::new();
    }
    let most = leads.len().div_ceil(led.candidates());
    let mut moves = Vec::new();
    // Of a node's leads those of the first shards stay.
    let last_first = leads.iter().enumerate().rev().filter_map(|(shard, node)| Some((shard, (*node)?)));
    for (shard, from) in last_first {
        if moves.len() >= limit {
            break;
        }
        if led.count(from).is_some_and(|count| count > most)
            && let Some(to) = led.fewest()
        {
            led.shift(from, to);
            moves.push(LeadMove { shard, from, to });
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeLoad =
        NodeLoad { writable: true, normal: true, memory: None, rows: 0, all_rows: 0, leads: 0 };

    fn leads(nodes: &[usize]) -> Vec<Option<usize>> {
        nodes.iter().map(|node| Some(*node)).collect()
    }

    fn targets(moves: &[LeadMove]) -> Vec<(usize, usize, usize)> {
        moves.iter().map(|made| (made.shard, made.from, made.to)).collect()
    }

    #[test]
    fn a_node_above_the_limit_gives_its_last_leads_to_those_with_fewest() {
        // Four shards over two nodes: at most two each.
        assert_eq!(targets(&balance_leads(&[NODE; 2], &leads(&[0, 0, 0, 1]), 1)), [(2, 0, 1)]);
        assert_eq!(targets(&balance_leads(&[NODE; 3], &leads(&[0, 0, 0, 0]), 9)), [(3, 0, 1), (2, 0, 2)]);
        assert_eq!(balance_leads(&[NODE; 2], &leads(&[0, 0, 1]), 1), []);
    }

    #[test]
    fn a_shard_without_leader_counts_and_one_on_a_node_that_is_away_stays() {
        let away = NodeLoad { normal: false, ..NODE };
        assert_eq!(balance_leads(&[NODE, away], &[Some(0), Some(1), Some(1), None], 9), []);
        assert_eq!(targets(&balance_leads(&[NODE; 2], &[Some(0), Some(0), None], 9)), []);
        assert_eq!(balance_leads(&[away], &leads(&[0]), 9), []);
    }

    #[test]
    fn read_only_nodes_lose_all_leads() {
        let read_only = NodeLoad { writable: false, ..NODE };
        let moves = drain_leads(&[NODE, read_only, NODE], &leads(&[1, 0, 1, 1]));
        assert_eq!(targets(&moves), [(0, 1, 2), (2, 1, 0), (3, 1, 2)]);
        assert_eq!(drain_leads(&[read_only], &leads(&[0])), [], "there is nobody else");
    }
}
