//! All channels of a process, by address.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use pointsman_ids::Incarnation;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{CallError, Channel, Connect, OwnConnection, TcpConnect, channel::Node, connection::Peer};

/// Notices of lost connections that a slow listener may fall behind; what it misses is found by the next call.
const LOST_NOTICES: usize = 256;

/// Addresses without a member that are kept while no connection to them is open.
const STRANGERS: usize = 1024;

/// How connections are made and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Deadline of connecting.
    pub connect_timeout: Duration,
    /// Pause between pings on a connection, with calls or without.
    pub keep_alive_time: Duration,
    /// How long a ping may go unanswered before the connection is given up.
    pub keep_alive_timeout: Duration,
    /// Connections per node, used in turn; at least 1.
    pub connections: usize,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            keep_alive_time: Duration::from_secs(2),
            keep_alive_timeout: Duration::from_secs(1),
            connections: 2,
        }
    }
}

/// The channels of a process. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Channels {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: ChannelSettings,
    connector: Arc<dyn Connect>,
    nodes: Mutex<BTreeMap<Url, Entry>>,
    lost: broadcast::Sender<Url>,
}

struct Entry {
    node: Arc<Node>,
    /// `None`: an address that was called without being a member's.
    incarnation: Option<Incarnation>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

impl Channels {
    /// Channels over byte streams that `connector` makes.
    pub fn new(settings: ChannelSettings, connector: Arc<dyn Connect>) -> Self {
        let (lost, _) = broadcast::channel(LOST_NOTICES);
        Self { shared: Arc::new(Shared { settings, connector, nodes: Mutex::default(), lost }) }
    }

    /// Channels over TCP.
    pub fn tcp(settings: ChannelSettings) -> Self {
        Self::new(settings, Arc::new(TcpConnect))
    }

    /// The channel to an address. Nothing is connected before its first call, which must come from inside a tokio
    /// runtime.
    pub fn channel(&self, url: &Url) -> Channel {
        let mut nodes = self.shared.nodes.lock();
        if !nodes.contains_key(url) && nodes.len() >= STRANGERS {
            nodes.retain(|_, entry| entry.incarnation.is_some() || entry.node.is_open());
        }
        let entry = nodes.entry(url.clone()).or_insert_with(|| self.entry(url, None));
        Channel::new(entry.node.clone())
    }

    /// Says which processes there are. Connections to an address behind which another process stands now are closed
    /// with every call on them; those to an address that is not among the members any more end with their last call.
    pub fn set_members(&self, members: impl IntoIterator<Item = (Url, Incarnation)>) {
        let members: BTreeMap<Url, Incarnation> = members.into_iter().collect();
        let mut nodes = self.shared.nodes.lock();
        nodes.retain(|url, entry| match (entry.incarnation, members.get(url)) {
            (Some(had), Some(has)) if had != *has => {
                entry.node.peer.closed.cancel();
                false
            }
            (Some(_), None) => false,
            _ => true,
        });
        for (url, incarnation) in members {
            let entry = nodes.entry(url.clone()).or_insert_with(|| self.entry(&url, None));
            entry.incarnation = Some(incarnation);
        }
    }

    /// Opens a connection of the caller's own beside those of the channel to this address.
    ///
    /// # Errors
    /// No connection could be made.
    pub async fn open(&self, url: &Url) -> Result<OwnConnection, CallError> {
        OwnConnection::open(Arc::new(self.peer(url))).await
    }

    /// Addresses to which a connection ended that nobody closed, in use or idle.
    pub fn lost(&self) -> broadcast::Receiver<Url> {
        self.shared.lost.subscribe()
    }

    fn entry(&self, url: &Url, incarnation: Option<Incarnation>) -> Entry {
        Entry { node: Arc::new(Node::new(self.peer(url))), incarnation }
    }

    fn peer(&self, url: &Url) -> Peer {
        Peer {
            url: url.clone(),
            settings: self.shared.settings,
            connector: self.shared.connector.clone(),
            closed: CancellationToken::new(),
            lost: self.shared.lost.clone(),
        }
    }
}
