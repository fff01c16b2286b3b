//! The life of a load: what is asked for, what that changes, and how it ends when it does not go on.

mod change;
mod request;
mod standstill;
mod start;
mod timeout;
mod update;
mod visibility;

pub use self::{
    change::{CollectionFailures, LoadChange, NewReplica},
    request::{MAX_REPLICAS, ReplicaNumbers, ReplicaRequest, check_nodes},
    standstill::{Obstacle, Standstill, shortfall, standstill},
    start::{LoadPlan, LoadRequest, PartialRelease, plan_load, plan_partial_release},
    timeout::{EndedLoad, recovered, timed_out},
    update::{plan_replicas, plan_update, present_numbers},
    visibility::newly_visible,
};
