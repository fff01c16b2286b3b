//! Numbers that name things. They grow and are never used again.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<u64> for $name {
            fn from(value: u64) -> Self {
                Self(value)
            }
        }
    };
}

number! {
    /// A collection, for ever: a collection that is dropped and created again under the same name gets a new one.
    CollectionId
}
number! {
    /// A segment, unique over all collections.
    SegmentId
}
number! {
    /// One (node name, incarnation). A node that starts anew gets a new one.
    NodeId
}
number! {
    /// A replica of a loaded collection.
    ReplicaId
}
number! {
    /// Start counter of a node's process; a later start has a higher one.
    Incarnation
}
number! {
    /// Fencing epoch of the active coordinator's lease. Writes that carry an older one are refused.
    Epoch
}
number! {
    /// Version of the routing feed: one counter that grows with every change, also across changes of the
    /// active coordinator.
    FeedVersion
}
number! {
    /// Version of a target: its creation time in nanoseconds, and always higher than any version before it.
    TargetVersion
}

/// Number of a resource group, given once per group and never used again. Selectors call it the *pool* of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNumber(pub i32);

impl GroupNumber {
    /// The node is a member of no resource group.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for GroupNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
