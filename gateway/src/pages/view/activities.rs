//! What somebody did in a repository, as a sentence with links.

use std::fmt::{self, Display, Formatter};

use askama::filters::{Html, HtmlSafe, escape};
use ferrite_api_types::links::{encode, encode_path};
use serde::Deserialize;

use super::{Account, Repository};
use crate::pages::components::Time;

const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Activity {
    pub(in crate::pages) id: i64,
    op_type: String,
    act_user_id: i64,
    act_user: Account,
    repo: Repository,
    comment_id: i64,
    ref_name: String,
    content: String,
    pub(in crate::pages) created: Time,
}

/// What an activity is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    text: String,
    /// The path of its page; empty for what is no more.
    href: String,
}

impl Activity {
    /// Who did it, as a plain text.
    pub(in crate::pages) fn actor(&self) -> &str {
        match self.act_user_id {
            0 if self.op_type.starts_with("mirror_") => "The mirror",
            0 => "A deploy key",
            _ => self.act_user.name(),
        }
    }

    pub(in crate::pages) fn icon(&self) -> &'static str {
        match self.op_type.as_str() {
            "create_repo" | "rename_repo" | "transfer_repo" => "repository",
            "push_tag" | "delete_tag" | "publish_release" => "tag",
            "create_issue" | "reopen_issue" => "issue",
            "close_issue" => "closed",
            "comment_issue" | "comment_pull" => "comment",
            "merge_pull_request" => "merge",
            "approve_pull_request" => "check",
            "reject_pull_request" | "close_pull_request" => "cross",
            "create_pull_request" | "reopen_pull_request" => "pull",
            _ => "branch",
        }
    }

    fn verb(&self) -> &'static str {
        match self.op_type.as_str() {
            "create_repo" => "created",
            "rename_repo" => "renamed",
            "transfer_repo" => "transferred",
            "commit_repo" | "mirror_sync_push" => "pushed to",
            "push_tag" => "pushed tag",
            "delete_tag" => "deleted tag",
            "delete_branch" | "mirror_sync_delete" => "deleted",
            "publish_release" => "published release",
            "create_issue" => "opened issue",
            "close_issue" => "closed issue",
            "reopen_issue" => "reopened issue",
            "comment_issue" => "commented on issue",
            "create_pull_request" => "opened pull request",
            "close_pull_request" => "closed pull request",
            "reopen_pull_request" => "reopened pull request",
            "merge_pull_request" => "merged pull request",
            "comment_pull" => "commented on pull request",
            "approve_pull_request" => "approved pull request",
            "reject_pull_request" => "requested changes of pull request",
            _ => "changed",
        }
    }

    fn target(&self) -> Option<Target> {
        let path = self.repo.path();
        let is_gone = matches!(self.op_type.as_str(), "delete_tag" | "delete_branch" | "mirror_sync_delete");
        if let Some(branch) = self.ref_name.strip_prefix(BRANCHES) {
            let href = format!("{path}/src/branch/{}", encode_path(branch.as_bytes()));
            return Some(Target { text: branch.to_owned(), href: if is_gone { String::new() } else { href } });
        }
        if let Some(tag) = self.ref_name.strip_prefix(TAGS) {
            let href = match self.op_type.as_str() {
                "publish_release" => format!("{path}/releases/tag/{}", encode(tag.as_bytes())),
                _ => format!("{path}/src/tag/{}", encode_path(tag.as_bytes())),
            };
            return Some(Target { text: tag.to_owned(), href: if is_gone { String::new() } else { href } });
        }
        let (number, title) = self.content.split_once('|')?;
        let number: u64 = number.parse().ok()?;
        let part = if self.is_of_pull() { "pulls" } else { "issues" };
        let comment = if self.comment_id == 0 { String::new() } else { format!("#issuecomment-{}", self.comment_id) };
        Some(Target { text: format!("#{number} {title}"), href: format!("{path}/{part}/{number}{comment}") })
    }

    fn is_of_pull(&self) -> bool {
        self.op_type.ends_with("_pull_request") || self.op_type == "comment_pull"
    }

    /// The former name of a repository.
    fn former(&self) -> Option<&str> {
        matches!(self.op_type.as_str(), "rename_repo" | "transfer_repo").then_some(self.content.as_str())
    }

    /// The path of the page that shows most of it.
    pub(in crate::pages) fn path(&self) -> String {
        self.target().map(|target| target.href).filter(|href| !href.is_empty()).unwrap_or_else(|| self.repo.path())
    }

    /// What was done, without who did it, as a plain text.
    pub(in crate::pages) fn summary(&self) -> String {
        let (verb, repository) = (self.verb(), self.repo.full_name());
        match (self.target(), self.former()) {
            (Some(target), _) => format!("{verb} {} in {repository}", target.text),
            (None, Some(former)) => format!("{verb} {former} to {repository}"),
            (None, None) => format!("{verb} {repository}"),
        }
    }

    /// Who did what where, with links.
    pub(in crate::pages) fn sentence(&self) -> Sentence<'_> {
        Sentence(self)
    }
}

