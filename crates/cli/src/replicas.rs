//! Replicas as the command line says them.

use std::collections::HashMap;

use clap::Args;

use crate::Failure;

/// Where replicas live, and how many.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Replicas {
    /// Number of replicas [default: one per group; of what is loaded: as many as there are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: Option<u32>,
    /// Groups that the replicas live in, or how many live in each
    #[arg(long, value_name = "GROUP[=N]", value_delimiter = ',')]
    resource_groups: Vec<String>,
}

/// The same as requests say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// How many; 0: not said.
    pub(crate) number: u32,
    /// One replica in each, or all in the one.
    pub(crate) groups: Vec<String>,
    /// How many in each; with any, the others say nothing.
    pub(crate) per_group: HashMap<String, u32>,
}

impl Asked {
    /// Whether nothing is said.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Replicas {
    /// What requests say.
    ///
    /// # Errors
    /// [`Failure::Usage`] when some groups have numbers and others not, or one stands twice with a number.
    pub(crate) fn asked(&self) -> Result<Asked, Failure> {
        let number = self.replicas.unwrap_or(0);
        if !self.resource_groups.iter().any(|group| group.contains('=')) {
            return Ok(Asked { number, groups: self.resource_groups.clone(), per_group: HashMap::new() });
        }
        if number > 0 {
            let text = "--replicas says nothing where every group has its number; leave it out";
            return Err(Failure::Usage(text.into()));
        }
        let mut per_group = HashMap::new();
        for group in &self.resource_groups {
            let Some((name, number)) = group.split_once('=') else {
                let text = format!("say of every group how many replicas it takes, as in {group}=1");
                return Err(Failure::Usage(text));
            };
            let number = number.parse::<u32>().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| {
                Failure::Usage(format!("'{group}' is no number of replicas; write as in {name}=2"))
            })?;
            if per_group.insert(name.to_owned(), number).is_some() {
                return Err(Failure::Usage(format!("group {name} has two numbers of replicas")));
            }
        }
        Ok(Asked { number: 0, groups: Vec::new(), per_group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(replicas: Option<u32>, groups: &[&str]) -> Result<Asked, Failure> {
        let resource_groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Replicas { replicas, resource_groups }.asked()
    }

    #[test]
    fn groups_are_a_list_or_have_numbers() {
        assert!(asked(None, &[]).unwrap().is_nothing());
        let list = asked(Some(2), &["east", "west"]).unwrap();
        assert_eq!((list.number, list.groups.len(), list.per_group.len()), (2, 2, 0));
        let numbers = asked(None, &["east=2", "west=1"]).unwrap();
        let per_group = HashMap::from([("east".to_owned(), 2), ("west".to_owned(), 1)]);
        assert_eq!(numbers, Asked { per_group, ..Asked::default() });
    }

    #[test]
    fn half_said_numbers_are_refused() {
        for (replicas, groups) in [
            (None, &["east=2", "west"][..]),
            (None, &["east=0"]),
            (None, &["east=x"]),
            (None, &["east=1", "east=2"]),
            (Some(3), &["east=3"]),
        ] {
            assert!(matches!(asked(replicas, groups), Err(Failure::Usage(_))), "{groups:?}");
        }
    }
}
