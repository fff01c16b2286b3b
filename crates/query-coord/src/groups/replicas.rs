//! Moving replicas between groups.

use pointsman_ids::{Error, ErrorCode};

use super::{Groups, change::check_transfer, known_group};
use crate::Replica;

/// Moves `count` replicas of a collection from one group to another, the first by id. Only their group is rewritten;
/// nodes follow as members of the new group take over. `replicas` are all of the collection, `name` is its name.
///
/// # Errors
/// `parameter_invalid` when both are the same group, `count` is not positive, or the source has fewer replicas of the
/// collection; `resource_group_not_found`.
pub fn transfer_replicas<'a>(
    groups: &Groups,
    replicas: impl IntoIterator<Item = &'a Replica>,
    name: &str,
    source: &str,
    target: &str,
    count: i64,
) -> Result<Vec<Replica>, Error> {
    let wanted = check_transfer("replicas", source, target, count)?;
    let (source, target) = (known_group(groups, source)?, known_group(groups, target)?);
    let mut present: Vec<&Replica> =
        replicas.into_iter().filter(|replica| replica.group == source.name).collect();
    if present.len() < wanted {
        let text = format!(
            "collection '{name}' has {} replicas in resource group '{}' and {count} were to be moved",
            present.len(),
            source.name
        );
        return Err(Error::new(ErrorCode::ParameterInvalid, text));
    }
    present.sort_unstable_by_key(|replica| replica.id);
    let moved = |replica: &Replica| Replica { group: target.name.clone(), ..replica.clone() };
    Ok(present.into_iter().take(wanted).map(moved).collect())
}
