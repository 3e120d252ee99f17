//! Test servers with the keys of an installation. Other crates get them with the feature `testing`.

mod env;

pub use env::{ROLE, TestEnv, serve_peers};
