//! Splits a text into statements.

use datafusion::sql::sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, Tokenizer},
};

use crate::Failure;

/// The statements of a text, without the `;` between them. Semicolons in strings, quoted names and comments part
/// nothing; pieces without a token are left out.
///
/// # Errors
/// [`Failure::Usage`] with line and column when a string, a quoted name or a comment has no end.
pub fn split(text: &str) -> Result<Vec<&str>, Failure> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().map_err(|error| {
        let Location { line, column } = error.location;
        Failure::Usage(format!(
            "the SQL text cannot be read, line {line}, column {column}: {}",
            error.message
        ))
    })?;
    let mut pieces = Vec::new();
    let mut position = Position { text, at: 0, line: 1, column: 1 };
    let (mut start, mut filled) = (0, false);
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = position.advance_to(token.span.start);
                if filled {
                    pieces.push(text[start..end].trim());
                }
                (start, filled) = (end + 1, false);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => filled = true,
        }
    }
    if filled {
        pieces.push(text[start..].trim());
    }
    Ok(pieces)
}

/// The texts to send, one after the other: each statement, led by every `SET name = value` that stands before it.
/// So a setting holds to the end of the text, as it would in a session.
///
/// # Errors
/// As [`split`].
pub fn statements(text: &str) -> Result<Vec<String>, Failure> {
    let mut settings = String::new();
    let mut statements = Vec::new();
    for piece in split(text)? {
        if is_setting(piece) {
            settings.push_str(piece);
            settings.push_str("; ");
        } else {
            statements.push(format!("{settings}{piece}"));
        }
    }
    Ok(statements)
}

fn is_setting(piece: &str) -> bool {
    let tokens = Tokenizer::new(&GenericDialect {}, piece).tokenize().unwrap_or_default();
    let first = tokens.into_iter().find(|token| !matches!(token, Token::Whitespace(_)));
    matches!(first, Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("set"))
}

/// A walk through a text, counted as the tokenizer counts: lines and characters, from 1.
struct Position<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    column: u64,
}

impl Position<'_> {
    /// The byte that a location further on stands for.
    fn advance_to(&mut self, to: Location) -> usize {
        for character in self.text[self.at..].chars() {
            if (self.line, self.column) >= (to.line, to.column) {
                break;
            }
            self.at += character.len_utf8();
            (self.line, self.column) =
                if character == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_semicolons_between_statements_part() {
        let text = "SELECT 'a;b', \"c;d\" -- e;f\n/* g;h */ ; SELECT 2;\n;; SELECT 'ä;' ;SELECT 4";
        assert_eq!(
            split(text).unwrap(),
            ["SELECT 'a;b', \"c;d\" -- e;f\n/* g;h */", "SELECT 2", "SELECT 'ä;'", "SELECT 4"]
        );
    }

    #[test]
    fn comments_alone_are_no_statement() {
        assert_eq!(split("-- nothing;\n ; /* at all */").unwrap(), [] as [&str; 0]);
        assert_eq!(split("").unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn quotes_inside_strings_are_doubled() {
        assert_eq!(split("SELECT 'it''s; so'; SELECT 2").unwrap(), ["SELECT 'it''s; so'", "SELECT 2"]);
    }

    #[test]
    fn a_string_without_end_is_found_before_anything_is_sent() {
        let error = split("SELECT 1;\nSELECT 'oops").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn settings_hold_for_what_follows() {
        let text = "SELECT 1; SET timeoutMs = 5; -- a\nset sampler = 'x'; SELECT 2; SELECT 3";
        assert_eq!(
            statements(text).unwrap(),
            [
                "SELECT 1",
                "SET timeoutMs = 5; -- a\nset sampler = 'x'; SELECT 2",
                "SET timeoutMs = 5; -- a\nset sampler = 'x'; SELECT 3"
            ]
        );
    }
}
