//! Nodes that leave: whether one may stop, drains, and what brokers have heard of it.

mod brokers;
mod can_stop;
mod drain;
mod leavers;
mod listed;
mod message;

pub(crate) use self::{
    leavers::Leavers,
    listed::Listed,
    message::{broker_message, millis},
};
