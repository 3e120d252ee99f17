//! The files and folders of a store: repository paths, durable writes, full disks and disk usage.
//!
//! Not here: the contents of repositories (`repo`).

use std::io;

pub(crate) mod assets;
pub(crate) mod compressibility;
pub(crate) mod delta_mark;
pub(crate) mod durable;
pub(crate) mod full;
pub(crate) mod loose_objects;
pub(crate) mod packs;
pub mod repositories;
pub(crate) mod space;
pub(crate) mod usage;

/// Returns success for a file or folder that was to be removed and is missing.
pub(crate) fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
