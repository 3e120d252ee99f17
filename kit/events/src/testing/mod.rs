//! Test support: a service under test.
//!
//! Compiled for tests only: with the feature `testing` for those of other crates.

mod service;

pub use service::TestService;
