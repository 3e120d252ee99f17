//! git-svc as a whole: real sockets, real keys, real git, a real database, and a subscriber that takes its events.

mod bodies;
mod grants;
mod harness;
mod push;
mod rpc;
