//! The one error type that crosses borders: a code from a closed table and a message that names the thing.

use std::fmt;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who has to act: the caller (`Input`) or the operator (`System`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The request makes no sense as it stands; sending it again changes nothing.
    Input,
    /// The request is fine; the system cannot answer it now, or not at all.
    System,
}

impl ErrorClass {
    /// The word that stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::System => "system",
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $retriable:literal, $class:ident;)*) => {
        /// The identity of an error. Wrapping keeps it; messages are for people and are never parsed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl ErrorCode {
            /// Every code, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire.
            pub fn number(self) -> u32 {
                self as u32
            }

            /// The code's name, as it stands on the wire and in documents.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Whether the same request may succeed later.
            pub fn is_retriable(self) -> bool {
                match self { $(Self::$variant => $retriable,)* }
            }

            /// Who has to act.
            pub fn class(self) -> ErrorClass {
                match self { $(Self::$variant => ErrorClass::$class,)* }
            }

            /// The code of a number; [`ErrorCode::Unknown`] for one that this version does not know.
            pub fn from_number(number: u32) -> Self {
                match number { $($number => Self::$variant,)* _ => Self::Unknown }
            }
        }
    };
}

codes! {
    /// Stores or server are not up.
    ServiceNotReady = 1, "service_not_ready", true, System;
    /// Nobody can be reached.
    ServiceUnavailable = 2, "service_unavailable", true, System;
    /// A limit on concurrent work was reached.
    ServiceTooManyRequests = 4, "service_too_many_requests", true, System;
    /// A broken invariant.
    ServiceInternal = 5, "service_internal", false, System;
    /// No collection of this name.
    CollectionNotFound = 100, "collection_not_found", false, System;
    /// The collection is not loaded, or its load failed.
    CollectionNotLoaded = 101, "collection_not_loaded", false, System;
    /// The load has not finished.
    CollectionNotFullyLoaded = 103, "collection_not_fully_loaded", true, System;
    /// The current target has no shard.
    CollectionOnRecovering = 106, "collection_on_recovering", true, System;
    /// No partition of this name.
    PartitionNotFound = 200, "partition_not_found", false, System;
    /// The partition is not loaded.
    PartitionNotLoaded = 201, "partition_not_loaded", false, System;
    /// The partition's load has not finished.
    PartitionNotFullyLoaded = 202, "partition_not_fully_loaded", true, System;
    /// No resource group of this name.
    ResourceGroupNotFound = 300, "resource_group_not_found", false, Input;
    /// The group exists with another configuration.
    ResourceGroupAlreadyExists = 301, "resource_group_already_exists", false, Input;
    /// There are as many groups as allowed.
    ResourceGroupLimitReached = 302, "resource_group_limit_reached", false, Input;
    /// The group's configuration contradicts itself.
    ResourceGroupIllegalConfig = 303, "resource_group_illegal_config", false, Input;
    /// The group has fewer nodes than asked for.
    ResourceGroupNotEnoughNodes = 304, "resource_group_not_enough_nodes", false, System;
    /// The metastore failed under a change of groups; nothing has changed.
    ResourceGroupServiceUnavailable = 305, "resource_group_service_unavailable", true, System;
    /// No replica of this id.
    ReplicaNotFound = 400, "replica_not_found", false, System;
    /// The replica cannot serve.
    ReplicaNotAvailable = 401, "replica_not_available", false, System;
    /// No shard of this name.
    ChannelNotFound = 500, "channel_not_found", false, System;
    /// A shard is missing.
    ChannelLack = 501, "channel_lack", false, System;
    /// A shard is there twice.
    ChannelReduplicate = 502, "channel_reduplicate", false, System;
    /// A shard cannot be served.
    ChannelNotAvailable = 503, "channel_not_available", false, System;
    /// A node of another kind cannot answer as fresh as asked yet.
    ChannelTsafeStalled = 505, "channel_tsafe_stalled", true, System;
    /// The client's leader table is stale.
    ChannelMisrouted = 507, "channel_misrouted", true, System;
    /// No segment of this name.
    SegmentNotFound = 600, "segment_not_found", false, System;
    /// The node does not hold a segment that it was asked for.
    SegmentNotLoaded = 601, "segment_not_loaded", false, System;
    /// A segment is missing.
    SegmentLack = 602, "segment_lack", false, System;
    /// A segment could not be loaded.
    SegmentLoadFailed = 604, "segment_load_failed", false, System;
    /// The node has no room for a segment.
    SegmentRequestResourceFailed = 605, "segment_request_resource_failed", false, System;
    /// The broker has nobody for these segments.
    SegmentsUnavailable = 610, "segments_unavailable", true, System;
    /// No node of this name.
    NodeNotFound = 901, "node_not_found", false, System;
    /// The node is gone.
    NodeOffline = 902, "node_offline", false, System;
    /// The node could not be reached, or broke off.
    NodeNotAvailable = 905, "node_not_available", false, System;
    /// The node did not answer within the deadline.
    NodeSilent = 906, "node_silent", true, System;
    /// The node could not read what it holds.
    NodeIoError = 907, "node_io_error", true, System;
    /// The node is starting or draining.
    NodeNotServing = 908, "node_not_serving", true, System;
    /// A remote cluster is away.
    ClusterNotConnected = 910, "cluster_not_connected", true, System;
    /// A parameter makes no sense.
    ParameterInvalid = 1100, "parameter_invalid", false, Input;
    /// A parameter is missing.
    ParameterMissing = 1101, "parameter_missing", false, Input;
    /// A parameter is too large.
    ParameterTooLarge = 1102, "parameter_too_large", false, Input;
    /// The SQL text cannot be parsed, planned or is not allowed.
    SqlInvalid = 1110, "sql_invalid", false, Input;
    /// No column of this name.
    ColumnNotFound = 1111, "column_not_found", false, Input;
    /// The query's own memory limit, not a node's shortage.
    QueryMemoryLimit = 1112, "query_memory_limit", false, Input;
    /// Not built.
    NotImplemented = 1113, "not_implemented", false, Input;
    /// The caller went away.
    Cancelled = 10000, "cancelled", false, System;
    /// The deadline passed.
    DeadlineExceeded = 10001, "deadline_exceeded", false, System;
    /// An error from elsewhere.
    Unknown = 65535, "unknown", false, System;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

/// An error with its code and a message that names the thing and, where there is one, the remedy.
///
/// `Display` shows the message alone; callers decide by [`Error::code`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: ErrorCode,
    message: String,
}

impl Error {
    /// An error of this code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The same code, with what was being done in front of the message.
    #[must_use]
    pub fn context(self, doing: impl fmt::Display) -> Self {
        Self { code: self.code, message: format!("{doing}: {}", self.message) }
    }

    /// The error's identity.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the same request may succeed later.
    pub fn is_retriable(&self) -> bool {
        self.code.is_retriable()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_lead_back() {
        let numbers: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.number()).collect();
        let names: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(numbers.len(), ErrorCode::ALL.len());
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), *code);
        }
        assert_eq!(ErrorCode::from_number(7), ErrorCode::Unknown);
    }

    #[test]
    fn input_errors_are_never_retriable() {
        for code in ErrorCode::ALL {
            assert!(code.class() == ErrorClass::System || !code.is_retriable(), "{code}");
        }
    }

    #[test]
    fn context_keeps_the_code() {
        let error = Error::new(ErrorCode::NodeOffline, "n1 is gone").context("draining");
        assert_eq!((error.code(), error.message()), (ErrorCode::NodeOffline, "draining: n1 is gone"));
    }
}
