//! What runs beside the requests.
//!
//! Not here: the relay of events, which is the kit's.

mod last_use;
mod sweeper;

pub(crate) use last_use::{LastUse, start_last_use, write_last_use};
pub(crate) use sweeper::start_sweeper;
#[cfg(test)]
pub(crate) use sweeper::sweep;
