//! The query among the options of its session, where rules and handlers of the planner find it.

use std::{any::Any, sync::Arc};

use datafusion::{
    common::{
        config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions},
        not_impl_err,
    },
    error::Result,
};

use crate::scans::Scans;

/// What they know of it.
#[derive(Clone, Debug)]
pub(crate) struct QueryScans {
    pub(crate) scans: Arc<Scans>,
    /// Whether the query unites relations, so that one stage may read several.
    pub(crate) unites: bool,
}

impl QueryScans {
    /// Those of the query whose options these are.
    pub(crate) fn of(options: &ConfigOptions) -> Option<&Self> {
        options.extensions.get::<Self>()
    }

    /// Tasks of the stages that scan; `None` when upper stages do not run on nodes.
    pub(crate) fn spread(&self) -> Option<usize> {
        (!self.scans.gather()).then(|| self.scans.assignment().slots.len())
    }
}

impl ConfigExtension for QueryScans {
    const PREFIX: &'static str = "pointsman";
}

impl ExtensionOptions for QueryScans {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        not_impl_err!("there is no option '{key}'")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}
