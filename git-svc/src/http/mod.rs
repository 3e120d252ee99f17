//! Bulk bytes over plain HTTP, on the port and behind the authentication of the gRPC services: packs, raw files and archives.
//!
//! Errors are a status, the header `ferrite-reason` and one line of text.

mod answer;
mod archive;
mod clones;
mod gates;
mod git;
mod inflate;
mod ls_refs;
mod pace;
mod pieces;
mod push_refs;
mod query;
mod range;
mod raw;
mod seat;
mod session;
mod stream;
mod transfer;
mod version_2;

use axum::{
    Router,
    routing::{get, post},
};

pub(crate) use self::gates::{Client, Gates};
use crate::app::App;

/// The routes.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/git/{id}/info-refs", get(git::info_refs))
        .route("/git/{id}/upload-pack", post(git::upload_pack))
        .route("/git/{id}/receive-pack", post(git::receive_pack))
        .route("/git/{id}/raw", get(raw::raw))
        .route("/git/{id}/session", get(session::session))
        .route("/git/{id}/archive", get(archive::archive))
        .with_state(app)
}
