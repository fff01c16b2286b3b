//! One Prometheus registry per process.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

/// Buckets of every histogram, in seconds: 1 ms to 60 s. Without buckets the exporter would render summaries, which
/// cannot be added up over processes.
const BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How often histograms are drained when nobody scrapes; the exporter grows without.
const UPKEEP: Duration = Duration::from_secs(5);

/// Why metrics could not be started.
#[derive(Debug, thiserror::Error)]
#[error("metrics could not be started")]
pub struct MetricsError(#[from] BuildError);

/// The process's metrics.
#[derive(Clone, Debug)]
pub struct MetricsHandle(PrometheusHandleDebug);

#[derive(Clone)]
struct PrometheusHandleDebug(PrometheusHandle);

impl std::fmt::Debug for PrometheusHandleDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrometheusHandle")
    }
}

impl MetricsHandle {
    /// Everything in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.0.render()
    }
}

/// Installs the recorder of this process and a task that keeps it small. Needs a tokio runtime; once per process.
///
/// # Errors
/// When a recorder is installed already.
pub fn init_metrics() -> Result<MetricsHandle, MetricsError> {
    let handle = PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()?;
    let upkeep = handle.clone();
    crate::spawn("metrics-upkeep", async move {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(MetricsHandle(PrometheusHandleDebug(handle)))
}
