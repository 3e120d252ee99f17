//! Compiles the contracts in pure Rust, without `protoc`.

use std::path::PathBuf;

const PROTOS: &[&str] = &[
    "ferrite/events/v1/events.proto",
    "ferrite/git/v1/data.proto",
    "ferrite/git/v1/git.proto",
    "ferrite/git/v1/migration.proto",
    "ferrite/git/v1/protection.proto",
    "ferrite/git/v1/release.proto",
    "ferrite/git/v1/storage.proto",
    "ferrite/hook/v1/delivery.proto",
    "ferrite/hook/v1/feed.proto",
    "ferrite/hook/v1/hook.proto",
    "ferrite/issue/v1/comment.proto",
    "ferrite/issue/v1/issue.proto",
    "ferrite/issue/v1/label.proto",
    "ferrite/issue/v1/milestone.proto",
    "ferrite/repo/v1/access.proto",
    "ferrite/repo/v1/account.proto",
    "ferrite/repo/v1/administration.proto",
    "ferrite/repo/v1/avatar.proto",
    "ferrite/repo/v1/collaboration.proto",
    "ferrite/repo/v1/migration.proto",
    "ferrite/repo/v1/organization.proto",
    "ferrite/repo/v1/profile.proto",
    "ferrite/repo/v1/release.proto",
    "ferrite/repo/v1/repository.proto",
    "ferrite/repo/v1/star.proto",
    "ferrite/repo/v1/topic.proto",
    "ferrite/repo/v1/transfer.proto",
    "ferrite/repo/v1/watch.proto",
];

#[expect(clippy::disallowed_methods, reason = "cargo passes settings to build scripts in variables")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=ferrite");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let descriptors = protox::compile(PROTOS.iter().map(|proto| root.join(proto)), [&root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("documented.bin"), prost::Message::encode_to_vec(&descriptors))?;
    let mut bare = descriptors.clone();
    bare.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&bare))?;
    tonic_prost_build::configure()
        // Maps must have an order, so that equal messages have equal bytes: idempotency compares hashes of encoded requests.
        .btree_map(".")
        .bytes(".ferrite.git.v1.TreeEntry.content")
        .bytes(".ferrite.git.v1.GetBlobResponse.content")
        .bytes(".ferrite.git.v1.PutContentsRequest.content")
        .bytes(".ferrite.git.v1.FileChange.content")
        .compile_fds(descriptors)?;
    Ok(())
}
