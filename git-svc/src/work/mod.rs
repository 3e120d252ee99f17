//! Changing refs under the journal, and settling what a crash left open.

mod locks;
mod rules;
mod sweeper;
mod writer;

pub(crate) use self::{
    rules::By,
    sweeper::{purge_in_background, sweep_at_start, sweep_in_background},
    writer::{Delivered, Receipt, WriteGuard, Writer},
};

#[cfg(test)]
mod tests;
