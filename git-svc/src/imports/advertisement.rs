//! Parses the ref lists of remotes in protocol versions 0, 1 and 2 (gitprotocol-v2,
//! gitprotocol-pack).

use std::collections::HashSet;

use git_store::{
    git::pktline::Packet,
    repo::objects::full_id,
    types::name::{BranchName, RefName},
};
use git2::Oid;

use super::error::FetchError;

/// Limit on branches, tags and notes together.
pub(super) const MAX_REMOTE_REFS: usize = 100_000;
/// Refs to fetch. All others belong to pull requests or are internal.
pub(crate) const TAKEN_REFS: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/notes/"];
/// Preferred branches for HEAD if the remote names none.
const PREFERRED_BRANCHES: [&[u8]; 2] = [b"main", b"master"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemoteRefs {
    /// Branches, tags and notes, sorted by name.
    pub(super) refs: Vec<(RefName, Oid)>,
    /// Branch that HEAD points to. It need not exist.
    head: Option<BranchName>,
    head_id: Option<Oid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Advertisement {
    /// Version 2: refs need a second request.
    Version2 { request: Vec<u8> },
    /// Version 0 or 1: includes all refs.
    Refs(RemoteRefs),
}

impl RemoteRefs {
    /// Returns the branch for HEAD: the remote's, or else one of its branches, preferably
    /// `fallback`.
    pub(super) fn default_branch(&self, fallback: &BranchName) -> BranchName {
        let branches: Vec<_> = self.refs.iter().filter_map(|(name, id)| Some((name.branch()?, *id))).collect();
        let has = |name: &BranchName| branches.iter().any(|(branch, _)| branch == name);
        match &self.head {
            Some(head) if branches.is_empty() || has(head) => return head.clone(),
            _ => {}
        }
        let at_head: Vec<_> =
            branches.iter().filter(|(_, id)| Some(*id) == self.head_id).map(|(name, _)| name).collect();
        let candidates = if at_head.is_empty() { branches.iter().map(|(name, _)| name).collect() } else { at_head };
        let named = |name: &[u8]| candidates.iter().find(|branch| branch.as_bytes() == name);
        let preferred = named(fallback.as_bytes()).or_else(|| PREFERRED_BRANCHES.iter().find_map(|name| named(name)));
        preferred.or(candidates.first()).map_or_else(|| fallback.clone(), |name| (*name).clone())
    }

    /// Adds a ref if it is one of [`TAKEN_REFS`].
    fn add(&mut self, id: Oid, name: &[u8]) -> Result<(), FetchError> {
        if name == b"HEAD" {
            self.head_id = Some(id);
        }
        if !TAKEN_REFS.iter().any(|prefix| name.starts_with(prefix.as_bytes())) || name.ends_with(b"^{}") {
            return Ok(());
        }
        let name = RefName::parse(name).map_err(|_| FetchError::BadRefs)?;
        self.refs.push((name, id));
        if self.refs.len() > MAX_REMOTE_REFS { Err(FetchError::TooManyRefs { limit: MAX_REMOTE_REFS }) } else { Ok(()) }
    }

    fn set_head(&mut self, target: &[u8]) {
        self.head = RefName::parse(target).ok().and_then(|name| name.branch());
    }

    /// Sorts the refs and checks that they can coexist: no duplicates, none below another.
    fn finish(mut self) -> Result<Self, FetchError> {
        self.refs.sort();
        let names: HashSet<&[u8]> = self.refs.iter().map(|(name, _)| name.as_bytes()).collect();
        let is_twice = names.len() < self.refs.len();
        let is_below = self.refs.iter().any(|(name, _)| name.parents().any(|parent| names.contains(parent)));
        if is_twice || is_below { Err(FetchError::BadRefs) } else { Ok(self) }
    }
}

/// Parses the response to `info/refs`, or the greeting of a git server.
pub(super) fn parse_advertisement(bytes: &[u8]) -> Result<Advertisement, FetchError> {
    let mut packets = Packets(bytes);
    let mut first = packets.line()?.ok_or(FetchError::NotSmart)?;
    if first == b"# service=git-upload-pack" {
        if packets.next()? != Some(Packet::Flush) {
            return Err(FetchError::NotSmart);
        }
        first = match packets.line()? {
            Some(line) => line,
            // A server without refs may send nothing more.
            None => return Ok(Advertisement::Refs(RemoteRefs::default())),
        };
    }
    match first.as_slice() {
        b"version 2" => version_2(packets),
        b"version 1" => version_0(packets, None),
        _ => version_0(packets, Some(first)),
    }
}

/// Reads the capabilities of version 2 up to the flush. Returns the request for the refs.
fn version_2(mut packets: Packets<'_>) -> Result<Advertisement, FetchError> {
    let (mut has_ls_refs, mut has_unborn, mut has_format) = (false, false, false);
    while let Some(line) = packets.line()? {
        match line.split(|byte| *byte == b'=').next().unwrap_or_default() {
            b"ls-refs" => {
                has_ls_refs = true;
                has_unborn = line.ends_with(b"=unborn") || line.windows(8).any(|part| part == b"=unborn ");
            }
            b"object-format" if line != b"object-format=sha1" => return Err(FetchError::ObjectFormat),
            b"object-format" => has_format = true,
            _ => {}
        }
    }
    if !has_ls_refs {
        return Err(FetchError::NotSmart);
    }
    let mut request = Vec::new();
    let mut push = |packet: Packet| packet.encode(&mut request).expect("the lines are short");
    push(Packet::text("command=ls-refs\n"));
    if has_format {
        push(Packet::text("object-format=sha1\n"));
    }
    push(Packet::Delimiter);
    push(Packet::text("symrefs\n"));
    if has_unborn {
        push(Packet::text("unborn\n"));
    }
    for prefix in ["HEAD"].iter().chain(&TAKEN_REFS) {
        push(Packet::text(&format!("ref-prefix {prefix}\n")));
    }
    push(Packet::Flush);
    Ok(Advertisement::Version2 { request })
}

/// Reads all refs of version 0 or 1. The first line also has the capabilities.
fn version_0(mut packets: Packets<'_>, first: Option<Vec<u8>>) -> Result<Advertisement, FetchError> {
    let mut refs = RemoteRefs::default();
    let mut next = match first {
        Some(line) => Some(line),
        None => packets.line()?,
    };
    let mut is_first = true;
    while let Some(line) = next {
        let (line, capabilities) = match line.iter().position(|byte| *byte == 0) {
            Some(end) if is_first => (line[..end].to_vec(), line[end + 1..].to_vec()),
            _ if is_first => return Err(FetchError::NotSmart),
            _ => (line, Vec::new()),
        };
        is_first = false;
        for capability in capabilities.split(|byte| *byte == b' ') {
            if let Some(target) = capability.strip_prefix(b"symref=HEAD:") {
                refs.set_head(target);
            }
            if capability.strip_prefix(b"object-format=").is_some_and(|format| format != b"sha1") {
                return Err(FetchError::ObjectFormat);
            }
        }
        if !line.starts_with(b"shallow ") {
            let (id, name) = split_ref(&line)?;
            // A repository without refs sends one line, for the capabilities.
            if name != b"capabilities^{}" {
                refs.add(id.ok_or(FetchError::NotSmart)?, name)?;
            }
        }
        next = packets.line()?;
    }
    refs.finish().map(Advertisement::Refs)
}

/// Parses the response to `ls-refs` of version 2.
pub(super) fn parse_refs(bytes: &[u8]) -> Result<RemoteRefs, FetchError> {
    let (mut packets, mut refs) = (Packets(bytes), RemoteRefs::default());
    while let Some(line) = packets.line()? {
        let mut words = line.split(|byte| *byte == b' ');
        let (id, name) = (words.next().unwrap_or_default(), words.next().ok_or(FetchError::NotSmart)?);
        for target in words.filter_map(|word| word.strip_prefix(b"symref-target:")) {
            if name == b"HEAD" {
                refs.set_head(target);
            }
        }
        if id != b"unborn" {
            refs.add(full_id(id).filter(|id| !id.is_zero()).ok_or(FetchError::NotSmart)?, name)?;
        }
    }
    refs.finish()
}

/// Splits `<id> <name>`. The id is `None` if it is all zeros.
fn split_ref(line: &[u8]) -> Result<(Option<Oid>, &[u8]), FetchError> {
    let space = line.iter().position(|byte| *byte == b' ').ok_or(FetchError::NotSmart)?;
    let (id, name) = (&line[..space], &line[space + 1..]);
    if id.len() == 64 {
        return Err(FetchError::ObjectFormat);
    }
    if id == [b'0'; 40] { Ok((None, name)) } else { full_id(id).map(|id| (Some(id), name)).ok_or(FetchError::NotSmart) }
}

/// The packets of a complete response.
struct Packets<'a>(&'a [u8]);

impl Packets<'_> {
    fn next(&mut self) -> Result<Option<Packet>, FetchError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (packet, taken) = Packet::decode(self.0).ok().flatten().ok_or(FetchError::NotSmart)?;
        self.0 = &self.0[taken..];
        Ok(Some(packet))
    }

    /// Returns the next line; `None` at the final flush. A response without that flush was cut off.
    fn line(&mut self) -> Result<Option<Vec<u8>>, FetchError> {
        let packet = self.next()?.ok_or(FetchError::Broken)?;
        match packet.line() {
            Some(line) if line.starts_with(b"ERR ") => Err(FetchError::NotFound),
            Some(line) => Ok(Some(line.to_vec())),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";
    const ZEROS: &str = "0000000000000000000000000000000000000000";

    fn answer(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            let packet = if line.is_empty() { Packet::Flush } else { Packet::text(line) };
            packet.encode(&mut bytes).unwrap();
        }
        bytes
    }

    fn names(refs: &RemoteRefs) -> Vec<String> {
        refs.refs.iter().map(|(name, id)| format!("{name} {}", &id.to_string()[..1])).collect()
    }

    fn branch(name: &str) -> BranchName {
        BranchName::parse(name.as_bytes()).unwrap()
    }

    #[test]
    fn version_2_asks_for_branches_tags_and_notes() {
        let capabilities = ["version 2\n", "agent=git/2\n", "ls-refs=unborn\n", "object-format=sha1\n", ""];
        let github = [&["# service=git-upload-pack\n", ""][..], &capabilities].concat();
        for lines in [capabilities.to_vec(), github] {
            let Advertisement::Version2 { request } = parse_advertisement(&answer(&lines)).unwrap() else { panic!() };
            let text = String::from_utf8(request).unwrap();
            for part in ["command=ls-refs", "object-format=sha1", "unborn", "ref-prefix refs/notes/", "ref-prefix HEAD"]
            {
                assert!(text.contains(part), "{text}");
            }
        }
        let sha256 = answer(&["version 2\n", "ls-refs\n", "object-format=sha256\n", ""]);
        assert!(matches!(parse_advertisement(&sha256), Err(FetchError::ObjectFormat)));
    }

    #[test]
    fn refs_of_every_version_are_sorted_and_those_of_pull_requests_left_out() {
        let listed = [
            format!("{TWO} refs/tags/v1"),
            format!("{ONE} refs/heads/main"),
            format!("{TWO} refs/pull/1/head"),
            format!("{ONE} refs/notes/commits"),
        ];
        let expected = ["refs/heads/main 1", "refs/notes/commits 1", "refs/tags/v1 2"];
        let head = format!("{ONE} HEAD symref-target:refs/heads/main");
        let version_2: Vec<&str> =
            [head.as_str()].into_iter().chain(listed.iter().map(String::as_str)).chain([""]).collect();
        let refs = parse_refs(&answer(&version_2)).unwrap();
        assert_eq!((names(&refs), refs.head.clone()), (expected.map(str::to_owned).to_vec(), Some(branch("main"))));
        let head = format!("{ONE} HEAD\0multi_ack symref=HEAD:refs/heads/main object-format=sha1");
        let peeled = format!("{ONE} refs/tags/v1^{{}}");
        let first = ["# service=git-upload-pack\n", "", head.as_str()];
        let version_0: Vec<&str> =
            first.into_iter().chain(listed.iter().map(String::as_str)).chain([peeled.as_str(), ""]).collect();
        assert_eq!(parse_advertisement(&answer(&version_0)).unwrap(), Advertisement::Refs(refs));
    }

    #[test]
    fn an_empty_repository_has_a_head_at_most() {
        let line = format!("{ZEROS} capabilities^{{}}\0multi_ack");
        let refs = parse_advertisement(&answer(&[&line, ""])).unwrap();
        assert_eq!(refs, Advertisement::Refs(RemoteRefs::default()));
        let refs = parse_refs(&answer(&["unborn HEAD symref-target:refs/heads/trunk", ""])).unwrap();
        assert_eq!(refs.default_branch(&branch("main")), branch("trunk"));
        assert_eq!(RemoteRefs::default().default_branch(&branch("main")), branch("main"));
    }

    #[test]
    fn what_cannot_be_stored_or_is_no_answer_is_refused() {
        let ones = |names: &[&str]| {
            let lines: Vec<_> = names.iter().map(|name| format!("{ONE} {name}")).collect();
            parse_refs(&answer(&lines.iter().map(String::as_str).chain([""]).collect::<Vec<_>>()))
        };
        for bad in [
            &["refs/heads/a", "refs/heads/a/b"][..],
            &["refs/heads/a", "refs/heads/a-b", "refs/heads/a/b/c"],
            &["refs/heads/a", "refs/heads/a"],
            &["refs/heads/../x"],
            &["refs/heads/x.lock"],
        ] {
            assert!(matches!(ones(bad), Err(FetchError::BadRefs)), "{bad:?}");
        }
        assert!(ones(&["refs/heads/a", "refs/heads/a-b", "refs/tags/a"]).is_ok());
        for bytes in [&b"<html>"[..], b"", b"001e# service=git-upload-pack\n", b"0009done\n", b"zzzz", b"0000"] {
            assert!(parse_advertisement(bytes).is_err(), "{bytes:?}");
        }
        assert!(matches!(parse_refs(&answer(&["x refs/heads/a", ""])), Err(FetchError::NotSmart)));
        assert!(matches!(parse_refs(&answer(&[&format!("{ONE} refs/heads/a")])), Err(FetchError::Broken)));
        assert!(matches!(parse_advertisement(&answer(&["ERR access denied"])), Err(FetchError::NotFound)));
    }

    #[test]
    fn a_head_that_names_no_branch_is_chosen() {
        let chosen = |lines: &[&str], fallback: &str| {
            let refs = parse_refs(&answer(&[lines, &[""]].concat())).unwrap();
            refs.default_branch(&branch(fallback)).to_string()
        };
        let (a, main) = (format!("{ONE} refs/heads/a"), format!("{TWO} refs/heads/main"));
        assert_eq!(chosen(&[&a, &main], "other"), "main");
        assert_eq!(chosen(&[&a, &main], "a"), "a");
        assert_eq!(chosen(&[&a], "other"), "a");
        assert_eq!(chosen(&[&format!("{ONE} HEAD"), &a, &main], "main"), "a", "HEAD is detached");
        assert_eq!(chosen(&[&format!("{ONE} HEAD symref-target:refs/heads/gone"), &a], "other"), "a");
    }
}
