//! Figures as scenarios write them: `name` or `name{label="value",other="value"}`.

use std::fmt;

use serde_json::Value;

/// Name, and labels with their values.
pub(crate) type Parsed<'a> = (&'a str, Vec<(String, String)>);

/// Reads a name with or without labels.
pub(crate) fn parse(text: &str) -> Result<Parsed<'_>, String> {
    let (name, rest) = text.split_at(text.find('{').unwrap_or(text.len()));
    let labels = if rest.is_empty() { Vec::new() } else { labels(rest)? };
    Ok((name.trim(), labels))
}

/// `{label="value",other="value"}`; a backslash takes the next character as it is.
fn labels(text: &str) -> Result<Vec<(String, String)>, String> {
    let bad = || format!("'{text}' is not of the form {{label=\"value\",other=\"value\"}}");
    let mut rest = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(bad)?.trim();
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once('=').ok_or_else(bad)?;
        let quoted = quoted.trim_start().strip_prefix('"').ok_or_else(bad)?;
        let (value, after) = unquote(quoted).ok_or_else(bad)?;
        labels.push((label.trim().to_owned(), value));
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return Err(bad()),
        };
    }
    Ok(labels)
}

/// The text up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// Writes a series as it is read.
pub(crate) fn write<'a>(
    to: &mut impl fmt::Write,
    name: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) -> fmt::Result {
    to.write_str(name)?;
    let mut open = '{';
    for (label, value) in labels {
        write!(to, "{open}{label}={value:?}")?;
        open = ',';
    }
    if open == ',' { to.write_char('}') } else { Ok(()) }
}

/// A number without a needless fraction; `None` is null.
pub(crate) fn number(value: Option<f64>) -> Value {
    let Some(value) = value else { return Value::Null };
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return Value::from(value as i64);
    }
    Value::from(value)
}
