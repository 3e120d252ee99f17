//! Pushes that only a malicious client sends. Each is rejected with a reason, and the store does
//! not change.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use axum::body::Body;
use ferrite_proto::operation::RECEIVE_PACK;
use flate2::{Compression, write::ZlibEncoder};
use http::{Method, StatusCode};

use crate::{
    bodies,
    harness::Service,
    push::{Gateway, find_repository, git, try_git},
};

pub(crate) const COMMIT: u8 = 1;
pub(crate) const TREE: u8 = 2;
pub(crate) const BLOB: u8 = 3;
pub(crate) const OFS_DELTA: u8 = 6;
pub(crate) const REF_DELTA: u8 = 7;

pub(crate) fn filter(folder: &Path, program: &str, args: &[&str], input: &[u8]) -> String {
    let mut command = Command::new(program);
    let mut child =
        command.current_dir(folder).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {args:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A bare repository in which malformed objects can be written.
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "-q", "--bare", "-b", "main"]).await;
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn object(&self, kind: &str, bytes: &[u8]) -> String {
        filter(self.path(), "git", &["hash-object", "-w", "--literally", "-t", kind, "--stdin"], bytes)
    }

    pub(crate) fn point(&self, name: &str, id: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{id}\n")).unwrap();
    }

    /// Writes a tree of `(mode, name, id)` entries in this order and returns its id.
    pub(crate) fn tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(&hex::decode(id).unwrap());
        }
        self.object("tree", &bytes)
    }

    pub(crate) fn commit(&self, tree: &str) -> String {
        let who = "Ada <ada@example.com> 1700000000 +0000";
        self.object("commit", format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nm\n").as_bytes())
    }

    pub(crate) fn file(&self, mode: &str, name: &[u8], content: &[u8]) -> String {
        let blob = self.object("blob", content);
        self.commit(&self.tree(&[(mode, name, &blob)]))
    }
}

/// Asserts that the store's only repository has intact objects, `refs` refs and no quarantine.
pub(crate) async fn assert_unharmed(service: &Service, refs: usize) {
    let path: PathBuf = find_repository(&service.store());
    let text = git(&path, &["fsck", "--strict", "--no-progress"]).await;
    assert!(text.lines().all(|line| line.starts_with("dangling") || line.starts_with("notice")), "{text}");
    assert_eq!(git(&path, &["for-each-ref"]).await.lines().count(), refs);
    let objects = std::fs::read_dir(path.join("objects")).unwrap().flatten();
    let left: Vec<_> = objects.filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_")).collect();
    assert!(left.is_empty(), "{left:?}");
}

pub(crate) async fn assert_empty(service: &Service) {
    let text = git(&find_repository(&service.store()), &["count-objects", "-v"]).await;
    assert!(text.starts_with("count: 0") && text.contains("in-pack: 0") && text.contains("garbage: 0"), "{text}");
}

