//! Requests for `git pack-objects`, as `upload-pack` makes them: which ones are known, and the
//! cache key of a pack.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

use ferrite_proto::id::RepositoryId;
use git_store::git::command::MAX_TREE_FILTER_DEPTH;
use sha2::{Digest as _, Sha256};

use super::hook_protocol::InputSummary;
use crate::admission::limiter::ClientKey;

#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) repository: RepositoryId,
    /// Epoch of the repository's placement. After a move, packs made before it are not found.
    pub(crate) epoch: i64,
    /// Client whose limits apply.
    pub(crate) client: ClientKey,
}

/// Hash of everything that determines the bytes of a pack: requests with equal keys share one pack.
pub(super) type Key = [u8; 32];

/// Options without a value that `upload-pack` passes, except those for progress.
const OPTIONS: &[&[u8]] = &[b"--revs", b"--thin", b"--stdout", b"--shallow", b"--delta-base-offset", b"--include-tag"];
/// Prefixes of filters whose meaning does not depend on refs.
const FILTERS: &[&str] = &["blob:none", "blob:limit=", "tree:", "object:type="];
/// Limit on a filter, which also limits the parts it combines.
const MAX_FILTER_BYTES: usize = 256;

/// A request whose pack git-svc can make itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Arguments of git, without those for progress.
    args: Vec<Vec<u8>>,
    pub(super) wants_progress: bool,
    pub(super) input: InputSummary,
}

impl Request {
    /// Parses the hook's arguments; `None` if one is unknown, in which case the hook makes the
    /// pack.
    pub(super) fn parse(args: &[Vec<u8>], input: InputSummary) -> Option<Self> {
        let args = args.strip_prefix(&[b"git".to_vec()])?;
        let shallow = [b"--shallow-file".to_vec(), Vec::new()];
        let (mut kept, args) = match args.strip_prefix(&shallow) {
            Some(args) => (shallow.to_vec(), args),
            None => (Vec::new(), args),
        };
        let (subcommand, options) = args.split_first()?;
        if subcommand != b"pack-objects" {
            return None;
        }
        kept.push(subcommand.clone());
        let mut wants_progress = false;
        for option in options {
            match option.as_slice() {
                b"--progress" => wants_progress = true,
                b"-q" => {}
                option if OPTIONS.contains(&option) || is_filter(option) => kept.push(option.to_vec()),
                _ => return None,
            }
        }
        let is_whole =
            [b"--revs".as_slice(), b"--stdout"].into_iter().all(|needed| kept.iter().any(|arg| arg == needed));
        is_whole.then_some(Self { args: kept, wants_progress, input })
    }

    /// Returns whether the pack has all wanted objects with their whole history.
    pub(super) fn is_unlimited(&self) -> bool {
        !self.args.iter().any(|arg| arg == b"--shallow" || arg.starts_with(b"--filter="))
    }

    /// Returns the arguments of the process that makes the pack. With `--all-progress` it always
    /// writes to stderr, so it notices that the reader is gone, even if git-svc was killed.
    pub(super) fn args(&self) -> Vec<OsString> {
        let args = self.args.iter().map(|arg| OsString::from_vec(arg.clone()));
        args.chain(["--all-progress".into()]).collect()
    }

    pub(super) fn key(&self, fetch: &Fetch) -> Key {
        let mut hash = Sha256::new();
        hash.update(format!("{} {} {} ", fetch.repository, fetch.epoch, self.input.hash));
        for arg in &self.args {
            hash.update((arg.len() as u64).to_le_bytes());
            hash.update(arg);
        }
        hash.finalize().into()
    }
}

/// Returns whether an argument of `pack-objects` is an unsupported filter. git's own settings
/// exclude kinds of filters; this limits how many parts are combined.
pub(crate) fn is_refused_filter(option: &[u8]) -> bool {
    option.starts_with(b"--filter") && !is_filter(option)
}

