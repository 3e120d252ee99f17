//! Test support: waiting, programs, and the settings of a test run.
//!
//! Compiled for tests only: with the feature `testing` for those of other crates.

mod program;
mod setting;
mod wait;

pub use program::script;
pub use setting::setting;
pub use wait::eventually;
