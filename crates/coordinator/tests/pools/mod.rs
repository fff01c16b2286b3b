//! Resource groups as a test asks for them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{
    coordinator::v1::{self as pb, resource_groups_client::ResourceGroupsClient},
    error,
    node::v1::{self as node_pb, node_session_client::NodeSessionClient},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Response, Status, transport::Channel};

use crate::cluster::*;

pub fn config(requests: i64, limits: i64) -> pb::ResourceGroupConfig {
    pb::ResourceGroupConfig { requests: Some(requests), limits: Some(limits), ..Default::default() }
}

/// Opens a session for each of these nodes, which ask for these groups.
pub async fn connect(coordinator: &Coordinator, nodes: &[(&str, &str)]) -> Vec<Node> {
    let mut connected = Vec::new();
    for (name, group) in nodes {
        connected.push(Hello::new(name, group).connect(coordinator).await.unwrap());
    }
    connected
}

/// Waits for all of them, one after the other.
pub async fn futures_of<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    for one in all {
        one.await;
    }
}

/// The groups of a cluster.
pub struct Pools {
    client: ResourceGroupsClient<Channel>,
}

fn answer<T>(result: Result<Response<T>, Status>) -> Result<T, Error> {
    result.map(Response::into_inner).map_err(|status| error(&status))
}

impl Pools {
    pub fn of(coordinator: &Coordinator) -> Self {
        Self { client: coordinator.groups() }
    }

    pub async fn create(
        &self,
        name: &str,
        config: Option<pb::ResourceGroupConfig>,
    ) -> Result<bool, ErrorCode> {
        let request = pb::CreateResourceGroupRequest { name: name.into(), config };
        let created = answer(self.client.clone().create_resource_group(request).await);
        created.map(|answer| answer.created).map_err(|error| error.code())
    }

    /// Updates groups and gives the nodes that were handed over.
    pub async fn update(&self, configs: &[(&str, pb::ResourceGroupConfig)]) -> Result<Vec<String>, Error> {
        let configs = configs.iter().map(|(name, config)| ((*name).to_owned(), config.clone())).collect();
        let request = pb::UpdateResourceGroupsRequest { configs };
        Ok(answer(self.client.clone().update_resource_groups(request).await)?.moved)
    }

    pub async fn remove(&self, name: &str) -> Result<bool, Error> {
        let request = pb::DropResourceGroupRequest { name: name.into() };
        Ok(answer(self.client.clone().drop_resource_group(request).await)?.dropped)
    }

    pub async fn show(&self, name: &str) -> Result<pb::DescribeResourceGroupResponse, Error> {
        let request = pb::DescribeResourceGroupRequest { name: name.into() };
        answer(self.client.clone().describe_resource_group(request).await)
    }

    pub async fn list(&self) -> Vec<pb::ResourceGroup> {
        let request = pb::ListResourceGroupsRequest {};
        answer(self.client.clone().list_resource_groups(request).await).unwrap().groups
    }

    pub async fn members(&self, name: &str) -> Vec<String> {
        self.show(name).await.unwrap().group.unwrap().nodes
    }

    /// Waits until a group has exactly these members.
    pub async fn until(&self, name: &str, members: &[&str]) {
        let what = format!("{members:?} in {name}");
        until(&what, || async { (self.members(name).await == members).then_some(()) }).await;
    }

    pub async fn transfer(&self, source: &str, target: &str, count: i64) -> Result<Vec<String>, Error> {
        let request = pb::TransferNodesRequest { source: source.into(), target: target.into(), count };
        Ok(answer(self.client.clone().transfer_nodes(request).await)?.moved)
    }

    pub async fn transfer_replicas(
        &self,
        collection: &str,
        source: &str,
        target: &str,
        count: i64,
    ) -> Result<pb::TransferReplicasResponse, Error> {
        let request = pb::TransferReplicasRequest {
            collection: collection.into(),
            source: source.into(),
            target: target.into(),
            count,
        };
        answer(self.client.clone().transfer_replicas(request).await)
    }
}

/// A node that says hello and then nothing until it is told to.
pub struct Silent {
    say: tokio::sync::mpsc::Sender<node_pb::OpenSessionRequest>,
    _heard: tokio::task::JoinHandle<()>,
}

impl Silent {
    pub async fn connect(coordinator: &Coordinator, name: &str, group: &str) -> Self {
        let (say, said) = tokio::sync::mpsc::channel(4);
        let hello = node_pb::Hello {
            name: name.into(),
            incarnation: 1,
            address: format!("http://{name}.example:1"),
            resource_group: group.into(),
            ..Default::default()
        };
        let silent = |message| node_pb::OpenSessionRequest { message: Some(message) };
        say.send(silent(node_pb::open_session_request::Message::Hello(hello))).await.unwrap();
        let mut client = NodeSessionClient::new(coordinator.channel.clone());
        let mut heard = client.open_session(ReceiverStream::new(said)).await.unwrap().into_inner();
        heard.next().await.unwrap().unwrap();
        let heard = tokio::spawn(async move { while heard.next().await.is_some() {} });
        let silent = Self { say, _heard: heard };
        silent.report().await;
        silent
    }

    /// Says that it holds nothing, and so that it lives.
    pub async fn report(&self) {
        let full = node_pb::Report { full: true, ..Default::default() };
        let message = Some(node_pb::open_session_request::Message::Report(full));
        self.say.send(node_pb::OpenSessionRequest { message }).await.unwrap();
    }
}
