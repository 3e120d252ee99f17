//! Transfers: fetches, pushes, archives, copies within the store, and the pipes between clients and
//! git processes.

pub(crate) mod archive;
pub(crate) mod body_channel;
mod cache_file;
pub(crate) mod copy;
pub(crate) mod fetch;
mod file_chunks;
mod inflate;
pub(crate) mod process_pipe;
pub(crate) mod push;
pub(crate) mod request_body;
pub(crate) mod session_pipe;
pub(crate) mod stage;
mod stream_cache;