fn is_filter(option: &[u8]) -> bool {
    let Some(filter) = option.strip_prefix(b"--filter=").and_then(|filter| std::str::from_utf8(filter).ok()) else {
        return false;
    };
    // Filters with percent-encoded parts are unknown.
    let is_plain = filter.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":=+".contains(&byte));
    let parts = filter.strip_prefix("combine:").unwrap_or(filter);
    is_plain && filter.len() <= MAX_FILTER_BYTES && parts.split('+').all(is_part)
}

/// Returns whether one part of a filter is known.
fn is_part(part: &str) -> bool {
    let is_shallow = |depth: &str| depth.parse::<u32>().is_ok_and(|depth| depth <= MAX_TREE_FILTER_DEPTH);
    FILTERS.iter().any(|known| part.starts_with(known)) && part.strip_prefix("tree:").is_none_or(is_shallow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Option<Request> {
        let args: Vec<_> = args.split(' ').map(|arg| arg.replace("''", "").into_bytes()).collect();
        Request::parse(&args, InputSummary::of(b"1111\n--not\n\n"))
    }

    #[test]
    fn filters_beyond_those_of_git_settings_are_refused() {
        for served in ["blob:none", "blob:limit=1k", "tree:32", "combine:blob:none+tree:3", "object:type=commit"] {
            assert!(!is_refused_filter(format!("--filter={served}").as_bytes()), "{served}");
        }
        let many = format!("combine:{}", vec!["tree:0"; 50].join("+"));
        for refused in
            ["sparse:oid=main:x", "tree:33", "combine:tree:0+sparse:oid=1", "combine:tree%3a0+tree:0", &many, ""]
        {
            assert!(is_refused_filter(format!("--filter={refused}").as_bytes()), "{refused}");
        }
        assert!(!is_refused_filter(b"--revs"));
    }

    #[test]
    fn only_known_options_are_taken() {
        let known = "git pack-objects --revs --thin --stdout --progress --delta-base-offset --include-tag";
        assert!(parse(known).unwrap().wants_progress);
        let shallow = parse("git --shallow-file '' pack-objects --revs --stdout --shallow").unwrap();
        assert_eq!(
            shallow.args(),
            ["--shallow-file", "", "pack-objects", "--revs", "--stdout", "--shallow", "--all-progress"]
        );
        for filter in ["blob:none", "tree:0", "blob:limit=1k", "combine:blob:none+tree:3", "object:type=tag"] {
            assert!(!parse(&format!("git pack-objects --revs --stdout --filter={filter}")).unwrap().is_unlimited());
        }
        for wrong in [
            "",
            "git",
            "sh pack-objects --revs --stdout",
            "git repack --revs --stdout",
            "git pack-objects --stdout",
            "git pack-objects --revs",
            "git -c x=y pack-objects --revs --stdout",
            "git pack-objects --revs --stdout --all",
            "git pack-objects --revs --stdout /tmp/x",
            "git pack-objects --revs --stdout --filter=sparse:oid=main:x",
            "git pack-objects --revs --stdout --filter=combine:tree:0+sparse:oid=x",
            "git pack-objects --revs --stdout --filter=combine:%73parse:oid=x",
            "git pack-objects --revs --stdout --uri-protocol=https",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_covers_repository_options_and_input() {
        let fetch =
            |repository, epoch| Fetch { repository: RepositoryId(repository), epoch, client: ClientKey::Unknown };
        let request = parse("git pack-objects --revs --stdout --thin").unwrap();
        let key = request.key(&fetch(1, 1));
        let silent = parse("git pack-objects --revs --stdout --thin --progress").unwrap();
        assert_eq!(silent.key(&Fetch { client: ClientKey::User(3), ..fetch(1, 1) }), key);
        let other_input = Request { input: InputSummary::of(b"2222\n--not\n\n"), ..request.clone() };
        let keys = [
            request.key(&fetch(2, 1)),
            request.key(&fetch(1, 2)),
            other_input.key(&fetch(1, 1)),
            parse("git pack-objects --revs --stdout").unwrap().key(&fetch(1, 1)),
        ];
        assert!(keys.iter().all(|other| *other != key));
    }
}
