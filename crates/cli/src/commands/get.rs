//! `pointsman get`.

use clap::Args;
use pointsman_ids::{ErrorCode, catalog::Value, request::Get};
use pointsman_proto::broker::v1::GetRequest;

use crate::{Exit, args::Target, client::Shards, output, rows::RowsArgs};

const EXAMPLES: &str = "\
Examples:
  pointsman get docs 17
  pointsman get docs 17 4711 --columns title,lang
  pointsman get people --key '' --key 0x00ff --json

Prints rows in the order in which their keys are given, those of --key last; keys that no row has are left out.
The collection has to name its key (`pointsman collection alter docs --key id`). Dates, times and decimals are written as
text, bytes as 0x and hexadecimal digits. The answer is whole, or the command fails.";

/// Options of `get`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Keys of the rows
    #[arg(value_name = "KEY", required_unless_present = "more", allow_negative_numbers = true)]
    keys: Vec<String>,
    /// Another key, which may be empty or begin with a hyphen; may be repeated
    #[arg(long = "key", value_name = "KEY", allow_hyphen_values = true, value_parser = any_text)]
    more: Vec<AnyText>,
    /// Columns to print [default: all]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    #[command(flatten)]
    rows: RowsArgs,
}

/// A text that may be empty, which those of the command line else may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AnyText(String);

fn any_text(text: &str) -> Result<AnyText, std::convert::Infallible> {
    Ok(AnyText(text.to_owned()))
}

/// Gets rows and prints them.
pub(crate) async fn run(args: GetArgs, target: &Target) -> anyhow::Result<Exit> {
    let keys: Vec<&str> =
        args.keys.iter().map(String::as_str).chain(args.more.iter().map(|key| key.0.as_str())).collect();
    let shards = Shards::connect(target).await?;
    let mut readings = readings(&keys).into_iter().peekable();
    while let Some(keys) = readings.next() {
        let get = Get { keys, columns: args.columns.clone() };
        let request = GetRequest {
            collection: args.collection.clone(),
            get: Some((&get).into()),
            options: Some(args.rows.message()),
        };
        match shards.get(request).await {
            Err(error) if readings.peek().is_some() && is_other_type(&error) => {}
            answer => {
                let answer = answer?;
                answer.print(&args.rows)?;
                if answer.is_empty() {
                    output::note("no row has such a key");
                }
                break;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Which type the key has is known to the broker alone. What the keys may mean: text, which dates and decimals are written as
/// too, else bytes or truth values if all of them are, else each what it looks like. The error of the last one is told.
fn readings(keys: &[&str]) -> Vec<Vec<Value>> {
    let text = |key: &&str| Value::Text((*key).to_owned());
    let bytes = |key: &&str| hex(key.strip_prefix("0x")?).map(Value::Bytes);
    let truth = |key: &&str| key.parse().ok().map(Value::Boolean);
    let looks = |key: &&str| key.parse().map_or_else(|_| text(key), Value::Integer);
    let all = |read: &dyn Fn(&&str) -> Option<Value>| keys.iter().map(read).collect::<Option<Vec<_>>>();
    let texts: Vec<Value> = keys.iter().map(text).collect();
    let looks = keys.iter().map(looks).collect();
    let others = [all(&bytes), all(&truth), (looks != texts).then_some(looks)];
    std::iter::once(texts).chain(others.into_iter().flatten()).collect()
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

fn is_other_type(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<pointsman_ids::Error>();
    error.is_some_and(|error| error.code() == ErrorCode::ParameterInvalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args as Line, Command};

    fn get(line: &[&str]) -> Result<GetArgs, String> {
        let args =
            Line::read(["pointsman", "get", "docs"].iter().chain(line)).map_err(|error| error.to_string())?;
        match args.command {
            Command::Get(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_key_is_said_by_name() {
        assert!(get(&[]).unwrap_err().contains("KEY"));
        assert!(get(&[""]).is_err(), "mostly a variable that is not set");
        assert_eq!(
            get(&["--key", "", "--key", "-x"]).unwrap().more,
            [AnyText(String::new()), AnyText("-x".into())]
        );
        assert_eq!(get(&["-3", "4"]).unwrap().keys, ["-3", "4"]);
    }

    #[test]
    fn keys_are_read_as_what_they_may_be() {
        let text = |key: &str| Value::Text(key.to_owned());
        let texts = |keys: &[&str]| keys.iter().map(|key| text(key)).collect::<Vec<_>>();
        let read = |keys: &[&str]| readings(keys)[1..].to_vec();
        assert_eq!(readings(&["7", "x"])[0], texts(&["7", "x"]));
        assert_eq!(read(&["7", "-8"]), [vec![Value::Integer(7), Value::Integer(-8)]]);
        assert_eq!(read(&["7", "x"]), [vec![Value::Integer(7), text("x")]], "so that x is what is told");
        assert_eq!(read(&["0x0aFF"]), [vec![Value::Bytes(vec![10, 255])]]);
        assert_eq!(read(&["true"]), [vec![Value::Boolean(true)]]);
        for only in ["0x0", "0xzz", "", "2026-01-02"] {
            assert_eq!(read(&[only]), [] as [Vec<Value>; 0], "{only}");
        }
    }
}
