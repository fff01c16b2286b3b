//! Errors with their causes.

use std::{error::Error, fmt::Write};

/// The error's text, followed by those of its sources, separated by `: `. `Display` of our errors never repeats the
/// source, so logs use this.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _infallible = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
