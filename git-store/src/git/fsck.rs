//! Which findings of git's object check (fsck) we accept: one table for pushes, imports and
//! mirrors. Forks copy objects that have passed it.
//!
//! Histories on GitHub and GitLab contain malformed commits, tags and trees written by old tools.
//! They harm no program, and fixing them would change every later id, so they are accepted.
//! Anything that could harm a server or a client is refused.

use git2::Oid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Accepted silently.
    Accept,
    /// Accepted; git warns the pusher.
    Warn,
    /// Refused by git itself: by default, or because `--strict` turns warnings into errors.
    Refuse,
    /// Not about objects: only `git refs verify` reports it.
    Refs,
}

use Verdict::{Accept, Refs, Refuse, Warn};

/// Every message id of git in alphabetical order, with the reason for the verdict. A test compares
/// the list with `git help --config`.
const VERDICTS: &[(&str, Verdict, &str)] = &[
    ("badDate", Accept, "no digits where the date should be, or another address in between; rabbitmq-c, dropwizard"),
    ("badDateOverflow", Accept, "a number out of range for a date; the line is only displayed"),
    ("badEmail", Accept, "a `<` within the address, or no `>`"),
    ("badFilemode", Accept, "bits that old versions of git kept, such as 100664; all readers ignore them"),
    ("badGpgsig", Refuse, "a truncated signature; git 2.51"),
    ("badHeaderContinuation", Refuse, "a continuation line without a header; git 2.51"),
    ("badHeadTarget", Refs, ""),
    ("badName", Accept, "a `>` within the name; TrinityCore"),
    ("badObjectSha1", Refuse, "a tag without a valid target"),
    ("badPackedRefEntry", Refs, ""),
    ("badPackedRefHeader", Refs, ""),
    ("badParentSha1", Refuse, "a commit without a valid parent id"),
    ("badRefContent", Refs, ""),
    ("badReferentName", Refs, ""),
    ("badRefFiletype", Refs, ""),
    ("badRefName", Refs, ""),
    ("badRefOid", Refs, ""),
    ("badReftableTableName", Refs, ""),
    ("badTagName", Accept, "the name in the tag object is not used; the ref has the name"),
    ("badTimezone", Accept, "an offset of five digits, or none; requests, all of vim-scripts"),
    ("badTree", Refuse, "cannot be parsed"),
    ("badTreeSha1", Refuse, "a commit without a valid tree id"),
    ("badType", Refuse, "a tag for an unknown type"),
    ("duplicateEntries", Refuse, "a symbolic link and a folder with the same name: a checkout writes through the link"),
    ("emptyName", Refuse, "the path equals that of its folder"),
    ("emptyPackedRefsFile", Refs, ""),
    ("extraHeaderEntry", Accept, "signatures, encodings and fields of newer versions"),
    ("fullPathname", Refuse, "a `/` in a name: a checkout escapes its folder"),
    ("gitattributesBlob", Refuse, "cannot be checked"),
    ("gitattributesLarge", Refuse, "old clients overflow"),
    ("gitattributesLineLength", Refuse, "old clients overflow (CVE-2022-23521)"),
    ("gitattributesMissing", Refuse, "cannot be checked"),
    ("gitattributesSymlink", Warn, "current clients do not follow it; git only warns, and no host rejects it"),
    ("gitignoreSymlink", Warn, "as before; many repositories have one"),
    ("gitmodulesBlob", Refuse, "cannot be checked"),
    ("gitmodulesLarge", Refuse, "cannot be checked"),
    ("gitmodulesMissing", Refuse, "cannot be checked"),
    ("gitmodulesName", Refuse, "a name that escapes `.git/modules` (CVE-2018-11235)"),
    ("gitmodulesParse", Warn, "clients do not read it either"),
    ("gitmodulesPath", Refuse, "a path that looks like an option (CVE-2018-17456)"),
    ("gitmodulesSymlink", Refuse, "clients read it through the link"),
    ("gitmodulesUpdate", Refuse, "a command (CVE-2019-19604)"),
    ("gitmodulesUrl", Refuse, "a URL that looks like an option or has a line break (CVE-2018-17456, CVE-2020-11008)"),
    ("hasDot", Refuse, "the path equals that of its folder"),
    ("hasDotdot", Refuse, "a checkout escapes its folder"),
    ("hasDotgit", Refuse, "a checkout writes hooks (CVE-2014-9390)"),
    ("largePathname", Refuse, "clients fail or overflow"),
    ("mailmapSymlink", Warn, "as `gitattributesSymlink`"),
    ("missingAuthor", Refuse, "libgit2 and JGit cannot read the commit, and no known history needs it"),
    ("missingCommitter", Refuse, "as before"),
    ("missingEmail", Accept, "no email address"),
    ("missingNameBeforeEmail", Accept, "no name; highlight.js, haddock"),
    ("missingObject", Refuse, "a tag without a target"),
    ("missingSpaceBeforeDate", Accept, "no space, or no date; coreutils, mesa"),
    ("missingSpaceBeforeEmail", Accept, "LibreOffice, werkzeug"),
    ("missingTag", Refuse, "cannot be parsed"),
    ("missingTagEntry", Refuse, "cannot be parsed"),
    ("missingTaggerEntry", Accept, "tags from 2005 have none; Linux"),
    ("missingTree", Refuse, "a commit without a tree"),
    ("missingType", Refuse, "cannot be parsed"),
    ("missingTypeEntry", Refuse, "cannot be parsed"),
    ("multipleAuthors", Accept, "the first one is shown; freeswitch"),
    ("nulInCommit", Accept, "a NUL in the message, where all readers stop; passbolt_api"),
    ("nulInHeader", Refuse, "programs disagree on where the line ends"),
    ("nullSha1", Refuse, "a null id, which clients treat as a deletion"),
    ("packedRefEntryNotTerminated", Refs, ""),
    ("packedRefUnsorted", Refs, ""),
    ("refMissingNewline", Refs, ""),
    ("symlinkRef", Refs, ""),
    ("symrefTargetIsNotARef", Refs, ""),
    ("trailingRefContent", Refs, ""),
    ("treeNotSorted", Refuse, "programs disagree on which entry they find"),
    ("unknownType", Refuse, "cannot be parsed"),
    ("unterminatedHeader", Refuse, "programs disagree on where the message starts"),
    ("zeroPaddedDate", Accept, "the same date"),
    ("zeroPaddedFilemode", Accept, "the same mode; oh-my-zsh"),
];

