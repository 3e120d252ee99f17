//! Every feature of git's transports, by the real git program, through both doors: HTTP and SSH.
//!
//! Not here: who may come in (`git_doors`, `ssh`), and what only one of the doors knows.

mod door;
mod fetch;
mod limits;
mod parts;
mod push;

use self::door::{Door, through_both};
