//! Names that people give to things. All share one rule, so that a name is safe in a path, a URL, a metric label
//! and SQL: 1 to 128 bytes of letters, digits, `_`, `-`, `.` and visible characters beyond ASCII, beginning with none of
//! `-` and `.`. Names order by the bytes of their UTF-8.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use crate::{Error, ErrorCode};

/// Longest name in bytes: fits every file system with room for a suffix.
const MAX_LEN: usize = 128;

fn check(kind: &'static str, text: &str) -> Result<(), Error> {
    let refuse = |why: &str| {
        Err(Error::new(
            ErrorCode::ParameterInvalid,
            format!(
                "'{}' is not a {kind} name: {why} (1 to {MAX_LEN} bytes of letters, digits, _ - . and visible characters beyond ASCII, not \
                 beginning with - or .)",
                text.chars().take(MAX_LEN).collect::<String>().escape_debug()
            ),
        ))
    };
    if text.is_empty() {
        return refuse("it is empty");
    }
    if text.len() > MAX_LEN {
        return refuse("it is too long");
    }
    if text.starts_with(['-', '.']) || !text.chars().all(is_allowed) {
        return refuse("it has a character that is not allowed");
    }
    Ok(())
}

fn is_allowed(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    }
    // Two names that look the same, or a text that runs backwards, would mislead people.
    let is_unseen = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !(is_unseen || c.is_control() || c.is_whitespace())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text that follows the rule for names.
            ///
            /// # Errors
            /// `parameter_invalid` naming the text and the rule.
            pub fn new(text: &str) -> Result<Self, Error> {
                check($kind, text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self, Error> {
                Self::new(&text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// One cluster: a coordinator with its nodes.
    ClusterName, "cluster"
}
name! {
    /// A node, stable over restarts and unique inside its cluster.
    NodeName, "node"
}
name! {
    /// A collection; what SQL calls a table.
    CollectionName, "collection"
}
name! {
    /// A partition, unique inside its collection.
    PartitionName, "partition"
}
name! {
    /// A shard, unique inside its collection.
    ShardName, "shard"
}
name! {
    /// A segment, unique inside its collection.
    SegmentName, "segment"
}
name! {
    /// A resource group.
    GroupName, "resource group"
}

impl GroupName {
    /// The group that always exists and takes every node that no other group wants.
    pub const DEFAULT: &'static str = "default";

    /// The default group's name.
    pub fn default_group() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl PartitionName {
    /// The partition of segments that were pushed without one.
    pub const DEFAULT: &'static str = "default";
}

/// A node among several clusters: nodes of one name in two clusters are two nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// The node's cluster.
    pub cluster: ClusterName,
    /// The node's name inside it.
    pub node: NodeName,
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_what_could_leave_a_directory() {
        for text in
            ["", "..", "/etc", "a/b", "a b", ".hidden", "-rf", "a\u{2028}b", "a\u{202e}b", "a\0", "a%2f"]
        {
            assert_eq!(SegmentName::new(text).unwrap_err().code(), ErrorCode::ParameterInvalid, "{text:?}");
        }
        for text in ["größe", "数据", "é", "𝒳-1", "_a.b"] {
            assert!(SegmentName::new(text).is_ok(), "{text}");
        }
        assert!(SegmentName::new(&"x".repeat(129)).is_err());
        assert!(SegmentName::new(&"ä".repeat(65)).is_err(), "bytes count");
        assert!(SegmentName::new(&"x".repeat(128)).is_ok());
    }

    #[test]
    fn a_message_names_the_kind_and_the_text() {
        let message = NodeName::new("a b").unwrap_err().to_string();
        assert!(message.contains("'a b' is not a node name"), "{message}");
    }

    proptest! {
        #[test]
        fn takes_any_text_without_panic_and_keeps_what_it_takes(text in any::<String>()) {
            if let Ok(name) = CollectionName::new(&text) {
                prop_assert_eq!(name.as_str(), text.as_str());
            }
        }
    }
}
