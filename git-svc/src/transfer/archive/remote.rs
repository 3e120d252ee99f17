//! Archives for `git archive --remote`: checks the request like one over HTTP, and starts the
//! process that serves it. git gets a rewritten request with the id of the tree and only options we
//! know.
//!
//! The format is that of git's `gitprotocol-common` and `upload-archive`: packets `argument …`,
//! then a flush.

use std::path::Path;

use ferrite_proto::id::RepositoryId;
use git_store::{
    git::{
        command::{GitChild, feed},
        pktline::Packet,
    },
    repo::{
        objects,
        read::{Deadline, deadline::READ_TIMEOUT},
        revision::{Revision, peel_to_tree},
    },
    types::{error::GitError, limits::MAX_LOADED_DELTA_OBJECT_BYTES},
};
use git2::{ObjectType, Oid, Repository};

use super::{ArchiveService, plan::check_tree};

pub(crate) const MAX_REQUEST_BYTES: usize = 256 << 10;
/// Limit on the arguments of a request, as in git itself (`MAX_ARGS`).
const MAX_ARGUMENTS: usize = 64;
/// Limit on the reason of a rejection, which may repeat text of the client.
const MAX_REASON_CHARS: usize = 200;
/// Formats of git that need no program of the operator.
const FORMATS: [&[u8]; 4] = [b"tar", b"tgz", b"tar.gz", b"zip"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteArchive {
    /// Options for git, each a single argument.
    options: Vec<Vec<u8>>,
    /// Whether the client asks for the list of formats, which needs no tree.
    is_list: bool,
    /// Name of a ref, optionally followed by a colon and the path of a directory in it.
    tree: Vec<u8>,
    /// Paths to include; all if empty.
    paths: Vec<Vec<u8>>,
}

/// Returns the length of the request at the beginning of `bytes`, including its flush; `None` if
/// more bytes are needed. Fails with `Invalid` if the bytes are no packets.
pub(crate) fn request_length(bytes: &[u8]) -> Result<Option<usize>, GitError> {
    let mut at = 0;
    while let Some((packet, length)) = Packet::decode(&bytes[at..]).map_err(|_| malformed())? {
        at += length;
        match packet {
            Packet::Data(_) => {}
            Packet::Flush => return Ok(Some(at)),
            Packet::Delimiter | Packet::ResponseEnd => return Err(malformed()),
        }
    }
    Ok(None)
}

fn malformed() -> GitError {
    GitError::invalid("request", "invalid", "is not an archive request")
}

/// Returns the packet that rejects a request, as git sends it.
pub(crate) fn refusal(reason: &str) -> Vec<u8> {
    let reason: String = reason.chars().filter(|letter| !letter.is_control()).take(MAX_REASON_CHARS).collect();
    let mut bytes = Vec::new();
    // Fails only for a text longer than a packet.
    let _ = Packet::text(&format!("NACK {reason}\n")).encode(&mut bytes);
    bytes
}

impl RemoteArchive {
    /// Parses a complete request. The error is the reason for the client.
    fn parse(mut bytes: &[u8]) -> Result<Self, String> {
        let mut arguments = Vec::new();
        while let Ok(Some((packet, length))) = Packet::decode(bytes) {
            bytes = &bytes[length..];
            let Some(line) = packet.line() else { break };
            let argument = line.strip_prefix(b"argument ").ok_or("malformed request")?;
            if arguments.len() == MAX_ARGUMENTS {
                return Err(format!("more than {MAX_ARGUMENTS} arguments"));
            }
            if argument.contains(&0) {
                return Err("malformed request".to_owned());
            }
            arguments.push(argument.to_vec());
        }
        Self::of(arguments)
    }

    fn of(arguments: Vec<Vec<u8>>) -> Result<Self, String> {
        let mut request = Self::default();
        let (mut has_tree, mut are_options_over) = (false, false);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if are_options_over || !argument.starts_with(b"-") {
                if std::mem::replace(&mut has_tree, true) {
                    request.paths.push(argument);
                } else {
                    request.tree = argument;
                }
                continue;
            }
            match argument.as_slice() {
                b"--" | b"--end-of-options" => are_options_over = true,
                b"-l" | b"--list" => request.is_list = true,
                b"-v" | b"--verbose" | [b'-', b'0'..=b'9'] => request.options.push(argument),
                b"--format" | b"--prefix" => {
                    let value = arguments.next().ok_or("missing value of an option")?;
                    request.option([argument.as_slice(), b"=", &value].concat())?;
                }
                _ => request.option(argument)?,
            }
        }
        if !has_tree && !request.is_list {
            return Err("missing tree".to_owned());
        }
        request.paths.iter_mut().for_each(normalize);
        // An empty path means the whole tree.
        if request.paths.iter().any(Vec::is_empty) {
            request.paths.clear();
        }
        Ok(request)
    }

    /// Adds an option whose value is in the same argument.
    fn option(&mut self, option: Vec<u8>) -> Result<(), String> {
        let is_known = match option.strip_prefix(b"--format=") {
            Some(format) => FORMATS.contains(&format),
            None => option.starts_with(b"--prefix=") || option.starts_with(b"--mtime="),
        };
        if !is_known {
            return Err(format!("`{}` is not supported", String::from_utf8_lossy(&option)));
        }
        self.options.push(option);
        Ok(())
    }

    /// Returns the request for git, for the tree with this id.
    fn for_git(&self, tree: Option<Oid>) -> Result<Vec<u8>, GitError> {
        let mut arguments = self.options.clone();
        if self.is_list {
            arguments.push(b"--list".to_vec());
        }
        arguments.push(b"--".to_vec());
        arguments.extend(tree.map(|id| id.to_string().into_bytes()));
        arguments.extend(self.paths.iter().cloned());
        let mut bytes = Vec::new();
        for argument in arguments {
            Packet::Data([b"argument ".as_slice(), &argument].concat()).encode(&mut bytes).map_err(|_| malformed())?;
        }
        Packet::Flush.encode(&mut bytes).map_err(|_| malformed())?;
        Ok(bytes)
    }

    /// Finds the tree: the commit of a ref, or a directory in it. As in git itself, it can only be
    /// reached through a ref.
    fn resolve(&self, repo: &Repository) -> Result<Oid, GitError> {
        let mut parts = self.tree.splitn(2, |byte| *byte == b':');
        let (name, path) = (parts.next().unwrap_or_default(), parts.next());
        let full = [b"refs/".as_slice(), name].concat();
        let is_short = name.starts_with(b"heads/") || name.starts_with(b"tags/");
        let names = is_short.then_some(full.as_slice()).into_iter().chain((!name.is_empty()).then_some(name));
        let resolved = names.filter_map(|name| Revision::parse(name).ok()?.resolve(repo).ok());
        let commit = resolved.into_iter().find(|found| found.name.is_some()).ok_or(GitError::RevisionNotFound)?.commit;
        let Some(path) = path else { return Ok(commit) };
        let tree = objects::tree_of(repo, commit)?;
        let mut path = path.to_vec();
        normalize(&mut path);
        if path.is_empty() {
            return Ok(tree.id());
        }
        let found = std::str::from_utf8(&path).ok().and_then(|path| tree.get_path(Path::new(path)).ok());
        let folder = found.filter(|entry| entry.kind() == Some(ObjectType::Tree));
        folder.map(|entry| entry.id()).ok_or(GitError::RevisionNotFound)
    }
}

