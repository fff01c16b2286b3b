//! One suite that both databases pass.
//!
//! Each rule is a function over a [`Fixture`]; the list below makes a test of it for either database.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod catalog;
mod changes;
mod concurrency;
mod config;
mod crash;
mod fencing;
#[path = "../fixture/mod.rs"]
mod fixture;
mod groups;
mod lease;
mod leaving;
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
        a_hundred_thousand_segments_are_pushed_at_once
        statistics_of_an_older_version_are_read
        a_replacement_is_one_change
        a_replacement_that_is_refused_changes_nothing;
    changes:
        every_change_makes_a_new_revision_and_nothing_else_does
        a_copy_is_brought_up_to_date_by_what_changed
        what_was_dropped_and_purged_unseen_is_noticed
        copies_that_follow_now_and_then_are_always_right;
    groups:
        the_default_group_is_always_there
        a_group_gets_a_number_once
        a_group_name_is_taken_once
        a_configuration_reads_back_whole
        a_node_is_a_member_of_one_group_at_most
        a_change_of_groups_is_made_whole_or_not_at_all
        a_group_goes_with_the_move_of_its_members;
    nodes:
        a_newcomer_gets_a_number_and_is_switched_on
        the_same_incarnation_keeps_its_number
        a_newer_incarnation_gets_a_new_number
        an_older_incarnation_is_refused
        nodes_come_by_name
        the_switch_stays_as_the_operator_turned_it
        the_switch_of_all_is_turned_or_of_none
        a_removed_node_is_forgotten_and_its_number_never_used_again
        labels_stay_until_they_are_replaced;
    leaving:
        a_drain_stays_until_it_is_taken_back
        a_drain_ends_with_the_return_of_its_node
        a_stop_lease_runs_by_the_clock_of_the_database
        a_stop_lease_is_granted_again_and_given_back
        a_removed_node_leaves_no_drain_and_no_lease;
    config:
        a_new_cluster_has_no_configuration
        a_value_stays_until_it_is_replaced_or_taken_away
        a_text_that_a_database_cannot_hold_is_refused;
    loads:
        a_load_reads_back_whole
        a_load_needs_collection_and_groups_or_nothing_changes
        a_registration_is_written_whole
        replicas_are_written_whole_and_removed
        a_promoted_target_replaces_the_former_one
        nothing_is_promoted_without_a_registration
        a_release_forgets_replicas_and_target
        replica_ids_are_never_used_again
        failures_outlive_the_registration_and_are_replaced_whole;
    concurrency:
        two_writers_take_turns
        of_several_coordinators_the_newest_alone_ever_writes
        two_metastores_open_at_once
        readers_do_not_wait_for_a_writer
        values_that_the_databases_cannot_hold_are_refused;
    crash:
        a_push_that_is_cut_off_is_there_whole_or_not_at_all
        a_replacement_that_is_cut_off_leaves_all_of_the_old_or_all_of_the_new
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
