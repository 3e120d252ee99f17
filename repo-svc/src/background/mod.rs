//! Background tasks of this service.
//!
//! Not here: the relay of events, which is part of the kit.

mod last_use_writer;
mod sweeper;

pub(crate) use last_use_writer::LastUseWriter;
pub(crate) use sweeper::Sweeper;
