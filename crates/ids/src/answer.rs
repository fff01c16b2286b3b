//! Codes of the HTTP answer: a number space of its own, which clients of the query surface read.

use crate::ErrorCode;

macro_rules! answers {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $http:literal;)*) => {
        /// `errorCode` in the list `exceptions` of an answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum AnswerCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl AnswerCode {
            /// Every code, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number in the answer.
            pub fn number(self) -> i32 {
                self as i32
            }

            /// The HTTP status for clients that ask for one by request header.
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http,)* }
            }
        }
    };
}

answers! {
    /// The SQL text cannot be parsed, planned or is not allowed.
    SqlInvalid = 150, 400;
    /// Access denied.
    AccessDenied = 180, 403;
    /// No such collection.
    CollectionNotFound = 190, 404;
    /// The query failed while it ran.
    ExecutionFailed = 200, 500;
    /// Nodes did not hold segments, and retries did not help.
    SegmentsMissing = 235, 404;
    /// The deadline passed on a node.
    NodeDeadline = 250, 408;
    /// Segments that nobody could serve.
    SegmentsUnavailable = 305, 503;
    /// The deadline passed in the broker.
    BrokerDeadline = 400, 408;
    /// The collection has no routing (yet).
    NoRouting = 410, 503;
    /// A node could not be reached, or broke off.
    NodeNotAvailable = 425, 503;
    /// Nodes did not answer.
    NodeSilent = 427, 503;
    /// Too many requests.
    TooManyRequests = 429, 429;
    /// Anything else.
    Other = 450, 500;
    /// Merging failed.
    MergeFailed = 500, 500;
    /// The client went away.
    Cancelled = 503, 503;
    /// A remote cluster is away.
    ClusterNotConnected = 510, 503;
    /// A parameter, option or setting makes no sense.
    ParameterInvalid = 700, 400;
    /// No such column.
    ColumnNotFound = 710, 400;
}

impl From<ErrorCode> for AnswerCode {
    fn from(code: ErrorCode) -> Self {
        use ErrorCode as E;
        match code {
            E::SqlInvalid => Self::SqlInvalid,
            E::CollectionNotFound => Self::CollectionNotFound,
            E::ServiceInternal | E::Unknown => Self::ExecutionFailed,
            E::SegmentNotFound | E::SegmentNotLoaded | E::SegmentLack => Self::SegmentsMissing,
            E::SegmentsUnavailable => Self::SegmentsUnavailable,
            E::DeadlineExceeded => Self::BrokerDeadline,
            E::CollectionNotLoaded | E::CollectionNotFullyLoaded => Self::NoRouting,
            E::NodeNotAvailable => Self::NodeNotAvailable,
            E::NodeSilent => Self::NodeSilent,
            E::ServiceTooManyRequests => Self::TooManyRequests,
            E::Cancelled => Self::Cancelled,
            E::ClusterNotConnected => Self::ClusterNotConnected,
            E::ParameterInvalid | E::ParameterMissing | E::ResourceGroupNotFound => Self::ParameterInvalid,
            E::ColumnNotFound => Self::ColumnNotFound,
            _ => Self::Other,
        }
    }
}
