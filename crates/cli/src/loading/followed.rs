//! What of loads is seen only by looking again and again.

use std::collections::BTreeSet;

use pointsman_proto::coordinator::v1::{CollectionLoad, DroppedGroup};

/// What was seen of loads so far.
#[derive(Debug, Default)]
pub(super) struct Followed {
    groups: BTreeSet<(String, String)>,
    missing: Option<String>,
}

impl Followed {
    /// A group that had a replica when this began, and in which the load was given up since; and why.
    pub(super) fn given_up(&mut self, loads: &[CollectionLoad]) -> Option<String> {
        for load in loads {
            let dropped = load.dropped_groups.iter().find(|dropped| {
                self.groups.contains(&(load.collection.clone(), dropped.resource_group.clone()))
            });
            if let Some(DroppedGroup { resource_group, why }) = dropped {
                let name = &load.collection;
                return Some(format!("the load of '{name}' was given up in group {resource_group}: {why}"));
            }
            let dropped: BTreeSet<&String> =
                load.dropped_groups.iter().map(|dropped| &dropped.resource_group).collect();
            let groups = load.groups.iter().map(|group| &group.resource_group);
            let live = groups.filter(|group| !dropped.contains(group));
            self.groups.extend(live.map(|group| (load.collection.clone(), group.clone())));
        }
        None
    }

    /// A collection that is not loaded, seen so twice in a row: around the start of a load it may pass.
    pub(super) fn vanished<'a>(
        &mut self,
        collections: &'a [String],
        loads: &[CollectionLoad],
    ) -> Option<&'a String> {
        let missing = collections.iter().find(|name| !loads.iter().any(|load| load.collection == **name));
        let before = std::mem::replace(&mut self.missing, missing.cloned());
        missing.filter(|name| before.as_ref() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use pointsman_proto::coordinator::v1::GroupLoad;

    use super::*;

    fn load(groups: &[&str]) -> CollectionLoad {
        let group = |name: &&str| GroupLoad { resource_group: (*name).to_owned(), ..GroupLoad::default() };
        CollectionLoad {
            collection: "orders".into(),
            groups: groups.iter().map(group).collect(),
            ..CollectionLoad::default()
        }
    }

    #[test]
    fn a_group_is_given_up_only_when_it_was_there() {
        let dropped = DroppedGroup { resource_group: "west".into(), why: "no progress".into() };
        let given_up = CollectionLoad { dropped_groups: vec![dropped], ..load(&["east"]) };
        assert_eq!(Followed::default().given_up(std::slice::from_ref(&given_up)), None, "an earlier load");
        let mut followed = Followed::default();
        assert_eq!(followed.given_up(&[load(&["east", "west"])]), None);
        let why = followed.given_up(&[given_up]).unwrap();
        assert_eq!(why, "the load of 'orders' was given up in group west: no progress");
    }

    #[test]
    fn what_is_not_loaded_counts_when_it_is_seen_twice_in_a_row() {
        let names = ["orders".to_owned()];
        let mut followed = Followed::default();
        assert_eq!(followed.vanished(&names, &[]), None);
        assert_eq!(followed.vanished(&names, &[load(&["east"])]), None);
        assert_eq!(followed.vanished(&names, &[]), None);
        assert_eq!(followed.vanished(&names, &[]), Some(&names[0]));
    }
}
