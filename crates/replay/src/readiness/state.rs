//! The state as the file tells it, and how steps change it.

use pointsman_ids::CollectionId;

use super::world::World;
use crate::{
    ScenarioError,
    yaml::{At, Node, Value},
};

/// The state, as a tree: updates are put over it, and stores are made of what comes out.
#[derive(Clone, Debug)]
pub(super) struct State(Node);

impl State {
    /// What stands under `state`. `None`: everything is at its default.
    pub(super) fn new(told: Option<&At<'_>>) -> Self {
        Self(told.map_or_else(|| map(1, []), |at| at.node().clone()))
    }

    /// The stores. What is wrong is told as standing under `path`.
    pub(super) fn world(&self, path: &str) -> Result<World, ScenarioError> {
        World::read(&At::rooted(&self.0, path))
    }

    /// Puts an update over it.
    pub(super) fn update(&mut self, update: &Node) {
        self.0.merge(update);
    }

    /// Moves the next target of a collection to the current ones where the store of `world` does.
    pub(super) fn promote(&mut self, collection: CollectionId, world: &World) {
        let mut targets = world.targets.clone();
        targets.promote(collection);
        if targets == world.targets {
            return;
        }
        let places = ["targets", "next", &collection.to_string()];
        let Some(next) = places.iter().try_fold(&self.0, |node, key| node.get(key)).cloned() else { return };
        let null = Node { line: next.line, value: Value::Null };
        for (scope, target) in [("next", &null), ("current", &null), ("current", &next)] {
            self.0.merge(&in_targets(scope, collection, target));
        }
    }
}

/// A state that says nothing but this target.
fn in_targets(scope: &str, collection: CollectionId, target: &Node) -> Node {
    let line = target.line;
    let key = |value| Node { line, value };
    let by_collection = map(line, [(key(Value::Integer(collection.0.into())), target.clone())]);
    let by_scope = map(line, [(key(Value::Text(scope.to_owned())), by_collection)]);
    map(line, [(key(Value::Text("targets".to_owned())), by_scope)])
}

fn map(line: u64, entries: impl IntoIterator<Item = (Node, Node)>) -> Node {
    Node { line, value: Value::Map(entries.into_iter().collect()) }
}
