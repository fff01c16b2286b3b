//! What is printed: results on standard output, everything else on standard error.
//!
//! A closed standard output is an error of kind `BrokenPipe` that ends the command quietly; a closed standard error
//! is ignored.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
};

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};

/// Prints results.
pub(crate) fn print(text: impl Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    write!(stdout, "{text}")?;
    stdout.flush()
}

/// Prints results and a line end.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints a JSON document.
pub(crate) fn json(value: &serde_json::Value) -> io::Result<()> {
    line(format_args!("{value:#}"))
}

/// Says something that is no result.
pub(crate) fn note(text: impl Display) {
    let _closed = writeln!(io::stderr(), "{text}");
}

/// Says what went wrong. The text may hold what others wrote, so only its line ends are kept of control characters.
pub(crate) fn error(text: &str) {
    let text = lines_visible(text);
    let mark = if io::stderr().is_terminal() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    note(format_args!("{mark} {text}"));
}

/// A text as one line that cannot move the cursor or change colours: control characters are written as in Rust, such as
/// `\n` and `\u{1b}`.
pub(crate) fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            visible.extend(character.escape_default());
        } else {
            visible.push(character);
        }
    }
    visible
}

/// The same for a text of several lines, whose ends are kept.
pub(crate) fn lines_visible(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// A cell of a list.
pub(crate) enum Field {
    /// Text.
    Text(String),
    /// A number; stands at the right.
    Number(u64),
    /// Something that is as it should be, or is not; coloured on a terminal.
    State(String, bool),
}

impl Field {
    /// Text.
    pub(crate) fn text(text: impl Display) -> Self {
        Self::Text(visible(&text.to_string()))
    }

    /// A number.
    pub(crate) fn number(number: impl Into<u64>) -> Self {
        Self::Number(number.into())
    }

    /// `yes` or `no`.
    pub(crate) fn yes(yes: bool) -> Self {
        Self::State(if yes { "yes" } else { "no" }.to_owned(), yes)
    }
}

impl From<Field> for Cell {
    fn from(field: Field) -> Self {
        match field {
            Field::Text(text) => Self::new(text),
            Field::Number(number) => Self::new(number).set_alignment(CellAlignment::Right),
            Field::State(text, good) => Self::new(text).fg(if good { Color::Green } else { Color::Red }),
        }
    }
}

/// A list with a header, one line per row, without borders; ends with a line end.
pub(crate) fn list(header: &[&str], rows: impl IntoIterator<Item = Vec<Field>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(
        header.iter().map(|title| Cell::new(title.to_uppercase()).add_attribute(Attribute::Bold)),
    );
    for row in rows {
        table.add_row(row.into_iter().map(Cell::from));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// A size for people, such as `12.3 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// A moment, nanoseconds since the Unix epoch, in ISO 8601.
pub(crate) fn time(nanoseconds: u64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(nanoseconds);
    humantime::format_rfc3339_millis(time).to_string()
}

/// `1 row`, `2 rows`.
pub(crate) fn count(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_line_up_and_have_no_borders() {
        let rows = [
            vec![Field::text("lineitem"), Field::number(600_572_u64)],
            vec![Field::text("nation"), Field::number(25_u64)],
        ];
        let text = list(&["name", "rows"], rows);
        assert_eq!(text, "NAME      ROWS\nlineitem  600572\nnation        25\n");
    }

    #[test]
    fn counts_read_as_people_say_them() {
        assert_eq!(
            (count(1, "row"), count(0, "row"), count(2, "row")),
            ("1 row".into(), "0 rows".into(), "2 rows".into())
        );
    }
}