#[tokio::test]
async fn malformed_objects_are_refused_with_the_fsck_error() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let w = Workshop::new().await;
    let blob = w.object("blob", b"x");
    let empty = w.tree(&[]);
    let modules = |text: &str| w.file("100644", b".gitmodules", format!("[submodule \"x\"]\n{text}").as_bytes());
    let tree = |entries: &[(&str, &[u8], &str)]| w.commit(&w.tree(entries));
    let who = "Ada <ada@example.com> 1 +0000";
    let long = vec![b'n'; 5000];
    let tagged = |header: String| w.object("tag", format!("{header}tagger {who}\n\nm\n").as_bytes());
    let cases = [
        (tree(&[("40000", b".git", &w.tree(&[("100644", b"config", &blob)]))]), "hasDotgit"),
        (tree(&[("40000", b".GiT", &empty)]), "hasDotgit"),
        (tree(&[("40000", b"git~1", &empty)]), "hasDotgit"),
        (tree(&[("40000", ".g\u{200c}it".as_bytes(), &empty)]), "hasDotgit"),
        (tree(&[("40000", b".git ", &empty)]), "hasDotgit"),
        (tree(&[("40000", b".git...", &empty)]), "hasDotgit"),
        (tree(&[("40000", b"GIT~1", &empty)]), "hasDotgit"),
        (tree(&[("40000", b".git::$INDEX_ALLOCATION", &empty)]), "hasDotgit"),
        (tree(&[("120000", b".git", &blob)]), "hasDotgit"),
        (tree(&[("160000", b".git", &"1".repeat(40))]), "hasDotgit"),
        (tree(&[("100644", b".git\\config", &blob)]), "hasDotgit"),
        (tree(&[("40000", b"..", &empty)]), "hasDotdot"),
        (tree(&[("40000", b".", &empty)]), "hasDot"),
        (tree(&[("100644", b"a/b", &blob)]), "fullPathname"),
        (tree(&[("100644", b"", &blob)]), "malformed|emptyName|badTree|empty"),
        (tree(&[("100644", &long, &blob)]), "largePathname"),
        (tree(&[("100644", b"b", &blob), ("100644", b"a", &blob)]), "treeNotSorted"),
        (tree(&[("100644", b"a", &blob), ("100755", b"a", &blob)]), "duplicateEntries"),
        // A symbolic link and a directory of the same name, to write through the link.
        (tree(&[("120000", b"a", &blob), ("40000", b"a", &w.tree(&[("100644", b"b", &blob)]))]), "duplicateEntries"),
        (tree(&[("120000", b"a", &blob), ("100644", b"a/b", &blob)]), "fullPathname"),
        // Entries and commits that point to objects of another type.
        (tree(&[("100644", b"a", &empty)]), "expected|type|bad|fatal|missing"),
        (tree(&[("40000", b"a", &blob)]), "expected|type|bad|fatal|missing"),
        (w.commit(&blob), "expected|type|bad|fatal|missing"),
        (tree(&[("160000", b"a", &"0".repeat(40))]), "nullSha1"),
        (tree(&[("100644", b"a", &"0".repeat(40))]), "nullSha1"),
        (modules("\tpath = x\n\turl = -u./payload\n"), "gitmodulesUrl"),
        (modules("\tpath = -x\n\turl = ./x\n"), "gitmodulesPath"),
        (modules("\tpath = x\n\turl = ./x\n\tupdate = !touch /tmp/x\n"), "gitmodulesUpdate"),
        (modules("\tpath = x\n\turl = http://a/%0ahost=b\n"), "gitmodulesUrl"),
        (modules("\tpath = x\n\turl = \"http://a/\\nhost=b\"\n"), "gitmodulesUrl"),
        (modules("\tpath = x\n\turl = --upload-pack=x\n"), "gitmodulesUrl"),
        (w.file("100644", b".gitmodules", b"[submodule \"../../x\"]\n\tpath = x\n\turl = ./x\n"), "gitmodulesName"),
        (w.file("120000", b".gitmodules", b"target"), "gitmodulesSymlink"),
        (w.file("100644", b".gitattributes", &vec![b'a'; 5000]), "gitattributesLineLength"),
        (w.object("commit", format!("tree {empty}\ncommitter {who}\n\nm\n").as_bytes()), "missingAuthor"),
        (w.object("commit", format!("tree {empty}\nauthor {who}\n\nm\n").as_bytes()), "missingCommitter"),
        (
            w.object("commit", format!("tree {empty}\nauthor {who}\ncommitter {who}\nm").as_bytes()),
            "unterminatedHeader",
        ),
        (w.object("commit", format!("author {who}\ncommitter {who}\n\nm\n").as_bytes()), "missingTree|fatal"),
        (w.object("commit", format!("tree 1\nauthor {who}\ncommitter {who}\n\nm\n").as_bytes()), "badTreeSha1|fatal"),
        (tagged("type commit\ntag t\n".to_owned()), "missingObject|fatal"),
        (tagged(format!("object {empty}\ntag t\n")), "missingTypeEntry|fatal"),
        (tagged(format!("object {empty}\ntype x\ntag t\n")), "badType|fatal"),
        (tagged(format!("object {empty}\ntype tree\n")), "missingTagEntry|fatal"),
        (w.object("commit", format!("tree {empty}\nauthor {who}\0\ncommitter {who}\n\nm\n").as_bytes()), "nulInHeader"),
        (w.commit(&"1".repeat(40)), "missing|bad|unresolved|fatal"),
    ];
    for (commit, reason) in cases {
        // git refuses to send some of these objects, so the pack is made from a list of ids.
        let objects = reachable(&w, &commit);
        let mut pack = filter_bytes(w.path(), &["pack-objects", "--stdout", "-q"], objects.as_bytes());
        let text = push(&gateway.service, id, &[("refs/heads/main", &commit)], &mut pack).await;
        assert!(!text.contains("ok refs/heads/main"), "{reason}: {text}");
        assert!(reason.split('|').any(|reason| text.contains(reason)), "{reason}: {text}");
        // If fsck rejects an object, the pusher reads its id and git's id of the finding.
        let names = |part: &str| {
            let (id, rest) = part.split_at_checked(40)?;
            Some(id.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.starts_with(&format!(": {reason}: ")))
        };
        let is_named = text.split("error: object ").filter_map(names).any(|is_named| is_named);
        assert!(is_named || reason.contains('|'), "{reason}: {text}");
    }
    assert_unharmed(&gateway.service, 0).await;
    assert_empty(&gateway.service).await;
}

