//! Plain values used by all other modules: names, paths, protection rules, limits, errors and a map. No input or output.

pub mod archive;
pub mod denial;
pub mod error;
pub mod limits;
pub mod name;
pub mod path;
pub(crate) mod protection;
pub(crate) mod push_options;
pub(crate) mod rpc_error;
pub(crate) mod weak_map;
