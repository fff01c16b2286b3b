//! One suite that both databases pass.
//!
//! Each rule is a function over a [`Fixture`]; the list below makes a test of it for either database.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod catalog;
mod concurrency;
mod config;
mod crash;
mod fencing;
#[path = "../fixture/mod.rs"]
mod fixture;
mod groups;
mod lease;
mod loads;
mod nodes;
mod samples;
mod segments;

use std::fmt::Debug;

use fixture::{on_postgres, on_sqlite};
use pointsman_ids::{Error as Refusal, ErrorCode};
use pointsman_metastore::{Error, Result};

macro_rules! conformance {
    ($($module:ident: $($rule:ident)+;)+) => {
        mod postgres {
            $($(#[tokio::test] async fn $rule() { super::on_postgres(super::$module::$rule).await; })+)+
        }
        mod sqlite {
            $($(#[tokio::test] async fn $rule() { super::on_sqlite(super::$module::$rule).await; })+)+
        }
    };
}

conformance! {
    lease:
        a_free_lease_is_taken
        a_held_lease_is_refused_with_its_holder_and_rest
        an_expired_lease_is_taken_by_somebody_else
        a_renewed_lease_does_not_expire
        the_same_holder_takes_it_again_with_a_higher_epoch
        a_lease_given_back_is_free_at_once
        the_epoch_exceeds_at_least
        only_the_newest_holder_renews
        a_foreign_lease_is_not_given_back
        a_taker_among_many_is_alone;
    fencing:
        an_old_epoch_writes_nothing
        an_epoch_that_the_database_never_gave_writes_nothing;
    catalog:
        a_collection_reads_back_whole
        collections_come_by_name
        a_collection_name_is_taken_once
        a_collection_needs_a_column
        options_are_written_whole
        options_of_an_older_version_have_the_defaults_of_what_is_new
        dropping_a_collection_drops_its_segments_and_frees_its_name
        collection_ids_are_never_used_again
        everything_survives_a_new_start;
    segments:
        a_segment_reads_back_whole
        segments_come_by_name
        a_push_is_idempotent
        a_push_with_another_checksum_changes_nothing
        a_name_stands_once_in_a_push
        a_push_names_its_shards
        a_push_needs_its_collection
        a_bound_that_is_no_number_is_refused
        names_of_dropped_segments_are_free
        dropped_segments_wait_for_their_purge
        a_purge_leaves_live_segments
        segment_ids_are_never_used_again
        a_hundred_thousand_segments_are_pushed_at_once;
    groups:
        the_default_group_is_always_there
        a_group_gets_a_number_once
        a_group_name_is_taken_once
        a_group_cannot_request_more_than_its_limit
        a_node_is_a_member_of_one_group_at_most
        a_member_needs_its_group;
    nodes:
        a_newcomer_gets_a_number_and_is_switched_on
        the_same_incarnation_keeps_its_number
        a_newer_incarnation_gets_a_new_number
        an_older_incarnation_is_refused
        nodes_come_by_name
        the_switch_stays_as_the_operator_turned_it
        the_switch_of_all_is_turned_or_of_none
        a_removed_node_is_forgotten_and_its_number_never_used_again;
    config:
        a_new_cluster_has_no_configuration
        a_value_stays_until_it_is_replaced_or_taken_away
        a_text_that_a_database_cannot_hold_is_refused;
    loads:
        a_load_reads_back_whole
        a_load_is_registered_once
        a_load_needs_collection_and_groups
        a_load_is_updated
        replicas_are_written_whole
        a_promoted_target_replaces_the_former_one
        nothing_is_promoted_without_a_registration
        a_release_forgets_replicas_and_target
        replica_ids_are_never_used_again;
    concurrency:
        two_writers_take_turns
        two_metastores_open_at_once
        readers_do_not_wait_for_a_writer
        values_that_the_databases_cannot_hold_are_refused;
    crash:
        a_push_that_is_cut_off_is_there_whole_or_not_at_all
        the_metastore_works_on_after_a_write_was_cut_off
        a_corrupt_row_is_named;
}

/// The refusal that a call must end with.
pub(crate) fn refused<T: Debug>(code: ErrorCode, result: Result<T>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => {
            assert_eq!(refusal.code(), code, "{refusal}");
            refusal
        }
        other => panic!("should be refused as {code}: {other:?}"),
    }
}
