//! Features of git's transports, with the real git program, over HTTP and SSH.
//!
//! Not here: access (`git_http_access`, `ssh`), and features of one transport alone.

mod fetch;
mod limits;
mod parts;
mod push;
mod transport;

use self::transport::{Transport, over_both};
