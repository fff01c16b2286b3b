//! Why a query failed: one small classification, so that the broker can tell whose fault it was.
//!
//! Errors travel from node to node as DataFusion errors. [`crate::tagging`] puts the URL of the peer on them where they
//! are still typed, the innermost hop first, and never a second one on top. Texts are read only where they are all
//! that a hop leaves: the tags and the names of missing segments, which this crate writes, and two constants of the
//! engine below.

mod tag;

use std::{error::Error as StdError, fmt};

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use pointsman_ids::{Error, ErrorCode};
use url::Url;

pub(crate) use self::tag::{AT, BUSY, INTERRUPTED, NOT_SERVING, UNREACHABLE, is_tagged};
use self::tag::{Kind, Tag};
use crate::{limits::refuse, location::SegmentPath};

/// Stands before the paths of segments that a node does not hold, separated by commas.
pub(crate) const NOT_LOADED: &str = "segment_not_loaded=";

/// Stands behind them: without it the list is not whole.
pub(crate) const LIST_END: &str = " (the node does not hold them)";

/// What the engine on a node says when the broker's plan has not come.
const NO_PLAN: &str = "waiting for the plan";

/// What the decoder of plans says when expressions are nested more deeply than it follows.
const TOO_DEEP: &str = "recursion limit reached";

/// Why a query failed.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryError {
    /// Nodes could not be reached or broke off. The same query may succeed without them.
    Unreachable {
        /// Their workers, ascending.
        nodes: Vec<Url>,
        /// What happened.
        message: String,
    },
    /// One call was cut off while the connection stands. The same query may succeed; the node is not to blame.
    Interrupted {
        /// The worker at the other end.
        node: Url,
        /// What happened.
        message: String,
    },
    /// A node did not take the work. The same work may succeed elsewhere, and the node is not ill.
    Refused {
        /// Its worker.
        node: Url,
        /// Whether it has no place for more work; else it is starting or draining.
        busy: bool,
        /// What it says.
        message: String,
    },
    /// A node does not hold segments that it was asked for: routing is ahead of it or behind.
    NotLoaded {
        /// Its worker; `None` when the error did not say.
        node: Option<Url>,
        /// All that it lacks; empty when the report was not whole, so that any of its segments may be missing.
        segments: Vec<SegmentPath>,
    },
    /// A node failed in its own work: an I/O error, no memory, a broken invariant.
    NodeFailed {
        /// Its worker; `None` when the error did not say.
        node: Option<Url>,
        /// Whether its memory was used up.
        memory: bool,
        /// What happened.
        message: String,
    },
    /// The query's own fault, or that of whoever routes it.
    Query(Error),
    /// The query needs more memory than the broker gives.
    MemoryLimit {
        /// Who asked for how much.
        message: String,
    },
    /// The broker stopped the query.
    Cancelled,
}

impl QueryError {
    /// The code that clients see.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } => ErrorCode::NodeNotAvailable,
            Self::Refused { busy: true, .. } => ErrorCode::ServiceTooManyRequests,
            Self::Refused { .. } => ErrorCode::NodeNotServing,
            Self::NotLoaded { .. } => ErrorCode::SegmentNotLoaded,
            Self::NodeFailed { .. } => ErrorCode::NodeIoError,
            Self::Query(error) => error.code(),
            Self::MemoryLimit { .. } => ErrorCode::QueryMemoryLimit,
            Self::Cancelled => ErrorCode::Cancelled,
        }
    }

    /// What happened, without saying where. Empty where no node is to be named.
    pub fn what(&self) -> &str {
        match self {
            Self::Unreachable { message, .. }
            | Self::Interrupted { message, .. }
            | Self::Refused { message, .. }
            | Self::NodeFailed { message, .. } => message,
            Self::NotLoaded { .. } | Self::Query(_) | Self::MemoryLimit { .. } | Self::Cancelled => "",
        }
    }

    /// Whether a node failed, so that the same work may succeed on another.
    pub(crate) fn is_of_node(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::Refused { .. }
            | Self::NotLoaded { .. }
            | Self::NodeFailed { .. } => true,
            Self::Query(_) | Self::MemoryLimit { .. } | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |f: &mut fmt::Formatter<'_>, node: Option<&Url>| match node {
            Some(node) => write!(f, "node {node} "),
            None => f.write_str("a node "),
        };
        match self {
            Self::Unreachable { nodes, message } => {
                let nodes = nodes.iter().map(Url::as_str).collect::<Vec<_>>().join(", ");
                write!(f, "{nodes} could not be reached or broke off: {message}")
            }
            Self::Interrupted { node, message } => write!(f, "a call to {node} was cut off: {message}"),
            Self::Refused { node, busy, message } => {
                write!(f, "node {node} {}: {message}", if *busy { "is busy" } else { "is not serving" })
            }
            Self::NotLoaded { node, segments } => {
                at(f, node.as_ref())?;
                f.write_str("does not hold")?;
                if segments.is_empty() {
                    return f.write_str(" some of the segments it was asked for");
                }
                segments.iter().enumerate().try_for_each(|(at, segment)| {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma} segment '{}' of collection '{}'", segment.segment, segment.collection)
                })
            }
            Self::NodeFailed { node, memory, message } => {
                at(f, node.as_ref())?;
                write!(f, "{}: {message}", if *memory { "has no memory left" } else { "failed" })
            }
            Self::Query(error) => error.fmt(f),
            Self::MemoryLimit { message } => {
                write!(f, "the query needs more memory than the broker has for it: {message}")
            }
            Self::Cancelled => f.write_str("the query was cancelled"),
        }
    }
}

