//! What happened lately, as Gitea's feeds of activities have it: of a user, of an organization's
//! repositories, or of a repository.

use std::collections::HashMap;

use ferrite_api_types::convert::require;
use ferrite_api_types::{Repository, Time, User, shape, word_shape};
use ferrite_proto::hook::list_activities_request::Subject;
use ferrite_proto::hook::{self, ActivityKind, ListActivitiesRequest, ListActivitiesResponse};
use ferrite_proto::operation;
use ferrite_proto::repo::{self, GetOrganizationRequest, GetRepositoryRequest, GetUserRequest};
use serde::Serialize;
use serde_json::json;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, filters};
use crate::http::page::SearchList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::Flag;
use crate::http::response::List;
use crate::http::routes::variant;

operations! {
    "/api/v1/users/{username}/activities/feeds" => get of_user as operation::LIST_ACTIVITIES;
    "/api/v1/orgs/{org}/activities/feeds" =>
        get of_organization as variant(operation::LIST_ACTIVITIES, "OfOrganization");
    "/api/v1/repos/{owner}/{repo}/activities/feeds" =>
        get of_repository as variant(operation::LIST_ACTIVITIES, "OfRepository");
}

filters! {
    /// Which activities of a user to return.
    struct ActivityFilters {
        /// Only what the user did. Without it, also what others did in the user's repositories.
        only_performed_by as "only-performed-by": Flag = true,
    }
}

word_shape! {
    /// What was done.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum OpType {
        CreateRepository = "create_repo",
        RenameRepository = "rename_repo",
        TransferRepository = "transfer_repo",
        PushBranch = "commit_repo",
        DeleteBranch = "delete_branch",
        PushTag = "push_tag",
        DeleteTag = "delete_tag",
        SyncPush = "mirror_sync_push",
        SyncDelete = "mirror_sync_delete",
        PublishRelease = "publish_release",
        OpenIssue = "create_issue",
        CloseIssue = "close_issue",
        ReopenIssue = "reopen_issue",
        CommentIssue = "comment_issue",
        OpenPull = "create_pull_request",
        ClosePull = "close_pull_request",
        ReopenPull = "reopen_pull_request",
        MergePull = "merge_pull_request",
        CommentPull = "comment_pull",
        ApprovePull = "approve_pull_request",
        RejectPull = "reject_pull_request",
    }
}

shape! {
    /// Something that was done in a repository.
    #[derive(Clone, Debug, Serialize)]
    struct Activity {
        id: i64,
        /// The account in whose list it is: the user, the organization, or the owner of the
        /// repository.
        user_id: i64,
        op_type: OpType,
        /// The id of the account that acted; 0 for mirrors and deploy keys.
        act_user_id: i64,
        act_user: User,
        repo_id: i64,
        repo: Repository,
        /// The comment on an issue or pull request; zero for others.
        comment_id: i64,
        /// The full name of a branch or tag, also that of a release; empty for others.
        ref_name: String,
        is_private: bool,
        /// Number and title of an issue or pull request, with a `|` between them; the former name of
        /// a repository; for pushes a JSON object with the commit and the path of the comparison;
        /// empty for others.
        content: String,
        created: Time,
    }
}

impl OpType {
    /// `None` for a kind that this version does not know.
    fn of(kind: ActivityKind) -> Option<Self> {
        Some(match kind {
            ActivityKind::Unspecified => return None,
            ActivityKind::CreateRepository => Self::CreateRepository,
            ActivityKind::RenameRepository => Self::RenameRepository,
            ActivityKind::TransferRepository => Self::TransferRepository,
            ActivityKind::PushBranch => Self::PushBranch,
            ActivityKind::DeleteBranch => Self::DeleteBranch,
            ActivityKind::PushTag => Self::PushTag,
            ActivityKind::DeleteTag => Self::DeleteTag,
            ActivityKind::SyncPush => Self::SyncPush,
            ActivityKind::SyncDelete => Self::SyncDelete,
            ActivityKind::PublishRelease => Self::PublishRelease,
            ActivityKind::OpenIssue => Self::OpenIssue,
            ActivityKind::CloseIssue => Self::CloseIssue,
            ActivityKind::ReopenIssue => Self::ReopenIssue,
            ActivityKind::CommentIssue => Self::CommentIssue,
            ActivityKind::OpenPull => Self::OpenPull,
            ActivityKind::ClosePull => Self::ClosePull,
            ActivityKind::ReopenPull => Self::ReopenPull,
            ActivityKind::MergePull => Self::MergePull,
            ActivityKind::CommentPull => Self::CommentPull,
            ActivityKind::ApprovePull => Self::ApprovePull,
            ActivityKind::RejectPull => Self::RejectPull,
        })
    }
}

/// The user, organization or repository of a list.
struct Feed {
    subject: Subject,
    /// The account in whose list they are.
    receiver: i64,
    only_performed: bool,
}

/// Where something happened.
struct Place {
    id: i64,
    full_name: String,
    is_private: bool,
}

impl Place {
    fn of(repository: &repo::Repository) -> Self {
        let owner = repository.owner.as_ref().map_or("", |owner| owner.username.as_str());
        let full_name = format!("{owner}/{}", repository.name);
        Self { id: repository.id, full_name, is_private: repository.is_private }
    }
}

