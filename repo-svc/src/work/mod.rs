//! What runs beside the requests.
//!
//! Not here: the relay of events, which is the kit's.

mod sweeper;

pub(crate) use sweeper::start_sweeper;
#[cfg(test)]
pub(crate) use sweeper::sweep;
