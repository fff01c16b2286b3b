//! Sessions of nodes: who says hello, what they report, when they go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_clock::{MonoTime, WallTime};
use pointsman_ids::{
    CollectionId, Error, ErrorCode, GroupName, Incarnation, NodeId, NodeName, SegmentId, ShardName,
    TargetVersion, check_labels,
};
use pointsman_proto::{error_from_proto, node::v1 as pb};
use pointsman_query_coord::{
    LeaderReport, NodeIndex, NodeRecord, Observation, SegmentReport, SessionState, settled,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    leads::NodeLeads,
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
    /// The version of the newest desired state; 0 until the node has said what it holds.
    pub(crate) desired: watch::Sender<u64>,
    /// What it should lead; `None` until then, too.
    leads: watch::Sender<Option<Arc<NodeLeads>>>,
    /// Ends the stream: a newer session took its place.
    retired: CancellationToken,
    /// Tells a node that stops that it may leave.
    pub(crate) leave: CancellationToken,
    /// The group that it would like to be a member of when it is a member of none.
    pub(crate) asked_group: Option<GroupName>,
    /// When it reported last.
    pub(crate) reported: Option<MonoTime>,
    /// Calls of queries that ran on it then; `None`: it does not say.
    pub(crate) calls: Option<u64>,
}

/// What the stream of a session works with.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    pub(crate) node: NodeName,
    pub(crate) id: NodeId,
    number: u64,
    pub(crate) desired: watch::Receiver<u64>,
    /// Whether the node reads a desired state that says only what changed.
    pub(crate) reads_changes: bool,
    pub(crate) leads: watch::Receiver<Option<Arc<NodeLeads>>>,
    pub(crate) retired: CancellationToken,
    pub(crate) leave: CancellationToken,
}

/// A hello that parses.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) node: NodeName,
    incarnation: Incarnation,
    address: String,
    group: Option<GroupName>,
    labels: BTreeMap<String, String>,
    /// Bytes that it has for segments; `None`: it does not say.
    memory: Option<u64>,
    reads_changes: bool,
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
        let labels = hello.labels.into_iter().collect();
        check_labels(&labels).map_err(|what| refuse(&format!("it {what}")))?;
        let memory = Some(hello.cache_bytes).filter(|bytes| *bytes > 0);
        Ok(Self {
            incarnation: Incarnation(hello.incarnation),
            address: hello.address,
            group,
            labels,
            memory,
            reads_changes: hello.reads_changes,
            node,
        })
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
        self.state().group_news.notify_one();
        self.wake();
        Ok(opened)
    }

    /// Makes a node known and a member.
    async fn register(&self, pen: &Pen<'_>, hello: &Hello) -> Result<(), Error> {
        admit(&self.state(), hello)?;
        let record = pen.metastore.register_node(pen.epoch, &hello.node, hello.incarnation).await;
        let record = record.map_err(|error| self.failed(error))?;
        {
            let mut state = self.state();
            let former = state.stores.nodes.insert(hello.node.clone(), record.clone());
            if former.is_none_or(|former| former.incarnation < hello.incarnation) {
                // It has returned; the metastore has forgotten the drain too.
                state.stores.leaving.drains.remove(&hello.node);
                // Views name its former process. A process that only this coordinator did not hear yet stays in them: its
                // leader may have said so already, and does not say it again.
                state.stores.distribution.forget_host(&hello.node);
            }
        }
        self.welcome_member(pen, record, &hello.labels, hello.group.as_ref()).await
    }

    /// Takes a node's report.
    ///
    /// # Errors
    /// `parameter_invalid` when the first one of a session is not full.
    pub(crate) fn report(&self, session: &SessionHandle, report: pb::Report) -> Result<(), Error> {
        if self.state().report(session, report, (self.now(), WallTime(self.wall())))? {
            self.wake();
        }
        Ok(())
    }

    /// The node says that it stops, and serves on for `grace` at most. Half of that is for others to take over.
    pub(crate) fn stopping(&self, session: &SessionHandle, grace: Duration) {
        let now = self.now();
        self.state().stopping(session, grace, now);
        self.wake();
    }

    /// The stream of a session ended. A node that was stopping is gone; any other has until its lease ends to return.
    pub(crate) fn close_session(&self, session: &SessionHandle) {
        self.state().close_session(session);
        self.wake();
    }
}

fn led_shard(led: pb::LedShard) -> Result<(CollectionId, ShardName), Error> {
    Ok((CollectionId(led.collection_id), ShardName::new(&led.shard)?))
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
    let same = state.stores.observed.get(node).filter(|seen| seen.incarnation == *incarnation);
    let is_live = |seen: &&Observation| matches!(seen.state, SessionState::Live | SessionState::Stopping);
    if let Some(seen) = same.filter(is_live).filter(|seen| seen.address != *address) {
        return refuse(format!(
            "node '{node}', incarnation {incarnation}, is live at {} and says hello from {address}; every node needs a \
             name and a data folder of its own",
            seen.address
        ));
    }
    state.admit_member(node, hello.group.as_ref())
}

