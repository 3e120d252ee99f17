//! Transfers of many bytes: fetches, pushes and archives. Not here: the routes they are asked for on (`http`).

pub(crate) mod archive;
pub(crate) mod body_channel;
pub(crate) mod fetch;
mod inflate;
pub(crate) mod process_pipe;
pub(crate) mod push;
pub(crate) mod request_body;
pub(crate) mod session_pipe;
