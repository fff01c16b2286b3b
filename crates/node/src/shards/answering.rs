//! One question that is being answered: from where, and once more from elsewhere.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::{try_join, try_join_all};
use pointsman_engine::rows::{Checked, Part};
use pointsman_ids::{
    Error, ErrorClass, ErrorCode, SegmentId,
    request::{Looked, Question, Table},
};
use pointsman_proto::{common::v1::Question as Sent, node::v1 as pb};
use pointsman_telemetry::spawn;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{Shards, load::Entered, share::Shares, time::Time};
use crate::{leads::Led, metrics};

/// Rows with what was looked at for them.
pub(super) type Answered = (Part, Looked);

/// A question that was taken on.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) checked: Checked,
    table: Table,
    pub(super) time: Time,
    pub(super) entered: Entered,
    /// Microseconds that it waited for its turn.
    waited: AtomicU64,
}

impl Asking {
    /// How long it waited for its turn.
    pub(super) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited.load(Ordering::Relaxed))
    }

    /// The rows take their memory until the request has ended.
    fn counted(&self, answered: Answered) -> Result<Answered, Error> {
        self.entered.take(answered.0.bytes() as u64)?;
        Ok(answered)
    }
}

impl Shards {
    /// Takes a question on, if it makes sense. `bytes`: the length of its message.
    ///
    /// # Errors
    /// Input errors that say what is wrong; `service_too_many_requests` when there is enough to do.
    pub(super) fn take_on(
        &self,
        table: Option<pb::Table>,
        question: Option<Sent>,
        bytes: usize,
        time: Time,
    ) -> Result<Asking, Error> {
        let missing = |what| Error::new(ErrorCode::ParameterInvalid, format!("the request has no {what}"));
        let question: Question = question.ok_or_else(|| missing("question"))?.try_into()?;
        let table: Table = table.ok_or_else(|| missing("table"))?.try_into()?;
        let entered = self.load.enter(question.nq() as u64)?;
        // As it came, and as it was checked.
        entered.take((bytes as u64).saturating_mul(2))?;
        let checked = Checked::new(question, &table)?;
        Ok(Asking { checked, table, time, entered, waited: AtomicU64::new(0) })
    }

    /// Asks everybody at the same time.
    ///
    /// # Errors
    /// That of the first who failed for good.
    pub(super) async fn gather(
        &self,
        asking: &Arc<Asking>,
        led: &Led,
        shares: Shares,
    ) -> Result<Vec<Answered>, Error> {
        // On tasks of their own, so that they are under way while this one computes.
        let others = shares.others.into_iter().map(|(host, segments)| {
            let (shards, asking, led) = (self.clone(), Arc::clone(asking), led.clone());
            let part = async move { shards.part(Some(host), segments, &asking, &led).await };
            let task = AbortOnDropHandle::new(spawn("part of a shard", part));
            async {
                let broken =
                    |error| Error::new(ErrorCode::ServiceInternal, format!("a part broke off: {error}"));
                task.await.map_err(broken)?
            }
        });
        let others = try_join_all(others.collect::<Vec<_>>());
        let own = async {
            if shares.own.is_empty() { Ok(vec![]) } else { self.part(None, shares.own, asking, led).await }
        };
        let (own, others) = try_join(own, others).await?;
        Ok(own.into_iter().chain(others.into_iter().flatten()).collect())
    }

    /// The part of one node, `None` this one; once more from where its segments are by then, if that is elsewhere.
    async fn part(
        &self,
        host: Option<u64>,
        segments: Vec<SegmentId>,
        asking: &Asking,
        led: &Led,
    ) -> Result<Vec<Answered>, Error> {
        let error = match self.once(host, &segments, asking).await {
            Ok(answered) => return Ok(vec![answered]),
            Err(error) => error,
        };
        if error.code().class() == ErrorClass::Input || asking.time.left().is_zero() {
            return Err(error);
        }
        let now = self.leads.now();
        let failed = host.unwrap_or(now.own);
        let holds = |segment| self.held.holds(segment);
        let Some(shares) = Shares::without(failed, &segments, led, &now, holds) else { return Err(error) };
        metrics::shard_part_again();
        tracing::debug!(%error, node = failed, "a part of a shard is asked for elsewhere");
        let others = shares.others.iter().map(|(host, segments)| self.once(Some(*host), segments, asking));
        let mut answered = try_join_all(others).await?;
        if !shares.own.is_empty() {
            answered.push(self.once(None, &shares.own, asking).await?);
        }
        Ok(answered)
    }

    async fn once(
        &self,
        host: Option<u64>,
        segments: &[SegmentId],
        asking: &Asking,
    ) -> Result<Answered, Error> {
        match host {
            Some(host) => self.ask_sibling(host, segments, asking).await,
            None => self.answer_here(segments, asking).await.map_err(|error| match error.code() {
                // The coordinator hears of it, and this shard can be answered for again.
                ErrorCode::SegmentNotLoaded => {
                    Error::new(ErrorCode::CollectionNotFullyLoaded, error.message())
                }
                _ => error,
            }),
        }
    }

    /// Answers from segments that this node holds.
    ///
    /// # Errors
    /// Those of [`Checked::answer`].
    pub(super) async fn answer_here(
        &self,
        segments: &[SegmentId],
        asking: &Asking,
    ) -> Result<Answered, Error> {
        let began = Instant::now();
        let _turn = self.load.turn().await?;
        let waited = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        asking.waited.fetch_add(waited, Ordering::Relaxed);
        asking.counted(asking.checked.answer(segments, &self.store, &self.memory).await?)
    }

    async fn ask_sibling(
        &self,
        host: u64,
        segments: &[SegmentId],
        asking: &Asking,
    ) -> Result<Answered, Error> {
        let request = pb::AnswerSegmentsRequest {
            node_id: host,
            segments: segments.iter().map(|segment| segment.0).collect(),
            table: Some((&asking.table).into()),
            question: Some(asking.checked.question().into()),
        };
        let answer = self.siblings.ask(&self.leads.peers(), request, asking.time).await?;
        let looked = answer.looked.map(Into::into).unwrap_or_default();
        let part = asking.checked.decode(answer.rows.into()).map_err(|error| {
            Error::new(
                ErrorCode::ServiceUnavailable,
                format!("node {host}: its answer cannot be read: {error}"),
            )
        })?;
        asking.counted((part, looked))
    }
}
