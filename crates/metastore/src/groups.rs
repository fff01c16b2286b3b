//! Resource groups and their members.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pointsman_ids::{Epoch, Error as Refusal, ErrorCode, GroupName, GroupNumber, NodeName};
use pointsman_query_coord::{GroupChange, GroupConfig, GroupMove, ResourceGroup};
use sqlx::FromRow;

use crate::{
    GroupStore, NewGroup, Result,
    session::Session,
    store::Store,
    stored::{Origin, group_names, json},
};

const TABLE: &str = "resource_groups";

/// A group with one of its members; a group without members has one row.
#[derive(FromRow)]
struct GroupRow {
    number: i64,
    name: String,
    requests: i64,
    limits: i64,
    transfer_from: String,
    transfer_to: String,
    node_filter: String,
    node: Option<String>,
}

impl GroupRow {
    fn group(&self) -> Result<ResourceGroup> {
        let origin = Origin::new(TABLE, self.number);
        Ok(ResourceGroup {
            number: GroupNumber(origin.number("number", self.number)?),
            name: origin.read("name", GroupName::new(&self.name))?,
            config: GroupConfig {
                requests: origin.number("requests", self.requests)?,
                limits: origin.number("limits", self.limits)?,
                transfer_from: origin.group_names("transfer_from", &self.transfer_from)?,
                transfer_to: origin.group_names("transfer_to", &self.transfer_to)?,
                node_filter: origin.json("node_filter", &self.node_filter)?,
            },
            members: Default::default(),
        })
    }
}

#[async_trait]
impl GroupStore for Store {
    async fn groups(&self) -> Result<Vec<ResourceGroup>> {
        let mut session = self.reading().await?;
        let sql = "SELECT g.number, g.name, g.requests, g.limits, g.transfer_from, g.transfer_to, g.node_filter, m.node \
                   FROM resource_groups g LEFT JOIN members m ON m.group_number = g.number ORDER BY g.name, m.node";
        let rows: Vec<GroupRow> = session.rows(TABLE, sql, &[]).await?;
        session.finish().await;
        let mut groups: Vec<ResourceGroup> = Vec::new();
        for row in rows {
            if groups.last().is_none_or(|last| last.name.as_str() != row.name) {
                groups.push(row.group()?);
            }
            if let (Some(group), Some(node)) = (groups.last_mut(), &row.node) {
                group.members.insert(Origin::new("members", node).read("node", NodeName::new(node))?);
            }
        }
        Ok(groups)
    }

    async fn create_group(&self, epoch: Epoch, new: NewGroup) -> Result<ResourceGroup> {
        let stored = StoredConfig::of(&new.config)?;
        let mut session = self.writing(epoch).await?;
        if number_of(&mut session, &new.name).await?.is_some() {
            let text = format!("there is a resource group '{}' already", new.name);
            return Err(session.refuse(Refusal::new(ErrorCode::ResourceGroupAlreadyExists, text)).await);
        }
        let number = session.new_numbers("resource_group", 1).await?;
        let sql = "INSERT INTO resource_groups (number, name, requests, limits, transfer_from, transfer_to, node_filter) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let [requests, limits, from, to, filter] = stored.values();
        session
            .execute(sql, &[number.into(), new.name.as_str().into(), requests, limits, from, to, filter])
            .await?;
        let number = GroupNumber(Origin::new("counters", "resource_group").number("last", number)?);
        session.commit().await?;
        Ok(ResourceGroup { number, name: new.name, config: new.config, members: Default::default() })
    }

    async fn change_groups(&self, epoch: Epoch, change: &GroupChange) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        match make(&mut session, change).await? {
            Ok(()) => session.commit().await,
            Err(refusal) => Err(session.refuse(refusal).await),
        }
    }

    async fn set_labels(
        &self,
        epoch: Epoch,
        node: &NodeName,
        labels: &BTreeMap<String, String>,
    ) -> Result<()> {
        let labels = json(labels)?;
        let mut session = self.writing(epoch).await?;
        let sql = "UPDATE nodes SET labels = $2 WHERE name = $1";
        session.execute(sql, &[node.as_str().into(), labels.as_str().into()]).await?;
        session.commit().await
    }
}

