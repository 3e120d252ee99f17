//! Test support: servers with the keys of an installation.
//!
//! Compiled for tests only: with the feature `testing` for those of other crates.

mod env;

pub use env::{ROLE, TestEnv, serve_peers};
