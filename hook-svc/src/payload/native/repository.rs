//! Payloads of `fork`, `release` and `repository`.

use ferrite_api_types::convert::time;
use ferrite_api_types::links::Links;
use ferrite_api_types::{Repository, User, Viewer};
use ferrite_proto::repo;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Context, Payload};
use crate::payload::limits::{cut_text, within_limits};

#[derive(Serialize)]
struct Fork<'a> {
    forkee: Repository,
    repository: &'a Repository,
    sender: &'a User,
}

#[derive(Serialize)]
struct ReleaseEvent<'a> {
    action: &'static str,
    release: PayloadRelease<'a>,
    repository: &'a Repository,
    sender: &'a User,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
struct PayloadRelease<'a> {
    id: i64,
    tag_name: &'a str,
    target_commitish: &'a str,
    name: &'a str,
    body: String,
    url: String,
    html_url: String,
    tarball_url: String,
    zipball_url: String,
    draft: bool,
    prerelease: bool,
    author: User,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_at: Option<String>,
}

#[derive(Serialize)]
struct RepositoryEvent<'a> {
    action: &'static str,
    repository: &'a Repository,
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<&'a User>,
    sender: &'a User,
    changes: Map<String, Value>,
}

/// Builds the payload of `fork` for hooks of the forked repository. `forkee` is the new repository.
pub(crate) fn fork(context: &Context, forkee: repo::Repository, links: &Links) -> Payload {
    let mut forkee = Repository::new(forkee, Viewer::Authenticated, links)?;
    forkee.hide_permissions();
    Ok(serde_json::to_string(&Fork { forkee, repository: &context.repository, sender: &context.sender })?)
}

pub(crate) fn release(context: &Context, release: &repo::Release) -> Payload {
    let created_at = time(release.create_time, "create_time")?;
    let published_at = release.publish_time.map(|published| time(Some(published), "publish_time")).transpose()?;
    let (urls, tag) = (&context.urls, release.tag_name.as_str());
    let author_id = release.author.as_ref().map_or(0, |author| author.id);
    within_limits(|cut| {
        let (body, truncated) = cut_text(release.body.clone(), cut.text_bytes);
        Ok(serde_json::to_string(&ReleaseEvent {
            action: "published",
            release: PayloadRelease {
                id: release.id,
                tag_name: &release.tag_name,
                target_commitish: &release.target,
                name: &release.title,
                body,
                url: urls.release(release.id),
                html_url: urls.release_html(tag),
                tarball_url: urls.archive(tag, "tar.gz"),
                zipball_url: urls.archive(tag, "zip"),
                draft: release.is_draft,
                prerelease: release.is_prerelease,
                author: context.accounts.by_id(author_id, context.urls.site()),
                created_at: created_at.clone(),
                published_at: published_at.clone(),
            },
            repository: &context.repository,
            sender: &context.sender,
            truncated,
        })?)
    })
}

/// Builds the payload of `repository`. `changes` lists previous values by field name, such as
/// `("name", "old")`. It is empty for a created or deleted repository.
pub(crate) fn repository(context: &Context, action: &'static str, changes: &[(&str, Value)]) -> Payload {
    let before = |value: &Value| Value::Object(Map::from_iter([("from".to_owned(), value.clone())]));
    let changes = changes.iter().map(|(name, value)| ((*name).to_owned(), before(value))).collect();
    Ok(serde_json::to_string(&RepositoryEvent {
        action,
        repository: &context.repository,
        organization: context.organization.as_ref(),
        sender: &context.sender,
        changes,
    })?)
}
