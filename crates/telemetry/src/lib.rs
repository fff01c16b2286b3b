//! Start-up of logs and metrics, and error chains in logs. Knows no word of the domain.
//!
//! ```
//! let error = std::io::Error::other("disk on fire");
//! assert_eq!(pointsman_telemetry::chain(&error), "disk on fire");
//! ```

mod chain;
mod logs;
mod metrics;
mod spawn;

pub use chain::chain;
pub use logs::{LogFormat, init_logs};
pub use metrics::{MetricsError, MetricsHandle, init_metrics};
pub use spawn::spawn;
