//! The files and folders of a store: repository paths, durable writes, full disks and disk usage.
//!
//! Not here: the contents of repositories (`repo`).

pub(crate) mod assets;
pub(crate) mod compressibility;
pub(crate) mod durable;
pub(crate) mod full;
pub(crate) mod loose_objects;
pub(crate) mod packs;
pub mod repositories;
pub(crate) mod space;
pub(crate) mod usage;
