//! Activities: what happened lately, as a reader may see it now.

use std::collections::{BTreeMap, HashMap, HashSet};

use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_listener::service;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::RefUpdate;
use ferrite_proto::events::event::Fact;
use ferrite_proto::grant::Subject;
use ferrite_proto::hook::activity_service_server::ActivityService;
use ferrite_proto::hook::list_activities_request::Subject as Asked;
use ferrite_proto::hook::*;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::Issue;
use ferrite_proto::repo::{ActivityAccess, ResolveActivityAccessRequest};
use ferrite_rpc::auth::{AuthError, Caller};
use tonic::Request;

use crate::error::HookError;
use crate::model::{Part, part};
use crate::state::AppState;
use crate::store::activities::{ActivityRow, StoredActivity};

/// Activities that are looked at. More of them would have to be checked for each page.
const MAX_EXAMINED: i64 = 1_000;
const MAX_PAGE_SIZE: i32 = 50;

service!(ActivityService for AppState {
    list_activities(ListActivitiesRequest) -> ListActivitiesResponse;
});

async fn list_activities(
    state: &AppState,
    request: Request<ListActivitiesRequest>,
) -> Result<ListActivitiesResponse, HookError> {
    let token_id = reader(&Caller::of(&request))?;
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let asked = request.subject.ok_or_else(|| {
        HookError::Invalid(vec![FieldViolation::new(
            "subject",
            "required",
            "must name a user, an owner or a repository",
        )])
    })?;
    let rows = examined(state, &asked, request.only_performed).await?;
    let repositories: HashSet<i64> = rows.iter().map(|row| row.repository_id).collect();
    let user_id = if let Asked::UserId(id) = asked { id } else { 0 };
    let question =
        ResolveActivityAccessRequest { token_id, repository_ids: repositories.into_iter().collect(), user_id };
    let accesses = state.authorizer.resolve_activity(question).await?.accesses;
    let readable = readable(&rows, &accesses);
    let total_count = readable.len() as i64;
    let found = state.activities.activities(page_of(&readable, page)).await?;
    let activities: Vec<_> = found.into_iter().map(encode).collect();
    let shown: HashSet<i64> = activities.iter().map(|activity| activity.repository_id).collect();
    let repositories = accesses.into_iter().filter_map(|access| access.repository);
    let repositories = repositories.filter(|repository| shown.contains(&repository.id)).collect();
    Ok(ListActivitiesResponse { activities, repositories, total_count })
}

/// The access token of the caller, by id; zero for the gateway's call without one.
fn reader(caller: &Caller) -> Result<i64, AuthError> {
    match (&caller.grant, &caller.identity) {
        (Some(grant), _) => match &grant.user {
            Some(user) if grant.subject == Subject::User && grant.operation == caller.operation => Ok(user.token_id),
            _ => Err(AuthError::BadGrant),
        },
        (None, Some(identity)) => Ok(identity.token_id),
        (None, None) => caller.require_service().map(|_| 0),
    }
}

/// The newest activities, whoever may see them.
async fn examined(state: &AppState, asked: &Asked, only_performed: bool) -> Result<Vec<ActivityRow>, HookError> {
    let store = &state.activities;
    let user = match asked {
        Asked::RepositoryId(id) => {
            return Ok(store.activities_of_repository(RepositoryId(*id), MAX_EXAMINED).await?);
        }
        Asked::OwnerId(id) => return Ok(store.activities_of_owner(*id, MAX_EXAMINED).await?),
        Asked::UserId(id) => *id,
    };
    // What nobody caused has the id zero.
    if user <= 0 {
        return Ok(Vec::new());
    }
    let performed = store.activities_of_user(UserId(user), MAX_EXAMINED).await?;
    if only_performed {
        return Ok(performed);
    }
    let owned = store.activities_of_owner(user, MAX_EXAMINED).await?;
    let by_id: BTreeMap<i64, ActivityRow> = performed.into_iter().chain(owned).map(|row| (row.id, row)).collect();
    Ok(by_id.into_values().rev().take(MAX_EXAMINED as usize).collect())
}

