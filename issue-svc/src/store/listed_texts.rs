//! Cuts texts in lists, so that rows and pages stay within their size limits. Reads of a single
//! issue, comment or milestone return the whole text.

use ferrite_core::page::Page;
use ferrite_db::{DbError, Query};
use sqlx_macros::FromRow;

use super::IssueTable;

/// Longest text in a list.
pub(crate) const MAX_LISTED_TEXT_BYTES: i64 = 64 * 1024;
/// All texts of a page together.
#[cfg(not(test))]
pub(crate) const MAX_PAGE_TEXT_BYTES: i64 = 16 * 1024 * 1024;
#[cfg(test)]
pub(crate) const MAX_PAGE_TEXT_BYTES: i64 = 4 * 1024 * 1024;
/// This many rows cannot exceed [`MAX_PAGE_TEXT_BYTES`].
const ALWAYS_SMALL_ROWS: i64 = MAX_PAGE_TEXT_BYTES / MAX_LISTED_TEXT_BYTES;

impl IssueTable {
    /// Appends the columns `text_head`, the first `max_bytes` bytes of `column`, and `text_bytes`,
    /// its full length.
    pub(super) fn push_text_head(&self, query: &mut Query, column: &'static str, max_bytes: i64) {
        // Cut bytes, not characters, each of which can take up to four bytes.
        query.push(self.db.pick("SUBSTR(CONVERT_TO(", "SUBSTR(CAST(")).push(column);
        query.push(self.db.pick(", 'UTF8'), 1, CAST(", " AS BLOB), 1, CAST(")).bind(max_bytes);
        query.push(" AS INTEGER)) AS text_head, CAST(OCTET_LENGTH(").push(column).push(") AS BIGINT) AS text_bytes");
    }

    /// Returns the length limit of each text on a page. `rows` is the statement of the page's rows,
    /// with the text in the column `text`.
    pub(super) async fn listed_text_bytes(&self, page: Page, rows: Query) -> Result<i64, DbError> {
        if page.size() <= ALWAYS_SMALL_ROWS {
            return Ok(MAX_LISTED_TEXT_BYTES);
        }
        let mut sum = rows;
        sum.wrap("SELECT CAST(COALESCE(SUM(OCTET_LENGTH(text)), 0) AS BIGINT) FROM (", ") AS page");
        let (bytes,): (i64,) = self.db.one(sum.sql(), sum.args()).await?;
        let is_small = bytes <= MAX_PAGE_TEXT_BYTES;
        Ok(if is_small { MAX_LISTED_TEXT_BYTES } else { MAX_PAGE_TEXT_BYTES / page.size() })
    }
}

/// The columns of [`IssueTable::push_text_head`] in the rows of lists, whose text column is empty.
#[derive(FromRow)]
pub(super) struct TextHead {
    #[sqlx(default)]
    text_head: Option<Vec<u8>>,
    /// Length of the whole text.
    #[sqlx(default)]
    text_bytes: Option<i64>,
}

impl TextHead {
    /// Returns the text of a row and whether it was cut. `whole` is used for rows with the whole
    /// text.
    pub(super) fn or(self, whole: String) -> (String, bool) {
        match self.text_bytes {
            Some(bytes) => listed_text(self.text_head, bytes),
            None => (whole, false),
        }
    }
}

/// Decodes the first bytes of a text. Drops a character that was cut in the middle, and returns
/// whether the text goes on.
fn listed_text(head: Option<Vec<u8>>, text_bytes: i64) -> (String, bool) {
    // SQLite returns NULL for the first bytes of an empty text.
    let text = String::from_utf8(head.unwrap_or_default()).unwrap_or_else(|error| {
        let whole = error.utf8_error().valid_up_to();
        let mut bytes = error.into_bytes();
        bytes.truncate(whole);
        String::from_utf8(bytes).unwrap_or_default()
    });
    let is_truncated = i64::try_from(text.len()).unwrap_or(i64::MAX) < text_bytes;
    (text, is_truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_the_end_of_a_character() {
        let bytes = "aé€".as_bytes();
        for (length, expected) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (5, "aé"), (6, "aé€")] {
            let (text, is_truncated) = listed_text(Some(bytes[..length].to_vec()), 6);
            assert_eq!((text.as_str(), is_truncated), (expected, expected != "aé€"));
        }
        assert_eq!(listed_text(None, 0), (String::new(), false));
    }
}
