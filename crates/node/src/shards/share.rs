//! Whether this node may answer for a shard, and who answers for which part of it: pure.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{CollectionId, Error, ErrorCode, SegmentId, ShardName};
use pointsman_proto::node::v1 as pb;

use crate::leads::{LeadState, Leading, Led};

/// The shard that a request is for, and what it demands of whoever answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) led: Led,
    /// The process that is meant; 0: whoever is there.
    pub(crate) node_id: u64,
    /// The oldest target that may answer; 0: any.
    pub(crate) target_version_at_least: u64,
}

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    /// `parameter_invalid` when the shard has no possible name.
    pub(crate) fn read(request: &pb::AnswerShardRequest) -> Result<Self, Error> {
        let led = (CollectionId(request.collection_id), ShardName::new(&request.shard)?);
        let (node_id, target_version_at_least) = (request.node_id, request.target_version_at_least);
        Ok(Self { led, node_id, target_version_at_least })
    }
}

/// Refuses what was meant for another process.
///
/// # Errors
/// `channel_misrouted` with both numbers.
pub(crate) fn meant(node_id: u64, now: &Leading) -> Result<(), Error> {
    if node_id == 0 || node_id == now.node_id {
        return Ok(());
    }
    let text = format!("node {node_id} was meant, and {} has its address now", me(now));
    Err(Error::new(ErrorCode::ChannelMisrouted, text))
}

/// The lead by which this node answers. `lost` says by which version it led a shard that it does not lead any more.
///
/// # Errors
/// `channel_misrouted` when another process is meant, or another node leads the shard; `collection_not_fully_loaded` when
/// not all of the shard can be reached, or only an older target.
pub(crate) fn lead(
    asked: &Asked,
    now: &Leading,
    lost: impl FnOnce(&Led) -> Option<u64>,
) -> Result<Arc<LeadState>, Error> {
    let (collection, shard) = &asked.led;
    let state = now.states.get(&asked.led);
    if let Err(error) = meant(asked.node_id, now) {
        let leads = match state {
            Some(state) => format!(
                "; that leads shard '{shard}' of collection {collection} by version {}",
                state.version
            ),
            None => String::new(),
        };
        return Err(Error::new(error.code(), format!("{error}{leads}")));
    }
    let Some(state) = state else {
        let led =
            lost(&asked.led).map(|version| format!("; it did, by version {version}")).unwrap_or_default();
        let text = format!("{} does not lead shard '{shard}' of collection {collection}{led}", me(now));
        return Err(Error::new(ErrorCode::ChannelMisrouted, text));
    };
    let (target, least) = (state.target_version(), asked.target_version_at_least);
    let lacks = if target == 0 {
        "has not been told yet what belongs to it".to_owned()
    } else if !state.is_serviceable() {
        format!("reaches {} of its {} segments of target {target}", state.present(), state.listed())
    } else if target < least {
        format!("serves target {target}, and {least} or a newer one was asked for")
    } else {
        return Ok(Arc::clone(state));
    };
    let (name, version) = (&state.collection, state.version);
    let text = format!("{} leads shard '{shard}' of '{name}' by version {version} and {lacks}", me(now));
    Err(Error::new(ErrorCode::CollectionNotFullyLoaded, text))
}

fn me(now: &Leading) -> String {
    match now.node_id {
        0 => "a node that no coordinator has numbered yet".into(),
        number => format!("node {number}"),
    }
}

/// Who answers for which segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// This node.
    pub(crate) own: Vec<SegmentId>,
    /// Other nodes, by number.
    pub(crate) others: BTreeMap<u64, Vec<SegmentId>>,
}

impl Shares {
    /// Of the whole view. What this node holds itself is asked nowhere else.
    pub(crate) fn of_view(state: &LeadState, now: &Leading, holds: impl Fn(SegmentId) -> bool) -> Self {
        let mut shares = Self::default();
        for (host, segments) in state.by_host() {
            if *host == now.own {
                shares.own.extend(segments);
                continue;
            }
            let (own, others): (Vec<_>, Vec<_>) = segments.iter().partition(|segment| holds(**segment));
            shares.own.extend(own);
            if !others.is_empty() {
                shares.others.insert(*host, others);
            }
        }
        shares
    }

    /// Of segments that `failed` did not answer for; `None` if nobody else is known for one of them.
    pub(crate) fn without(
        failed: u64,
        segments: &[SegmentId],
        led: &Led,
        now: &Leading,
        holds: impl Fn(SegmentId) -> bool,
    ) -> Option<Self> {
        let state = now.states.get(led)?;
        let mut shares = Self::default();
        for segment in segments {
            if holds(*segment) && failed != now.own {
                shares.own.push(*segment);
                continue;
            }
            let host = state.reach.get(segment).filter(|host| **host != failed && **host != now.own)?;
            shares.others.entry(*host).or_default().push(*segment);
        }
        Some(shares)
    }
}

#[cfg(test)]
mod tests;
