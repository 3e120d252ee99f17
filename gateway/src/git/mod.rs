//! Git over HTTP: the smart protocol's three addresses of every repository.
//!
//! `info/refs`, `git-upload-pack` and `git-receive-pack` are the addresses; `O/R.git` and `O/R` name the same repository. Who is
//! calling is said by HTTP Basic alone: a user name or e-mail address with a password, or an access token in either place. One
//! question to repo-svc answers who that is and what they may, and its grant opens git-svc, where git runs. Both bodies are then
//! piped, neither collected; a client that goes away takes its transfer with it.
//!
//! What may not be seen and what does not exist look the same: 401 to a caller without credentials, 404 to one with.
//! Refusals are one line of plain text, which git shows to its user.
//!
//! Not here: packets, packs and refs, which are git-svc's; the dumb protocol, which is not served; and the REST API, which does
//! not take passwords for repositories.

pub(crate) mod error;
mod http;
pub(crate) mod request;
pub(crate) mod target;

use self::http::{Door, advertise, receive_pack, upload_pack};

use ferrite_proto::operation;

use crate::http::routes::routes;

// Request bodies are packs: no layer around these routes may limit or collect them.
routes! { Door:
    "/{owner}/{repo}/info/refs" => get advertise as operation::UPLOAD_PACK;
    "/{owner}/{repo}/info/refs/" => get advertise as operation::UPLOAD_PACK;
    "/{owner}/{repo}/git-upload-pack" => post upload_pack as operation::UPLOAD_PACK;
    "/{owner}/{repo}/git-upload-pack/" => post upload_pack as operation::UPLOAD_PACK;
    "/{owner}/{repo}/git-receive-pack" => post receive_pack as operation::RECEIVE_PACK;
    "/{owner}/{repo}/git-receive-pack/" => post receive_pack as operation::RECEIVE_PACK;
}

#[cfg(test)]
mod tests;
