//! Settings of the programs: one TOML file, overlaid by environment variables, checked before anything starts.
//!
//! The only reader of the environment. Everything is parsed from values, so that tests need neither files nor
//! variables; unknown keys and values out of range are errors that name the key.
//!
//! A key such as `broker.query.timeout` stands in the file as `timeout` under `[broker.query]`, and in the environment
//! as `POINTSMAN_BROKER__QUERY__TIMEOUT`. Durations are texts such as `250ms`, `5s` or `10m`, sizes such as `16MiB`.
//!
//! ```
//! use pointsman_settings::BrokerSettings;
//!
//! let settings = BrokerSettings::load("[broker]\nname = 'b1'", [("POINTSMAN_BROKER__QUERY__TIMEOUT", "3s")])?;
//! assert_eq!(settings.query.timeout.as_secs(), 3);
//! assert!(BrokerSettings::load("[broker]\nnmae = 'b1'", [("HOME", "/")]).is_err());
//! # Ok::<(), pointsman_settings::SettingsError>(())
//! ```

mod balance;
mod broker;
mod bytes;
mod coordinator;
mod load;
mod node;
mod secret;

pub use balance::{BalanceSettings, Balancer};
pub use broker::{
    AdaptiveKind, AdaptiveSettings, BrokerSettings, ChannelSettings, DetectorKind, FailOpenSettings,
    FailureDetectorSettings, NodeCallSettings, QuerySettings, RemoteClusterSettings, ShardClientSettings,
};
pub use bytes::Bytes;
pub use coordinator::CoordinatorSettings;
pub use load::{SettingsError, environment, object_store_environment};
pub use node::NodeSettings;
pub use secret::SecretUrl;
