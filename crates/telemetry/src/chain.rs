//! Errors with their causes.

use std::error::Error;

/// The error's text, followed by those of its sources, separated by `: `. `Display` of our errors never repeats the
/// source, so logs use this; that of others may, and what the text ends with already is not said again.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text = text + ": " + &said;
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the metastore failed")]
    struct Ours(#[source] Theirs);

    #[derive(Debug, thiserror::Error)]
    #[error("error returned from database: {0}")]
    struct Theirs(#[source] Cause);

    #[derive(Debug, thiserror::Error)]
    #[error("disk full at line 334")]
    struct Cause;

    #[test]
    fn a_cause_is_told_once_also_where_the_text_above_repeats_it() {
        let text = chain(&Ours(Theirs(Cause)));
        assert_eq!(text, "the metastore failed: error returned from database: disk full at line 334");
    }
}
