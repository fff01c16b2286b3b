//! A YAML document as a tree: maps keep their order, and everything knows its line.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options, Spanned};

use super::ScenarioError;

/// Nested lists and maps beyond this are refused; scenarios need about ten.
const MAX_DEPTH: usize = 40;
/// Enough for scenarios of a hundred thousand segments.
const MAX_NODES: usize = 2_000_000;
/// What anchors and aliases may add; scenarios need none.
const MAX_REPLAYED: usize = 10_000;

/// A value and the line where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// From 1.
    pub(crate) line: u64,
    pub(crate) value: Value,
}

/// What YAML 1.2 knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; no key stands twice.
    Map(Vec<(Node, Node)>),
}

impl Value {
    /// What it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// A scalar as it is written, for paths in errors.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
            Self::Null | Self::List(_) | Self::Map(_) => f.write_str(self.kind()),
        }
    }
}

impl Node {
    /// The value under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|(name, _)| name.value.to_string() == key).map(|(_, value)| value)
    }

    /// Puts another tree over this one: maps at every depth by key, everything else as a whole. A key that becomes null
    /// stays as null.
    pub(crate) fn merge(&mut self, over: &Self) {
        let (Value::Map(entries), Value::Map(changes)) = (&mut self.value, &over.value) else {
            return self.clone_from(over);
        };
        let name = |key: &Self| key.value.to_string();
        let places: BTreeMap<String, usize> = entries.iter().map(|(key, _)| name(key)).zip(0..).collect();
        for (key, change) in changes {
            match places.get(&name(key)).and_then(|at| entries.get_mut(*at)) {
                Some((_, value)) => value.merge(change),
                None => entries.push((key.clone(), change.clone())),
            }
        }
    }
}

/// Reads the one document of a text.
pub(crate) fn parse(text: &str) -> Result<Node, ScenarioError> {
    let root: Node = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        ScenarioError::at(line, "", error)
    })?;
    refuse_duplicates(&root, "")?;
    Ok(root)
}

/// YAML 1.2 without merge keys. What stands twice is refused afterwards, with both lines.
fn options() -> Options {
    let mut options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES, max_events: 2 * MAX_NODES },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        strict_booleans: true,
        with_snippet: false,
    };
    options.alias_limits.max_total_replayed_events = MAX_REPLAYED;
    options
}

/// The tree is at most [`MAX_DEPTH`] deep.
fn refuse_duplicates(node: &Node, path: &str) -> Result<(), ScenarioError> {
    match &node.value {
        Value::List(items) => items.iter().try_for_each(|item| refuse_duplicates(item, path)),
        Value::Map(entries) => {
            let mut lines = BTreeMap::new();
            for (key, value) in entries {
                let name = key.value.to_string();
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some(first) = lines.insert(name, key.line) {
                    let what = format!("the key stands here for the second time; first on line {first}");
                    return Err(ScenarioError::at(key.line, &path, what));
                }
                refuse_duplicates(value, &path)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line().max(1), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (Option<u64>, String) {
        let error = parse(text).unwrap_err();
        (error.line(), error.to_string())
    }

    #[test]
    fn maps_keep_their_order_and_everything_knows_its_line() {
        let root = parse("b: 1\na:\n  - x\n  - {y: null}\n").unwrap();
        let Value::Map(entries) = root.value else { panic!("{root:?}") };
        let keys: Vec<_> = entries.iter().map(|(key, _)| (key.value.to_string(), key.line)).collect();
        assert_eq!(keys, [("b".to_owned(), 1), ("a".to_owned(), 2)]);
        let Value::List(items) = &entries[1].1.value else { panic!("{entries:?}") };
        assert_eq!(items.iter().map(|item| item.line).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn scalars_have_the_types_of_yaml_1_2() {
        for (text, value) in [
            ("no", Value::Text("no".into())),
            ("true", Value::Boolean(true)),
            ("'1'", Value::Text("1".into())),
            ("18446744073709551615", Value::Integer(u64::MAX.into())),
            ("-1", Value::Integer(-1)),
            ("2.5", Value::Float(2.5)),
            ("~", Value::Null),
            ("5s", Value::Text("5s".into())),
        ] {
            assert_eq!(parse(text).unwrap().value, value, "{text}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_with_both_lines() {
        let (line, text) = error("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n");
        assert_eq!(line, Some(5));
        assert!(text.contains("b.c") && text.contains("line 3"), "{text}");
    }

    /// A tree without its lines.
    fn words(node: &Node) -> String {
        match &node.value {
            Value::Map(entries) => {
                let entry = |(key, value): &(Node, Node)| format!("{}: {}", key.value, words(value));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            Value::List(items) => format!("[{}]", items.iter().map(words).collect::<Vec<_>>().join(", ")),
            scalar => scalar.to_string(),
        }
    }

    #[test]
    fn maps_merge_at_every_depth_and_the_rest_is_replaced() {
        for (base, over, merged) in [
            ("{a: {b: 1, c: 2}}", "{a: {c: 3, d: 4}}", "{a: {b: 1, c: 3, d: 4}}"),
            ("{a: [1, 2], b: 1}", "{a: [3]}", "{a: [3], b: 1}"),
            ("{a: {b: 1}}", "{a: null}", "{a: null}"),
            ("{a: null}", "{a: {b: 1}}", "{a: {b: 1}}"),
            ("{a: [1]}", "{a: {b: 1}}", "{a: {b: 1}}"),
        ] {
            let mut tree = parse(base).unwrap();
            tree.merge(&parse(over).unwrap());
            assert_eq!(words(&tree), merged, "{base} and {over}");
        }
    }

    #[test]
    fn exactly_one_document() {
        let (line, text) = error("a: 1\n---\nb: 2\n");
        assert!(line.is_some_and(|line| line >= 2), "{text}");
        assert_eq!(error("a: [1\nb: 2\n").0.map(|line| line >= 1), Some(true));
    }

    #[test]
    fn what_would_eat_memory_or_stack_is_refused() {
        error(&"[".repeat(100_000));
        error(&format!("a: {}1{}", "[".repeat(1000), "]".repeat(1000)));
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for at in 1..10 {
            let line = format!("a{at}: &a{at} [{}]\n", vec![format!("*a{}", at - 1); 10].join(", "));
            laughs.push_str(&line);
        }
        error(&laughs);
    }
}
