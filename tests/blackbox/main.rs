//! Tests of the shipped binary from outside: real processes, real sockets, the real git program, in both profiles.
//!
//! Not here: what one crate can show by itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[macro_use]
mod harness;

mod accounts;
mod contents;
mod direct;
mod durability;
mod events;
mod git_doors;
mod git_http;
mod hooks;
mod issues;
mod launcher;
mod matrix;
mod protocol;
mod reading;
mod repositories;
mod revocation;
mod shapes;
mod traces;
