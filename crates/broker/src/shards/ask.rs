//! A question to the leader of a shard.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use pointsman_channels::OwnConnection;
use pointsman_ids::{
    NodeId, ReplicaId,
    request::{Looked, Question, Table},
};
use pointsman_proto::{
    common::v1 as pb,
    node::v1::{self as node, shard_requests_client::ShardRequestsClient},
};
use pointsman_shard_client::{Cost, Reply, Request, Result, Runtime, ShardError, TokioRuntime, Visit};

use super::{Shards, failure::Failed, nodes::Nodes};
use crate::metrics;

/// The largest answer of a shard that is taken. The engine keeps rows below this.
const MAX_MESSAGE: usize = 80 << 20;

/// The longest time that gRPC can tell: eight digits, of hours at most. Beyond it tonic panics.
const LONGEST_TOLD: Duration = Duration::from_secs(99_999_999 * 3600);

/// A question, the same to every shard.
#[derive(Debug)]
pub(crate) struct Ask {
    question: Arc<(node::Table, pb::Question)>,
    /// The oldest target that may answer; 0: any.
    target_version_at_least: u64,
    nodes: Arc<Nodes>,
    runtime: TokioRuntime,
    /// Nodes that had not answered when the caller's time was over.
    silent: Mutex<BTreeSet<NodeId>>,
}

/// What a shard answered.
#[derive(Clone, Debug)]
pub(crate) struct ShardAnswer {
    /// Rows as an Arrow IPC stream, ready to be merged with those of other shards.
    pub(crate) rows: Vec<u8>,
    /// The target that they are from.
    pub(crate) target_version: u64,
    /// The replica that answered.
    pub(crate) replica: ReplicaId,
    /// What was looked at.
    pub(crate) looked: Looked,
}

impl Ask {
    /// Asks about a table.
    pub(crate) fn new(shards: &Shards, table: &Table, question: &Question) -> Self {
        Self {
            question: Arc::new((table.into(), question.into())),
            target_version_at_least: 0,
            nodes: shards.nodes.clone(),
            runtime: shards.runtime,
            silent: Mutex::default(),
        }
    }

    /// The same question, which no older target may answer.
    pub(crate) fn at_least(&self, version: u64) -> Self {
        Self {
            question: self.question.clone(),
            target_version_at_least: version,
            nodes: self.nodes.clone(),
            runtime: self.runtime,
            silent: Mutex::default(),
        }
    }

    /// The one node that had not answered when the caller's time was over. Several are silent when the question is heavy or
    /// the fault is the broker's.
    pub(crate) fn only_silent(&self) -> Option<NodeId> {
        let silent = self.silent.lock();
        silent.first().copied().filter(|_| silent.len() == 1)
    }

    async fn ask(&self, connection: OwnConnection, visit: &Visit) -> Result<Reply<ShardAnswer>> {
        let mut waiting = Waiting { ask: self, visit, ended: false };
        let (table, question) = &*self.question;
        let mut request = tonic::Request::new(node::AnswerShardRequest {
            collection_id: visit.collection.0,
            shard: visit.shard.to_string(),
            node_id: visit.node.0,
            table: Some(table.clone()),
            question: Some(question.clone()),
            target_version_at_least: self.target_version_at_least,
        });
        if let Some(deadline) = visit.deadline {
            request.set_timeout((deadline - self.runtime.now()).min(LONGEST_TOLD));
        }
        let mut client = ShardRequestsClient::new(connection).max_decoding_message_size(MAX_MESSAGE);
        let answered = client.answer_shard(request).await;
        waiting.ended = true;
        match answered {
            Ok(answer) => {
                self.nodes.report_answered(visit.node);
                Ok(reply(answer.into_inner()))
            }
            Err(status) => {
                let failed = Failed::of(&status);
                failed.report(&self.nodes, visit.node);
                Err(failed.error)
            }
        }
    }
}

impl Request<OwnConnection> for Ask {
    type Answer = ShardAnswer;

    fn run<'a>(
        &'a self,
        connection: OwnConnection,
        visit: &'a Visit,
    ) -> BoxFuture<'a, Result<Reply<ShardAnswer>>> {
        self.ask(connection, visit).boxed()
    }

    fn ended(&self, visit: &Visit, error: Option<&ShardError>, took: Duration) {
        metrics::shard_visited(&visit.leader_group, error.map(ShardError::code), took);
    }
}

/// A call under way. One that is dropped at its deadline was not answered in time; one that is dropped before says nothing
/// about the node.
struct Waiting<'a> {
    ask: &'a Ask,
    visit: &'a Visit,
    ended: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let is_late = self.visit.deadline.is_some_and(|deadline| deadline <= self.ask.runtime.now());
        if !self.ended && is_late {
            self.ask.silent.lock().insert(self.visit.node);
        }
    }
}

fn reply(answer: node::AnswerShardResponse) -> Reply<ShardAnswer> {
    let node::AnswerShardResponse {
        rows,
        target_version,
        replica_id,
        looked,
        response_us,
        service_us,
        total_nq,
    } = answer;
    let cost = Cost {
        response_time: Duration::from_micros(response_us),
        service_time: Duration::from_micros(service_us),
        total_nq: i64::try_from(total_nq).unwrap_or(i64::MAX),
    };
    let looked = looked.map(Looked::from).unwrap_or_default();
    let answer = ShardAnswer { rows, target_version, replica: ReplicaId(replica_id), looked };
    Reply { answer, cost: Some(cost) }
}
