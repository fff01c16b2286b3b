//! Scores, fair shares, priorities, and whether a move pays.

use super::BalanceSettings;

/// Parts of a row below which a difference is floating point's own.
const NOISE: f64 = 1e-6;

/// A node of a replica, as balance sees it for the replica's collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLoad {
    /// Whether it takes new work in the replica. Others are read-only: they are being drained.
    pub writable: bool,
    /// Whether anything may be given to it: it lives, is neither stopping nor switched off, and has no penalty.
    pub normal: bool,
    /// Bytes that it has for segments; `None`: it does not say.
    pub memory: Option<u64>,
    /// Rows of the collection that it will have when everything that runs has ended: those that it reports, with what
    /// is coming, without what is leaving.
    pub rows: u64,
    /// The same for all collections together.
    pub all_rows: u64,
    /// Shards of the collection that it leads in the replica.
    pub leads: u32,
}

impl NodeLoad {
    /// Whether segments may be given to it.
    pub(super) fn is_candidate(&self) -> bool {
        self.writable && self.normal
    }
}

/// The nodes of a replica with their shares while segments are handed out among them.
#[derive(Clone, Debug)]
pub(super) struct Scores<'a> {
    settings: &'a BalanceSettings,
    nodes: Vec<NodeLoad>,
    shares: Vec<f64>,
    /// By node; only those of candidates mean anything.
    priorities: Vec<i64>,
}

impl<'a> Scores<'a> {
    pub(super) fn new(settings: &'a BalanceSettings, nodes: &[NodeLoad]) -> Self {
        let count = nodes.len();
        let mut scores =
            Self { settings, nodes: nodes.to_vec(), shares: vec![0.0; count], priorities: vec![0; count] };
        scores.renew();
        scores
    }

    /// Computes the shares of what the candidates have now.
    pub(super) fn renew(&mut self) {
        let candidates = || self.nodes.iter().filter(|node| node.is_candidate());
        let total: f64 = candidates().map(|node| self.score(node)).sum();
        let by_memory = candidates().all(|node| node.memory.is_some_and(|bytes| bytes > 0));
        let size = |node: &NodeLoad| if by_memory { node.memory.map_or(0.0, as_float) } else { 1.0 };
        let all: f64 = candidates().map(size).sum();
        let share = |node: &NodeLoad| if node.is_candidate() { total * size(node) / all } else { 0.0 };
        self.shares = self.nodes.iter().map(share).collect();
        self.priorities = (0..self.nodes.len()).map(|at| round_up(self.above(at))).collect();
    }

    pub(super) fn node(&self, at: usize) -> Option<&NodeLoad> {
        self.nodes.get(at)
    }

    pub(super) fn is_candidate(&self, at: usize) -> bool {
        self.node(at).is_some_and(NodeLoad::is_candidate)
    }

    /// Places of all candidates, ascending.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_candidate()).map(|(at, _)| at)
    }

    /// What a node has above its share; below 0: it has room.
    pub(super) fn above(&self, at: usize) -> f64 {
        let (Some(node), Some(share)) = (self.node(at), self.shares.get(at)) else { return 0.0 };
        let leading = share * self.settings.leader_overhead * f64::from(node.leads);
        self.score(node) + leading - share
    }

    /// What a node has above its share, rounded up. The lower, the more room.
    pub(super) fn priority(&self, at: usize) -> i64 {
        self.priorities.get(at).copied().unwrap_or(i64::MAX)
    }

    /// The candidate of the lowest priority that `takes` allows, the first of equals.
    pub(super) fn roomiest(&self, takes: impl Fn(usize) -> bool) -> Option<usize> {
        let first = self.candidates().min_by_key(|at| self.priority(*at))?;
        if takes(first) {
            return Some(first);
        }
        self.candidates().filter(|at| takes(*at)).min_by_key(|at| self.priority(*at))
    }

    /// What a segment of so many rows adds to a node's score.
    pub(super) fn weight(&self, rows: u64) -> f64 {
        as_float(rows) * (1.0 + self.settings.global_row_factor)
    }

    /// Whether it is worth while to move so many rows from one candidate to another. Each move that pays brings the
    /// whole nearer to fair shares, hence a row of them ends.
    pub(super) fn pays(&self, from: usize, to: usize, rows: u64) -> bool {
        let weight = self.weight(rows);
        // What is rounded up may look uneven where it is not.
        if weight <= 0.0 || self.above(from) - self.above(to) <= weight + NOISE {
            return false;
        }
        let (source, target) = (self.priority(from) as f64, self.priority(to) as f64);
        let difference = (source - target).abs();
        if difference < self.settings.tolerance * target.abs() {
            return false;
        }
        let (source, target) = (source - weight, target + weight);
        let reversed = target > source;
        !(reversed && (source - target).abs() * self.settings.reverse_tolerance >= difference)
    }

    /// Gives a node rows, and takes them from another one.
    pub(super) fn shift(&mut self, from: Option<usize>, to: usize, rows: u64) {
        if let Some(node) = from.and_then(|at| self.nodes.get_mut(at)) {
            node.rows = node.rows.saturating_sub(rows);
            node.all_rows = node.all_rows.saturating_sub(rows);
        }
        if let Some(node) = self.nodes.get_mut(to) {
            node.rows = node.rows.saturating_add(rows);
            node.all_rows = node.all_rows.saturating_add(rows);
        }
        for at in from.into_iter().chain([to]) {
            let priority = round_up(self.above(at));
            if let Some(known) = self.priorities.get_mut(at) {
                *known = priority;
            }
        }
    }

    fn score(&self, node: &NodeLoad) -> f64 {
        as_float(node.rows) + self.settings.global_row_factor * as_float(node.all_rows)
    }
}

