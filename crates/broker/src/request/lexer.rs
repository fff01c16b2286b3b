//! Just enough of SQL's lexical rules to find options around a statement: quotes and comments.

/// One lexical piece at the front of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A run of letters, digits, `_`, `.`, `+` and `-`, or of characters beyond ASCII.
    Word(&'a str),
    /// A text in single, double or back quotes, quotes included; open-ended when the closing one is missing.
    Quoted(&'a str),
    /// Any other single character.
    Symbol(char),
}

/// Takes white space and comments off the front.
pub(super) fn skip_blank(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        if let Some(comment) = text.strip_prefix("--") {
            text = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if text.starts_with("/*") {
            text = skip_block(text);
        } else {
            return text;
        }
    }
}

/// Takes a block comment off the front; block comments nest.
fn skip_block(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(at) = rest.find(['/', '*']) {
        rest = &rest[at..];
        if let Some(inside) = rest.strip_prefix("/*") {
            depth += 1;
            rest = inside;
        } else if let Some(outside) = rest.strip_prefix("*/") {
            depth = depth.saturating_sub(1);
            rest = outside;
            if depth == 0 {
                return rest;
            }
        } else {
            rest = &rest[1..];
        }
    }
    ""
}

/// Takes the next token off the front, blank before it included; `None` at the end of the text.
pub(super) fn next(text: &str) -> Option<(Token<'_>, &str)> {
    let text = skip_blank(text);
    let first = text.chars().next()?;
    if matches!(first, '\'' | '"' | '`') {
        let (quoted, rest) = text.split_at(quoted_len(text, first));
        return Some((Token::Quoted(quoted), rest));
    }
    if is_word(first) {
        let end = word_len(text);
        let (word, rest) = text.split_at(end);
        return Some((Token::Word(word), rest));
    }
    Some((Token::Symbol(first), &text[first.len_utf8()..]))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-') || !c.is_ascii()
}

/// A word ends where a comment begins.
fn word_len(text: &str) -> usize {
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    text[..end].find("--").filter(|at| *at > 0).unwrap_or(end)
}

/// Length of the quoted text at the front. A doubled quote stands for one and does not end it.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(found) = text[at..].find(quote) {
        at += found + 1;
        if !text[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// The value of a word or of a quoted text, without quotes.
pub(super) fn unquote(text: &str) -> String {
    let text = text.trim();
    for quote in ['\'', '"', '`'] {
        let inside = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside {
            return inside.replace(&format!("{quote}{quote}"), &quote.to_string());
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(mut text: &str) -> Vec<Token<'_>> {
        let mut found = vec![];
        while let Some((token, rest)) = next(text) {
            found.push(token);
            text = rest;
        }
        found
    }

    #[test]
    fn comments_and_blanks_are_between_tokens() {
        let text = " /* a /* nested */ b */ SELECT -- to the end\n 'it''s;' ; \"a\"\"b\"--end";
        let expected = [
            Token::Word("SELECT"),
            Token::Quoted("'it''s;'"),
            Token::Symbol(';'),
            Token::Quoted("\"a\"\"b\""),
        ];
        assert_eq!(tokens(text), expected);
    }

    #[test]
    fn open_ends_and_odd_texts_end() {
        for text in ["'", "\"a", "/*", "--", "'é", "é'", "/", "*/", "a--", "''''", "\0", "/* * /"] {
            let _some = tokens(text);
        }
    }

    #[test]
    fn quotes_come_off() {
        assert_eq!(unquote(" 'a''b' "), "a'b");
        assert_eq!(unquote("'"), "'");
        assert_eq!(unquote("x"), "x");
    }
}
