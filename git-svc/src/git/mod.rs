//! git itself: its processes and its packet format. Not here: the contents of repositories (`repo`).

pub mod command;
pub mod pktline;
