//! The rules of access, without I/O: [`viewer`] describes a caller, and [`level`] computes the caller's level on a repository.
//!
//! The other services state no levels of their own: they ask this one and get a grant for one operation.
//!
//! Not here: what each operation requires of its caller ([`ferrite_proto::operation`]), holding requests to that table (`rpc::authorized`),
//! the SQL filters of lists (`store`), and the finer rules of single operations, such as which fields a reader may set.

mod level;
mod viewer;

pub use ferrite_proto::operation::{OPERATIONS, Operation};
pub use ferrite_proto::{Capacity, RequiredRole, Rule, Unit};
pub(crate) use level::RepositoryAccess;
pub(crate) use viewer::Viewer;