/// The ids of the activities that the reader can read.
fn readable(rows: &[ActivityRow], accesses: &[ActivityAccess]) -> Vec<i64> {
    let by_id: HashMap<i64, &ActivityAccess> =
        accesses.iter().filter_map(|access| Some((access.repository.as_ref()?.id, access))).collect();
    let may_read = |row: &&ActivityRow| {
        by_id.get(&row.repository_id).is_some_and(|access| match (row.kind(), part(row.kind())) {
            (ActivityKind::Unspecified, _) => false,
            (_, Part::Content) => access.can_read_content,
            (_, Part::Issues) => access.can_read_issues,
            (_, Part::Pulls) => access.can_read_pulls,
        })
    };
    rows.iter().filter(may_read).map(|row| row.id).collect()
}

fn page_of(ids: &[i64], page: Page) -> &[i64] {
    let start = usize::try_from(page.offset()).unwrap_or(usize::MAX).min(ids.len());
    let size = usize::try_from(page.size()).unwrap_or_default();
    &ids[start..start.saturating_add(size).min(ids.len())]
}

fn encode(row: StoredActivity) -> Activity {
    let mut activity = Activity {
        id: row.id,
        kind: row.kind.into(),
        user_id: row.user_id,
        repository_id: row.repository_id,
        create_time: Some(timestamp(row.happened_us)),
        ..Activity::default()
    };
    match row.fact.fact {
        Some(Fact::RefsUpdated(updated)) => {
            let RefUpdate { name, old_id, new_id } = updated.updates.into_iter().next().unwrap_or_default();
            (activity.ref_name, activity.old_id, activity.new_id) = (name, old_id, new_id);
        }
        Some(Fact::ReleasePublished(published)) => {
            let tag = published.release.map(|release| release.tag_name).unwrap_or_default();
            activity.ref_name = format!("refs/tags/{tag}").into_bytes();
        }
        Some(Fact::IssueUpdated(updated)) => name_issue(&mut activity, updated.issue),
        Some(Fact::PullReviewed(reviewed)) => name_issue(&mut activity, reviewed.pull),
        Some(Fact::CommentChanged(changed)) => {
            activity.comment_id = changed.comment.map_or(0, |comment| comment.id);
            name_issue(&mut activity, changed.issue);
        }
        Some(Fact::RepositoryUpdated(updated)) => {
            activity.old_name = match updated.old_owner {
                Some(owner) => format!("{}/{}", owner.username, updated.old_name),
                None => updated.old_name,
            };
        }
        _ => {}
    }
    activity
}

fn name_issue(activity: &mut Activity, issue: Option<Issue>) {
    if let Some(issue) = issue {
        (activity.number, activity.title) = (issue.number, issue.title);
    }
}

#[cfg(test)]
mod tests {
    use ferrite_events::event;
    use ferrite_proto::events::{CommentChanged, Event, IssueAction, IssueUpdated, RefsUpdated, RepositoryCreated};
    use ferrite_proto::grant::{Grant, GrantUser};
    use ferrite_proto::hook::activity_service_client::ActivityServiceClient;
    use ferrite_proto::issue::{Comment, PullRequest};
    use ferrite_proto::repo::Identity;
    use ferrite_proto::{Permission, ServiceRole, operation};

    use super::*;
    use crate::testing::{PULLS_TOKEN_ID, REPOSITORY, Service, TestCaller, on_each_url, repository as repository_of};

    fn stored(fact: Fact) -> StoredActivity {
        StoredActivity {
            id: 9,
            repository_id: 42,
            user_id: 7,
            kind: ActivityKind::PushBranch,
            fact: Event { fact: Some(fact), ..Event::default() },
            happened_us: 1_000_000,
        }
    }

    #[test]
    fn the_reader_is_named_by_a_grant_for_this_operation_or_by_a_token() {
        let grant = |subject: Subject, operation: &str| {
            let user = Some(GrantUser { token_id: 70, ..GrantUser::default() });
            let grant = Grant { user, subject, operation: operation.to_owned(), ..Grant::default() };
            Caller {
                grant: Some(grant.into()),
                operation: operation::LIST_ACTIVITIES.to_owned(),
                service: Some(ServiceRole::Gateway),
                ..Caller::default()
            }
        };
        assert!(matches!(reader(&grant(Subject::User, operation::LIST_ACTIVITIES)), Ok(70)));
        for caller in [grant(Subject::Site, operation::LIST_ACTIVITIES), grant(Subject::User, operation::LIST_EVENTS)] {
            assert!(matches!(reader(&caller), Err(AuthError::BadGrant)));
        }
        let identity = Some(Identity { token_id: 71, ..Identity::default() });
        assert!(matches!(reader(&Caller { identity, ..Caller::default() }), Ok(71)));
        let gateway = Caller { service: Some(ServiceRole::Gateway), ..Caller::default() };
        assert!(matches!(reader(&gateway), Ok(0)));
        assert!(reader(&Caller::default()).is_err());
    }