/// Returns the settings for `git receive-pack`.
pub fn push_settings() -> impl Iterator<Item = String> {
    settings("receive.fsck", "warn")
}

/// Returns the settings for `git fetch`, without warnings, which would hide its errors.
pub fn fetch_settings() -> impl Iterator<Item = String> {
    settings("fetch.fsck", "ignore")
}

fn settings(prefix: &'static str, warn: &'static str) -> impl Iterator<Item = String> {
    VERDICTS.iter().filter_map(move |(id, verdict, _)| match verdict {
        Accept => Some(format!("{prefix}.{id}=ignore")),
        Warn => Some(format!("{prefix}.{id}={warn}")),
        Refuse | Refs => None,
    })
}

/// An object that git refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The refused object.
    pub object: Oid,
    /// git's id of the message.
    pub message_id: String,
}

/// Longer message ids are not trusted.
const MAX_MESSAGE_ID_BYTES: usize = 40;

impl Finding {
    /// Returns the first finding in git's messages, `error: object <id>: <message id>: <text>`.
    pub fn first(messages: &str) -> Option<Self> {
        messages.lines().find_map(|line| {
            let (id, rest) = line.strip_prefix("error: object ")?.split_once(": ")?;
            let (message_id, _) = rest.split_once(": ")?;
            let is_id = (1..=MAX_MESSAGE_ID_BYTES).contains(&message_id.len())
                && message_id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let object = Oid::from_str(id).ok().filter(|_| id.len() == 40 && is_id)?;
            Some(Self { object, message_id: message_id.to_owned() })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, process::Command};

    use super::*;

    #[test]
    fn every_message_of_the_installed_git_has_a_verdict() {
        let output = Command::new("git").args(["help", "--config-for-completion"]).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        let ids: BTreeSet<_> = listed.lines().filter_map(|line| line.strip_prefix("fsck.")).collect();
        let ids: Vec<_> = ids.into_iter().filter(|id| *id != "skipList" && !id.starts_with('<')).collect();
        assert!(ids.len() > 50, "{listed}");
        let unknown: Vec<_> = ids.into_iter().filter(|id| !VERDICTS.iter().any(|(known, ..)| known == id)).collect();
        assert!(unknown.is_empty(), "messages without a verdict: {unknown:?}");
        assert!(VERDICTS.is_sorted_by_key(|(id, ..)| id.to_ascii_lowercase()));
    }

    #[test]
    fn push_and_fetch_have_the_same_list() {
        let ids = |settings: Vec<String>, prefix: &str| -> Vec<String> {
            let id = |setting: &String| setting.strip_prefix(prefix)?.split_once('=').map(|(id, _)| id.to_owned());
            settings.iter().map(|setting| id(setting).unwrap()).collect()
        };
        let push = ids(push_settings().collect(), "receive.fsck.");
        assert_eq!(push, ids(fetch_settings().collect(), "fetch.fsck."));
        assert!(push.len() > 15 && !push.iter().any(|id| id == "hasDotgit"));
    }

    #[test]
    fn a_finding_is_an_object_and_a_message_of_git() {
        let id = "1".repeat(40);
        let messages = format!("warning: object x: y: z\nerror: object {id}: hasDotgit: contains '.git'\nfatal: x");
        let found = Finding::first(&messages).unwrap();
        assert_eq!((found.object.to_string(), found.message_id.as_str()), (id.clone(), "hasDotgit"));
        for other in [
            "".to_owned(),
            format!("fatal: object {id}: hasDotgit: x"),
            format!("remote: error: object {id}: hasDotgit: x"),
            format!("error: object {id}: <b>: x"),
            format!("error: object {id}: {}: x", "a".repeat(41)),
            "error: object 123: hasDotgit: x".to_owned(),
            format!("error: object {id}: hasDotgit"),
        ] {
            assert_eq!(Finding::first(&other), None, "{other}");
        }
    }
}
