//! Git over HTTP: the three paths of the smart protocol (gitprotocol-http(5)) for every repository.
//!
//! The paths are `info/refs`, `git-upload-pack` and `git-receive-pack`; `O/R.git` and `O/R` name
//! the same repository. Clients use HTTP Basic: a user name or e-mail address with a password, or
//! an access token in either place. One call to repo-svc resolves the caller and its permission,
//! and returns the grant for git-svc, where git runs. Request and response bodies are piped and
//! never collected; a transfer ends when its client disconnects.
//!
//! A hidden repository and a missing one look the same: 401 to a request without credentials, 404
//! to one with them. Errors are one line of plain text, which git shows to its user.

mod error;
mod http;
mod request;
pub(crate) mod target;

use ferrite_proto::operation;

pub(crate) use self::http::{GitHttpState, line_of};
use self::http::{advertise_refs, receive_pack, upload_pack};
use crate::http::routes::routes;

// Request bodies are packs: no layer around these routes may limit or collect them.
routes! { GitHttpState:
    "/{owner}/{repo}/info/refs" => get advertise_refs as operation::UPLOAD_PACK;
    "/{owner}/{repo}/info/refs/" => get advertise_refs as operation::UPLOAD_PACK;
    "/{owner}/{repo}/git-upload-pack" => post upload_pack as operation::UPLOAD_PACK;
    "/{owner}/{repo}/git-upload-pack/" => post upload_pack as operation::UPLOAD_PACK;
    "/{owner}/{repo}/git-receive-pack" => post receive_pack as operation::RECEIVE_PACK;
    "/{owner}/{repo}/git-receive-pack/" => post receive_pack as operation::RECEIVE_PACK;
}

#[cfg(test)]
mod tests;
