//! Resource groups and their members.

use async_trait::async_trait;
use pointsman_ids::{Epoch, Error as Refusal, ErrorCode, GroupName, GroupNumber, NodeName};
use pointsman_query_coord::ResourceGroup;
use sqlx::FromRow;

use crate::{GroupStore, NewGroup, Result, session::Session, store::Store, stored::Origin};

const TABLE: &str = "resource_groups";

/// A group with one of its members; a group without members has one row.
#[derive(FromRow)]
struct GroupRow {
    number: i64,
    name: String,
    requests: i64,
    limits: i64,
    node: Option<String>,
}

impl GroupRow {
    fn group(&self) -> Result<ResourceGroup> {
        let origin = Origin::new(TABLE, self.number);
        Ok(ResourceGroup {
            number: GroupNumber(origin.number("number", self.number)?),
            name: origin.read("name", GroupName::new(&self.name))?,
            requests: origin.number("requests", self.requests)?,
            limits: origin.number("limits", self.limits)?,
            members: Default::default(),
        })
    }
}

#[async_trait]
impl GroupStore for Store {
    async fn groups(&self) -> Result<Vec<ResourceGroup>> {
        let mut session = self.reading().await?;
        let sql = "SELECT g.number, g.name, g.requests, g.limits, m.node FROM resource_groups g \
                   LEFT JOIN members m ON m.group_number = g.number ORDER BY g.name, m.node";
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
        if new.requests > new.limits {
            let text = format!(
                "group '{}' requests {} nodes, more than its limit {}",
                new.name, new.requests, new.limits
            );
            return Err(Refusal::new(ErrorCode::ResourceGroupIllegalConfig, text).into());
        }
        let mut session = self.writing(epoch).await?;
        if number_of(&mut session, &new.name).await?.is_some() {
            let text = format!("there is a resource group '{}' already", new.name);
            return Err(session.refuse(Refusal::new(ErrorCode::ResourceGroupAlreadyExists, text)).await);
        }
        let number = session.new_numbers("resource_group", 1).await?;
        let sql = "INSERT INTO resource_groups (number, name, requests, limits) VALUES ($1, $2, $3, $4)";
        let (requests, limits) = (i64::from(new.requests), i64::from(new.limits));
        session
            .execute(sql, &[number.into(), new.name.as_str().into(), requests.into(), limits.into()])
            .await?;
        let number = GroupNumber(Origin::new("counters", "resource_group").number("last", number)?);
        session.commit().await?;
        Ok(ResourceGroup {
            number,
            name: new.name,
            requests: new.requests,
            limits: new.limits,
            members: Default::default(),
        })
    }

    async fn set_member(&self, epoch: Epoch, node: &NodeName, group: Option<&GroupName>) -> Result<()> {
        let mut session = self.writing(epoch).await?;
        match group {
            None => {
                session.execute("DELETE FROM members WHERE node = $1", &[node.as_str().into()]).await?;
            }
            Some(group) => {
                let Some(number) = number_of(&mut session, group).await? else {
                    return Err(session.refuse(not_found(group)).await);
                };
                let sql = "INSERT INTO members (node, group_number) VALUES ($1, $2) \
                           ON CONFLICT (node) DO UPDATE SET group_number = excluded.group_number";
                session.execute(sql, &[node.as_str().into(), number.into()]).await?;
            }
        }
        session.commit().await
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
