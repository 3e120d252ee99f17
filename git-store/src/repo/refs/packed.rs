use std::{fs, path::Path};

use super::table::RefEntry;
use crate::types::error::GitError;

/// First line of the file: the objects that tags lead to are there, and names are sorted.
const HEADER: &[u8] = b"# pack-refs with: peeled fully-peeled sorted \n";

/// Writes the refs of a repository that is not published yet, sorted by name, to its `packed-refs`. The caller syncs the file.
pub fn write_packed(repository: &Path, sorted: &[RefEntry]) -> Result<(), GitError> {
    let mut text = HEADER.to_vec();
    for entry in sorted {
        text.extend_from_slice(entry.target.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(entry.name.as_bytes());
        text.push(b'\n');
        if let Some(peeled) = entry.peeled {
            text.extend_from_slice(format!("^{peeled}\n").as_bytes());
        }
    }
    fs::write(repository.join("packed-refs"), text).map_err(GitError::io("writing `packed-refs`"))
}
