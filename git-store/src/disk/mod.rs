//! The files and folders of a store: repository paths, durable writes, full disks and disk usage.
//!
//! Not here: the contents of repositories (`repo`).

use std::io;

pub mod assets;
pub mod compressibility;
pub mod delta_mark;
pub mod durable;
pub mod full;
pub mod loose_objects;
pub mod packs;
pub mod repositories;
pub mod space;
pub mod usage;

/// Returns success for a file or folder that was to be removed and is missing.
pub fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
