//! Diffs as git writes them: read up to a limit, and shown file by file.

mod parser;

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use ferrite_api_types::links::encode;
use futures_util::StreamExt;

use self::parser::Parser;
use super::client::Client;
use super::components::{Count, parameter, with_parameter};
use super::error::PageResult;
use crate::http::error::ApiError;

const MAX_FILES: usize = 300;
const MAX_FILE_LINES: usize = 3_000;
/// Lines of all files.
const MAX_LINES: usize = 20_000;
/// Bytes of a line that are shown.
const MAX_LINE_BYTES: usize = 4_000;
/// Bytes of a text that are read.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Hexadecimal digits of the hash of a path in anchors.
const ANCHOR_DIGITS: usize = 12;

/// The values of the API's `whitespace` with which it leaves out changes.
const IGNORED_WHITESPACE: [&str; 3] = ["ignore-all", "ignore-change", "ignore-eol"];

/// How the lines of both sides are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Below each other.
    Unified,
    /// Side by side.
    Split,
}

/// The changed files of a diff.
#[derive(Clone, Debug)]
pub(super) struct Diff {
    style: Style,
    pub(super) files: Vec<FileDiff>,
    /// The number of files that are not shown.
    pub(super) hidden_files: u64,
    /// The number of added lines, also of those that are not shown.
    pub(super) additions: u64,
    pub(super) deletions: u64,
    /// Whether the text was not read to its end.
    pub(super) is_cut: bool,
    /// Path and query of the page that shows it.
    here: String,
    /// The path of files on the new side; empty if there is none.
    source: String,
    /// The path of the whole text.
    pub(super) raw: String,
    remarks: Remarks,
}

/// The comments on lines, and where to write one.
#[derive(Clone, Debug, Default)]
pub(super) struct Remarks {
    /// HTML by path, then by side, true for the old one, and line.
    pub(super) html: HashMap<String, HashMap<(bool, u64), String>>,
    /// Path and query of the form of a comment; `None` for visitors who cannot comment.
    pub(super) form: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileDiff {
    /// The start of all its anchors. It depends on the path alone.
    pub(super) id: String,
    pub(super) path: String,
    /// The path, encoded.
    link: String,
    /// The other path of a renamed or copied file.
    pub(super) old_path: Option<String>,
    change: Change,
    /// The modes before and after, if they differ.
    pub(super) modes: Option<(String, String)>,
    pub(super) is_binary: bool,
    pub(super) additions: u64,
    pub(super) deletions: u64,
    pub(super) rows: Vec<Row>,
    /// Whether lines are not shown.
    pub(super) is_cut: bool,
    /// True if the lines differ only in ignored whitespace.
    pub(super) is_whitespace_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Modified,
    Added,
    Deleted,
    Renamed,
    Copied,
}

/// A row of the table of a file: the heading of a hunk, or a line on one side or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) heading: Option<String>,
    pub(super) old: Option<Side>,
    pub(super) new: Option<Side>,
}

/// A line of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// From 1.
    pub(super) number: u64,
    kind: Kind,
    pub(super) text: String,
    /// Whether the file ends here without a newline.
    pub(super) is_unended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    Removed,
    Added,
}

impl Style {
    /// Returns the style that the query of a page names.
    pub(super) fn of(here: &str) -> Self {
        match parameter(here, "style").as_deref() {
            Some("split") => Self::Split,
            _ => Self::Unified,
        }
    }
}

impl Diff {
    /// Parses the output of `git diff`. Anything else is skipped.
    pub(super) fn parse(text: &str, style: Style) -> Self {
        let mut parser = Parser::new(style);
        for line in text.lines() {
            parser.line(line);
        }
        parser.finish()
    }

    /// Reads a diff of the API as the query of a page, `here`, asks for it. `path` is that of its
    /// text.
    pub(super) async fn load(api: &Client, path: &str, here: &str) -> PageResult<Self> {
        let style = Style::of(here);
        let Some(ignored) = ignored_whitespace(here) else { return Self::fetch(api, path, style).await };
        let shown = with_parameter(path, "whitespace", ignored);
        let (shown, whole) = tokio::try_join!(Self::fetch(api, &shown, style), Self::fetch(api, path, style))?;
        Ok(shown.with_whitespace_only(whole))
    }

