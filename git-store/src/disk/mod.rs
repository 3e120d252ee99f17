//! The files and folders of a store: repository paths, durable writes, full disks and disk usage.

use std::io;

pub mod assets;
pub mod compressibility;
pub mod delta_mark;
pub mod durable;
pub mod full;
pub mod loose_objects;
pub mod packs;
pub mod repositories;
pub mod scratch;
pub mod space;
pub mod usage;

/// Treats the removal of a missing file or folder as success.
pub fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
