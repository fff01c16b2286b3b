//! Takes `SET k = v;` and `OPTION(k = v, ...)` off a statement.

use pointsman_ids::{Error, ErrorCode, Result};

use super::lexer::{Token, next, skip_blank, unquote};

/// A statement and the options around it, in the order in which they stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// The statement alone.
    pub(super) sql: &'a str,
    /// From `SET`.
    pub(super) leading: Vec<(String, String)>,
    /// From `OPTION(...)`.
    pub(super) trailing: Vec<(String, String)>,
}

/// Splits a text into a statement and the options around it.
///
/// # Errors
/// `sql_invalid` for a text that begins with `SET` and does not go on with `name = value;`.
pub(super) fn split(text: &str) -> Result<Parts<'_>> {
    let mut leading = vec![];
    let mut rest = text;
    while let Some((option, after)) = set(rest)? {
        leading.push(option);
        rest = after;
    }
    let (sql, trailing) = option_clause(rest).unwrap_or((rest, vec![]));
    Ok(Parts { sql: sql.trim(), leading, trailing })
}

/// An option, and what stands behind it.
type Taken<'a> = ((String, String), &'a str);

/// Takes one `SET k = v;` off the front; `None` when there is none.
fn set(text: &str) -> Result<Option<Taken<'_>>> {
    let Some(after) = word(text, "SET") else { return Ok(None) };
    let taken = assignment(after).and_then(|(option, rest)| Some((option, symbol(rest, ';')?)));
    taken.map(Some).ok_or_else(|| {
        let wrong =
            "SET before a statement must read `SET name = value;`, with the value as a word or in quotes";
        Error::new(ErrorCode::SqlInvalid, wrong)
    })
}

/// Takes `k = v` off the front.
fn assignment(text: &str) -> Option<Taken<'_>> {
    let (key, rest) = value(text)?;
    let (value, rest) = value(symbol(rest, '=')?)?;
    Some(((key, value), rest))
}

fn word<'a>(text: &'a str, wanted: &str) -> Option<&'a str> {
    match next(text)? {
        (Token::Word(word), rest) if word.eq_ignore_ascii_case(wanted) => Some(rest),
        _ => None,
    }
}

fn symbol(text: &str, wanted: char) -> Option<&str> {
    match next(text)? {
        (Token::Symbol(symbol), rest) if symbol == wanted => Some(rest),
        _ => None,
    }
}

/// Takes a word or a quoted text off the front. A bare value may be several words joined by `|`, as in `2|0`.
fn value(text: &str) -> Option<(String, &str)> {
    match next(text)? {
        (Token::Quoted(quoted), rest) => Some((unquote(quoted), rest)),
        (Token::Word(word), mut rest) => {
            let mut value = word.to_owned();
            while let Some((Token::Word(word), after)) = symbol(rest, '|').and_then(next) {
                value = format!("{value}|{word}");
                rest = after;
            }
            Some((value, rest))
        }
        (Token::Symbol(_), _) => None,
    }
}

/// Takes a clause `OPTION(k = v, ...)` off the end, semicolons behind it included; `None` when there is none.
fn option_clause(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    const WORD: &str = "OPTION";
    let bytes = text.as_bytes();
    let last = bytes.len().checked_sub(WORD.len())?;
    let at = (0..=last).rev().find(|at| bytes[*at..at + WORD.len()].eq_ignore_ascii_case(WORD.as_bytes()))?;
    let options = clause_options(&text[at + WORD.len()..])?;
    // The clause must be code: the tokens of the text must reach it without passing over it.
    let mut rest = text;
    while rest.len() > text.len() - at {
        rest = skip_blank(next(rest)?.1);
    }
    (rest.len() == text.len() - at && at > 0).then(|| (&text[..at], options))
}