/// Removes `./` at the beginning of a path and slashes at its end.
fn normalize(path: &mut Vec<u8>) {
    while path.starts_with(b"./") {
        path.drain(..2);
    }
    while path.ends_with(b"/") {
        path.pop();
    }
    if path == b"." {
        path.clear();
    }
}

impl ArchiveService {
    /// Limit on the bytes of an archive that git sends.
    pub(crate) fn max_output_bytes(&self) -> u64 {
        self.cache.limits.output()
    }

    /// Starts the process that serves a complete request. The inner error is the reason for the
    /// client why it is rejected. The caller must hold the permit.
    pub(crate) async fn start_remote(
        &self,
        repository: RepositoryId,
        request: &[u8],
    ) -> Result<Result<GitChild, String>, GitError> {
        let request = match RemoteArchive::parse(request) {
            Ok(request) => request,
            Err(reason) => return Ok(Err(reason)),
        };
        let tree =
            if request.is_list { Ok(None) } else { self.check_remote(repository, request.clone()).await.map(Some) };
        let tree = match tree {
            Ok(tree) => tree,
            Err(GitError::RevisionNotFound) => {
                return Ok(Err(format!("no such ref: {}", String::from_utf8_lossy(&request.tree))));
            }
            Err(error @ (GitError::TooLarge { .. } | GitError::TimedOut { .. } | GitError::Invalid(_))) => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        self.pool.run_blocking(move |store| store.write_attributes(repository)).await?;
        metrics::counter!("ferrite_git_archives_total", "by" => "remote").increment(1);
        let bytes = request.for_git(tree)?;
        let mut child = self.git.upload_archive(&self.store.path(repository))?;
        feed(child.stdin.take(), &bytes).await;
        Ok(Ok(child))
    }

    /// Finds the tree of a request and checks it against the limits.
    async fn check_remote(&self, repository: RepositoryId, request: RemoteArchive) -> Result<Oid, GitError> {
        let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
        let limits = self.cache.limits;
        let job = move |repo: &Repository| {
            let id = request.resolve(repo)?;
            let tree = peel_to_tree(repo, id)?.ok_or(GitError::RevisionNotFound)?;
            let tree = objects::find_tree(repo, tree)?;
            let checked = check_tree(repo, tree, &request.paths, &limits, || deadline.check())?;
            if checked.has_large_deltas {
                // git would hold it in memory for as long as the client reads.
                let what = "a file that is stored as a delta, or its base (get the archive over HTTP),";
                return Err(GitError::TooLarge { what, limit: MAX_LOADED_DELTA_OBJECT_BYTES });
            }
            Ok(id)
        };
        self.pool.run(repository, job).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for argument in arguments {
            Packet::text(&format!("argument {argument}\n")).encode(&mut bytes).unwrap();
        }
        Packet::Flush.encode(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn git_gets_the_tree_and_the_paths_behind_the_options() {
        let bytes = request(&["--format", "zip", "-9", "main:dir/", "--prefix=p/", "a/", "./b", "-v"]);
        assert_eq!(request_length(&bytes).unwrap(), Some(bytes.len()));
        assert_eq!(request_length(&bytes[..bytes.len() - 1]).unwrap(), None);
        let parsed = RemoteArchive::parse(&bytes).unwrap();
        assert_eq!(parsed.tree, b"main:dir/");
        let id = Oid::from_bytes(&[0x11; 20]).unwrap();
        let mut expected = Vec::new();
        for argument in ["--format=zip", "-9", "--prefix=p/", "-v", "--", &"11".repeat(20), "a", "b"] {
            Packet::text(&format!("argument {argument}")).encode(&mut expected).unwrap();
        }
        expected.extend(b"0000");
        assert_eq!(parsed.for_git(Some(id)).unwrap(), expected);
        assert!(RemoteArchive::parse(&request(&["main", "."])).unwrap().paths.is_empty());
        assert!(RemoteArchive::parse(&request(&["--list"])).unwrap().is_list);
    }

    #[test]
    fn options_that_are_not_known_are_refused() {
        for wrong in [
            &["--exec=id", "main"][..],
            &["--worktree-attributes", "main"],
            &["--add-file=/etc/passwd", "main"],
            &["--add-virtual-file=a:b", "main"],
            &["--output=/tmp/x", "main"],
            &["-o", "x", "main"],
            &["--format=bz2", "main"],
            &["--form=tar", "main"],
            &["main", "--remote=x"],
            &["--format"],
            &[],
        ] {
            assert!(RemoteArchive::parse(&request(wrong)).is_err(), "{wrong:?}");
        }
        assert!(RemoteArchive::parse(&request(&vec!["x"; MAX_ARGUMENTS + 1])).is_err());
        assert!(RemoteArchive::parse(b"000bcommand0000").is_err());
        assert!(request_length(b"0001").is_err() && request_length(b"zzzz").is_err());
        let behind = RemoteArchive::parse(&request(&["--end-of-options", "--exec=id"])).unwrap();
        assert_eq!(behind.tree, b"--exec=id", "a name, which no ref has");
    }
}
