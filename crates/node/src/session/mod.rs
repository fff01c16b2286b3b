//! The session with the active coordinator: found among several, held, opened again when it breaks.

mod backoff;
mod reporter;
mod stream;

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{Error, ErrorCode, Incarnation};
use pointsman_proto::node::v1 as pb;
use rand::rngs::StdRng;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use self::backoff::Backoff;
use crate::{
    cache::{Cache, Source},
    deps::Pace,
    drain::Draining,
    in_flight::InFlight,
    leads::Leads,
    metrics,
};

/// Who the node is, and whom it talks to.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) incarnation: Incarnation,
    /// Where its worker is reached, as URL.
    pub(crate) address: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Empty: any.
    pub(crate) resource_group: String,
    pub(crate) cache_bytes: u64,
    /// URLs.
    pub(crate) coordinators: Vec<String>,
    /// Whether the coordinator is asked for the object store.
    pub(crate) needs_objects: bool,
    pub(crate) object_store_options: Vec<(String, String)>,
}

/// How the session stands, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The coordinator; `None`: there is no session.
    pub(crate) coordinator: Option<String>,
    /// The number that it gave this name and incarnation; 0: none yet.
    pub(crate) node_id: u64,
    /// The cluster's name; empty: not heard yet.
    pub(crate) cluster: String,
    /// Whether the coordinator tells a node that drains when it may leave.
    pub(crate) tells_leave: bool,
    /// Why there is no session; `None` while there is one or nothing was tried.
    pub(crate) trouble: Option<String>,
}

/// Why a try or a session ended.
#[derive(Debug)]
enum End {
    /// The coordinator stands by: another one is active.
    StandBy,
    /// Refused; only an operator can change that.
    Refused(Error),
    /// Its epoch is lower than one that was seen: it has been replaced and does not know it yet.
    OldEpoch { epoch: u64, seen: u64 },
    /// It could not be reached, answered with an error, broke off or fell silent.
    Broken(Error),
    /// The node ends.
    Stopped,
}

impl End {
    fn cause(&self) -> &'static str {
        match self {
            Self::StandBy => "stand_by",
            Self::Refused(_) => "refused",
            Self::OldEpoch { .. } => "old_epoch",
            Self::Broken(_) => "broken",
            Self::Stopped => "stopped",
        }
    }

    /// What an error that a coordinator answered means.
    fn of(error: Error) -> Self {
        match error.code() {
            ErrorCode::ServiceNotReady => Self::StandBy,
            ErrorCode::ParameterInvalid | ErrorCode::ResourceGroupNotFound => Self::Refused(error),
            _ => Self::Broken(error),
        }
    }
}

/// The client of sessions.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) identity: Identity,
    pub(crate) cache: Cache,
    pub(crate) leads: Leads,
    pub(crate) pace: Pace,
    pub(crate) rng: StdRng,
    pub(crate) standing: watch::Sender<Standing>,
    /// The calls that run, which the coordinator is told.
    pub(crate) in_flight: InFlight,
    /// The node drains: the coordinator is told.
    pub(crate) draining: Draining,
    /// Cancelled when the coordinator says that the node may leave.
    pub(crate) leave: CancellationToken,
    /// The node ends: so does the session.
    pub(crate) stop: CancellationToken,
    /// The highest epoch of a coordinator that was seen. 0: none.
    pub(crate) epoch_seen: u64,
}

impl Session {
    /// Opens sessions, one after the other, until it is told to stop. Coordinators are tried in turn, beginning with
    /// the one that was the active one last; after each round without success there is a pause.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(self.pace.reconnect, self.pace.reconnect_max);
        let mut turn = 0;
        let mut failures = 0;
        loop {
            let coordinator = self.identity.coordinators[turn % self.identity.coordinators.len()].clone();
            let began = Instant::now();
            let (end, stood) = self.session(&coordinator).await;
            metrics::session_ended(end.cause());
            self.note(&coordinator, &end, stood);
            // A coordinator that ends every session at once must not be asked without pause.
            if stood && began.elapsed() >= self.pace.reconnect_max {
                backoff.reset();
            }
            failures = if stood { 1 } else { failures + 1 };
            let pause = match end {
                End::Stopped => return,
                End::Refused(_) => self.pace.refused,
                // One that broke a standing session is likely to come back, with everything it knows of this node.
                End::Broken(_) if stood => backoff.pause(&mut self.rng),
                _ => {
                    turn += 1;
                    let round_over = failures >= self.identity.coordinators.len();
                    if round_over {
                        failures = 0;
                        backoff.pause(&mut self.rng)
                    } else {
                        Duration::ZERO
                    }
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn note(&self, coordinator: &str, end: &End, stood: bool) {
        let trouble = match end {
            End::StandBy => format!("coordinator {coordinator} stands by"),
            End::Refused(error) => {
                tracing::error!(coordinator, %error, "the coordinator refuses this node");
                format!("coordinator {coordinator} refuses this node: {error}")
            }
            End::OldEpoch { epoch, seen } => {
                tracing::warn!(coordinator, epoch, seen, "this coordinator has been replaced; trying others");
                format!("coordinator {coordinator} has the epoch {epoch}, and {seen} was seen")
            }
            End::Broken(error) if stood => {
                tracing::warn!(coordinator, %error, "the session broke; serving on what is there");
                format!("the session with {coordinator} broke: {error}")
            }
            End::Broken(error) => {
                tracing::info!(coordinator, %error, "no session");
                format!("coordinator {coordinator}: {error}")
            }
            End::Stopped => return,
        };
        self.standing.send_modify(|standing| {
            standing.coordinator = None;
            standing.trouble = Some(trouble);
        });
    }

    /// Takes a welcome.
    fn welcome(&mut self, coordinator: &str, welcome: &pb::Welcome) -> Result<(), End> {
        let (epoch, seen) = (welcome.epoch, self.epoch_seen);
        if epoch < seen {
            return Err(End::OldEpoch { epoch, seen });
        }
        self.epoch_seen = epoch;
        tracing::info!(
            coordinator,
            epoch,
            node_id = welcome.node_id,
            cluster = welcome.cluster,
            "session stands"
        );
        metrics::session(true);
        self.leads.known_as(welcome.node_id);
        self.standing.send_replace(Standing {
            coordinator: Some(coordinator.to_owned()),
            node_id: welcome.node_id,
            cluster: welcome.cluster.clone(),
            tells_leave: welcome.tells_leave,
            trouble: None,
        });
        if self.identity.needs_objects {
            self.cache.objects(self.open_objects(&welcome.objects));
        }
        Ok(())
    }

    fn open_objects(&self, root: &str) -> Result<Source, Error> {
        Source::open(root, &self.identity.object_store_options).map_err(|error| {
            let why = pointsman_telemetry::chain(&error);
            tracing::error!(why, "the coordinator's object store cannot be opened; set `node.objects`");
            Error::new(ErrorCode::SegmentLoadFailed, format!("{why}; set `node.objects`"))
        })
    }

    fn hello(&self) -> pb::Hello {
        let identity = &self.identity;
        pb::Hello {
            name: identity.name.clone(),
            incarnation: identity.incarnation.0,
            address: identity.address.clone(),
            labels: identity.labels.clone().into_iter().collect(),
            resource_group: identity.resource_group.clone(),
            cache_bytes: identity.cache_bytes,
            version: env!("CARGO_PKG_VERSION").into(),
            epoch_seen: self.epoch_seen,
            reads_changes: true,
        }
    }
}