    #[test]
    fn an_activity_has_what_its_fact_tells() {
        let update = RefUpdate { name: b"refs/heads/main".to_vec(), old_id: "0".into(), new_id: "1".into() };
        let pushed = encode(stored(Fact::RefsUpdated(RefsUpdated { updates: vec![update], ..Default::default() })));
        assert_eq!(
            (&pushed.ref_name[..], pushed.old_id.as_str(), pushed.new_id.as_str()),
            (&b"refs/heads/main"[..], "0", "1")
        );
        assert_eq!((pushed.id, pushed.user_id, pushed.create_time), (9, 7, Some(timestamp(1_000_000))));
        let issue = Some(Issue { number: 3, title: "Broken".into(), ..Issue::default() });
        let comment = Some(Comment { id: 5, body: "secret".into(), ..Comment::default() });
        let commented = encode(stored(Fact::CommentChanged(CommentChanged { issue, comment, ..Default::default() })));
        assert_eq!((commented.number, commented.title.as_str(), commented.comment_id), (3, "Broken", 5));
    }

    #[test]
    fn pages_are_cut_from_what_is_readable() {
        let ids: Vec<i64> = (0..7).collect();
        let page = |number, size| page_of(&ids, Page::nearest(number, size, MAX_PAGE_SIZE)).to_vec();
        assert_eq!((page(1, 5), page(2, 5), page(3, 5)), (vec![0, 1, 2, 3, 4], vec![5, 6], vec![]));
    }

    #[tokio::test]
    async fn a_list_has_what_the_reader_can_read_at_the_moment() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let issue = |action: IssueAction, pull_request| {
                let issue = Issue { number: 3, title: "Broken".into(), pull_request, ..Issue::default() };
                let (issue, action) = (Some(issue), action.into());
                Fact::IssueUpdated(IssueUpdated { issue, action, user_id: 7, ..Default::default() })
            };
            let created = |repository: i64| {
                let repository = Some(repository_of(repository, None));
                Fact::RepositoryCreated(RepositoryCreated { repository, user_id: 8, ..Default::default() })
            };
            let created = [REPOSITORY, REPOSITORY + 1].map(|id| event(RepositoryId(id), 1, created(id)));
            service.deliver(created.into()).await.unwrap();
            let changed = [
                issue(IssueAction::Opened, None),
                issue(IssueAction::LabelUpdated, None),
                issue(IssueAction::Opened, Some(PullRequest::default())),
            ];
            let changed = changed.map(|fact| event(RepositoryId(REPOSITORY), 1, fact));
            service.deliver(changed.into()).await.unwrap();
            let list = async |token_id: i64, subject: Asked, only_performed: bool| {
                let caller = TestCaller::user(9, Permission::None).of_subject(Subject::User).with_token(token_id);
                let request = ListActivitiesRequest { subject: Some(subject), only_performed, page: 1, page_size: 50 };
                let request = caller.request(operation::LIST_ACTIVITIES, request);
                let mut client = ActivityServiceClient::new(service.channel.clone());
                let response = client.list_activities(request).await.unwrap().into_inner();
                assert_eq!(response.total_count, response.activities.len() as i64);
                response.activities.iter().map(Activity::kind).collect::<Vec<_>>()
            };
            let (open, pull, create) =
                (ActivityKind::OpenIssue, ActivityKind::OpenPull, ActivityKind::CreateRepository);
            assert_eq!(list(70, Asked::RepositoryId(REPOSITORY), false).await, [open, create]);
            let all = list(PULLS_TOKEN_ID, Asked::RepositoryId(REPOSITORY), false).await;
            assert_eq!(all, [pull, open, create]);
            assert!(list(70, Asked::RepositoryId(REPOSITORY + 1), false).await.is_empty());
            assert_eq!(list(70, Asked::UserId(7), true).await, [open]);
            assert_eq!(list(70, Asked::UserId(8), true).await, [create]);
            service.stop().await;
        })
        .await;
    }
}
