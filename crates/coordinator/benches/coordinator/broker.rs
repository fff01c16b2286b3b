//! A broker that looks at what it gets without building anything of it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use bytes::{Buf as _, BufMut as _, Bytes};
use pointsman_proto::broker::v1::{self as pb, CopyState, routing_feed_client::RoutingFeedClient};
use prost::Message as _;
use tokio::{sync::mpsc, time::timeout};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

use crate::store;

/// Pause before another watch is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// What may have come before it is looked at; more than come between two questions.
const QUEUE: usize = 1_000;

/// What came of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its copies are others.
    Copies,
    /// It is there now.
    New,
}

/// What came.
enum Came {
    /// The first snapshot, as it was on the wire.
    Whole(Bytes),
    /// A delta with what it says of segments.
    Delta(Instant, Vec<(Told, u32)>),
}

/// A broker that watches until it is dropped with its runtime.
pub(crate) struct Broker {
    came: mpsc::Receiver<Came>,
}

impl Broker {
    pub(crate) fn start(at: usize, channel: Channel) -> Self {
        let (tell, came) = mpsc::channel(QUEUE);
        let name = format!("broker-{at}");
        tokio::spawn(async move {
            loop {
                // It stands by as yet, or is not there.
                let _ended = watch(&name, &channel, &tell).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { came }
    }

    /// The first snapshot, when it has come.
    pub(crate) async fn whole(&mut self, patience: Duration) -> anyhow::Result<Bytes> {
        loop {
            match timeout(patience, self.came.recv()).await.context("a snapshot")?.context("a broker")? {
                Came::Whole(bytes) => return Ok(bytes),
                Came::Delta(..) => {}
            }
        }
    }

    /// Forgets what came until now.
    pub(crate) fn forget(&mut self) {
        while self.came.try_recv().is_ok() {}
    }

    /// When it was told this of the last of these segments.
    pub(crate) async fn knows(
        &mut self,
        wanted: &BTreeSet<u32>,
        how: Told,
        patience: Duration,
    ) -> anyhow::Result<Instant> {
        let mut missing = wanted.clone();
        loop {
            match timeout(patience, self.came.recv()).await.context("a delta")?.context("a broker")? {
                Came::Whole(_) => bail!("a snapshot came where a delta would do"),
                Came::Delta(at, told) => {
                    told.iter().filter(|(what, _)| *what == how).for_each(|(_, one)| _ = missing.remove(one));
                    if missing.is_empty() {
                        return Ok(at);
                    }
                }
            }
        }
    }
}

async fn watch(name: &str, channel: &Channel, tell: &mpsc::Sender<Came>) -> anyhow::Result<()> {
    let request = pb::WatchRequest {
        broker: name.into(),
        holding: Some(pb::Holding::default()),
        reads_columns: true,
        ..Default::default()
    };
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
    grpc.ready().await?;
    let path = PathAndQuery::from_static("/pointsman.broker.v1.RoutingFeed/Watch");
    let mut answers = grpc.server_streaming(Request::new(request), path, Raw).await?.into_inner();
    let mut acknowledge = RoutingFeedClient::new(channel.clone());
    let mut version = 0;
    while let Some(bytes) = answers.message().await? {
        let at = Instant::now();
        let head = Head::decode(bytes.clone())?;
        version = version.max(head.snapshot.as_ref().map_or(0, |snapshot| snapshot.version));
        if head.snapshot.is_some() {
            tell.send(Came::Whole(bytes)).await?;
        }
        if let Some(delta) = head.delta {
            version = version.max(delta.after);
            tell.send(Came::Delta(at, told(&delta))).await?;
        }
        acknowledge
            .acknowledge(pb::AcknowledgeRequest { broker: name.into(), watch: head.watch, version })
            .await?;
    }
    Ok(())
}

fn told(delta: &pb::Delta) -> Vec<(Told, u32)> {
    let copies =
        delta.changed.iter().flat_map(|change| &change.copies).map(|copies| (Told::Copies, &copies.segment));
    let new =
        delta.changed.iter().flat_map(|change| &change.segments).map(|segment| (Told::New, &segment.name));
    copies.chain(new).filter_map(|(told, name)| Some((told, store::number(name)?))).collect()
}

/// Bytes of a snapshot's names, and how many copies nodes report as held.
pub(crate) fn names_of(snapshot: &Bytes) -> anyhow::Result<(usize, usize)> {
    let snapshot = pb::WatchResponse::decode(snapshot.clone())?.snapshot.context("a snapshot")?;
    let columns = || snapshot.collections.iter().flat_map(|collection| &collection.segment_columns);
    let online = |columns: &pb::SegmentColumns| {
        columns.copy_observed.iter().filter(|state| **state == i32::from(CopyState::Online)).count()
    };
    Ok((columns().map(|columns| columns.names.len()).sum(), columns().map(online).sum()))
}

/// The head of an answer: what is large is passed over.
#[derive(Clone, PartialEq, prost::Message)]
struct Head {
    #[prost(message, tag = "1")]
    snapshot: Option<SnapshotHead>,
    #[prost(message, tag = "3")]
    delta: Option<pb::Delta>,
    #[prost(uint64, tag = "4")]
    watch: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SnapshotHead {
    #[prost(uint64, tag = "2")]
    version: u64,
}

/// Answers as they come.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = pb::WatchRequest;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = pb::WatchRequest;
    type Error = Status;

    fn encode(&mut self, item: pb::WatchRequest, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item.encode_to_vec());
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