pub(in crate::pages) struct Sentence<'a>(&'a Activity);

impl HtmlSafe for Sentence<'_> {}

impl Display for Sentence<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(activity) = self;
        let link = |f: &mut Formatter<'_>, href: &str, text: &str| {
            let (Ok(href), Ok(text)) = (escape(href, Html), escape(text, Html));
            write!(f, "<a href=\"{href}\">{text}</a>")
        };
        match activity.act_user_id {
            0 => f.write_str(activity.actor())?,
            _ => write!(f, "{}", activity.act_user.link())?,
        }
        write!(f, " {} ", activity.verb())?;
        match (activity.target(), activity.former()) {
            (Some(Target { text, href }), _) if href.is_empty() => {
                let Ok(text) = escape(&text, Html);
                write!(f, "{text} in ")?;
            }
            (Some(Target { text, href }), _) => {
                link(f, &href, &text)?;
                f.write_str(" in ")?;
            }
            (None, Some(former)) => {
                let Ok(former) = escape(former, Html);
                write!(f, "{former} to ")?;
            }
            (None, None) => {}
        }
        link(f, &activity.repo.path(), &activity.repo.full_name())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn activity(op_type: &str, ref_name: &str, content: &str) -> Activity {
        let user = json!({"id": 3, "login": "ada"});
        let repository = json!({
            "id": 7, "name": "demo", "owner": user, "private": false, "archived": false, "mirror": false,
            "empty": false, "fork": false, "updated_at": "2026-01-02T03:04:05Z", "created_at": "2026-01-02T03:04:05Z",
        });
        serde_json::from_value(json!({
            "id": 1, "op_type": op_type, "act_user_id": 3, "act_user": user, "repo": repository, "comment_id": 0,
            "ref_name": ref_name, "content": content, "created": "2026-01-02T03:04:05Z",
        }))
        .unwrap()
    }

    #[test]
    fn an_activity_is_a_sentence() {
        for (op_type, ref_name, content, summary, path) in [
            ("create_repo", "", "", "created ada/demo", "/ada/demo"),
            ("rename_repo", "", "old", "renamed old to ada/demo", "/ada/demo"),
            ("commit_repo", "refs/heads/a b", "{}", "pushed to a b in ada/demo", "/ada/demo/src/branch/a%20b"),
            ("delete_branch", "refs/heads/x", "", "deleted x in ada/demo", "/ada/demo"),
            ("push_tag", "refs/tags/v1", "", "pushed tag v1 in ada/demo", "/ada/demo/src/tag/v1"),
            (
                "publish_release",
                "refs/tags/a/b",
                "",
                "published release a/b in ada/demo",
                "/ada/demo/releases/tag/a%2Fb",
            ),
            ("create_issue", "", "3|A|B", "opened issue #3 A|B in ada/demo", "/ada/demo/issues/3"),
            ("merge_pull_request", "", "4|C", "merged pull request #4 C in ada/demo", "/ada/demo/pulls/4"),
            ("of_the_future", "", "", "changed ada/demo", "/ada/demo"),
        ] {
            let shown = activity(op_type, ref_name, content);
            assert_eq!((shown.summary().as_str(), shown.path().as_str()), (summary, path), "{op_type}");
        }
        let comment = Activity { comment_id: 9, ..activity("comment_issue", "", "3|A") };
        assert_eq!(comment.path(), "/ada/demo/issues/3#issuecomment-9");
    }

    #[test]
    fn titles_are_escaped_and_nobody_has_no_link() {
        let shown = activity("create_issue", "", "3|<b>&").sentence().to_string();
        assert!(shown.contains("#3 ") && !shown.contains("<b>"), "{shown}");
        let shown = Activity { act_user_id: 0, ..activity("commit_repo", "refs/heads/<b>", "") };
        let shown = shown.sentence().to_string();
        assert!(shown.starts_with("A deploy key pushed to ") && !shown.contains("<b>"), "{shown}");
    }
}
