//! Sessions of nodes: who says hello, what they report, when they go.

use std::sync::Arc;

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, GroupName, Incarnation, NodeId, NodeName, SegmentId};
use pointsman_proto::{error_from_proto, node::v1 as pb};
use pointsman_query_coord::{Failure, NodeRecord, Observation, SegmentReport, SessionState, group_for};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    state::State,
    tenure::{Pen, Tenure},
};

/// One session of one incarnation of a node.
#[derive(Debug)]
pub(crate) struct Session {
    /// Tells this session from every earlier one.
    number: u64,
    /// When the node was heard last.
    pub(crate) heard: MonoTime,
    /// Whether its stream lives.
    connected: bool,
    /// The newest desired state; `None` until the node has said what it holds.
    pub(crate) desired: watch::Sender<Option<Arc<pb::DesiredState>>>,
    /// Ends the stream: a newer session took its place.
    retired: CancellationToken,
}

/// What the stream of a session works with.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    pub(crate) node: NodeName,
    pub(crate) id: NodeId,
    number: u64,
    pub(crate) desired: watch::Receiver<Option<Arc<pb::DesiredState>>>,
    pub(crate) retired: CancellationToken,
}

/// A hello that parses.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) node: NodeName,
    incarnation: Incarnation,
    address: String,
    group: Option<GroupName>,
}

impl TryFrom<pb::Hello> for Hello {
    type Error = Error;

    fn try_from(hello: pb::Hello) -> Result<Self, Error> {
        let node = NodeName::new(&hello.name)?;
        let refuse = |what: &str| Error::new(ErrorCode::ParameterInvalid, format!("node '{node}': {what}"));
        if hello.incarnation == 0 {
            return Err(refuse("its incarnation is 0; it counts from 1"));
        }
        let address = url::Url::parse(&hello.address).ok().filter(url::Url::has_host);
        if address.is_none() {
            return Err(refuse(&format!("its address '{}' is not a URL", hello.address.escape_debug())));
        }
        let group = Some(hello.resource_group).filter(|group| !group.is_empty());
        let group = group.map(GroupName::try_from).transpose()?;
        Ok(Self { incarnation: Incarnation(hello.incarnation), address: hello.address, group, node })
    }
}

impl Tenure {
    /// Opens a session, or says why not. A newer incarnation retires the older one; a node that was never seen is
    /// registered and becomes a member of a group.
    ///
    /// # Errors
    /// `parameter_invalid` for an older incarnation, or the same one that is live at another address;
    /// `resource_group_not_found`; `service_not_ready` when something would have to be written and cannot be.
    pub(crate) async fn open_session(&self, hello: &Hello) -> Result<SessionHandle, Error> {
        let known = {
            let state = self.state();
            admit(&state, hello)?;
            recorded(&state, hello)
        };
        if !known {
            self.register(&self.begin_write().await?, hello).await?;
        }
        let opened = self.state().open_session(hello, self.now())?;
        tracing::info!(node = %hello.node, incarnation = %hello.incarnation, id = %opened.id, address = hello.address,
            "a node's session is open");
        self.wake();
        Ok(opened)
    }

    /// Makes a node known and a member.
    async fn register(&self, pen: &Pen<'_>, hello: &Hello) -> Result<(), Error> {
        admit(&self.state(), hello)?;
        let group = group_for(&self.state().stores.groups, &hello.node, hello.group.as_ref())?;
        let record = pen.metastore.register_node(pen.epoch, &hello.node, hello.incarnation).await;
        let record = record.map_err(|error| self.failed(error))?;
        self.state().stores.nodes.insert(hello.node.clone(), record);
        let member = self.state().stores.group_of(hello.node.as_str()).is_some();
        if !member {
            let set = pen.metastore.set_member(pen.epoch, &hello.node, Some(&group)).await;
            set.map_err(|error| self.failed(error))?;
            if let Some(group) = self.state().stores.groups.get_mut(&group) {
                group.members.insert(hello.node.clone());
            }
            tracing::info!(node = %hello.node, %group, "a node became a member");
        }
        Ok(())
    }