    /// Reads a text of the API.
    pub(super) async fn fetch(api: &Client, path: &str, style: Style) -> PageResult<Self> {
        match api.pass(path, &HeaderMap::new()).await {
            Ok(response) => {
                let (text, is_cut) = read(response.into_body()).await?;
                Ok(Self { is_cut, ..Self::parse(&text, style) })
            }
            // The API makes no text of this size.
            Err(error) if error.status() == StatusCode::UNPROCESSABLE_ENTITY => {
                Ok(Self { is_cut: true, ..Self::parse("", style) })
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the files that are missing because they differ from the `whole` diff in ignored whitespace
    /// alone. Both have their files in the same order.
    fn with_whitespace_only(mut self, whole: Self) -> Self {
        let (is_complete, count) = (!self.is_cut && self.hidden_files == 0, whole.count());
        let mut shown = std::mem::take(&mut self.files).into_iter().peekable();
        for file in whole.files {
            let found = shown.next_if(|next| next.path == file.path);
            let is_missing = found.is_none();
            // A file that is not read yet may be missing as well.
            if is_missing && !is_complete && shown.peek().is_none() {
                break;
            }
            let lines = found.as_ref().map_or(0, |found| found.additions + found.deletions);
            let is_whitespace_only = lines == 0 && file.additions + file.deletions > 0;
            if is_whitespace_only || !is_missing {
                let (additions, deletions, rows) = (0, 0, Vec::new());
                let empty = FileDiff { additions, deletions, rows, is_cut: false, ..file };
                self.files.push(FileDiff { is_whitespace_only, ..found.unwrap_or(empty) });
            }
        }
        self.files.extend(shown);
        self.hidden_files += self.files.len().saturating_sub(MAX_FILES) as u64;
        self.files.truncate(MAX_FILES);
        self.hidden_files = self.hidden_files.max(count.saturating_sub(self.files.len() as u64));
        self
    }

    /// Sets where its links lead: `here` is path and query of the page, `source` the path of the
    /// new side's files, and `raw` that of the text.
    pub(super) fn at(self, here: &str, source: String, raw: String) -> Self {
        Self { here: here.to_owned(), source, raw, ..self }
    }

    pub(super) fn with_remarks(self, remarks: Remarks) -> Self {
        Self { remarks, ..self }
    }

    /// The HTML of the comments on the lines of a row.
    pub(super) fn remarks_on<'a>(&'a self, file: &'a FileDiff, row: &'a Row) -> impl Iterator<Item = &'a str> {
        let on = move |is_old: bool, side: &Option<Side>| {
            let lines = self.remarks.html.get(file.path_of(is_old))?;
            lines.get(&(is_old, side.as_ref()?.number)).map(String::as_str)
        };
        on(true, &row.old).into_iter().chain(on(false, &row.new))
    }

    /// The form of a comment on a line.
    pub(super) fn comment_link(&self, file: &FileDiff, is_old: bool, side: &Side) -> Option<String> {
        let form = self.remarks.form.as_ref()?;
        let (path, word) = (encode(file.path_of(is_old).as_bytes()), if is_old { "old" } else { "new" });
        Some(format!("{form}&path={path}&side={word}&line={}", side.number))
    }

    pub(super) fn summary(&self) -> String {
        Count(self.count(), "changed file").to_string()
    }

    fn count(&self) -> u64 {
        self.files.len() as u64 + self.hidden_files
    }

    pub(super) fn is_split(&self) -> bool {
        self.style == Style::Split
    }

    /// The number of columns of its tables.
    pub(super) fn columns(&self) -> u8 {
        if self.is_split() { 4 } else { 3 }
    }

    pub(super) fn unified(&self) -> String {
        with_parameter(&self.here, "style", "")
    }

    pub(super) fn split(&self) -> String {
        with_parameter(&self.here, "style", "split")
    }

    pub(super) fn ignores_whitespace(&self) -> bool {
        ignored_whitespace(&self.here).is_some()
    }

    /// The same page with the changes of whitespace, or without them.
    pub(super) fn other_whitespace(&self) -> String {
        with_parameter(&self.here, "whitespace", if self.ignores_whitespace() { "" } else { "ignore-all" })
    }

    /// The path of a file on the new side.
    pub(super) fn browse(&self, file: &FileDiff) -> Option<String> {
        let has_file = !self.source.is_empty() && file.change != Change::Deleted;
        has_file.then(|| format!("{}/{}", self.source, file.link))
    }
}

/// Returns the changes of whitespace that the query of a page leaves out, if any. As on Gitea's
/// pages, other values leave out none.
pub(super) fn ignored_whitespace(here: &str) -> Option<&'static str> {
    let named = parameter(here, "whitespace")?;
    IGNORED_WHITESPACE.into_iter().find(|mode| *mode == named)
}

/// Returns the start of the anchors of a file.
pub(super) fn anchor(path: &[u8]) -> String {
    format!("diff-{}", &blake3::hash(path).to_hex()[..ANCHOR_DIGITS])
}

impl FileDiff {
    /// The path on a side.
    pub(super) fn path_of(&self, is_old: bool) -> &str {
        self.old_path.as_deref().filter(|_| is_old).unwrap_or(&self.path)
    }

    /// What happened to the file, unless only its lines changed.
    pub(super) fn badge(&self) -> Option<&'static str> {
        match self.change {
            Change::Modified => None,
            Change::Added => Some("Added"),
            Change::Deleted => Some("Deleted"),
            Change::Renamed => Some("Renamed"),
            Change::Copied => Some("Copied"),
        }
    }
}

impl Row {
    /// The line of a unified diff.
    pub(super) fn line(&self) -> Option<&Side> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

impl Side {
    pub(super) fn class(&self) -> &'static str {
        match self.kind {
            Kind::Context => "",
            Kind::Removed => "removed",
            Kind::Added => "added",
        }
    }

    pub(super) fn sign(&self) -> char {
        match self.kind {
            Kind::Context => ' ',
            Kind::Removed => '-',
            Kind::Added => '+',
        }
    }
}

/// Reads a text up to the limit, and whether there is more.
async fn read(body: Body) -> PageResult<(String, bool)> {
    let (mut stream, mut bytes) = (body.into_data_stream(), Vec::new());
    while bytes.len() <= MAX_TEXT_BYTES
        && let Some(chunk) = stream.next().await
    {
        let chunk = chunk.map_err(|error| {
            tracing::warn!("a diff for a page broke off: {error}");
            ApiError::unavailable()
        })?;
        bytes.extend_from_slice(&chunk);
    }
    let is_cut = bytes.len() > MAX_TEXT_BYTES;
    if is_cut {
        bytes.truncate(MAX_TEXT_BYTES);
        let end = memchr::memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1);
        bytes.truncate(end);
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_cut))
}

#[cfg(test)]
mod tests;
