//! The rules of access, without I/O: [`table`] lists what each operation requires of its caller, [`viewer`] describes a caller, and
//! [`level`] computes the caller's level on a repository.
//!
//! The other services state no levels of their own: they ask this one and get a grant for one operation.
//!
//! Not here: holding requests to the table (`rpc::permit`), the SQL filters of lists (`store`), and the finer rules of single
//! operations, such as which fields a reader may set.

mod level;
mod table;
mod viewer;

pub(crate) use level::RepositoryAccess;
pub use table::{Capacity, OPERATIONS, Operation, RequiredRole, Rule, Unit};
pub(crate) use viewer::Viewer;
