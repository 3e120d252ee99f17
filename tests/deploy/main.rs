//! Tests of what an operator installs: the image, the Debian package and its unit, the Compose file, and the objects of Kubernetes.
//!
//! Not here: what the service answers, which the black box tests show.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod compose;
mod image;
#[path = "../json_schema/mod.rs"]
mod json_schema;
mod kubernetes;
mod package;
mod rootfs;
