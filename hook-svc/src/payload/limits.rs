//! Size limits of payloads.
//!
//! A payload is rendered with the first of the [`CUTS`] that keeps it within [`MAX_PAYLOAD_BYTES`].
//! Anything that was cut has `"truncated": true` beside it.

use super::PayloadError;
use super::json::json_text;

/// Longest JSON text of a payload.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// Commits listed in a push.
pub(crate) const MAX_COMMITS: usize = 20;

/// Size limits of the parts of one payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Commit message.
    pub(crate) message_bytes: usize,
    /// Each list of paths in a commit.
    pub(crate) paths: usize,
    /// Each path, name or address in a commit.
    pub(crate) path_bytes: usize,
    /// Text of an issue, comment, milestone or release.
    pub(crate) text_bytes: usize,
}

/// From wide to narrow. Every payload fits the last one, even if JSON needs six bytes for each of
/// its bytes.
pub(crate) const CUTS: [Cut; 4] = [
    Cut { message_bytes: 16 * 1024, paths: 300, path_bytes: 4096, text_bytes: 64 * 1024 },
    Cut { message_bytes: 4096, paths: 100, path_bytes: 1024, text_bytes: 16 * 1024 },
    Cut { message_bytes: 1024, paths: 20, path_bytes: 512, text_bytes: 4096 },
    Cut { message_bytes: 256, paths: 2, path_bytes: 256, text_bytes: 1024 },
];

/// Cuts `text` to `max_bytes` at most. Returns whether anything was cut.
pub(crate) fn cut_text(mut text: String, max_bytes: usize) -> (String, bool) {
    if text.len() <= max_bytes {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(max_bytes));
    (text, true)
}

/// Calls `make` with ever narrower limits until its payload is short enough.
pub(crate) fn within_limits(make: impl Fn(&Cut) -> Result<String, PayloadError>) -> Result<String, PayloadError> {
    let mut payload = String::new();
    for cut in &CUTS {
        payload = make(cut)?;
        if payload.len() <= MAX_PAYLOAD_BYTES && json_text(&payload).len() <= MAX_PAYLOAD_BYTES {
            break;
        }
    }
    Ok(payload)
}
