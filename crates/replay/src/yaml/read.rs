//! Typed values out of a tree.

use std::{
    fmt::{self, Display},
    str::FromStr,
    time::Duration,
};

use super::{Node, ScenarioError, Value};

/// A value, the line to name in errors about it, and the way to it.
#[derive(Clone, Debug)]
pub(crate) struct At<'a> {
    node: &'a Node,
    line: u64,
    path: String,
}

impl<'a> At<'a> {
    /// The whole document.
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { node, line: node.line, path: String::new() }
    }

    /// A tree that stands under `path`, although it was put together from several places.
    pub(crate) fn rooted(node: &'a Node, path: &str) -> Self {
        Self { node, line: node.line, path: path.to_owned() }
    }

    /// The tree itself.
    pub(crate) fn node(&self) -> &'a Node {
        self.node
    }

    fn field(&self, key: &'a Node, node: &'a Node) -> Self {
        let path =
            if self.path.is_empty() { key.value.to_string() } else { format!("{}.{}", self.path, key.value) };
        Self { node, line: key.line, path }
    }

    /// The line of its key; in a list, its own.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// An error about it.
    pub(crate) fn error(&self, what: impl Display) -> ScenarioError {
        ScenarioError::at(self.line, &self.path, what)
    }

    fn wrong(&self, wanted: &str) -> ScenarioError {
        self.error(format_args!("{} where {wanted} is wanted", self.node.value.kind()))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.node.value == Value::Null
    }

    /// Whether it is this very word.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.node.value, Value::Text(text) if text == word)
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    pub(crate) fn boolean(&self) -> Result<bool, ScenarioError> {
        match self.node.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(self.wrong("true or false")),
        }
    }

    pub(crate) fn text(&self) -> Result<&'a str, ScenarioError> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong("a text")),
        }
    }

    /// A whole number in the range of `T`.
    pub(crate) fn integer<T: TryFrom<i128>>(&self) -> Result<T, ScenarioError> {
        match self.node.value {
            Value::Integer(value) => {
                T::try_from(value).map_err(|_| self.error(format_args!("{value} is out of range")))
            }
            _ => Err(self.wrong("a whole number")),
        }
    }

    /// Any number.
    pub(crate) fn number(&self) -> Result<f64, ScenarioError> {
        match self.node.value {
            #[expect(clippy::cast_precision_loss, reason = "more digits than a factor or a gauge ever has")]
            Value::Integer(value) => Ok(value as f64),
            Value::Float(value) => Ok(value),
            _ => Err(self.wrong("a number")),
        }
    }

    /// A duration such as `250ms`, `5s`, `10m` or `1h`.
    pub(crate) fn duration(&self) -> Result<Duration, ScenarioError> {
        let Value::Text(text) = &self.node.value else {
            return Err(self.wrong("a duration such as 250ms, 5s, 10m or 1h"));
        };
        humantime::parse_duration(text).map_err(|error| {
            self.error(format_args!("'{text}' is no duration such as 250ms, 5s, 10m or 1h: {error}"))
        })
    }

    /// A text that a type reads.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self) -> Result<T, ScenarioError> {
        self.text()?.parse().map_err(|error| self.error(error))
    }

    /// What a type reads where the file says nothing.
    pub(crate) fn literal<T: FromStr<Err: Display>>(&self, text: &str) -> Result<T, ScenarioError> {
        text.parse().map_err(|error| self.error(error))
    }

    /// One of these words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, ScenarioError> {
        let text = self.text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.error(format_args!("'{text}' is none of {}", known.join(", ")))
        })
    }

    /// The items of a list.
    pub(crate) fn list(&self) -> Result<Vec<Self>, ScenarioError> {
        let Value::List(items) = &self.node.value else { return Err(self.wrong("a list")) };
        let item = |(at, node): (usize, &'a Node)| Self {
            node,
            line: node.line,
            path: format!("{}[{at}]", self.path),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The entries of a map whose keys are free, in the order of the file: key, value. Errors about either name the key.
    pub(crate) fn entries(&self) -> Result<Vec<(Self, Self)>, ScenarioError> {
        let Value::Map(entries) = &self.node.value else { return Err(self.wrong("a map")) };
        let entry = |(key, value): &'a (Node, Node)| {
            let value = self.field(key, value);
            (Self { node: key, ..value.clone() }, value)
        };
        Ok(entries.iter().map(entry).collect())
    }

    /// The fields of a map whose keys are known. Take what there may be, then call [`Fields::finish`].
    pub(crate) fn fields(&self) -> Result<Fields<'a>, ScenarioError> {
        let Value::Map(entries) = &self.node.value else { return Err(self.wrong("a map")) };
        Ok(Fields { map: self.clone(), left: entries.iter().collect(), known: Vec::new() })
    }
}

