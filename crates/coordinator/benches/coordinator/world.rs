//! The coordinator's process, and what an operator asks of it.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use pointsman_proto::coordinator::v1::{
    self as pb, catalog_client::CatalogClient, cluster_client::ClusterClient,
    query_coord_client::QueryCoordClient,
};
use pointsman_testkit::{Process, free_port};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::store::{self, COLLECTION, FEW};

/// Replicas of the collection, each in a group of its own.
pub(crate) const REPLICAS: u32 = 2;

/// Pause between questions.
const PAUSE: Duration = Duration::from_millis(20);

/// Where a coordinator works.
pub(crate) struct World {
    folder: TempDir,
    settings: PathBuf,
    address: SocketAddr,
}

impl World {
    pub(crate) fn new(metastore: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let http = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let objects = folder.path().join("objects");
        fs::create_dir_all(objects.join(COLLECTION))?;
        let settings = folder.path().join("coordinator.toml");
        let text = format!(
            "[coordinator]\nmetastore = \"{metastore}\"\nobjects = \"{}\"\ngrpc_listen = \"{address}\"\nhttp_listen = \
             \"{http}\"\nresource_groups = {{ east = 1, west = 1 }}\n",
            objects.display()
        );
        fs::write(&settings, text)?;
        Ok(Self { folder, settings, address })
    }

    /// Starts the coordinator.
    pub(crate) fn start(&self) -> anyhow::Result<Process> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman-coordinator"));
        command.arg("--config").arg(&self.settings);
        let log = self.folder.path().join("coordinator.log");
        Process::start("coordinator", &mut command, Some(&log), None)
    }

    /// A connection of its own, which is made when it is needed.
    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        endpoint.expect("an address").tcp_nodelay(true).connect_lazy()
    }

    /// Waits for so many nodes.
    pub(crate) async fn nodes(&self, count: usize, patience: Duration) -> anyhow::Result<()> {
        self.until("nodes", patience, async || {
            let answer = ClusterClient::new(self.channel()).list_nodes(pb::ListNodesRequest {}).await?;
            let nodes = answer.into_inner().nodes;
            let members = nodes.iter().filter(|node| !node.resource_group.is_empty()).count();
            ensure!(members == count, "{members} of {count} are members");
            Ok(())
        })
        .await
    }

    /// Loads the collection, and waits until that has ended.
    pub(crate) async fn load(&self, patience: Duration) -> anyhow::Result<()> {
        let request = pb::LoadCollectionRequest {
            collection: COLLECTION.into(),
            resource_groups: vec!["east".into(), "west".into()],
            ..Default::default()
        };
        QueryCoordClient::new(self.channel()).load_collection(request).await?;
        self.until("a finished load", patience, async || {
            let request = pb::ShowLoadRequest { collection: COLLECTION.into(), ..Default::default() };
            let shown = QueryCoordClient::new(self.channel()).show_load(request).await?.into_inner();
            ensure!(shown.collections.iter().all(|load| load.loaded), "{shown:?}");
            Ok(())
        })
        .await?;
        self.leaders(patience).await
    }

    /// Waits until the coordinator is active.
    pub(crate) async fn active(&self, patience: Duration) -> anyhow::Result<()> {
        self.until("an active coordinator", patience, async || {
            let mut client = ClusterClient::new(self.channel());
            let answer = client.get_coordinator(pb::GetCoordinatorRequest {}).await?.into_inner();
            ensure!(answer.active, "it stands by");
            Ok(())
        })
        .await
    }

    /// Waits until every shard has a leader, as the strict form says.
    pub(crate) async fn leaders(&self, patience: Duration) -> anyhow::Result<()> {
        self.until("shard leaders", patience, async || {
            let request = pb::GetShardLeadersRequest { collection_id: 1, with_unserviceable: false };
            let answer = QueryCoordClient::new(self.channel()).get_shard_leaders(request).await?.into_inner();
            let leads = |shard: &pb::ShardLeaders| shard.node_ids.len() == REPLICAS as usize;
            ensure!(answer.shards.iter().all(leads), "not in every replica");
            Ok(())
        })
        .await
    }

    /// Pushes new segments, the first of this number. Gives their numbers.
    pub(crate) async fn push(&self, first: u32) -> anyhow::Result<BTreeSet<u32>> {
        let numbers: BTreeSet<u32> = (first..first + FEW).collect();
        let segments: anyhow::Result<Vec<pb::Segment>> =
            numbers.iter().map(|one| self.segment(*one)).collect();
        let request = pb::PushSegmentsRequest { collection: COLLECTION.into(), segments: segments? };
        CatalogClient::new(self.channel()).push_segments(request).await?;
        Ok(numbers)
    }

    fn segment(&self, number: u32) -> anyhow::Result<pb::Segment> {
        let object = store::object(number);
        fs::write(self.folder.path().join("objects").join(&object), [7; 9])?;
        Ok(pb::Segment {
            name: store::name(number),
            partition: store::partition(number),
            object,
            rows: store::rows(number),
            bytes: 9,
            checksum: format!("blake3:{}", "ab".repeat(32)),
            ..Default::default()
        })
    }

    async fn until(
        &self,
        what: &str,
        patience: Duration,
        ask: impl AsyncFn() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            match ask().await {
                Ok(()) => return Ok(()),
                Err(error) if begin.elapsed() > patience => {
                    let log =
                        fs::read_to_string(self.folder.path().join("coordinator.log")).unwrap_or_default();
                    return Err(error)
                        .with_context(|| format!("waited in vain for {what}; the coordinator said:\n{log}"));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
