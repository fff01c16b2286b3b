//! Quotes in CSV: a value that is never closed would swallow all rows behind it.

use std::io::BufRead;

use pointsman_ids::Result;

use super::invalid;

/// Where in a record the scan stands.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// At the first byte of a value: only here a quote opens one.
    Start,
    /// In a value without quotes, or behind the quoted part of one.
    Plain,
    /// Inside quotes.
    Quoted,
    /// Behind a quote inside quotes: it ends them unless another one follows.
    Closing,
}

/// Refuses a text that ends inside a quoted value.
pub(super) fn check(mut csv: impl BufRead, name: impl std::fmt::Display) -> Result<()> {
    let (mut state, mut line, mut opened) = (State::Start, 1_u64, 1);
    loop {
        let bytes = csv.fill_buf().map_err(|error| invalid(&name, error))?;
        if bytes.is_empty() {
            break;
        }
        for byte in bytes {
            state = match (state, byte) {
                (State::Start, b'"') => {
                    opened = line;
                    State::Quoted
                }
                (State::Quoted, b'"') => State::Closing,
                (State::Closing, b'"') | (State::Quoted, _) => State::Quoted,
                (_, b',' | b'\n' | b'\r') => State::Start,
                _ => State::Plain,
            };
            line += u64::from(*byte == b'\n');
        }
        let read = bytes.len();
        csv.consume(read);
    }
    if state == State::Quoted {
        return Err(invalid(name, format!("line {opened}: the quoted value that begins here has no end")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_quote_is_named_by_its_line() {
        for good in
            ["a,b\n1,\"x\"\n", "a\n\"x\"\"y\"\n", "a\n5\" pipe\n", "a\n\"x\ny\"\n\"\"\n", "", "a\n\"x\""]
        {
            check(good.as_bytes(), "t").expect(good);
        }
        for (bad, line) in [("a\n1\n\"x\n2\n3\n", 3), ("a\n\"x\ny\"\n\"z\"\"\n", 4), ("\"", 1)] {
            let error = check(bad.as_bytes(), "t").expect_err(bad);
            assert!(error.message().contains(&format!("line {line}:")), "{error}");
        }
    }
}