/// Fields of a map that are still to be read.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    map: At<'a>,
    left: Vec<&'a (Node, Node)>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The map itself, for errors.
    pub(crate) fn map(&self) -> &At<'a> {
        &self.map
    }

    /// The field, if it is there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<At<'a>> {
        self.known.push(key);
        let at =
            self.left.iter().position(|(name, _)| matches!(&name.value, Value::Text(text) if text == key))?;
        let (name, value) = self.left.remove(at);
        Some(self.map.field(name, value))
    }

    /// The field, which must be there.
    pub(crate) fn require(&mut self, key: &'static str) -> Result<At<'a>, ScenarioError> {
        self.take(key).ok_or_else(|| self.map.error(format_args!("the key '{key}' is missing")))
    }

    /// The field, read, if it is there.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&At<'a>) -> Result<T, ScenarioError>,
    ) -> Result<Option<T>, ScenarioError> {
        self.take(key).map(|at| read(&at)).transpose()
    }

    /// The field, read, if it is there and not null.
    pub(crate) fn given<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&At<'a>) -> Result<T, ScenarioError>,
    ) -> Result<Option<T>, ScenarioError> {
        self.take(key).filter(|at| !at.is_null()).map(|at| read(&at)).transpose()
    }

    /// Refuses what is left.
    pub(crate) fn finish(self) -> Result<(), ScenarioError> {
        let Some((key, value)) = self.left.first() else { return Ok(()) };
        Err(self
            .map
            .field(key, value)
            .error(format_args!("unknown key; known here: {}", self.known.join(", "))))
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::parse, *};

    fn read<T>(text: &str, read: impl FnOnce(&At<'_>) -> Result<T, ScenarioError>) -> Result<T, String> {
        let root = parse(text).unwrap();
        let mut fields = At::root(&root).fields().unwrap();
        let value = fields.require("key").and_then(|at| read(&at)).map_err(|error| error.to_string())?;
        fields.finish().map_err(|error| error.to_string())?;
        Ok(value)
    }

    #[test]
    fn a_wrong_type_names_line_key_and_what_is_wanted() {
        assert_eq!(
            read("\nkey: 5", |at| at.text().map(str::to_owned)),
            Err(":2: key: a number where a text is wanted".into())
        );
        assert_eq!(
            read("key: '5'", |at| at.integer::<u64>()),
            Err(":1: key: a text where a whole number is wanted".into())
        );
        assert_eq!(
            read("key: 1.5", |at| at.integer::<u64>()),
            Err(":1: key: a number where a whole number is wanted".into())
        );
        assert_eq!(read("key: -1", |at| at.integer::<u64>()), Err(":1: key: -1 is out of range".into()));
        assert_eq!(
            read("key: yes", |at| at.boolean()),
            Err(":1: key: a text where true or false is wanted".into())
        );
        assert_eq!(
            read("key: [1]", |at| at.list()?[0].text().map(str::to_owned)),
            Err(":1: key[0]: a number where a text is wanted".into())
        );
    }

    #[test]
    fn an_unknown_key_is_told_with_those_that_are_known() {
        assert_eq!(
            read("key: 5\nkye: 6", |at| at.integer::<u64>()),
            Err(":2: kye: unknown key; known here: key".into())
        );
        assert_eq!(read("kye: 6", |at| at.integer::<u64>()), Err(":1: the key 'key' is missing".into()));
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(read("key: 250ms", |at| at.duration()), Ok(Duration::from_millis(250)));
        assert_eq!(read("key: 1h", |at| at.duration()), Ok(Duration::from_secs(3600)));
        for text in ["5", "'5'", "5 parsecs", "-1s", "''", "99999999999999999999h"] {
            assert!(read(&format!("key: {text}"), |at| at.duration()).is_err(), "{text}");
        }
    }

    #[test]
    fn words_list_the_others() {
        let words = [("on", 1), ("off", 2)];
        assert_eq!(read("key: off", |at| at.word(&words)), Ok(2));
        assert_eq!(read("key: of", |at| at.word(&words)), Err(":1: key: 'of' is none of on, off".into()));
    }
}
