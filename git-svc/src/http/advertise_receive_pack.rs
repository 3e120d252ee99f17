//! Ref advertisement of a push (protocol version 0) from the ref table in memory. git itself
//! answers for repositories whose refs it may show differently.

use std::{iter, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::id::RepositoryId;
use git_store::{git::pktline::service_header, repo::refs::RefTable, types::error::GitError};
use git2::Oid;

use super::ref_stream::{CHUNK_BYTES, body_of_chunks, push_id, set_length};
use crate::state::AppState;

/// Returns the response to `info/refs` of a push; `None` if git has to answer for this repository.
pub(super) async fn try_advertise(state: &AppState, id: RepositoryId) -> Result<Option<Body>, GitError> {
    state.store.check_exists(id)?;
    let table = state.refs.table(id).await?;
    if !table.is_plain() {
        return Ok(None);
    }
    let can = state.git.push_capabilities(&state.store.path(id)).await?;
    Ok(Some(body_of_chunks(state, chunks(table, can))))
}

/// Yields all refs by name, in chunks, without those of pull requests: `git push --mirror` would
/// try to delete them. The first ref has the capabilities after a NUL.
fn chunks(table: Arc<RefTable>, capabilities: Bytes) -> impl Iterator<Item = Vec<u8>> {
    let [before, after] = table.spans_without_pulls(b"");
    let (first, mut next) = (before.clone().chain(after.clone()).next(), Some(0));
    iter::from_fn(move || {
        let start = next.take()?;
        let mut chunk = Vec::new();
        if start == 0 {
            chunk.extend(service_header("git-receive-pack"));
            if first.is_none() {
                line(&mut chunk, Oid::ZERO_SHA1, b"capabilities^{}", Some(&capabilities));
            }
        }
        for span in [&before, &after] {
            let from = start.clamp(span.start, span.end);
            for (at, entry) in (from..).zip(table.rows(from..span.end)) {
                if chunk.len() >= CHUNK_BYTES {
                    next = Some(at);
                    return Some(chunk);
                }
                line(&mut chunk, entry.target, entry.name.as_bytes(), (first == Some(at)).then_some(&capabilities));
            }
        }
        chunk.extend_from_slice(b"0000");
        Some(chunk)
    })
}

fn line(chunk: &mut Vec<u8>, id: Oid, name: &[u8], capabilities: Option<&Bytes>) {
    let start = chunk.len();
    chunk.extend_from_slice(b"0000");
    push_id(chunk, id);
    chunk.push(b' ');
    chunk.extend_from_slice(name);
    if let Some(capabilities) = capabilities {
        chunk.push(0);
        chunk.extend_from_slice(capabilities);
    }
    chunk.push(b'\n');
    set_length(chunk, start);
}
