//! Tests of the deliverables: the image, the Debian package and its systemd unit, the Compose file,
//! and the Kubernetes objects.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod compose;
mod image;
#[path = "../json_schema/mod.rs"]
mod json_schema;
mod kubernetes;
mod package;
mod rootfs;