/// Rows and bytes as figures to weigh. What is lost above 2^53 is below any use.
fn as_float(number: u64) -> f64 {
    number as f64
}

/// Rounds up what is a whole number but for the last bits to that number: a tenth is no binary fraction.
fn round_up(value: f64) -> i64 {
    (value - NOISE).ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rows: u64, all_rows: u64) -> NodeLoad {
        NodeLoad { writable: true, normal: true, memory: None, rows, all_rows, leads: 0 }
    }

    #[test]
    fn a_share_is_the_mean_of_scores_and_a_priority_what_is_above_it() {
        let settings = BalanceSettings::default();
        // Scores 100 + 0.1 * 300 = 130 and 50 + 0.1 * 50 = 55; the share is 92.5.
        let scores = Scores::new(&settings, &[node(100, 300), node(50, 50)]);
        assert_eq!((scores.priority(0), scores.priority(1)), (38, -37));
        assert!((scores.above(0) - 37.5).abs() < 1e-9);
    }

    #[test]
    fn shares_go_by_memory_only_if_every_candidate_says_how_much_it_has() {
        let settings = BalanceSettings { global_row_factor: 0.0, ..BalanceSettings::default() };
        let with = |memory, rows| NodeLoad { memory: Some(memory), ..node(rows, rows) };
        let heavy = [with(300, 60), with(100, 60)];
        assert_eq!(Scores::new(&settings, &heavy).priorities, [-30, 30]);
        let silent = [with(300, 60), NodeLoad { memory: None, ..with(0, 60) }];
        assert_eq!(Scores::new(&settings, &silent).priorities, [0, 0]);
        let zero = [with(300, 60), with(0, 60)];
        assert_eq!(Scores::new(&settings, &zero).priorities, [0, 0]);
        // One that may not be given anything has no say.
        let stopping = [with(300, 60), with(100, 60), NodeLoad { normal: false, ..node(500, 500) }];
        assert_eq!(Scores::new(&settings, &stopping).priorities[..2], [-30, 30]);
    }

    #[test]
    fn a_lead_weighs_a_tenth_of_the_share() {
        let settings = BalanceSettings { global_row_factor: 0.0, ..BalanceSettings::default() };
        let scores = Scores::new(&settings, &[NodeLoad { leads: 2, ..node(100, 100) }, node(100, 100)]);
        assert_eq!(scores.priorities, [20, 0]);
    }

    #[test]
    fn a_whole_number_is_not_rounded_up_for_its_last_bits() {
        let settings = BalanceSettings::default();
        let mut scores = Scores::new(&settings, &[node(0, 0), node(0, 0)]);
        // 3 * 1.1 is 3.3000000000000003 in binary; ten times as many rows are 33, not 34.
        scores.shift(None, 0, 30);
        assert_eq!(scores.priority(0), 33);
        assert_eq!(round_up(0.1 + 0.2 - 0.3), 0);
        assert_eq!((round_up(0.01), round_up(-0.01), round_up(-1.5)), (1, 0, -1));
    }

    #[test]
    fn small_differences_and_ones_that_turn_around_do_not_pay() {
        let settings = BalanceSettings { global_row_factor: 0.0, ..BalanceSettings::default() };
        let pays = |a: u64, b: u64, rows| Scores::new(&settings, &[node(a, a), node(b, b)]).pays(0, 1, rows);
        // Priorities 50 and -50.
        assert!(pays(200, 100, 10));
        assert!(pays(200, 100, 50), "even after it");
        // 88 rows leave -38 and 38, and 76 * 1.3 = 98.8 is below 100; 89 leave 78 * 1.3 = 101.4.
        assert!(pays(200, 100, 88));
        assert!(!pays(200, 100, 89));
        assert!(!pays(200, 100, 0), "nothing moves nothing");
        assert!(!pays(100, 100, 1));
    }

    #[test]
    fn a_difference_within_the_tolerance_is_none() {
        let settings = BalanceSettings { global_row_factor: 0.0, ..BalanceSettings::default() };
        // Ten leads weigh as much as the share, so that a priority is what the node has: 0.05 * 100 is 5.
        let pays = |a: u64, b: u64| {
            let nodes = [a, b].map(|rows| NodeLoad { leads: 10, ..node(rows, rows) });
            Scores::new(&settings, &nodes).pays(0, 1, 1)
        };
        assert!(!pays(104, 100));
        assert!(pays(105, 100));
    }

    #[test]
    fn what_only_looks_uneven_because_it_is_rounded_up_stays() {
        // Above the shares: 1.01, -0.05 and -0.96, rounded up 2, 0 and 0. One row of 1.1 would turn the first two around,
        // and back, for ever.
        let settings = BalanceSettings { global_row_factor: 0.1, ..BalanceSettings::default() };
        let scores = Scores {
            settings: &settings,
            nodes: vec![node(1, 1), node(0, 0), node(0, 0)],
            shares: vec![0.09, 0.05, 0.96],
            priorities: vec![2, 0, 0],
        };
        assert!(!scores.pays(0, 1, 1));
        assert!(scores.pays(0, 2, 1));
    }
}
