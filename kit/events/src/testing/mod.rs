//! A service under test. Other crates get it with the feature `testing`.

mod service;

pub use service::TestService;
