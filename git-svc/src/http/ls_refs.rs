//! Answers the first two requests of a fetch from memory: the capabilities, and `ls-refs` of
//! protocol version 2. git answers unknown requests, and those for repositories whose refs it may
//! show differently.

use std::{ops::Range, sync::Arc, vec};

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::id::RepositoryId;
use git_store::{repo::refs::RefTable, types::error::GitError};
use git2::Oid;

use super::{
    protocol_v2::{self, V2Command},
    ref_stream::{CHUNK_BYTES, body_of_chunks, push_id, set_length},
};
use crate::{state::AppState, transfer::request_body::RequestBody};

/// Limit on a request answered here. It stays below git's limit of 65,536 prefixes, above which git
/// ignores all of them (`ls-refs.c`).
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Returns the capabilities that git itself advertises, if the repository exists.
pub(super) async fn capabilities(state: &AppState, id: RepositoryId) -> Result<Bytes, GitError> {
    state.store.check_exists(id)?;
    state.git.capabilities(&state.store.path(id)).await
}

/// Returns the response to an `ls-refs` request. Returns `None` and leaves the request in `input`
/// if git has to answer, because it is a different request or the ref table is not plain.
pub(super) async fn try_answer(
    state: &AppState,
    id: RepositoryId,
    input: &mut RequestBody,
) -> Result<Option<Body>, GitError> {
    let Some(request) = protocol_v2::read(input, MAX_REQUEST_BYTES).await? else { return Ok(None) };
    let table = state.refs.table(id).await?;
    if !table.is_plain() {
        return Ok(None);
    }
    metrics::counter!("ferrite_git_ls_refs_total").increment(1);
    Ok(Some(body_of_chunks(state, LsRefsResponse::new(table, request))))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct LsRefsRequest {
    peel: bool,
    symrefs: bool,
    unborn: bool,
    /// Prefixes of full ref names; empty for all refs.
    prefixes: Vec<Vec<u8>>,
}

impl V2Command for LsRefsRequest {
    const NAME: &'static [u8] = b"command=ls-refs";

    fn argument(&mut self, line: &[u8]) -> bool {
        match line {
            b"peel" => self.peel = true,
            b"symrefs" => self.symrefs = true,
            b"unborn" => self.unborn = true,
            _ => match line.strip_prefix(b"ref-prefix ") {
                Some(prefix) => self.prefixes.push(prefix.to_vec()),
                None => return false,
            },
        }
        true
    }
}

/// A response, as an iterator of chunks.
struct LsRefsResponse {
    table: Arc<RefTable>,
    request: LsRefsRequest,
    has_head: bool,
    /// Ranges of table rows still to write.
    spans: vec::IntoIter<Range<usize>>,
    span: Range<usize>,
    is_over: bool,
}

impl LsRefsResponse {
    fn new(table: Arc<RefTable>, request: LsRefsRequest) -> Self {
        let spans = spans(&table, &request.prefixes).into_iter();
        Self { table, request, has_head: false, spans, span: 0..0, is_over: false }
    }

    /// Writes the line of HEAD, which comes first. If its branch does not exist, the line has no
    /// id, and is written only if the client asked for `unborn` and `symrefs`.
    fn head(&self, chunk: &mut Vec<u8>) {
        let prefixes = &self.request.prefixes;
        let is_wanted = prefixes.is_empty() || prefixes.iter().any(|prefix| b"HEAD".starts_with(prefix));
        let Some(head) = self.table.head().filter(|_| is_wanted) else { return };
        let branch = Some(head.as_bytes()).filter(|_| self.request.symrefs);
        match (self.table.find(head), branch) {
            (Some(entry), branch) => self.line(chunk, Some(entry.target), b"HEAD", branch, entry.peeled),
            (None, Some(branch)) if self.request.unborn => self.line(chunk, None, b"HEAD", Some(branch), None),
            (None, _) => {}
        }
    }

    fn line(&self, chunk: &mut Vec<u8>, id: Option<Oid>, name: &[u8], branch: Option<&[u8]>, peeled: Option<Oid>) {
        let start = chunk.len();
        chunk.extend_from_slice(b"0000");
        match id {
            Some(id) => push_id(chunk, id),
            None => chunk.extend_from_slice(b"unborn"),
        }
        chunk.push(b' ');
        chunk.extend_from_slice(name);
        if let Some(branch) = branch {
            chunk.extend_from_slice(b" symref-target:");
            chunk.extend_from_slice(branch);
        }
        if let Some(peeled) = peeled.filter(|_| self.request.peel) {
            chunk.extend_from_slice(b" peeled:");
            push_id(chunk, peeled);
        }
        chunk.push(b'\n');
        set_length(chunk, start);
    }
}

impl Iterator for LsRefsResponse {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        let mut chunk = Vec::new();
        if !std::mem::replace(&mut self.has_head, true) {
            self.head(&mut chunk);
        }
        while chunk.len() < CHUNK_BYTES {
            if self.span.is_empty() {
                let Some(span) = self.spans.next() else {
                    self.is_over = true;
                    chunk.extend_from_slice(b"0000");
                    break;
                };
                self.span = span;
            }
            let mut count = 0;
            for entry in self.table.rows(self.span.clone()) {
                self.line(&mut chunk, Some(entry.target), entry.name.as_bytes(), None, entry.peeled);
                count += 1;
                if chunk.len() >= CHUNK_BYTES {
                    break;
                }
            }
            self.span.start += count;
            if count == 0 {
                self.span = 0..0;
            }
        }
        Some(chunk)
    }
}

/// Returns the ranges of rows whose names start with any of the prefixes, in order, each row once.
fn spans(table: &RefTable, prefixes: &[Vec<u8>]) -> Vec<Range<usize>> {
    let mut wanted: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
    if wanted.is_empty() {
        wanted.push(b"");
    }
    wanted.sort_unstable();
    // A prefix that starts with the previous one is covered by it.
    wanted.dedup_by(|later, earlier| later.starts_with(earlier));
    wanted.into_iter().map(|prefix| table.span(prefix)).filter(|span| !span.is_empty()).collect()
}

#[cfg(test)]
mod tests;
