//! Changing refs under the journal, and settling what a crash left open.

mod locks;
mod sweeper;
mod writer;

pub(crate) use self::{
    sweeper::{purge_in_background, sweep_at_start, sweep_in_background},
    writer::{Change, Delivered, Receipt, WriteGuard, Writer},
};

#[cfg(test)]
mod tests;