async fn of_user(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: SearchList,
    filters: QueryOf<ActivityFilters>,
) -> ApiResult<List<Activity>> {
    let ActivityFilters { only_performed_by } = filters.read()?;
    let request = call.request(GetUserRequest { username: path.name("username") });
    let response = call.clients.accounts().get_user(request).await?.into_inner();
    let user = require(response.user, "user")?;
    let subject = if user.is_organization { Subject::OwnerId(user.id) } else { Subject::UserId(user.id) };
    list(&call, Feed { subject, receiver: user.id, only_performed: only_performed_by }, &query).await
}

async fn of_organization(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: SearchList,
) -> ApiResult<List<Activity>> {
    let request = call.request(GetOrganizationRequest { organization: path.name("org") });
    let response = call.clients.organizations().get_organization(request).await?.into_inner();
    let receiver = require(response.organization, "organization")?.id;
    list(&call, Feed { subject: Subject::OwnerId(receiver), receiver, only_performed: false }, &query).await
}

async fn of_repository(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: SearchList,
) -> ApiResult<List<Activity>> {
    let request = call.request(GetRepositoryRequest { repository: Some(path.repository()) });
    let response = call.clients.repositories().get_repository(request).await?.into_inner();
    let found = require(response.repository, "repository")?;
    let receiver = found.owner.map_or(0, |owner| owner.id);
    list(&call, Feed { subject: Subject::RepositoryId(found.id), receiver, only_performed: false }, &query).await
}

async fn list(call: &ApiCall, feed: Feed, query: &SearchList) -> ApiResult<List<Activity>> {
    let request = ListActivitiesRequest {
        subject: Some(feed.subject),
        only_performed: feed.only_performed,
        page: query.page.number,
        page_size: query.page.size,
    };
    // hook-svc gets no token, so a grant says who reads.
    let request = match call.is_anonymous() {
        true => call.request_without_token(request),
        false => call.request_with_grant(&call.grant(PermissionCheck::of(operation::LIST_ACTIVITIES)).await?, request),
    };
    let response = call.clients.activities().list_activities(request).await?.into_inner();
    let total_count = response.total_count;
    let activities = convert(call, response, feed.receiver).await?;
    Ok(query.list(activities, total_count, &call.links))
}

async fn convert(call: &ApiCall, response: ListActivitiesResponse, receiver: i64) -> Result<Vec<Activity>, ApiError> {
    let ListActivitiesResponse { activities, repositories, .. } = response;
    let users = activities.iter().map(|activity| activity.user_id).filter(|id| *id != 0);
    let accounts = call.accounts_by_id(users).await?;
    let places: Vec<Place> = repositories.iter().map(Place::of).collect();
    let shown = places.into_iter().zip(call.repositories(repositories)?);
    let repositories: HashMap<i64, (Place, Repository)> =
        shown.map(|(place, shown)| (place.id, (place, shown))).collect();
    let mut converted = Vec::with_capacity(activities.len());
    for activity in activities {
        let found = OpType::of(activity.kind()).zip(repositories.get(&activity.repository_id));
        if let Some((op_type, (place, repository))) = found {
            let act_user = accounts.by_id(activity.user_id, &call.links);
            converted.push(Activity {
                id: activity.id,
                user_id: receiver,
                op_type,
                act_user_id: activity.user_id,
                act_user,
                repo_id: activity.repository_id,
                repo: repository.clone(),
                comment_id: activity.comment_id,
                ref_name: String::from_utf8_lossy(&activity.ref_name).into_owned(),
                is_private: place.is_private,
                content: content(&activity, &place.full_name),
                created: Time::new(activity.create_time, "create_time")?,
            });
        }
    }
    Ok(converted)
}

/// As Gitea has it: a text whose form depends on the kind.
fn content(activity: &hook::Activity, repository: &str) -> String {
    let is_new = activity.old_id.bytes().all(|byte| byte == b'0');
    let comparison = || format!("{repository}/compare/{}...{}", activity.old_id, activity.new_id);
    match activity.kind() {
        ActivityKind::PushBranch | ActivityKind::SyncPush => {
            let comparison = if is_new { String::new() } else { comparison() };
            json!({"HeadCommit": {"Sha1": activity.new_id}, "CompareURL": comparison}).to_string()
        }
        ActivityKind::RenameRepository | ActivityKind::TransferRepository => activity.old_name.clone(),
        _ if activity.number != 0 => format!("{}|{}", activity.number, activity.title),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_says_what_it_is_about() {
        let of = |kind: ActivityKind, old_id: &str| hook::Activity {
            kind: kind.into(),
            old_id: old_id.into(),
            new_id: "b".into(),
            ..Default::default()
        };
        let shown = |activity: &hook::Activity| content(activity, "ada/demo");
        let pushed: serde_json::Value = serde_json::from_str(&shown(&of(ActivityKind::PushBranch, "a"))).unwrap();
        assert_eq!(pushed, json!({"CompareURL": "ada/demo/compare/a...b", "HeadCommit": {"Sha1": "b"}}));
        assert!(shown(&of(ActivityKind::PushBranch, "000")).contains(r#""CompareURL":"""#));
        let issue = hook::Activity { number: 3, title: "A | B".into(), ..of(ActivityKind::CommentIssue, "") };
        assert_eq!(shown(&issue), "3|A | B");
        let renamed = hook::Activity { old_name: "old".into(), ..of(ActivityKind::RenameRepository, "") };
        assert_eq!((shown(&renamed).as_str(), shown(&of(ActivityKind::DeleteBranch, "a"))), ("old", String::new()));
    }
}
