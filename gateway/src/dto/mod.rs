//! The JSON shapes of the contract. They are the gateway's own: what a service adds to a message changes no answer here.

mod account;
mod audit;
mod commit;
mod content;
mod git_data;
mod hook;
mod issue;
mod organization;
mod protection;
mod repository;
mod user;

use std::ops::RangeInclusive;

use chrono::DateTime;
use prost_types::Timestamp;
use serde::Serialize;

pub(crate) use account::{AccessToken, DeployKey, Email, ListedToken, NewToken, PublicKey};
pub(crate) use audit::AuditEvent;
pub(crate) use commit::{Branch, Commit, Tag};
pub(crate) use content::{Content, Contents, FileRemoved, FileWritten, FilesChanged, Place};
pub(crate) use git_data::{Blob, Ref, TagObject, Tree};
pub(crate) use hook::Hook;
pub(crate) use issue::Issue;
pub(crate) use organization::{Collaborator, Membership, Organization, Team};
pub(crate) use protection::Protection;
pub(crate) use repository::{Repository, Viewer};
pub(crate) use user::{Accounts, User};

use crate::http::error::ApiError;

/// What searches answer with.
#[derive(Debug, Serialize)]
pub(crate) struct Found<T> {
    pub(crate) data: Vec<T>,
    pub(crate) ok: bool,
}

/// Something that a service must send was not in its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer lacks `{0}`")]
pub(crate) struct Incomplete(pub(crate) &'static str);

impl From<Incomplete> for ApiError {
    fn from(error: Incomplete) -> Self {
        tracing::error!("a service's answer cannot be used: {error}");
        Self::internal()
    }
}

/// The part of an answer that must be there.
pub(crate) fn present<T>(part: Option<T>, name: &'static str) -> Result<T, Incomplete> {
    part.ok_or(Incomplete(name))
}

/// What RFC 3339 has a form for: the years 0 to 9999.
const WRITABLE: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// A time as `YYYY-MM-DDTHH:MM:SSZ`. Commits carry any date that their author made up; one outside of what can be written becomes
/// the nearest that can.
fn time(timestamp: Option<Timestamp>, name: &'static str) -> Result<String, Incomplete> {
    let seconds = present(timestamp, name)?.seconds.clamp(*WRITABLE.start(), *WRITABLE.end());
    let time = DateTime::from_timestamp(seconds, 0).ok_or(Incomplete(name))?;
    Ok(time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Bytes of git as text; what is not UTF-8 becomes U+FFFD.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_without_fraction() {
        let at = |seconds| time(Some(Timestamp { seconds, nanos: 999_999_999 }), "x");
        assert_eq!(at(0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_767_315_845).unwrap(), "2026-01-02T01:04:05Z");
        assert_eq!(at(253_402_300_800).unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(at(i64::MAX).unwrap(), "9999-12-31T23:59:59Z");
        assert_eq!(at(i64::MIN).unwrap(), "0000-01-01T00:00:00Z");
        assert_eq!(time(None, "x"), Err(Incomplete("x")));
    }
}