/// Reads `(k = v, ...)` up to the end of the text.
fn clause_options(text: &str) -> Option<Vec<(String, String)>> {
    let mut options = vec![];
    let mut rest = symbol(text, '(')?;
    loop {
        let (option, after) = assignment(rest)?;
        options.push(option);
        rest = match symbol(after, ',') {
            Some(next) => next,
            None => break rest_is_empty(symbol(after, ')')?).then_some(options),
        };
    }
}

fn rest_is_empty(mut text: &str) -> bool {
    while let Some(rest) = symbol(text, ';') {
        text = rest;
    }
    skip_blank(text).is_empty()
}

/// Reads `k=v` pairs with `separator` between them; blank ones are skipped.
///
/// # Errors
/// `parameter_invalid` naming the piece that is no pair.
pub(super) fn option_list(text: &str, separator: char) -> Result<Vec<(String, String)>> {
    let mut pairs = vec![];
    for piece in pieces(text, separator) {
        let piece = piece.trim();
        if piece.is_empty() {
            continue;
        }
        let (key, value) = piece.split_once('=').ok_or_else(|| {
            let text = format!("`queryOptions` has '{}': write name=value;name=value", piece.escape_debug());
            Error::new(ErrorCode::ParameterInvalid, text)
        })?;
        pairs.push((unquote(key), unquote(value)));
    }
    Ok(pairs)
}

/// Splits at `separator` outside of quotes.
fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut quote = None;
    text.split(move |c| {
        match quote {
            Some(open) if open == c => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c == separator
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn set_prefixes_come_off_the_front() {
        let parts = split("set a = 'x;y'; /* c */ SET \"b\"=2|0 ;\n SELECT 1; ").unwrap();
        assert_eq!(parts.sql, "SELECT 1;");
        assert_eq!(parts.leading, pairs(&[("a", "x;y"), ("b", "2|0")]));
    }

    #[test]
    fn a_set_that_is_none_is_refused() {
        for text in
            ["SET", "SET a", "SET a = ;SELECT 1", "SET a = 1", "SET a 1; SELECT 1", "SET a = 1 2; SELECT 1"]
        {
            assert_eq!(split(text).unwrap_err().code(), ErrorCode::SqlInvalid, "{text}");
        }
        assert_eq!(split("SETTLE").unwrap().sql, "SETTLE");
    }

    #[test]
    fn option_clauses_come_off_the_end() {
        let parts = split("SELECT 1 option ( a = 'v' , b=2|0 ) ; ").unwrap();
        assert_eq!(parts.sql, "SELECT 1");
        assert_eq!(parts.trailing, pairs(&[("a", "v"), ("b", "2|0")]));
    }

    #[test]
    fn what_only_looks_like_an_option_clause_stays() {
        for text in [
            "SELECT 'OPTION(a=1)'",
            "SELECT 1 -- OPTION(a=1)",
            "SELECT 1 /* OPTION(a=1) */",
            "SELECT 'x -- ' AS a -- OPTION(a=1)",
            "SELECT option(a)",
            "SELECT option(a=1) FROM t",
            "SELECT 1 ADOPTION(a=1)",
            "SELECT 'open OPTION(a=1)",
            "OPTION(a=1)",
        ] {
            let parts = split(text).unwrap();
            assert_eq!((parts.sql, parts.trailing), (text, vec![]));
        }
    }

    #[test]
    fn option_lists_keep_separators_in_quotes() {
        let list = option_list("a=1; b='x;y=z' ;;c=", ';').unwrap();
        assert_eq!(list, pairs(&[("a", "1"), ("b", "x;y=z"), ("c", "")]));
        assert!(option_list("a", ';').unwrap_err().message().contains("'a'"));
    }

    #[test]
    fn any_text_is_taken_without_a_panic() {
        for text in
            ["", ";", "é OPTION(", "OPTION", "ſET a = 1;", "SELECT é OPTION(é='ü')", "\0", "''''OPTION(a=b)"]
        {
            let _parts = split(text);
            let _list = option_list(text, ';');
        }
    }
}
