//! What calls say about their nodes: the failure detector hears of every one that failed, by class, and of every one that
//! answered.

use pointsman_engine::QueryError;
use pointsman_failure_detector::SuspicionCause;
use pointsman_routing::{RoutedNode, Routing};

/// What a failed call holds against its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    /// It could not be reached, or broke off: it is excluded at once.
    Broken,
    /// It may be ill: several of these in a row exclude it.
    Suspicion(SuspicionCause),
    /// Nothing: the query, the routing or the client is the cause, or it has too much to do.
    Nothing,
    /// Nothing, in its scores neither: it is starting or draining.
    NotServing,
}

impl Charge {
    /// The charge of an error. It was told from the types in its chain of sources where it arose.
    pub(super) fn of(error: &QueryError) -> Self {
        match error {
            QueryError::Unreachable { .. } => Self::Broken,
            QueryError::NodeFailed { .. } => Self::Suspicion(SuspicionCause::Fault),
            QueryError::Refused { busy: false, .. } => Self::NotServing,
            QueryError::Refused { .. }
            | QueryError::Interrupted { .. }
            | QueryError::NotLoaded { .. }
            | QueryError::Query(_)
            | QueryError::MemoryLimit { .. }
            | QueryError::Cancelled => Self::Nothing,
        }
    }

    /// The charge of silence at the deadline, when so many nodes are silent. Several are silent when the query is heavy
    /// or the fault is the broker's.
    pub(super) fn of_silence(silent: usize) -> Self {
        if silent == 1 { Self::Suspicion(SuspicionCause::Silent) } else { Self::Nothing }
    }

    /// Tells the failure detector.
    pub(super) fn report(self, routing: &Routing, node: &RoutedNode, evidence: &str) {
        match self {
            Self::Broken => routing.report_unreachable(&node.key, node.incarnation, evidence),
            Self::Suspicion(cause) => {
                routing.report_suspicious(&node.key, node.incarnation, cause, evidence);
            }
            Self::Nothing | Self::NotServing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{Error, ErrorCode};

    use super::*;

    #[test]
    fn a_node_is_charged_with_its_own_faults_alone() {
        let node: url::Url = "http://n1:1".parse().unwrap();
        let message = String::new;
        let refused = |busy| QueryError::Refused { node: node.clone(), busy, message: message() };
        let failed = |memory| QueryError::NodeFailed { node: Some(node.clone()), memory, message: message() };
        let suspicion = Charge::Suspicion(SuspicionCause::Fault);
        for (error, charge) in [
            (QueryError::Unreachable { nodes: vec![node.clone()], message: message() }, Charge::Broken),
            (failed(false), suspicion),
            (failed(true), suspicion),
            (QueryError::Interrupted { node: node.clone(), message: message() }, Charge::Nothing),
            (refused(true), Charge::Nothing),
            (refused(false), Charge::NotServing),
            (QueryError::NotLoaded { node: Some(node.clone()), segments: vec![] }, Charge::Nothing),
            (Error::new(ErrorCode::ColumnNotFound, "").into(), Charge::Nothing),
            (QueryError::MemoryLimit { message: message() }, Charge::Nothing),
            (QueryError::Cancelled, Charge::Nothing),
        ] {
            assert_eq!(Charge::of(&error), charge, "{error:?}");
        }
    }

    #[test]
    fn only_the_sole_silent_node_is_suspected() {
        assert_eq!(Charge::of_silence(1), Charge::Suspicion(SuspicionCause::Silent));
        assert_eq!((Charge::of_silence(0), Charge::of_silence(2)), (Charge::Nothing, Charge::Nothing));
    }
}