    /// Takes a node's report.
    ///
    /// # Errors
    /// `parameter_invalid` when the first one of a session is not full.
    pub(crate) fn report(&self, session: &SessionHandle, report: pb::Report) -> Result<(), Error> {
        if self.state().report(session, report, self.now())? {
            self.wake();
        }
        Ok(())
    }

    /// The node says that it stops.
    pub(crate) fn stopping(&self, session: &SessionHandle) {
        if let Some(seen) = self.state().seen(session, self.now()) {
            seen.state = SessionState::Stopping;
            tracing::info!(node = %session.node, "the node is stopping");
        }
        self.wake();
    }

    /// The stream of a session ended. A node that was stopping is gone; any other has until its lease ends to return.
    pub(crate) fn close_session(&self, session: &SessionHandle) {
        self.state().close_session(session);
        self.wake();
    }
}

/// Whether hello may open a session at all.
fn admit(state: &State, hello: &Hello) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::new(ErrorCode::ParameterInvalid, text));
    let record = state.stores.nodes.get(&hello.node);
    let Hello { node, incarnation, address, .. } = hello;
    if let Some(newest) = record.map(|record| record.incarnation).filter(|newest| newest > incarnation) {
        return refuse(format!(
            "node '{node}': incarnation {incarnation} is older than {newest}, which is known"
        ));
    }
    let Some(seen) = state.stores.observed.get(node).filter(|seen| seen.incarnation == *incarnation) else {
        return Ok(());
    };
    let live = matches!(seen.state, SessionState::Live | SessionState::Stopping);
    if live && seen.address != *address {
        return refuse(format!(
            "node '{node}', incarnation {incarnation}, is live at {} and says hello from {address}; every node needs a \
             name and a data folder of its own",
            seen.address
        ));
    }
    Ok(())
}

/// Whether the metastore knows this incarnation and its group.
fn recorded(state: &State, hello: &Hello) -> bool {
    let record = state.stores.nodes.get(&hello.node);
    let known = record.is_some_and(|record: &NodeRecord| record.incarnation == hello.incarnation);
    known && state.stores.group_of(hello.node.as_str()).is_some()
}

impl State {
    fn open_session(&mut self, hello: &Hello, now: MonoTime) -> Result<SessionHandle, Error> {
        admit(self, hello)?;
        let record = self.stores.nodes.get(&hello.node);
        let id = record.map(|record| record.id).ok_or_else(|| {
            Error::new(
                ErrorCode::ServiceNotReady,
                format!("node '{}' is not registered yet; try again", hello.node),
            )
        })?;
        match self.stores.observed.get_mut(&hello.node).filter(|seen| seen.incarnation == hello.incarnation) {
            // The same process came back: what it said stands until it says everything anew.
            Some(seen) => {
                seen.state = SessionState::Live;
                seen.address.clone_from(&hello.address);
            }
            None => self.retire(hello, id),
        }
        let (desired, desired_receiver) = watch::channel(None);
        let retired = CancellationToken::new();
        self.sessions_opened += 1;
        let number = self.sessions_opened;
        let session = Session { number, heard: now, connected: true, desired, retired: retired.clone() };
        if let Some(former) = self.sessions.insert(hello.node.clone(), session) {
            former.retired.cancel();
        }
        Ok(SessionHandle { node: hello.node.clone(), id, number, desired: desired_receiver, retired })
    }

    /// A new incarnation: nothing that the former one said holds any more.
    fn retire(&mut self, hello: &Hello, id: NodeId) {
        let fresh = Observation {
            id,
            incarnation: hello.incarnation,
            address: hello.address.clone(),
            state: SessionState::Live,
            reported: false,
            segments: Default::default(),
        };
        self.stores.observed.insert(hello.node.clone(), fresh);
        self.stores.failures.retain(|_, nodes| {
            nodes.remove(&hello.node);
            !nodes.is_empty()
        });
    }