/// Returns the ids of all objects reachable from `commit`, one per line. Searches the bytes of
/// objects for ids, because git cannot walk malformed ones.
fn reachable(w: &Workshop, commit: &str) -> String {
    let mut wanted = vec![commit.to_owned()];
    let mut index = 0;
    while let Some(id) = wanted.get(index).cloned() {
        index += 1;
        let raw = filter_bytes(w.path(), &["cat-file", "--batch"], format!("{id}\n").as_bytes());
        let all = filter(w.path(), "git", &["cat-file", "--batch-check", "--batch-all-objects"], b"");
        for line in all.lines() {
            let other = &line[..40];
            let binary = hex::decode(other).unwrap();
            let is_named = raw.windows(20).any(|window| window == binary)
                || raw.windows(40).any(|window| window == other.as_bytes());
            if is_named && !wanted.iter().any(|known| known == other) {
                wanted.push(other.to_owned());
            }
        }
    }
    wanted.join("\n") + "\n"
}

pub(crate) fn filter_bytes(folder: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("git")
        .current_dir(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}");
    output.stdout
}

/// Pushes new refs with a pack and returns the response. Takes the bytes out of `pack`.
pub(crate) async fn push(service: &Service, id: i64, refs: &[(&str, &str)], pack: &mut Vec<u8>) -> String {
    let mut body = Vec::new();
    for (index, (name, new)) in refs.iter().enumerate() {
        let features = if index == 0 { "\0report-status side-band-64k" } else { "" };
        let line = format!("{} {new} {name}{features}", "0".repeat(40));
        body.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
    }
    body.extend_from_slice(b"0000");
    body.append(pack);
    let path = format!("/git/{id}/receive-pack");
    let request = bodies::request(service, Method::POST, &path, RECEIVE_PACK, id).body(Body::from(body)).unwrap();
    let (status, _, response) = bodies::send(service, request).await;
    assert_eq!(status, StatusCode::OK, "{response:?}");
    String::from_utf8_lossy(&response).into_owned()
}

