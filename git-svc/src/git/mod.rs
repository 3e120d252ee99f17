//! git itself: its processes, its packet format and its packs. Not here: the contents of repositories (`repo`).

pub mod command;
pub(crate) mod pack_file;
pub(crate) mod pack_stream;
pub mod pktline;
