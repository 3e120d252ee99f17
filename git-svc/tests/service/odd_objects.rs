//! Faulty commits, tags and trees of old tools, one of each kind found in real repositories.

use std::process::Command;

use crate::attacks::Workshop;

const WHO: &str = "Ada <ada@example.com> 1700000000 +0000";

/// A fault in the line of an author, committer or tagger: git's message id, the rest of the line,
/// and what readers see of it.
pub(crate) struct OddLine {
    pub(crate) fault: &'static str,
    pub(crate) line: &'static str,
    pub(crate) name: &'static str,
    pub(crate) email: &'static str,
    pub(crate) seconds: i64,
}

const fn odd(
    fault: &'static str,
    line: &'static str,
    name: &'static str,
    email: &'static str,
    seconds: i64,
) -> OddLine {
    OddLine { fault, line, name, email, seconds }
}

pub(crate) const ODD_LINES: &[OddLine] = &[
    odd("badTimezone", "Ada <a@b> 1700000000 +51800", "Ada", "a@b", 1_700_000_000),
    odd("badTimezone", "Ada <a@b> 1700000000 UTC", "Ada", "a@b", 1_700_000_000),
    odd("missingSpaceBeforeDate", "Ada <a@b>1700000000 +0000", "Ada", "a@b", 1_700_000_000),
    odd("missingSpaceBeforeDate", "Ada <a@b>", "Ada", "a@b", 0),
    odd("missingNameBeforeEmail", "<a@b> 1700000000 +0000", "", "a@b", 1_700_000_000),
    // The rest of such a line is not checked.
    odd("missingNameBeforeEmail", "<", "", "", 0),
    odd("missingSpaceBeforeEmail", "Ada<a@b> 1700000000 +0000", "Ada", "a@b", 1_700_000_000),
    odd("badName", "ada> <none@none> 1700000000 +0000", "ada>", "none@none", 1_700_000_000),
    odd("badEmail", "Ada <a <b> 1700000000 +0000", "Ada", "a <b", 1_700_000_000),
    odd("badEmail", "Ada <a@b 1700000000 +0000", "", "", 0),
    odd("missingEmail", "Ada 1700000000 +0000", "", "", 0),
    odd("badDate", "Ada <a@b> <a@b> 1700000000 +0000", "Ada", "a@b", 1_700_000_000),
    odd("badDate", "Ada <a@b> -5 +0000", "Ada", "a@b", -5),
    odd("badDate", "Ada <a@b> yesterday", "Ada", "a@b", 0),
    odd("zeroPaddedDate", "Ada <a@b> 01700000000 +0000", "Ada", "a@b", 1_700_000_000),
    odd("badDateOverflow", "Ada <a@b> 18446744073709551617 +0000", "Ada", "a@b", 0),
];

pub(crate) struct OddObject {
    /// git's message id.
    pub(crate) fault: &'static str,
    pub(crate) id: String,
}

/// A branch of commits with every fault, oldest first, and tags.
pub(crate) struct OddHistory {
    pub(crate) objects: Vec<OddObject>,
    /// The commits of `main`, oldest first: one for each of [`ODD_LINES`], then the others.
    pub(crate) commits: Vec<String>,
    pub(crate) tags: Vec<(String, String)>,
}

/// Writes the history into the workshop, as `main` and tags. The content of `f` differs in every
/// commit.
pub(crate) fn odd_history(w: &Workshop) -> OddHistory {
    let mut history = OddHistory { objects: Vec::new(), commits: Vec::new(), tags: Vec::new() };
    let file = |text: &str| w.tree(&[("100644", b"f", &w.object("blob", text.as_bytes()))]);
    for (index, odd) in ODD_LINES.iter().enumerate() {
        let people = format!("author {0}\ncommitter {0}", odd.line);
        history.commit(w, odd.fault, &file(&format!("{index}")), &people, b"Odd line\n");
    }
    let people = format!("author {WHO}\ncommitter {WHO}");
    let two_authors = format!("author {WHO}\nauthor Bob <b@b> 5 +0000\ncommitter {WHO}");
    history.commit(w, "multipleAuthors", &file("two"), &two_authors, b"Two authors\n");
    history.commit(w, "nulInCommit", &file("nul"), &people, b"Nul\0 within\n\nBody\0\n");
    let extra = format!("{people}\nparent {}\nencoding latin1", "1".repeat(40));
    history.commit(w, "", &file("extra"), &extra, b"M\xfcller, fixes #1\n");
    let (blob, inner) = (w.object("blob", b"modes"), file("inner"));
    let entries: [(&str, &[u8], &str); 5] = [
        ("100664", b"f", &blob),
        ("100666", b"group", &blob),
        ("040000", b"padded", &inner),
        ("100775", b"run", &blob),
        ("120755", b"to", &w.object("blob", b"f")),
    ];
    let tree = w.tree(&entries);
    history.objects.push(OddObject { fault: "badFilemode", id: tree.clone() });
    history.objects.push(OddObject { fault: "zeroPaddedFilemode", id: tree.clone() });
    history.commit(w, "", &tree, &people, b"Modes\n");
    let tip = history.commits.last().unwrap().clone();
    let taggers = ODD_LINES.iter().map(|odd| (odd.fault, "t", format!("tagger {}\n", odd.line)));
    let others = [
        ("badTagName", "a b..", format!("tagger {WHO}\n")),
        ("missingTaggerEntry", "t", String::new()),
        ("extraHeaderEntry", "t", format!("tagger {WHO}\nencoding latin1\n")),
    ];
    for (index, (fault, name, lines)) in taggers.chain(others).enumerate() {
        let text = format!("object {tip}\ntype commit\ntag {name}\n{lines}\nTag {index}\n");
        let id = w.object("tag", text.as_bytes());
        history.tags.push((format!("t{index:02}"), id.clone()));
        history.objects.push(OddObject { fault, id });
    }
    let refs = history.tags.iter().map(|(name, id)| (format!("refs/tags/{name}"), id));
    for (name, id) in refs.chain([("refs/heads/main".to_owned(), &tip)]) {
        w.point(&name, id);
    }
    history
}

impl OddHistory {
    fn commit(&mut self, w: &Workshop, fault: &'static str, tree: &str, people: &str, message: &[u8]) {
        let parent = self.commits.last().map(|id| format!("parent {id}\n")).unwrap_or_default();
        let id = w.object("commit", &[format!("tree {tree}\n{parent}{people}\n\n").as_bytes(), message].concat());
        self.commits.push(id.clone());
        if !fault.is_empty() {
            self.objects.push(OddObject { fault, id });
        }
    }

    pub(crate) fn tip(&self) -> &str {
        self.commits.last().unwrap()
    }

    /// Asserts that the installed git reports each fault.
    pub(crate) fn assert_odd(&self, w: &Workshop) {
        let settings = ["badFilemode", "badTagName", "missingTaggerEntry", "extraHeaderEntry"];
        let settings = settings.iter().flat_map(|id| ["-c".to_owned(), format!("fsck.{id}=error")]);
        let mut git = Command::new("git");
        git.arg("-C").arg(w.path()).args(settings).args(["fsck", "--strict", "--no-dangling"]);
        let output = git.output().unwrap();
        let findings = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        for OddObject { fault, id } in &self.objects {
            assert!(findings.contains(&format!("{id}: {fault}: ")), "{fault} {id}\n{findings}");
        }
    }
}
