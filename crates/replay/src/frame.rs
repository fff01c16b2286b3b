//! What scenarios of every kind have in common: the head of the file, and steps of one action each.

use serde_json::Value;

use crate::{
    Options, Outcome, ScenarioError, readiness, routing, shard_client,
    yaml::{At, Fields, Node},
};

#[derive(Clone, Copy)]
enum Kind {
    Routing,
    Readiness,
    ShardClient,
}

const KINDS: [(&str, Kind); 3] =
    [("routing", Kind::Routing), ("readiness", Kind::Readiness), ("shard_client", Kind::ShardClient)];

/// Reads the head and hands the rest to the kind.
pub(crate) fn replay(root: &Node, options: &Options) -> Result<Outcome, ScenarioError> {
    let root = At::root(root);
    if root.is_null() {
        return Err(root.error("the file holds no scenario"));
    }
    let mut fields = root.fields()?;
    let kind = fields.require("kind")?;
    let run = match kind.word(&KINDS)? {
        Kind::Routing => routing::replay,
        Kind::Readiness => readiness::replay,
        Kind::ShardClient => shard_client::replay,
    };
    let name = kebab_case(&fields.require("name")?)?;
    fields.optional("about", one_line)?;
    Ok(Outcome { name, steps: run(fields, options)? })
}

fn kebab_case(at: &At<'_>) -> Result<String, ScenarioError> {
    let text = at.text()?;
    let word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if text.split('-').all(word) {
        return Ok(text.to_owned());
    }
    Err(at.error(format_args!("'{text}' is not kebab-case, like 'a-node-fails'")))
}

fn one_line(at: &At<'_>) -> Result<(), ScenarioError> {
    match at.text()?.trim_end().contains('\n') {
        true => Err(at.error("more than one line")),
        false => Ok(()),
    }
}

/// A step before its kind has read it.
#[derive(Debug)]
pub(crate) struct RawStep<'a> {
    /// The step as a whole.
    pub(crate) at: At<'a>,
    /// The one action key.
    pub(crate) action: &'static str,
    /// What stands under it.
    pub(crate) value: At<'a>,
    /// What stands beside it, `expect` excepted.
    pub(crate) beside: Fields<'a>,
    /// What stands under `expect`.
    pub(crate) expect: Option<At<'a>>,
}

/// A step as its kind has read it: an action and what is expected of it.
#[derive(Debug)]
pub(crate) struct Step<A, E> {
    /// Where it stands in the file.
    pub(crate) line: u64,
    /// The action key.
    pub(crate) name: &'static str,
    pub(crate) action: A,
    pub(crate) expect: E,
}

/// The steps of a scenario whose kind knows these actions.
pub(crate) fn steps<'a>(at: &At<'a>, actions: &[&'static str]) -> Result<Vec<RawStep<'a>>, ScenarioError> {
    at.list()?.into_iter().map(|step| raw_step(step, actions)).collect()
}

fn raw_step<'a>(at: At<'a>, actions: &[&'static str]) -> Result<RawStep<'a>, ScenarioError> {
    let mut beside = at.fields()?;
    let expect = beside.take("expect");
    let found: Vec<_> = actions.iter().filter_map(|action| Some((*action, beside.take(action)?))).collect();
    match <[_; 1]>::try_from(found) {
        Ok([(action, value)]) => Ok(RawStep { at, action, value, beside, expect }),
        Err(found) => match &found[..] {
            [] => {
                beside.finish()?;
                Err(at.error(format_args!("no action; a step has one of {}", actions.join(", "))))
            }
            several => {
                let names: Vec<_> = several.iter().map(|(action, _)| *action).collect();
                let last =
                    several.iter().map(|(_, value)| value).max_by_key(|value| value.line()).unwrap_or(&at);
                Err(last.error(format_args!(
                    "one step, and the actions {}; a step has exactly one",
                    names.join(", ")
                )))
            }
        },
    }
}

/// Compares as sets: order and repetition do not count.
pub(crate) fn as_set(value: &Value) -> Value {
    let Value::Array(items) = value else { return value.clone() };
    let mut items = items.clone();
    items.sort_by_key(Value::to_string);
    items.dedup();
    Value::Array(items)
}