/// Returns a pack entry whose header claims `size` bytes. `base` is the reference to a delta's
/// base.
pub(crate) fn entry(kind: u8, size: u64, base: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![kind << 4 | (size & 15) as u8];
    let mut rest = size >> 4;
    while rest > 0 {
        *out.last_mut().unwrap() |= 0x80;
        out.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.extend_from_slice(base);
    let mut encoder = ZlibEncoder::new(out, Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a pack whose header claims `count` objects, with its checksum.
pub(crate) fn pack(count: u32, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [b"PACK\0\0\0\x02".as_slice(), &count.to_be_bytes(), &entries.concat()].concat();
    let sum = filter(Path::new("/"), "sha1sum", &[], &bytes);
    bytes.extend_from_slice(&hex::decode(&sum[..40]).unwrap());
    bytes
}

/// Returns a delta that repeats the first byte of a base of `base` bytes `size` times. Sizes are
/// below 128.
fn delta(base: u8, size: u8) -> Vec<u8> {
    [&[base, size], [0x90, 1].repeat(usize::from(size)).as_slice()].concat()
}

#[tokio::test]
async fn malformed_packs_are_refused() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let blob = entry(BLOB, 3, b"", b"abc");
    let back = |distance: u8| vec![distance];
    let mut torn = pack(1, std::slice::from_ref(&blob));
    torn.truncate(torn.len() - 9);
    let mut forged = pack(1, std::slice::from_ref(&blob));
    *forged.last_mut().unwrap() ^= 1;
    let length = u8::try_from(blob.len()).unwrap();
    let packs = [
        ("a blob of four gigabytes", pack(1, &[entry(BLOB, 4 << 30, b"", b"x")])),
        ("more bytes than said", pack(1, &[entry(BLOB, 3, b"", &[b'x'; 100_000])])),
        ("fewer bytes than said", pack(1, &[entry(BLOB, 100_000, b"", b"x")])),
        ("a tree of two gigabytes", pack(1, &[entry(TREE, 2 << 30, b"", b"x")])),
        ("a commit of all memory", pack(1, &[entry(COMMIT, 1 << 60, b"", b"x")])),
        ("more objects than said", pack(1, &[blob.clone(), blob.clone()])),
        ("fewer objects than said", pack(3, std::slice::from_ref(&blob))),
        ("no zlib", pack(1, &[[vec![BLOB << 4 | 3], b"garbage".to_vec()].concat()])),
        ("no such kind", pack(1, &[entry(5, 3, b"", b"abc")])),
        ("a base before the pack", pack(2, &[blob.clone(), entry(OFS_DELTA, 4, &back(120), &delta(3, 1))])),
        ("itself as its base", pack(2, &[blob.clone(), entry(OFS_DELTA, 4, &back(0), &delta(3, 1))])),
        ("another base than said", pack(2, &[blob.clone(), entry(OFS_DELTA, 4, &back(length), &delta(9, 1))])),
        ("a larger result than said", pack(2, &[blob.clone(), entry(OFS_DELTA, 4, &back(length), &[3, 90, 0x90, 1])])),
        ("a copy from outside", pack(2, &[blob.clone(), entry(OFS_DELTA, 5, &back(length), &[3, 1, 0x91, 99, 1])])),
        ("a base that is missing", pack(1, &[entry(REF_DELTA, 4, &[7; 20], &delta(3, 1))])),
        ("no end", torn),
        ("another checksum", forged),
        ("nothing", Vec::new()),
        ("no pack", b"KCAP\0\0\0\x02\0\0\0\x01".to_vec()),
        ("another version", b"PACK\0\0\0\x09\0\0\0\x01".to_vec()),
    ];
    for (what, mut pack) in packs {
        let text = push(&gateway.service, id, &[("refs/heads/main", &"1".repeat(40))], &mut pack).await;
        assert!(text.contains("unpack ") && !text.contains("unpack ok"), "{what}: {text}");
        assert!(text.contains("ng refs/heads/main "), "{what}: {text}");
    }
    assert_unharmed(&gateway.service, 0).await;
    assert_empty(&gateway.service).await;
}

#[tokio::test]
async fn too_many_objects_or_refs_are_refused_with_the_limit() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let commit = gateway.service.put(id, "a", b"a").await;
    // The object count in the header is rejected; the following bytes do not matter.
    let mut many = [b"PACK\0\0\0\x02".as_slice(), &100_001_u32.to_be_bytes(), &[0; 300_000]].concat();
    let text = push(&gateway.service, id, &[("refs/heads/x", &commit)], &mut many).await;
    assert!(text.contains("unpack the pack has 100001 objects; the limit is 100000"), "{text}");
    assert!(text.contains("ng refs/heads/x too many objects"), "{text}");

    let w = Workshop::new().await;
    let tip = w.file("100644", b"a", b"b");
    let packed: String = (0..1101).map(|index| format!("{tip} refs/heads/n{index:04}\n")).collect();
    std::fs::write(w.path().join("packed-refs"), packed).unwrap();
    let (succeeded, text) = try_git(w.path(), &["push", &gateway.remote(id), "refs/heads/*:refs/heads/*"]).await;
    assert!(!succeeded && text.contains("refs; the limit is 1100"), "{text}");
    let kept = git(&find_repository(&gateway.service.store()), &["count-objects", "-v"]).await;
    assert!(kept.contains("in-pack: 0"), "rejected objects were kept: {kept}");
    assert_unharmed(&gateway.service, 1).await;
    gateway.service.updates(id, 1).await;
}

#[tokio::test]
async fn ambiguous_and_reserved_ref_names_are_refused() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let commit = gateway.service.put(id, "a", b"a").await;
    let long = format!("refs/heads/{}", "n".repeat(300));
    let deep = format!("refs/heads/{}x", "n/".repeat(600));
    let names = [
        "refs/heads/-x",
        "refs/heads/--upload-pack=x",
        "refs/tags/-d",
        "refs/heads/a\x01b",
        "refs/heads/a\x7f",
        "refs/heads/a\tb",
        "refs/heads/a b",
        "refs/heads/a..b",
        "refs/heads/../x",
        "refs/heads/a.lock",
        "refs/heads/.a",
        "refs/heads/a//b",
        "refs/heads/a@{1}",
        "refs/heads/a~1",
        "refs/heads/HEAD",
        "refs/heads/refs/heads/x",
        "refs/pull/1/head",
        "refs/ferrite/x",
        "refs/replace/1111111111111111111111111111111111111111",
        "refs/heads/1111111111111111111111111111111111111111",
        "HEAD",
        "main",
        "../../config",
        &long,
        &deep,
    ];
    for name in names {
        let text = push(&gateway.service, id, &[(name, &commit)], &mut pack(0, &[])).await;
        assert!(!text.contains(&format!("ok {name}")) && text.contains("ng "), "{name:?}: {text:?}");
    }
    // A valid ref of the same push is still created.
    let both = [("refs/heads/-x", commit.as_str()), ("refs/heads/good", commit.as_str())];
    let text = push(&gateway.service, id, &both, &mut pack(0, &[])).await;
    assert!(text.contains("ok refs/heads/good") && text.contains("ng refs/heads/-x"), "{text}");
    let missing = push(&gateway.service, id, &[("refs/heads/m", &"2".repeat(40))], &mut pack(0, &[])).await;
    assert!(missing.contains("ng refs/heads/m"), "{missing}");
    assert_unharmed(&gateway.service, 2).await;
    gateway.service.updates(id, 2).await;
}