/// Writes every part of a change. The inner error is what contradicts it.
async fn make(session: &mut Session, change: &GroupChange) -> Result<Result<(), Refusal>> {
    for (name, config) in &change.configs {
        let stored = StoredConfig::of(config)?;
        let [requests, limits, from, to, filter] = stored.values();
        let sql = "UPDATE resource_groups SET requests = $2, limits = $3, transfer_from = $4, transfer_to = $5, \
                   node_filter = $6 WHERE name = $1";
        let values = [name.as_str().into(), requests, limits, from, to, filter];
        if session.execute(sql, &values).await? == 0 {
            return Ok(Err(not_found(name)));
        }
    }
    let mut numbers: BTreeMap<&GroupName, i64> = BTreeMap::new();
    for GroupMove { node, to } in &change.moves {
        let Some(to) = to else {
            session.execute("DELETE FROM members WHERE node = $1", &[node.as_str().into()]).await?;
            continue;
        };
        let number = match numbers.get(to) {
            Some(number) => *number,
            None => match number_of(session, to).await? {
                Some(number) => *numbers.entry(to).or_insert(number),
                None => return Ok(Err(not_found(to))),
            },
        };
        let sql = "INSERT INTO members (node, group_number) VALUES ($1, $2) \
                   ON CONFLICT (node) DO UPDATE SET group_number = excluded.group_number";
        session.execute(sql, &[node.as_str().into(), number.into()]).await?;
    }
    if let Some(name) = &change.dropped {
        return remove(session, name).await;
    }
    Ok(Ok(()))
}

/// Removes a group that has no members any more.
async fn remove(session: &mut Session, name: &GroupName) -> Result<Result<(), Refusal>> {
    let Some(number) = number_of(session, name).await? else { return Ok(Ok(())) };
    let sql = "SELECT node FROM members WHERE group_number = $1 ORDER BY node LIMIT 1";
    let left: Option<(String,)> = session.row("members", sql, &[number.into()]).await?;
    if let Some((node,)) = left {
        let text = format!("resource group '{name}' cannot be dropped: node '{node}' is a member of it");
        return Ok(Err(Refusal::new(ErrorCode::ParameterInvalid, text)));
    }
    session.execute("DELETE FROM resource_groups WHERE number = $1", &[number.into()]).await?;
    Ok(Ok(()))
}

/// Stored form of a [`GroupConfig`].
struct StoredConfig {
    requests: i64,
    limits: i64,
    transfer_from: String,
    transfer_to: String,
    node_filter: String,
}

impl StoredConfig {
    fn of(config: &GroupConfig) -> Result<Self> {
        Ok(Self {
            requests: config.requests.into(),
            limits: config.limits.into(),
            transfer_from: group_names(&config.transfer_from)?,
            transfer_to: group_names(&config.transfer_to)?,
            node_filter: json(&config.node_filter)?,
        })
    }

    fn values(&self) -> [crate::session::Bind<'_>; 5] {
        [
            self.requests.into(),
            self.limits.into(),
            self.transfer_from.as_str().into(),
            self.transfer_to.as_str().into(),
            self.node_filter.as_str().into(),
        ]
    }
}

/// The number of a group; absent when there is no such group.
pub(crate) async fn number_of(session: &mut Session, group: &GroupName) -> Result<Option<i64>> {
    let sql = "SELECT number FROM resource_groups WHERE name = $1";
    let row: Option<(i64,)> = session.row(TABLE, sql, &[group.as_str().into()]).await?;
    Ok(row.map(|(number,)| number))
}

pub(crate) fn not_found(group: &GroupName) -> Refusal {
    Refusal::new(ErrorCode::ResourceGroupNotFound, format!("there is no resource group '{group}'"))
}
