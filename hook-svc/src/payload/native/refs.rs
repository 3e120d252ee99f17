//! Payloads of `create`, `delete`, `push` and `ping`.

use ferrite_api_types::convert::{MissingField, time};
use ferrite_api_types::links::Links;
use ferrite_api_types::{Accounts, Repository, User};
use ferrite_proto::git::{DescribedCommit, Person};
use serde::Serialize;

use super::{Context, Payload};
use crate::payload::limits::{Cut, MAX_COMMITS, cut_text, within_limits};

const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

/// An update of a branch.
#[derive(Clone, Debug)]
pub(crate) struct PushEvent<'a> {
    /// The full ref name.
    pub(crate) name: &'a str,
    /// All zeros for a new branch.
    pub(crate) old_id: &'a str,
    pub(crate) new_id: &'a str,
    /// New commits, newest first. May be fewer than `total_commits`.
    pub(crate) commits: &'a [DescribedCommit],
    pub(crate) total_commits: i64,
    /// The commit that the branch has moved to, if it is not the first of `commits`.
    pub(crate) head: Option<&'a DescribedCommit>,
}

#[derive(Serialize)]
struct Create<'a> {
    #[serde(rename = "ref")]
    name: &'a str,
    ref_type: &'static str,
    sha: &'a str,
    default_branch: &'a str,
    repository: &'a Repository,
    sender: &'a User,
}

#[derive(Serialize)]
struct Delete<'a> {
    #[serde(rename = "ref")]
    name: &'a str,
    ref_type: &'static str,
    pusher_type: &'static str,
    repository: &'a Repository,
    sender: &'a User,
}

#[derive(Serialize)]
struct Push<'a> {
    #[serde(rename = "ref")]
    name: &'a str,
    before: &'a str,
    after: &'a str,
    compare_url: String,
    commits: Vec<PayloadCommit>,
    total_commits: i64,
    head_commit: Option<PayloadCommit>,
    repository: &'a Repository,
    pusher: &'a User,
    sender: &'a User,
}

#[derive(Serialize)]
pub(super) struct PayloadCommit {
    id: String,
    message: String,
    url: String,
    author: PayloadSignature,
    committer: PayloadSignature,
    added: Vec<String>,
    removed: Vec<String>,
    modified: Vec<String>,
    timestamp: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
struct PayloadSignature {
    name: String,
    email: String,
    username: String,
}

#[derive(Serialize)]
struct Ping<'a> {
    site: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<&'a Repository>,
    sender: &'a User,
}

/// Splits a full ref name into the kind and the short name.
fn short(name: &str) -> (&'static str, &str) {
    match name.strip_prefix(TAGS) {
        Some(tag) => ("tag", tag),
        None => ("branch", name.strip_prefix(BRANCHES).unwrap_or(name)),
    }
}

/// Builds the payload of `create` for a full ref name.
pub(crate) fn create(context: &Context, name: &str, new_id: &str) -> Payload {
    let (ref_type, name) = short(name);
    Ok(serde_json::to_string(&Create {
        name,
        ref_type,
        sha: new_id,
        default_branch: &context.default_branch,
        repository: &context.repository,
        sender: &context.sender,
    })?)
}

/// Builds the payload of `delete` for a full ref name.
pub(crate) fn delete(context: &Context, name: &str) -> Payload {
    let (ref_type, name) = short(name);
    Ok(serde_json::to_string(&Delete {
        name,
        ref_type,
        pusher_type: "user",
        repository: &context.repository,
        sender: &context.sender,
    })?)
}

pub(crate) fn push(context: &Context, event: &PushEvent) -> Payload {
    let is_new = event.old_id.bytes().all(|byte| byte == b'0');
    let compare = || format!("{}/compare/{}...{}", context.urls.html(), event.old_id, event.new_id);
    within_limits(|cut| {
        let commits: Result<Vec<_>, _> =
            event.commits.iter().take(MAX_COMMITS).map(|commit| payload_commit(context, commit, cut)).collect();
        let commits = commits?;
        let head = event.head.or(event.commits.first());
        Ok(serde_json::to_string(&Push {
            name: event.name,
            before: event.old_id,
            after: event.new_id,
            compare_url: if is_new { String::new() } else { compare() },
            total_commits: event.total_commits.max(i64::try_from(commits.len()).unwrap_or(i64::MAX)),
            commits,
            head_commit: head.map(|commit| payload_commit(context, commit, cut)).transpose()?,
            repository: &context.repository,
            pusher: &context.sender,
            sender: &context.sender,
        })?)
    })
}

/// Builds the test payload of a hook whose repository has no commits.
pub(crate) fn ping(context: &Context) -> Payload {
    let site = context.urls.site().root();
    Ok(serde_json::to_string(&Ping { site, repository: Some(&context.repository), sender: &context.sender })?)
}

/// Builds the test payload of a hook of an organization or the site, which has no repository.
pub(crate) fn site_ping(sender_id: i64, accounts: &Accounts, links: &Links) -> Payload {
    let sender = accounts.by_id(sender_id, links);
    Ok(serde_json::to_string(&Ping { site: links.root(), repository: None, sender: &sender })?)
}

pub(super) fn payload_commit(
    context: &Context,
    commit: &DescribedCommit,
    cut: &Cut,
) -> Result<PayloadCommit, MissingField> {
    let commit_time = commit.committer.as_ref().and_then(|committer| committer.time).unwrap_or_default();
    let (message, mut truncated) = cut_text(commit.message.clone(), cut.message_bytes);
    let mut paths = |paths: &[String]| -> Vec<String> {
        truncated |= paths.len() > cut.paths;
        let paths = paths.iter().take(cut.paths);
        let cut_paths = paths.map(|path| {
            let (path, is_cut) = cut_text(path.clone(), cut.path_bytes);
            truncated |= is_cut;
            path
        });
        cut_paths.collect()
    };
    Ok(PayloadCommit {
        added: paths(&commit.added),
        removed: paths(&commit.removed),
        modified: paths(&commit.modified),
        id: commit.id.clone(),
        message,
        url: context.urls.commit_page(&commit.id),
        author: payload_signature(context.accounts, commit.author.as_ref(), cut),
        committer: payload_signature(context.accounts, commit.committer.as_ref(), cut),
        timestamp: time(Some(commit_time), "commit_time")?,
        truncated: truncated || commit.is_message_cut || commit.are_paths_cut,
    })
}

fn payload_signature(accounts: &Accounts, person: Option<&Person>, cut: &Cut) -> PayloadSignature {
    let person = person.cloned().unwrap_or_default();
    let account = accounts.by_email(person.email.as_bytes());
    PayloadSignature {
        name: cut_text(person.name, cut.path_bytes).0,
        email: cut_text(person.email, cut.path_bytes).0,
        username: account.map(|account| account.username.clone()).unwrap_or_default(),
    }
}
