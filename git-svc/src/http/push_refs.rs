//! What a push starts from, from memory: the refs as they are, in version 0 of the protocol. Everything that is not known to the last
//! byte is left to git.

use std::{iter, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use ferrite_proto::id::RepositoryId;
use git2::Oid;

use super::pieces::{PIECE, in_pieces, push_id, set_length};
use crate::{app::App, error::GitError, pktline::service_header, refs::Table};

/// The answer to `info/refs` of a push; `None` for repositories whose refs are better told by git.
pub(super) async fn try_advertise(app: &App, id: RepositoryId) -> Result<Option<Body>, GitError> {
    if !app.store.exists(id) {
        return Err(GitError::RepositoryNotFound);
    }
    let table = app.refs.table(id).await?;
    if !table.is_plain() {
        return Ok(None);
    }
    let can = app.git.push_capabilities(&app.store.path(id)).await?;
    Ok(Some(in_pieces(app, pieces(table, can))))
}

/// All refs by name, the first one with what git can do behind a NUL.
fn pieces(table: Arc<Table>, can: Bytes) -> impl Iterator<Item = Vec<u8>> {
    let mut next = Some(0);
    iter::from_fn(move || {
        let start = next.take()?;
        let mut piece = Vec::new();
        if start == 0 {
            piece.extend(service_header("git-receive-pack"));
            if table.is_empty() {
                line(&mut piece, Oid::ZERO_SHA1, b"capabilities^{}", Some(&can));
            }
        }
        for (at, entry) in (start..).zip(table.rows(start..table.len())) {
            if piece.len() >= PIECE {
                next = Some(at);
                return Some(piece);
            }
            line(&mut piece, entry.target, entry.name.as_bytes(), (at == 0).then_some(&can));
        }
        piece.extend_from_slice(b"0000");
        Some(piece)
    })
}

fn line(piece: &mut Vec<u8>, id: Oid, name: &[u8], can: Option<&Bytes>) {
    let start = piece.len();
    piece.extend_from_slice(b"0000");
    push_id(piece, id);
    piece.push(b' ');
    piece.extend_from_slice(name);
    if let Some(can) = can {
        piece.push(0);
        piece.extend_from_slice(can);
    }
    piece.push(b'\n');
    set_length(piece, start);
}
