//! Annotated tags made through the API. The caller writes the object and creates the ref.

use git2::{ObjectType, Oid};

use super::{commit::check_message, signature::Author};
use crate::{
    disk::loose_objects::NewObject,
    types::{error::GitError, name::BranchName},
};

/// An annotated tag without its commit.
#[derive(Clone, Debug)]
pub struct TagDraft {
    name: BranchName,
    tagger: Author,
    message: String,
}

impl TagDraft {
    /// Creates a draft. As git does, ends the message with a line feed.
    ///
    /// # Errors
    /// `Invalid` (field `message`) if the message is empty, too long, or has a NUL.
    pub fn new(name: BranchName, tagger: Author, mut message: String) -> Result<Self, GitError> {
        check_message(&message)?;
        if !message.ends_with('\n') {
            message.push('\n');
        }
        Ok(Self { name, tagger, message })
    }

    /// The message, as it is stored.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the tag object of a commit.
    pub fn object(&self, commit: Oid) -> Result<NewObject, GitError> {
        let mut content = format!("object {commit}\ntype commit\ntag ").into_bytes();
        content.extend_from_slice(self.name.as_bytes());
        content.extend_from_slice(format!("\ntagger {}\n\n{}", self.tagger.line(), self.message).as_bytes());
        NewObject::new(ObjectType::Tag, content)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::repo::write::CommitTime;

    #[test]
    fn the_object_is_the_one_that_git_makes() {
        let folder = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(folder.path()).unwrap();
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
        let commit = repo.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[]).unwrap();
        for (name, message) in [("v1", "One"), ("a/b", "Two\n\nMore: ä\n")] {
            let mut git = Command::new("git");
            git.args(["tag", "-a", name, "-m", message, &commit.to_string()]).current_dir(folder.path());
            let person = [("NAME", "Ada L."), ("EMAIL", "ada@example.com"), ("DATE", "@7 +0130")];
            git.envs(person.map(|(part, value)| (format!("GIT_COMMITTER_{part}"), value)));
            assert!(git.output().unwrap().status.success());
            let time = CommitTime { seconds: 7, offset_minutes: 90 };
            let tagger = Author::exact("tagger", "Ada L.", "ada@example.com", time).unwrap();
            let draft = TagDraft::new(BranchName::parse(name.as_bytes()).unwrap(), tagger, message.to_owned()).unwrap();
            let ours = draft.object(commit).unwrap().id();
            assert_eq!(repo.refname_to_id(&format!("refs/tags/{name}")).unwrap(), ours, "{name}");
        }
    }

    #[test]
    fn a_message_that_git_cannot_keep_is_refused() {
        for message in [" \n", "a\0b", &"m".repeat(2 << 20)] {
            let (name, tagger) = (BranchName::parse(b"v1").unwrap(), Author::new("Ada", "ada@example.com", 0));
            let error = TagDraft::new(name, tagger, message.to_owned()).unwrap_err();
            assert!(matches!(&error, GitError::Invalid(violation) if violation.field == "message"), "{error}");
        }
    }
}
