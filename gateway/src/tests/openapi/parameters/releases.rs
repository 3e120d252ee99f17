//! Releases and their files.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "tag", "string", "The name of the tag, which may have slashes."),
    ("", "asset", "integer", "The id of the file."),
    ("DownloadReleaseAsset", "file", "string", "The tag and the name of the file, with a slash between them."),
];
