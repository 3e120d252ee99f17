//! git itself: its processes, packet format, packs and object check.

pub mod command;
pub mod fsck;
pub mod pack_file;
pub mod pack_stream;
pub mod pktline;
