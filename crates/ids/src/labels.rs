//! Labels of nodes, which filters of resource groups read.

use std::collections::BTreeMap;

/// Most pairs of a filter, and most labels of a node.
pub const MAX_LABELS: usize = 64;
/// Longest label or value of one, bytes.
pub const MAX_LABEL_BYTES: usize = 256;

/// Whether labels of a node, or pairs of a filter, stay within bounds.
///
/// # Errors
/// What is wrong, to be said after whose they are.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.len() > MAX_LABELS {
        return Err(format!("has {} labels; at most {MAX_LABELS}", labels.len()));
    }
    if labels.contains_key("") {
        return Err("has a label without a name".into());
    }
    match labels.iter().find(|(label, value)| label.len().max(value.len()) > MAX_LABEL_BYTES) {
        Some((label, _)) => {
            let shown: String = label.chars().take(32).collect();
            let shown = shown.escape_debug();
            Err(format!("has a label '{shown}' whose name or value is longer than {MAX_LABEL_BYTES} bytes"))
        }
        None => Ok(()),
    }
}
