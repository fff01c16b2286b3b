//! What is asked for.

use std::fmt;

use pointsman_ids::{Error, ErrorCode, GroupNumber};

use crate::{NodeSet, Scores, States};

/// What request ids are taken modulo of.
const REQUEST_IDS: u64 = 1_000_000_000;

static NOBODY: NodeSet = NodeSet::new();

/// A request for segments of one collection.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The segments, in the order of the request.
    pub segments: Segments<'a>,
    /// Chooses among equals: requests with the same id choose alike.
    pub id: u64,
    /// The query runs in several stages; a gate of fail-open.
    pub multi_stage: bool,
    /// Overrides the collection's setting, either way; `None`: as the collection says.
    pub fixed_replica: Option<bool>,
    /// Over how many of a segment's candidates the replica group selectors spread; at least 1.
    pub num_replica_groups: i64,
    /// Pools in order of preference; they steer only while there are `scores`. Others stand behind the last.
    pub preferred_pools: &'a [i32],
    /// Only candidates of this resource group; `None`: of any.
    pub group: Option<GroupNumber>,
    /// Nodes that failed in this query: neither chosen nor tried by fail-open.
    pub without: &'a NodeSet,
    /// Adaptive selection: what the statistics say of each node; `None`: it is off.
    pub scores: Option<&'a Scores>,
    /// The broker's switches of the moment.
    pub fail_open: FailOpen,
    /// How errors name segments.
    pub names: SegmentNames<'a>,
}

/// The segments of a request, by position.
#[derive(Clone, Copy, Debug)]
pub enum Segments<'a> {
    /// The whole universe, in name order.
    All,
    /// These; a duplicate counts once, at its first place.
    These(&'a [u32]),
}

/// The switches of fail-open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailOpen {
    /// It is on.
    pub enabled: bool,
    /// Also for multi-stage requests.
    pub multi_stage: bool,
    /// Also for `strict_replica_group`.
    pub strict: bool,
}

/// Tells the name of the segment at a position. The default names positions, as in `#7`.
#[derive(Clone, Copy, Default)]
pub struct SegmentNames<'a>(Option<&'a (dyn Fn(u32) -> String + Sync)>);

impl<'a> SegmentNames<'a> {
    /// Names by this function.
    pub fn by(name: &'a (dyn Fn(u32) -> String + Sync)) -> Self {
        Self(Some(name))
    }

    pub(crate) fn of(self, segment: u32) -> String {
        self.0.map_or_else(|| format!("#{segment}"), |name| name(segment))
    }
}

impl fmt::Debug for SegmentNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "SegmentNames(given)" } else { "SegmentNames(positions)" })
    }
}

impl Request<'static> {
    /// A request for everything, without options.
    pub fn all(id: u64) -> Self {
        Self {
            segments: Segments::All,
            id,
            multi_stage: false,
            fixed_replica: None,
            num_replica_groups: 1,
            preferred_pools: &[],
            group: None,
            without: &NOBODY,
            scores: None,
            fail_open: FailOpen::default(),
            names: SegmentNames::default(),
        }
    }
}

impl<'a> Request<'a> {
    /// A request for some segments, without options.
    pub fn these(segments: &'a [u32], id: u64) -> Self {
        Self { segments: Segments::These(segments), ..Request::all(id) }
    }

    /// `r` of the routing rules.
    pub(crate) fn turn(&self) -> u64 {
        self.id % REQUEST_IDS
    }

    /// Refuses options that make no sense whatever the selector; tells the number of replica groups.
    pub(crate) fn groups(&self, states: &States) -> Result<u64, Error> {
        u64::try_from(self.num_replica_groups).ok().filter(|groups| *groups > 0).ok_or_else(|| {
            let (given, collection) = (self.num_replica_groups, states.collection());
            let message =
                format!("num_replica_groups is {given} for collection '{collection}'; it is at least 1");
            Error::new(ErrorCode::ParameterInvalid, message)
        })
    }
}
