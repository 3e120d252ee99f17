//! git itself: its processes and the form of its packets. Not here: what repositories hold (`repo`).

pub mod command;
pub mod pktline;