impl StdError for QueryError {}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Query(error) => error,
            other => Self::new(other.code(), other.to_string()),
        }
    }
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        Self::Query(error)
    }
}

/// One of our errors on its way through DataFusion.
pub(crate) fn carry(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Classifies an error that came up while a query ran.
pub(crate) fn classify(error: &DataFusionError) -> QueryError {
    if let DataFusionError::Collection(errors) = error {
        return gravest(errors.iter().map(classify).collect());
    }
    let (tag, root) = Tag::default().follow(error);
    if let DataFusionError::Collection(_) = root {
        return classify(root);
    }
    if let Some(error) = ours(root) {
        return QueryError::Query(error);
    }
    let node = tag.url;
    let message = match root {
        DataFusionError::External(error) => error.to_string(),
        root => root.strip_backtrace(),
    };
    match (tag.kind, node) {
        (Kind::Unreachable, Some(node)) => QueryError::Unreachable { nodes: vec![node], message },
        (Kind::Interrupted, Some(node)) => QueryError::Interrupted { node, message },
        (Kind::Busy, Some(node)) => QueryError::Refused { node, busy: true, message },
        (Kind::NotServing, Some(node)) => QueryError::Refused { node, busy: false, message },
        (_, Some(node)) if message.contains(NO_PLAN) => QueryError::Interrupted { node, message },
        (_, node) => answered(node, root, message),
    }
}

/// An error that says what went wrong on the peer, or in the broker when there is no peer.
fn answered(node: Option<Url>, root: &DataFusionError, message: String) -> QueryError {
    if let Some(segments) = missing(&message) {
        return QueryError::NotLoaded { node, segments };
    }
    if message.contains(TOO_DEEP) {
        return QueryError::Query(refuse("an expression is nested too deeply to be sent to nodes"));
    }
    match root {
        DataFusionError::ResourcesExhausted(_) if node.is_none() => QueryError::MemoryLimit { message },
        DataFusionError::ResourcesExhausted(_) => QueryError::NodeFailed { node, memory: true, message },
        root if own_fault(root) => QueryError::Query(planning(root, ErrorCode::Unknown)),
        _ if node.is_some() => QueryError::NodeFailed { node, memory: false, message },
        _ => QueryError::Query(Error::new(ErrorCode::ServiceInternal, message)),
    }
}

/// Whether the query would fail like this on any node.
fn own_fault(root: &DataFusionError) -> bool {
    match root {
        DataFusionError::Execution(_)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::SQL(..) => true,
        DataFusionError::ArrowError(error, _) => !matches!(
            **error,
            ArrowError::IoError(..)
                | ArrowError::IpcError(_)
                | ArrowError::ParquetError(_)
                | ArrowError::ExternalError(_)
                | ArrowError::MemoryError(_)
        ),
        _ => false,
    }
}

/// An error of parsing or planning in our terms; `otherwise` for one that says nothing about the text.
pub(crate) fn planning(error: &DataFusionError, otherwise: ErrorCode) -> Error {
    let (_, root) = Tag::default().follow(error);
    if let Some(error) = ours(root) {
        return error;
    }
    let code = match root {
        DataFusionError::SchemaError(schema, _)
            if matches!(**schema, datafusion::common::SchemaError::FieldNotFound { .. }) =>
        {
            ErrorCode::ColumnNotFound
        }
        DataFusionError::Internal(_) => ErrorCode::ServiceInternal,
        _ => otherwise,
    };
    Error::new(code, root.strip_backtrace())
}

fn ours(root: &DataFusionError) -> Option<Error> {
    match root {
        DataFusionError::External(error) => error.downcast_ref::<Error>().cloned(),
        _ => None,
    }
}

/// The segments that a text says are missing; `None`: it says nothing of the kind. A list that was cut off, or that
/// holds what is no segment, names nobody: the rest of it would be taken for held.
fn missing(message: &str) -> Option<Vec<SegmentPath>> {
    let (_, list) = message.split_once(NOT_LOADED)?;
    let Some((list, _)) = list.split_once(LIST_END) else { return Some(vec![]) };
    let segments: Option<Vec<_>> = list.split(',').map(SegmentPath::read).collect();
    Some(segments.unwrap_or_default())
}

/// Several errors at once: nodes that are gone explain the others.
fn gravest(errors: Vec<QueryError>) -> QueryError {
    let mut gone = vec![];
    let mut reason = None;
    for error in &errors {
        if let QueryError::Unreachable { nodes, message } = error {
            gone.extend(nodes.iter().cloned());
            reason.get_or_insert_with(|| message.clone());
        }
    }
    gone.sort();
    gone.dedup();
    match reason {
        Some(message) => QueryError::Unreachable { nodes: gone, message },
        None => errors.into_iter().next().unwrap_or(QueryError::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pointsman_ids::SegmentId;

    use super::*;

    fn url(port: u16) -> Url {
        Url::parse(&format!("http://127.0.0.1:{port}")).expect("a URL")
    }

    fn tagged(word: &str, port: u16, error: DataFusionError) -> DataFusionError {
        DataFusionError::Context(format!("{word}{}", url(port)), Box::new(error))
    }

    fn text(text: &str) -> DataFusionError {
        DataFusionError::Execution(text.into())
    }

    #[test]
    fn the_innermost_peer_is_the_one_that_failed() {
        let error = tagged(AT, 1, DataFusionError::Shared(Arc::new(tagged(UNREACHABLE, 2, text("reset")))));
        let QueryError::Unreachable { nodes, .. } = classify(&error) else { panic!("{error}") };
        assert_eq!(nodes, [url(2)]);
    }

    #[test]
    fn nodes_that_are_gone_explain_other_errors() {
        let errors =
            vec![text("later"), tagged(UNREACHABLE, 3, text("a")), tagged(UNREACHABLE, 2, text("b"))];
        let QueryError::Unreachable { nodes, .. } = classify(&DataFusionError::Collection(errors)) else {
            panic!()
        };
        assert_eq!(nodes, [url(2), url(3)]);
    }

    #[test]
    fn missing_segments_are_named_wherever_the_text_stands() {
        let wrapped = DataFusionError::ObjectStore(Box::new(object_store::Error::Generic {
            store: "seg",
            source: format!("{NOT_LOADED}7/orders/part-0,9/orders/part-1{LIST_END}").into(),
        }));
        let QueryError::NotLoaded { node, segments } = classify(&tagged(AT, 4, wrapped)) else { panic!() };
        assert_eq!(node, Some(url(4)));
        assert_eq!(
            segments.iter().map(|segment| segment.id).collect::<Vec<_>>(),
            [SegmentId(7), SegmentId(9)]
        );
    }

    #[test]
    fn a_list_of_missing_segments_that_was_cut_off_names_none() {
        let whole = format!("{NOT_LOADED}7/orders/part-0,9/orders/part-1{LIST_END}");
        for end in NOT_LOADED.len()..whole.len() {
            let QueryError::NotLoaded { segments, .. } = classify(&tagged(AT, 4, text(&whole[..end]))) else {
                panic!()
            };
            assert_eq!(segments, [], "{}", &whole[..end]);
        }
        let odd = format!("{NOT_LOADED}7/orders/part-0,and more{LIST_END}");
        let QueryError::NotLoaded { segments, .. } = classify(&text(&odd)) else { panic!() };
        assert_eq!(segments, []);
    }

    #[test]
    fn whose_fault_it_is() {
        let memory = || DataFusionError::ResourcesExhausted("no".into());
        assert!(matches!(classify(&memory()), QueryError::MemoryLimit { .. }));
        assert!(matches!(classify(&tagged(AT, 1, memory())), QueryError::NodeFailed { memory: true, .. }));
        let division = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        assert_eq!(classify(&tagged(AT, 1, division)).code(), ErrorCode::Unknown);
        let disk = DataFusionError::IoError(std::io::Error::other("disk"));
        assert!(matches!(classify(&tagged(AT, 1, disk)), QueryError::NodeFailed { memory: false, .. }));
        let routing = carry(Error::new(ErrorCode::CollectionNotLoaded, "not loaded"));
        assert_eq!(classify(&routing).code(), ErrorCode::CollectionNotLoaded);
        let waited = tagged(AT, 1, text("timed-out while waiting for the plan to be set"));
        assert!(matches!(classify(&waited), QueryError::Interrupted { .. }));
    }
}
