//! Bounds of payloads.
//!
//! A payload has at most [`MAX_PAYLOAD_BYTES`]. It is made with the first of the [`CUTS`] under which it has; what was cut is marked by
//! `"truncated": true` beside it.

use super::PayloadError;
use super::json::json_text;

/// Longest JSON text of a payload.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// Commits of a push.
pub(crate) const MAX_COMMITS: usize = 20;

/// Bounds of the parts of one payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Of a commit's message.
    pub(crate) message_bytes: usize,
    /// Of each list of paths of a commit.
    pub(crate) paths: usize,
    /// Of a path, a name or an address in a commit.
    pub(crate) path_bytes: usize,
    /// Of the text of an issue, a comment, a milestone or a release.
    pub(crate) text_bytes: usize,
}

/// Bounds, widest first. Under the last one every payload fits, even if each of its bytes needs six in JSON.
pub(crate) const CUTS: [Cut; 4] = [
    Cut { message_bytes: 16 * 1024, paths: 300, path_bytes: 4096, text_bytes: 64 * 1024 },
    Cut { message_bytes: 4096, paths: 100, path_bytes: 1024, text_bytes: 16 * 1024 },
    Cut { message_bytes: 1024, paths: 20, path_bytes: 512, text_bytes: 4096 },
    Cut { message_bytes: 256, paths: 2, path_bytes: 256, text_bytes: 1024 },
];

/// Returns the longest beginning of `text` with at most `max_bytes`, and whether it is less than the whole.
pub(crate) fn cut_text(mut text: String, max_bytes: usize) -> (String, bool) {
    if text.len() <= max_bytes {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(max_bytes));
    (text, true)
}

/// Returns the payload that `make` makes under the widest bounds under which it is short enough.
///
/// # Errors
/// Those of `make`.
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
