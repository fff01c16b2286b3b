//! Logs go to standard error, one line per event.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging with a filter such as `info` or `pointsman_broker=debug`. A second call changes nothing, so that
/// tests may call it too. A filter that does not parse falls back to `info` and says so.
pub fn init_logs(filter: &str, format: LogFormat) {
    let (parsed, wrong) = match EnvFilter::try_new(filter) {
        Ok(parsed) => (parsed, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        // A closed standard error is nobody's to hear about; the message would be a panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // An error means that somebody started logging before; theirs stays.
    let _already = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    if let Some(error) = wrong {
        tracing::warn!(filter, error = chain_text(&error), "log filter does not parse; using `info`");
    }
}

fn chain_text(error: &dyn std::error::Error) -> String {
    crate::chain(error)
}
