//! Access rules, without I/O: [`viewer`] describes a caller, and [`level`] computes the caller's
//! level on a repository.
//!
//! The other services have no access rules of their own: they ask this service and get a grant for
//! one operation. The level that an operation requires is in [`ferrite_proto::operation`];
//! `rpc::authorized` enforces it.

mod level;
mod viewer;

pub use ferrite_proto::operation::{OPERATIONS, Operation};
pub use ferrite_proto::{Capacity, RequiredRole, Rule, Unit};
pub(crate) use level::RepositoryAccess;
pub(crate) use viewer::Viewer;
