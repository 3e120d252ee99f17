//! Routes for large bodies over plain HTTP: packs, raw files, archives, diffs and release assets.
//! They share the port and the authentication of the gRPC services.
//!
//! An error is a status, the header `ferrite-reason` and one line of text.

mod advertise_receive_pack;
mod archive;
mod asset;
mod clone;
mod diff;
mod error_response;
mod file_response;
mod git;
mod headers;
mod ls_refs;
mod protocol_v2;
mod query;
mod range;
mod raw;
mod ref_stream;
mod session;
mod store_header;

use axum::{
    Router,
    routing::{get, post},
};

pub(crate) use self::store_header::refuse_other_stores;
use crate::state::AppState;

pub(crate) fn router(state: AppState) -> Router {
    Router::new()
        .route("/git/{id}/info-refs", get(git::info_refs))
        .route("/git/{id}/upload-pack", post(git::upload_pack))
        .route("/git/{id}/receive-pack", post(git::receive_pack))
        .route("/git/{id}/raw", get(raw::raw))
        .route("/git/{id}/asset", get(asset::download).put(asset::upload))
        .route("/git/{id}/session", get(session::session))
        .route("/git/{id}/archive", get(archive::archive))
        .route("/git/{id}/diff", get(diff::diff))
        .with_state(state)
}
