//! Who may do what, decided in one place: [`table`] says what each operation asks of its caller, [`level`] what a caller is to a
//! repository, and a [`Permit`] holds a request to the table before anything is done for it.
//!
//! Every other service asks here and gets a grant for one operation; none states levels of its own.
//!
//! Not here: what an operation does with the level it was given, such as which fields a reader may set.

mod level;
mod permit;
mod table;

pub(crate) use level::{Facts, Viewer, only_own, only_visible, team_level};
pub(crate) use permit::{Mode, Permit};
pub use table::{Acting, OPERATIONS, Operation, Role, Rule, Unit};
