//! A node that holds at once what it should, and leads what it should.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Context as _;
use pointsman_proto::node::v1::{
    self as pb, node_session_client::NodeSessionClient, open_session_request::Message as Said,
    open_session_response::Message as Heard,
};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::transport::Channel;

use crate::store;

/// Pause before another session is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// How often a node says that it lives.
const BEAT: Duration = Duration::from_millis(500);

/// What a node is asked to say: how many segments, whether they are held; it answers with their numbers.
type Order = (usize, bool, oneshot::Sender<BTreeSet<u32>>);

/// A node that runs until it is dropped with its runtime.
pub(crate) struct Node {
    orders: mpsc::Sender<Order>,
}

impl Node {
    pub(crate) fn start(at: usize, channel: Channel) -> Self {
        let (orders, taken) = mpsc::channel(1);
        let group = if at.is_multiple_of(2) { "east" } else { "west" };
        let hello = pb::Hello {
            name: format!("node-{at:03}"),
            incarnation: 1,
            address: format!("http://127.0.0.1:{}", 20_000 + at),
            resource_group: group.into(),
            reads_changes: true,
            ..Default::default()
        };
        tokio::spawn(Memory::default().live(hello, channel, taken));
        Self { orders }
    }

    /// Reports its first segments as held, or as being fetched again. Gives them.
    pub(crate) async fn report(&self, count: usize, held: bool) -> anyhow::Result<BTreeSet<u32>> {
        let (answer, told) = oneshot::channel();
        self.orders.send((count, held, answer)).await.context("a node")?;
        told.await.context("a node's answer")
    }
}

/// What a node has, over all sessions.
#[derive(Default)]
struct Memory {
    /// Numbers of segments by their ids.
    held: BTreeMap<u64, u32>,
    leads: BTreeMap<(u64, String), Led>,
}

#[derive(Default)]
struct Led {
    version: u64,
    view: Option<pb::View>,
    hosts: BTreeMap<u64, u64>,
}

impl Memory {
    async fn live(mut self, hello: pb::Hello, channel: Channel, mut orders: mpsc::Receiver<Order>) {
        loop {
            // Whatever ended it: another session is tried.
            let _ended = self.session(hello.clone(), channel.clone(), &mut orders).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn session(
        &mut self,
        hello: pb::Hello,
        channel: Channel,
        orders: &mut mpsc::Receiver<Order>,
    ) -> anyhow::Result<()> {
        let (say, said) = mpsc::channel(4);
        let send = async |message| say.send(pb::OpenSessionRequest { message: Some(message) }).await;
        send(Said::Hello(hello)).await?;
        let mut client = NodeSessionClient::new(channel).max_decoding_message_size(usize::MAX);
        let mut heard = client.open_session(ReceiverStream::new(said)).await?.into_inner();
        heard.next().await.context("a welcome")??;
        send(Said::Report(self.everything())).await?;
        let mut beat = tokio::time::interval(BEAT);
        loop {
            let report = tokio::select! {
                _ = beat.tick() => pb::Report::default(),
                Some((count, held, answer)) = orders.recv() => {
                    let (report, numbers) = self.report(count, held);
                    // Who asked may have gone.
                    let _gone = answer.send(numbers);
                    report
                }
                message = heard.next() => match message.context("the session ended")??.message {
                    Some(Heard::Desired(wish)) => self.obey(wish),
                    Some(Heard::Leads(wish)) => self.lead(wish),
                    _ => continue,
                },
            };
            send(Said::Report(report)).await?;
        }
    }

    /// All that it has, as the first report of a session says it.
    fn everything(&self) -> pb::Report {
        let segments = self.held.keys().map(|id| said(*id, true)).collect();
        let lead = |((collection_id, shard), led): (&(u64, String), &Led)| {
            let shard = pb::LedShard { collection_id: *collection_id, shard: shard.clone() };
            led.report(shard, led.hosts.clone(), Vec::new())
        };
        pb::Report {
            full: true,
            segments,
            leads: self.leads.iter().map(lead).collect(),
            ..Default::default()
        }
    }

    fn report(&self, count: usize, held: bool) -> (pb::Report, BTreeSet<u32>) {
        let some = || self.held.iter().take(count);
        let segments = some().map(|(id, _)| said(*id, held)).collect();
        (pb::Report { segments, ..Default::default() }, some().map(|(_, number)| *number).collect())
    }

    fn obey(&mut self, wish: pb::DesiredState) -> pb::Report {
        let mut removed = wish.removed;
        if wish.before.is_none() {
            let wanted: BTreeSet<u64> = wish.segments.iter().map(|segment| segment.segment_id).collect();
            removed.extend(self.held.keys().filter(|id| !wanted.contains(id)));
        }
        removed.iter().for_each(|id| _ = self.held.remove(id));
        let mut segments = Vec::new();
        for segment in wish.segments {
            let number = store::number(&segment.name).unwrap_or_default();
            if self.held.insert(segment.segment_id, number).is_none() {
                segments.push(said(segment.segment_id, true));
            }
        }
        pb::Report { segments, removed, desired_version: wish.version, ..Default::default() }
    }

    fn lead(&mut self, wish: pb::DesiredLeads) -> pb::Report {
        let key = |led: &pb::LedShard| (led.collection_id, led.shard.clone());
        let wanted: BTreeSet<_> = wish.leads.iter().filter_map(|lead| lead.led.as_ref().map(key)).collect();
        let mut removed: Vec<_> = wish.removed.iter().map(key).collect();
        removed.extend(self.leads.keys().filter(|led| wish.full && !wanted.contains(*led)).cloned());
        removed.iter().for_each(|led| _ = self.leads.remove(led));
        let leads = wish.leads.into_iter().filter_map(|lead| self.take(lead, wish.full)).collect();
        let shard = |(collection_id, shard)| pb::LedShard { collection_id, shard };
        pb::Report { leads, leads_removed: removed.into_iter().map(shard).collect(), ..Default::default() }
    }

    /// Takes the coordinator's word for who hosts what.
    fn take(&mut self, lead: pb::DesiredLead, full: bool) -> Option<pb::LeadReport> {
        let shard = lead.led?;
        let led = self.leads.entry((shard.collection_id, shard.shard.clone())).or_default();
        let hosts: BTreeMap<u64, u64> = lead.segments.into_iter().zip(lead.hosts).collect();
        let mut removed = lead.removed;
        if full {
            removed.extend(led.hosts.keys().filter(|segment| !hosts.contains_key(segment)));
        }
        removed.iter().for_each(|segment| _ = led.hosts.remove(segment));
        led.hosts.extend(&hosts);
        led.view = lead.view.or(led.view.take());
        led.version = lead.version;
        Some(led.report(shard, hosts, removed))
    }
}

impl Led {
    fn report(&self, led: pb::LedShard, hosts: BTreeMap<u64, u64>, removed: Vec<u64>) -> pb::LeadReport {
        let whole = |view: &pb::View| view.segments.iter().all(|segment| self.hosts.contains_key(segment));
        pb::LeadReport {
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

fn said(segment_id: u64, held: bool) -> pb::SegmentReport {
    let state = if held { pb::SegmentState::Held } else { pb::SegmentState::Fetching };
    pb::SegmentReport { segment_id, state: state.into(), ..Default::default() }
}
