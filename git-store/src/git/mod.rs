//! git itself: its processes, its packet format, its packs and its check of objects. Not here: the contents of repositories (`repo`).

pub mod command;
pub mod fsck;
pub mod pack_file;
pub mod pack_stream;
pub mod pktline;
