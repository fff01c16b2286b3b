//! Replacing segments by those of files: prepared and checked, uploaded, then exchanged in one step.

use std::collections::BTreeSet;

use pointsman_ids::{Error, PartitionName, catalog::Column};
use pointsman_proto::{
    column_from_proto,
    coordinator::v1::{ReplaceSegmentsRequest, ReplaceSegmentsResponse, Segment},
};
use prost::Message;

use super::{AllPrepared, Input, Uploads, bar, is_refusal, prepare_all, upload, upload_all};
use crate::{
    Failure,
    client::{Coordinator, answer},
};

/// Bytes of the one call that exchanges everything; what a coordinator takes.
const MAX_BYTES: usize = 64 << 20;

/// What takes whose place.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// Name of the collection.
    pub(crate) collection: String,
    /// Name of the partition of the new segments; `None`: that of the old ones.
    pub(crate) partition: Option<String>,
    /// Names of the segments that go, never empty.
    pub(crate) old: Vec<String>,
    /// Files that become segments, never empty.
    pub(crate) inputs: Vec<Input>,
    /// Whether it is only looked whether it would be done.
    pub(crate) dry_run: bool,
}

/// What a replacement has changed.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// False when it was done already. In a dry run: true when it would be done.
    pub(crate) replaced: bool,
    /// Names of the new segments.
    pub(crate) new: Vec<String>,
    /// Rows in them.
    pub(crate) rows: u64,
    /// Queries see them with this target; 0: the collection is not loaded.
    pub(crate) target_version: u64,
}

/// Makes a replacement.
///
/// # Errors
/// Names what is wrong before anything is uploaded. When the catalog refuses later, objects that this call has uploaded
/// are deleted. When the answer is lost they stay, since the replacement may stand; repeating it is safe.
pub(crate) async fn replace(coordinator: &Coordinator, wanted: Replacement) -> anyhow::Result<Replaced> {
    let Replacement { collection, partition, old, inputs, dry_run } = wanted;
    check_names(&old, &inputs)?;
    let chosen = partition.as_deref().map(PartitionName::new).transpose()?;
    let store =
        pointsman_objects::open(&coordinator.about.objects, pointsman_settings::object_store_environment())?;
    let known = coordinator.collection(&collection).await?;
    let columns: Vec<Column> = known.columns.into_iter().map(column_from_proto).collect::<Result<_, _>>()?;
    let bar = bar(inputs.len() as u64 * 2);
    let prepared: AllPrepared = prepare_all(inputs, Some(&columns), &bar).await?;

    let default = PartitionName::new(PartitionName::DEFAULT)?;
    let segment = |file: &super::Prepared| Segment {
        partition: chosen.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..file.segment(&collection, &default, None)
    };
    let new: Vec<Segment> = prepared.files.iter().map(segment).collect();
    let names = new.iter().map(|segment| segment.name.clone()).collect();
    let rows = new.iter().map(|segment| segment.rows).sum();
    let mut request = ReplaceSegmentsRequest { collection, old, new, check_only: true };
    check_size(&request)?;
    let checked = ask(coordinator, &request).await?;
    if dry_run || !checked.replaced {
        bar.finish_and_clear();
        // What was done already is asked for once more, since only then it says when it is seen.
        request.check_only = dry_run;
        let ReplaceSegmentsResponse { replaced, target_version } = ask(coordinator, &request).await?;
        return Ok(Replaced { replaced, new: names, rows, target_version });
    }
    let Uploads { new: uploaded, .. } =
        upload_all(store.as_ref(), &request.collection, &prepared.files, &bar).await?;
    bar.finish_and_clear();
    request.check_only = false;
    match ask(coordinator, &request).await {
        Ok(ReplaceSegmentsResponse { replaced, target_version }) => {
            Ok(Replaced { replaced, new: names, rows, target_version })
        }
        Err(error) => {
            if is_refusal(&error) {
                upload::delete(store.as_ref(), uploaded.iter()).await;
            }
            Err(error.into())
        }
    }
}

async fn ask(
    coordinator: &Coordinator,
    request: &ReplaceSegmentsRequest,
) -> Result<ReplaceSegmentsResponse, Error> {
    let call = async |active: &Coordinator| answer(active.catalog().replace_segments(request.clone()).await);
    match coordinator.persist(call).await {
        Ok(answer) => Ok(answer),
        Err(error) => Err(coordinator.explain(error, &request.collection).await),
    }
}

/// A new segment has a name of its own, so that nodes and brokers tell it from the old one.
fn check_names(old: &[String], inputs: &[Input]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    if let Some(twice) = old.iter().find(|name| !names.insert(name.as_str())) {
        return Err(Failure::Usage(format!("segment '{twice}' stands twice in --old")));
    }
    match inputs.iter().find(|input| names.contains(input.name.as_str())) {
        None => Ok(()),
        Some(input) => Err(Failure::Usage(format!(
            "{} would become segment '{}', which is to go; give the file another name",
            input.label(),
            input.name
        ))),
    }
}

/// All of it has to fit into one call, or it would not be one step.
fn check_size(request: &ReplaceSegmentsRequest) -> Result<(), Failure> {
    let bytes = request.encoded_len();
    if bytes < MAX_BYTES {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "what the catalog is told of {} new segments is {}, and one step takes {}; replace fewer at once",
        request.new.len(),
        crate::output::size(bytes as u64),
        crate::output::size(MAX_BYTES as u64)
    )))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::push::input::{Kind, Source};

    #[test]
    fn names_that_make_no_sense_are_told_before_anything_is_read() {
        let source = Source::File(PathBuf::from("new/a.csv"));
        let inputs = [Input { source, kind: Kind::Csv, name: "a".parse().unwrap() }];
        let old = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(check_names(&old(&["b", "c"]), &inputs), Ok(()));
        let text = |old: &[String]| check_names(old, &inputs).unwrap_err().to_string();
        assert_eq!(text(&old(&["b", "b"])), "segment 'b' stands twice in --old");
        assert!(text(&old(&["b", "a"])).starts_with("new/a.csv would become segment 'a'"));
    }

    #[test]
    fn what_does_not_fit_into_one_step_is_refused() {
        let new = vec![Segment { object: "x".repeat(MAX_BYTES), ..Segment::default() }];
        let request = ReplaceSegmentsRequest { new, ..ReplaceSegmentsRequest::default() };
        assert!(check_size(&request).unwrap_err().to_string().contains("replace fewer at once"));
        assert_eq!(check_size(&ReplaceSegmentsRequest::default()), Ok(()));
    }
}
