//! What the node should lead, and how that stands: pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::{CollectionId, Error, ErrorCode, SegmentId, ShardName};
use pointsman_proto::node::v1 as pb;
use url::Url;

use super::{LeadStates, Leading, Led, lead::Lead};

/// All leads of the node.
#[derive(Debug, Default)]
pub(crate) struct Book {
    leads: BTreeMap<Led, Lead>,
    /// Segments that the node holds itself.
    held: BTreeSet<SegmentId>,
    /// The number that the coordinator gave this process.
    node_id: u64,
    /// The one by which hosts mean it.
    own: u64,
    /// Nodes that hosts are given by.
    peers: Arc<Peers>,
    /// Shards that it led and does not any more, with the version of the lead.
    lost: BTreeMap<Led, u64>,
    /// What was said last.
    said: Arc<LeadStates>,
}

/// Another node of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Where its worker listens, as URL.
    pub(crate) address: String,
    /// The same, read; `None`: it is no URL.
    pub(crate) url: Option<Url>,
}

impl From<&pb::Peer> for Peer {
    fn from(peer: &pb::Peer) -> Self {
        let url = peer.address.parse().ok();
        Self { name: peer.name.clone(), address: peer.address.clone(), url }
    }
}

/// Nodes by number.
pub(crate) type Peers = BTreeMap<u64, Peer>;

/// Lost leads that are remembered for messages.
const LOST: usize = 1024;

impl Book {
    /// Takes the number that the coordinator gave this process.
    pub(crate) fn known_as(&mut self, node_id: u64) {
        self.node_id = node_id;
    }

    /// What was said last, for requests.
    pub(crate) fn leading(&self) -> Leading {
        let (states, peers) = (Arc::clone(&self.said), Arc::clone(&self.peers));
        Leading { node_id: self.node_id, own: self.own, states, peers }
    }

    /// Version of the lead of a shard that it led and does not any more, as far as it is remembered.
    pub(crate) fn lost(&self, led: &Led) -> Option<u64> {
        self.lost.get(led).copied()
    }

    /// Takes a wish.
    ///
    /// # Errors
    /// `parameter_invalid` naming what makes no sense; nothing has changed then.
    pub(crate) fn desire(&mut self, desired: &pb::DesiredLeads, node_id: u64) -> Result<(), Error> {
        let wanted: Vec<(Led, &pb::DesiredLead)> =
            desired.leads.iter().map(checked).collect::<Result<_, Error>>()?;
        let removed: BTreeSet<Led> = desired.removed.iter().map(led).collect::<Result<_, Error>>()?;
        self.own = node_id;
        let mut peers = if desired.full { Peers::new() } else { Peers::clone(&self.peers) };
        peers.extend(desired.peers.iter().map(|peer| (peer.node_id, peer.into())));
        if peers != *self.peers {
            self.peers = Arc::new(peers);
        }
        let named: BTreeSet<&Led> = wanted.iter().map(|(led, _)| led).collect();
        let stays = |led: &Led| !removed.contains(led) && (!desired.full || named.contains(led));
        for (led, lead) in self.leads.extract_if(.., |led, _| !stays(led)) {
            self.lost.insert(led, lead.state.version);
        }
        while self.lost.len() > LOST {
            self.lost.pop_first();
        }
        for (led, change) in wanted {
            self.lost.remove(&led);
            let lead = self.leads.entry(led).or_insert_with(Lead::new);
            lead.change(change, desired.full, self.own, &self.held);
        }
        Ok(())
    }

    /// The node holds exactly these segments.
    pub(crate) fn hold(&mut self, held: BTreeSet<SegmentId>) {
        let before = std::mem::replace(&mut self.held, held);
        for segment in self.held.symmetric_difference(&before) {
            let holds = self.held.contains(segment);
            self.leads.values_mut().for_each(|lead| lead.hold(*segment, holds, self.own));
        }
    }

    /// How all leads stand, if that is not what was said last.
    pub(crate) fn news(&mut self) -> Option<Arc<LeadStates>> {
        let state = |(led, lead): (&Led, &Lead)| {
            let said = self.said.get(led).filter(|said| ***said == lead.state);
            (led.clone(), said.map_or_else(|| Arc::new(lead.state.clone()), Arc::clone))
        };
        let states: LeadStates = self.leads.iter().map(state).collect();
        if states == *self.said {
            return None;
        }
        self.said = Arc::new(states);
        Some(Arc::clone(&self.said))
    }
}

fn led(led: &pb::LedShard) -> Result<Led, Error> {
    Ok((CollectionId(led.collection_id), ShardName::new(&led.shard)?))
}

fn checked(lead: &pb::DesiredLead) -> Result<(Led, &pb::DesiredLead), Error> {
    let refuse = |text: &str| Error::new(ErrorCode::ParameterInvalid, format!("a wish to lead {text}"));
    let led = led(lead.led.as_ref().ok_or_else(|| refuse("names no shard"))?)?;
    if lead.segments.len() != lead.hosts.len() {
        return Err(refuse("does not name one host per segment"));
    }
    if lead.view.as_ref().is_some_and(|view| view.segments.len() != view.rows.len()) {
        return Err(refuse("does not give the rows of each segment of its view"));
    }
    Ok((led, lead))
}

#[cfg(test)]
mod tests;