/// Whether the metastore knows all that this incarnation says. One that left its group meanwhile gets another one once it
/// is there.
fn recorded(state: &State, hello: &Hello) -> bool {
    let says = |record: &NodeRecord| record.incarnation == hello.incarnation && record.labels == hello.labels;
    state.stores.nodes.get(&hello.node).is_some_and(says)
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
                seen.memory = hello.memory;
            }
            None => self.retire(hello, id),
        }
        self.stores.leaving.stops.remove(&hello.node);
        let (desired, desired_receiver) = watch::channel(0);
        let (leads, leads_receiver) = watch::channel(None);
        let (retired, leave) = (CancellationToken::new(), CancellationToken::new());
        self.sessions_opened += 1;
        let number = self.sessions_opened;
        let session = Session {
            number,
            heard: now,
            connected: true,
            desired,
            leads,
            retired: retired.clone(),
            leave: leave.clone(),
            asked_group: hello.group.clone(),
            reported: None,
            calls: None,
        };
        if let Some(former) = self.sessions.insert(hello.node.clone(), session) {
            former.retired.cancel();
        }
        let (node, desired, leads) = (hello.node.clone(), desired_receiver, leads_receiver);
        Ok(SessionHandle {
            node,
            id,
            number,
            desired,
            reads_changes: hello.reads_changes,
            leads,
            retired,
            leave,
        })
    }

    /// A new incarnation: nothing that the former one said holds any more.
    fn retire(&mut self, hello: &Hello, id: NodeId) {
        let fresh = Observation {
            id,
            incarnation: hello.incarnation,
            address: hello.address.clone(),
            state: SessionState::Live,
            memory: hello.memory,
            reported: false,
        };
        self.stores.observed.insert(hello.node.clone(), fresh);
        self.stores.clear_reports(&hello.node);
        self.stores.forget_failures_of(&hello.node);
        self.stores.distribution.remove_node(&hello.node);
    }

    /// What is known of the node of a session, which was just heard; `None` when a newer session took its place.
    fn seen(&mut self, handle: &SessionHandle, now: MonoTime) -> Option<&mut Observation> {
        self.session_of(handle)?.heard = now;
        self.stores.observed.get_mut(&handle.node)
    }

    fn session_of(&mut self, handle: &SessionHandle) -> Option<&mut Session> {
        self.sessions.get_mut(&handle.node).filter(|session| session.number == handle.number)
    }

    fn stopping(&mut self, handle: &SessionHandle, grace: Duration, now: MonoTime) {
        let Some(seen) = self.seen(handle, now) else { return };
        seen.state = SessionState::Stopping;
        tracing::info!(node = %handle.node, ?grace, "the node is stopping");
        if !grace.is_zero() {
            self.stores.leaving.stops.insert(handle.node.clone(), now + grace / 2);
        }
        // What is published next rests on where things go.
        self.replan();
    }

    /// Takes a report; whether it says anything new.
    fn report(
        &mut self,
        handle: &SessionHandle,
        report: pb::Report,
        (now, wall): (MonoTime, WallTime),
    ) -> Result<bool, Error> {
        if let Some(session) = self.session_of(handle) {
            (session.reported, session.calls) = (Some(now), report.calls);
        }
        let Some(seen) = self.seen(handle, now) else { return Ok(false) };
        let (mut news, mut is_back) = (false, false);
        if seen.state == SessionState::Lost {
            tracing::info!(node = %handle.node, "a lost node is back");
            seen.state = SessionState::Live;
            news = true;
            is_back = true;
        }
        let mut before = BTreeMap::new();
        if report.full {
            news = true;
            seen.reported = true;
            before = self.stores.reports(&handle.node).collect();
        } else if !seen.reported {
            let text = format!("node '{}': the first report of a session has to be full", handle.node);
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        news |= !report.removed.is_empty() || !report.segments.is_empty();
        let node = self.stores.whereabouts.intern(&handle.node);
        for id in report.removed {
            self.stores.whereabouts.report(node, SegmentId(id), None);
        }
        if report.full {
            self.stores.distribution.remove_node(&handle.node);
        }
        for segment in report.segments {
            // What is said again in a new session is no other try.
            let again = before.remove(&SegmentId(segment.segment_id)) == Some(SegmentReport::Failed);
            self.report_segment(&handle.node, node, segment, again, (now, wall));
        }
        // What a full report does not name is not there.
        before.keys().for_each(|id| self.stores.whereabouts.report(node, *id, None));
        if is_back {
            self.group_news.notify_one();
        }
        news |= !report.leads.is_empty() || !report.leads_removed.is_empty();
        for led in report.leads_removed {
            let (collection, shard) = led_shard(led)?;
            self.stores.distribution.remove(&handle.node, collection, &shard);
        }
        for lead in report.leads {
            self.report_lead(handle, lead)?;
        }
        Ok(news)
    }

    fn report_segment(
        &mut self,
        node: &NodeName,
        index: NodeIndex,
        report: pb::SegmentReport,
        again: bool,
        (now, wall): (MonoTime, WallTime),
    ) {
        let id = SegmentId(report.segment_id);
        let state = match report.state() {
            pb::SegmentState::Unspecified => None,
            pb::SegmentState::Fetching => Some(SegmentReport::Fetching),
            pb::SegmentState::Held => Some(SegmentReport::Held),
            pb::SegmentState::Failed => Some(SegmentReport::Failed),
        };
        match state {
            Some(SegmentReport::Failed) if !again => {
                let unknown = || Error::new(ErrorCode::SegmentLoadFailed, "the node gave no reason");
                let error = report.error.map_or_else(unknown, error_from_proto);
                tracing::warn!(%node, segment = %id, tries = report.tries, %error, "a node failed to load a segment");
                self.record_failure(node, id, &error, wall);
                self.stores.note_failure(node, id, error, now);
            }
            Some(SegmentReport::Held) => self.stores.forget_failure(node, id),
            Some(SegmentReport::Failed | SegmentReport::Fetching) | None => {}
        }
        if matches!(state, Some(SegmentReport::Held | SegmentReport::Failed)) {
            self.tasks.finished(node);
        }
        self.stores.whereabouts.report(index, id, state);
    }

    /// Takes what a node says of a shard that it leads.
    fn report_lead(&mut self, handle: &SessionHandle, report: pb::LeadReport) -> Result<(), Error> {
        let refuse =
            |text: &str| Error::new(ErrorCode::ParameterInvalid, format!("node '{}': {text}", handle.node));
        let led = report.led.ok_or_else(|| refuse("a lead without a shard"))?;
        let (collection, shard) = led_shard(led)?;
        if report.segments.len() != report.hosts.len() {
            return Err(refuse("a lead does not name one host per segment"));
        }
        let stores = &mut self.stores;
        // A number that is nobody's any more hosts nothing; its successor is told to the leader.
        let names: BTreeMap<NodeId, &NodeName> =
            stores.nodes.values().map(|record| (record.id, &record.name)).collect();
        let hosted = report.segments.iter().zip(&report.hosts);
        let hosted = hosted.filter_map(|(segment, host)| {
            names.get(&NodeId(*host)).map(|name| (SegmentId(*segment), NodeName::clone(name)))
        });
        let removed: BTreeSet<SegmentId> = report.removed.iter().map(|id| SegmentId(*id)).collect();
        let former = stores.distribution.get(&handle.node, collection, &shard);
        let former = former.map(|leader| leader.view.clone()).unwrap_or_default();
        let view = former.changed(hosted, &removed);
        stores.distribution.insert(LeaderReport {
            node: handle.node.clone(),
            node_id: handle.id,
            collection,
            shard,
            version: report.version,
            target_version: TargetVersion(report.target_version),
            serviceable: report.serviceable,
            view,
        });
        Ok(())
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
            self.stores.clear_reports(&handle.node);
            self.stores.distribution.remove_node(&handle.node);
        }
    }

    /// Sends every node its desired state where that is newer than what its session has.
    pub(crate) fn send_desired(&self) {
        let unsettled = self.in_unsettled_replicas();
        for (node, session) in self.sessions.iter().filter(|(_, session)| session.connected) {
            let reported = self.stores.observed.get(node).is_some_and(|seen| seen.reported);
            if reported {
                let newest = self.desired.version(node.as_str());
                session.desired.send_if_modified(|version| std::mem::replace(version, newest) != newest);
                if unsettled.contains(node) {
                    continue;
                }
                let leads = self.leads.of(node.as_str());
                session.leads.send_if_modified(|told| {
                    let news = told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &leads));
                    *told = Some(leads);
                    news
                });
            }
        }
    }

    /// Nodes that share a replica with one that a new coordinator has not heard yet. Leaders among them keep what they were
    /// told to reach: silence is not absence.
    fn in_unsettled_replicas(&self) -> BTreeSet<&NodeName> {
        if !self.stores.awaiting {
            return BTreeSet::new();
        }
        let unsettled = self.stores.replicas.iter().filter(|replica| !settled(&self.stores, replica));
        unsettled.flat_map(|replica| replica.all_nodes()).collect()
    }
}