/// Returns the id of a blob, and a pack of it and of delta chains with these lengths based on it.
fn chains(w: &Workshop, lengths: &[u32]) -> (String, Vec<u8>) {
    let mut entries = vec![entry(BLOB, 4, b"", b"base")];
    let mut number = 0_u32;
    let mut before_chain = 0;
    for length in lengths {
        let mut back = before_chain + entries[0].len();
        for _ in 0..*length {
            number += 1;
            let delta = [&[4, 4, 4], number.to_be_bytes().as_slice()].concat();
            let mut distance = vec![(back & 0x7f) as u8];
            while back >> 7 > 0 {
                back = (back >> 7) - 1;
                distance.insert(0, 0x80 | (back & 0x7f) as u8);
            }
            let entry = entry(OFS_DELTA, 7, &distance, &delta);
            back = entry.len();
            before_chain += entry.len();
            entries.push(entry);
        }
    }
    (w.object("blob", b"base"), pack(u32::try_from(entries.len()).unwrap(), &entries))
}

#[tokio::test]
async fn delta_chains_that_are_too_deep_are_refused() {
    let gateway = Gateway::start().await;
    let id = gateway.service.create().await;
    let w = Workshop::new().await;
    let (blob, mut deep) = chains(&w, &[4096]);
    let text = push(&gateway.service, id, &[("refs/tags/deep", &blob)], &mut deep).await;
    assert!(text.contains("ng refs/tags/deep pre-receive hook declined"), "{text}");
    assert!(text.contains("the pack has delta chains that are too deep"), "{text}");
    assert_unharmed(&gateway.service, 0).await;
    assert_empty(&gateway.service).await;
    // Chains as deep as git itself writes (4095) are accepted.
    let (blob, mut wide) = chains(&w, &[4095, 10, 4000]);
    let text = push(&gateway.service, id, &[("refs/tags/wide", &blob)], &mut wide).await;
    assert!(text.contains("ok refs/tags/wide"), "{text}");
    assert_unharmed(&gateway.service, 1).await;
}
