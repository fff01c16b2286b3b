//! What nodes lead.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_proto::node::v1 as node_pb;

/// What a node leads. It takes the coordinator's word for who hosts what.
#[derive(Clone, Default)]
pub struct Leads {
    led: BTreeMap<(u64, String), Led>,
    /// How many segments were taken out of its reach so far.
    pub taken: usize,
}

#[derive(Clone, Default)]
struct Led {
    version: u64,
    view: Option<node_pb::View>,
    hosts: BTreeMap<u64, u64>,
}

impl Leads {
    /// All that it leads, as the first report of a session says it.
    pub fn reports(&self) -> Vec<node_pb::LeadReport> {
        let all = |((collection_id, shard), led): (&(u64, String), &Led)| {
            let shard = node_pb::LedShard { collection_id: *collection_id, shard: shard.clone() };
            led.report(shard, led.hosts.clone(), Vec::new())
        };
        self.led.iter().map(all).collect()
    }

    /// Takes a wish and reports what became of it.
    pub(super) fn follow(&mut self, wish: node_pb::DesiredLeads) -> node_pb::Report {
        let key = |led: &node_pb::LedShard| (led.collection_id, led.shard.clone());
        let wanted: BTreeSet<_> = wish.leads.iter().filter_map(|lead| lead.led.as_ref().map(key)).collect();
        let mut removed: Vec<_> = wish.removed.iter().map(key).collect();
        removed.extend(self.led.keys().filter(|led| wish.full && !wanted.contains(*led)).cloned());
        self.led.retain(|led, _| !removed.contains(led));
        let leads = wish.leads.into_iter().map(|lead| self.take(lead, wish.full)).collect();
        let shard = |(collection_id, shard)| node_pb::LedShard { collection_id, shard };
        let leads_removed = removed.into_iter().map(shard).collect();
        node_pb::Report { leads, leads_removed, ..Default::default() }
    }

    fn take(&mut self, lead: node_pb::DesiredLead, full: bool) -> node_pb::LeadReport {
        let shard = lead.led.unwrap();
        let led = self.led.entry((shard.collection_id, shard.shard.clone())).or_default();
        let hosts: BTreeMap<u64, u64> = lead.segments.into_iter().zip(lead.hosts).collect();
        let mut removed = lead.removed;
        if full {
            removed.extend(led.hosts.keys().filter(|segment| !hosts.contains_key(segment)));
        }
        let before = led.hosts.len();
        led.hosts.retain(|segment, _| !removed.contains(segment));
        self.taken += before - led.hosts.len();
        led.hosts.extend(&hosts);
        led.view = lead.view.or(led.view.take());
        led.version = lead.version;
        led.report(shard, hosts, removed)
    }
}

impl Led {
    fn report(
        &self,
        led: node_pb::LedShard,
        hosts: BTreeMap<u64, u64>,
        removed: Vec<u64>,
    ) -> node_pb::LeadReport {
        let whole =
            |view: &node_pb::View| view.segments.iter().all(|segment| self.hosts.contains_key(segment));
        node_pb::LeadReport {
            led: Some(led),
            version: self.version,
            target_version: self.view.as_ref().map_or(0, |view| view.target_version),
            serviceable: self.view.as_ref().is_some_and(whole),
            segments: hosts.keys().copied().collect(),
            hosts: hosts.into_values().collect(),
            removed,
        }
    }
}
