//! The first two steps of a fetch, from memory: what the server can do, and `ls-refs` of version 2 of the protocol. Everything that is
//! not known to the last byte is left to git.

use std::{ops::Range, sync::Arc, vec};

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::id::RepositoryId;
use git2::Oid;

use super::{
    protocol_v2::{self, V2Command},
    ref_stream::{CHUNK_BYTES, body_of_chunks, push_id, set_length},
};
use crate::{repo::refs::RefTable, state::AppState, transfer::request_body::RequestBody, types::error::GitError};

/// What the server can do, as git says it. The repository is there.
pub(super) async fn capabilities(state: &AppState, id: RepositoryId) -> Result<Bytes, GitError> {
    if !state.store.exists(id) {
        return Err(GitError::RepositoryNotFound);
    }
    state.git.capabilities(&state.store.path(id)).await
}

/// The answer to a request for refs; `None` for every other request, which is still in `input` as it came.
pub(super) async fn try_answer(
    state: &AppState,
    id: RepositoryId,
    input: &mut RequestBody,
) -> Result<Option<Body>, GitError> {
    let Some(request) = protocol_v2::read(input).await? else { return Ok(None) };
    let table = state.refs.table(id).await?;
    if !table.is_plain() {
        return Ok(None);
    }
    metrics::counter!("ferrite_git_ls_refs_total").increment(1);
    Ok(Some(body_of_chunks(state, LsRefsResponse::new(table, request))))
}

/// What a client wants to know.
#[derive(Debug, Default, PartialEq, Eq)]
struct LsRefsRequest {
    peel: bool,
    symrefs: bool,
    unborn: bool,
    /// Beginnings of full names; none stands for all.
    prefixes: Vec<Vec<u8>>,
}

impl V2Command for LsRefsRequest {
    const NAME: &'static [u8] = b"command=ls-refs";
    /// git itself counts prefixes beyond that.
    const MAX_BYTES: usize = 64 << 10;

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

/// An answer, piece by piece.
struct LsRefsResponse {
    table: Arc<RefTable>,
    request: LsRefsRequest,
    has_head: bool,
    /// Places in the table that are left to tell.
    spans: vec::IntoIter<Range<usize>>,
    span: Range<usize>,
    is_over: bool,
}

impl LsRefsResponse {
    fn new(table: Arc<RefTable>, request: LsRefsRequest) -> Self {
        let spans = spans(&table, &request.prefixes).into_iter();
        Self { table, request, has_head: false, spans, span: 0..0, is_over: false }
    }

    /// HEAD comes first, and if its branch does not exist, then with nothing but that one's name.
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

/// The places of refs that begin with any of the prefixes, in order, each once.
fn spans(table: &RefTable, prefixes: &[Vec<u8>]) -> Vec<Range<usize>> {
    let mut wanted: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
    if wanted.is_empty() {
        wanted.push(b"");
    }
    wanted.sort_unstable();
    // What comes after a prefix and begins with it is within it.
    wanted.dedup_by(|later, earlier| later.starts_with(earlier));
    wanted.into_iter().map(|prefix| table.span(prefix)).filter(|span| !span.is_empty()).collect()
}

#[cfg(test)]
mod tests;
