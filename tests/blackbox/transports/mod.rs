//! Features of git's transports over both HTTP and SSH, with the real git program.
//! `git_http_access` and `ssh` cover access and the features of one transport.

mod fetch;
mod limits;
mod parts;
mod push;
mod transport;

use self::transport::{Transport, over_both};
