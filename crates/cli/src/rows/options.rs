//! What all requests by shard have in common on the command line.

use std::time::Duration;

use clap::Args;
use pointsman_proto::broker::v1::RequestOptions;

use crate::{duration, sql::Format};

/// Options of requests by shard.
#[derive(Clone, Debug, Args)]
pub(crate) struct RowsArgs {
    /// Let only this resource group answer
    #[arg(long, value_name = "GROUP")]
    pub(crate) resource_group: Option<String>,
    /// Ask this resource group first, then any that may answer [default: the broker's]
    #[arg(long, value_name = "GROUP")]
    pub(crate) prefer_group: Option<String>,
    /// How long it may take, such as 5s [default: the broker's]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Form of printed rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Print one JSON document with the rows and who answered
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

impl RowsArgs {
    /// The options as message.
    pub(crate) fn message(&self) -> RequestOptions {
        let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        RequestOptions {
            resource_group: self.resource_group.clone().unwrap_or_default(),
            timeout_ms: self.timeout.map_or(0, millis),
            preferred_group: self.prefer_group.clone().unwrap_or_default(),
        }
    }
}
