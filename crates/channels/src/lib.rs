//! gRPC channels to nodes.
//!
//! A [`Channel`] stands for a node's address. It connects with its first call, uses a few connections in turn, pings
//! each of them (also while idle, so that a peer which is stopped but keeps its socket is found out), and connects
//! again at once after a connection ended: a failure is told to the calls that it met and is then forgotten.
//! [`failure`] tells whether a call died with its transport or was answered; [`Channels::probe`] asks the standard
//! health service. Which node to call is not decided here.
//!
//! ```
//! use pointsman_channels::{ChannelSettings, Channels, Failure};
//! use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let channels = Channels::tcp(ChannelSettings::default());
//! let nobody = "http://127.0.0.1:1".parse().unwrap();
//! let mut client = HealthClient::new(channels.channel(&nobody));
//! let refused = client.check(HealthCheckRequest::default()).await.unwrap_err();
//! assert_eq!(pointsman_channels::failure(&refused), Failure::Connect);
//! # });
//! ```

mod channel;
mod connect;
mod connection;
mod failure;
mod own;
mod pool;
mod probe;

pub use channel::{BoxedChannel, Channel};
pub use connect::{Connect, Io, TcpConnect};
pub use failure::{CallError, Failure, failure, transport_text};
pub use own::OwnConnection;
pub use pool::{ChannelSettings, Channels};
pub use probe::{Answer, Verdict};