    /// What is known of the node of a session, which was just heard; `None` when a newer session took its place.
    fn seen(&mut self, handle: &SessionHandle, now: MonoTime) -> Option<&mut Observation> {
        let session =
            self.sessions.get_mut(&handle.node).filter(|session| session.number == handle.number)?;
        session.heard = now;
        self.stores.observed.get_mut(&handle.node)
    }

    /// Takes a report; whether it says anything new.
    fn report(&mut self, handle: &SessionHandle, report: pb::Report, now: MonoTime) -> Result<bool, Error> {
        let Some(seen) = self.seen(handle, now) else { return Ok(false) };
        let mut news = false;
        if seen.state == SessionState::Lost {
            tracing::info!(node = %handle.node, "a lost node is back");
            seen.state = SessionState::Live;
            news = true;
        }
        if report.full {
            news = true;
            seen.reported = true;
            seen.segments.clear();
        } else if !seen.reported {
            let text = format!("node '{}': the first report of a session has to be full", handle.node);
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        news |= !report.removed.is_empty() || !report.segments.is_empty();
        for id in report.removed {
            seen.segments.remove(&SegmentId(id));
        }
        for segment in report.segments {
            self.report_segment(&handle.node, segment);
        }
        Ok(news)
    }

    fn report_segment(&mut self, node: &NodeName, report: pb::SegmentReport) {
        let id = SegmentId(report.segment_id);
        let state = match report.state() {
            pb::SegmentState::Unspecified => None,
            pb::SegmentState::Fetching => Some(SegmentReport::Fetching),
            pb::SegmentState::Held => Some(SegmentReport::Held),
            pb::SegmentState::Failed => Some(SegmentReport::Failed),
        };
        match state {
            Some(SegmentReport::Failed) => {
                let unknown = || Error::new(ErrorCode::SegmentLoadFailed, "the node gave no reason");
                let error = report.error.map_or_else(unknown, error_from_proto);
                tracing::warn!(%node, segment = %id, tries = report.tries, %error, "a node failed to load a segment");
                let failure = Failure { tries: report.tries, error };
                self.stores.failures.entry(id).or_default().insert(node.clone(), failure);
            }
            Some(SegmentReport::Held) => {
                if let Some(nodes) = self.stores.failures.get_mut(&id) {
                    nodes.remove(node);
                }
            }
            Some(SegmentReport::Fetching) | None => {}
        }
        let Some(seen) = self.stores.observed.get_mut(node) else { return };
        match state {
            Some(state) => drop(seen.segments.insert(id, state)),
            None => drop(seen.segments.remove(&id)),
        }
    }

    /// Ends the session of a node that is forgotten. A node that lives says hello again.
    pub(crate) fn end_session(&mut self, node: &NodeName) {
        if let Some(session) = self.sessions.remove(node) {
            session.retired.cancel();
        }
    }

    fn close_session(&mut self, handle: &SessionHandle) {
        let Some(session) = self.sessions.get_mut(&handle.node).filter(|s| s.number == handle.number) else {
            return;
        };
        session.connected = false;
        let Some(seen) = self.stores.observed.get_mut(&handle.node) else { return };
        if seen.state == SessionState::Stopping {
            tracing::info!(node = %handle.node, "the node signed off");
            seen.state = SessionState::Gone;
            seen.segments.clear();
        }
    }

    /// Sends every node its desired state where that is newer than what its session has.
    pub(crate) fn send_desired(&self) {
        for (node, session) in self.sessions.iter().filter(|(_, session)| session.connected) {
            let reported = self.stores.observed.get(node).is_some_and(|seen| seen.reported);
            let newest = self.desired.version(node.as_str());
            let has = session.desired.borrow().as_ref().map_or(0, |sent| sent.version);
            if reported && newest > has {
                let message = self.desired.message(node.as_str(), &self.stores);
                session.desired.send_replace(Some(Arc::new(message)));
            }
        }
    }
}
