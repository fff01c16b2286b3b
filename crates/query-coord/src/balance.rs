//! Balance: which node takes a segment, and which segments and leads move so that every node carries its share.
//!
//! A node's *score* for a collection is the number of the collection's rows on it plus a tenth of all rows on it. Its
//! *fair share* is its part of the scores of all candidates, by memory if all of them report some. What it has above
//! its share, rounded up, is its *priority*: the lower, the more room. Moves go from nodes above their share to those
//! with the most room, and only where they pay, so that planning again after a move never undoes it.
//!
//! Nodes go by their place in a list that is in the order of names; equal priorities go to the first of them.

mod assign;
mod eligible;
mod leads;
mod penalty;
mod plan;
mod score;
mod segments;
mod settings;

pub use self::{
    assign::{Piece, SegmentMove, assign},
    eligible::{CollectionState, Eligible, eligible},
    leads::LeadMove,
    penalty::{PENALTY, Penalties, Penalty},
    plan::{Moving, ReplicaLoad, ReplicaPlan, plan_replica},
    score::NodeLoad,
    settings::BalanceSettings,
};
