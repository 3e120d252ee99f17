//! The RPCs of issues, their lists and their timelines.

mod search;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyError, IdempotencyKey, once_or_rebuild};
use ferrite_listener::service;
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::issue_service_server::IssueService;
use ferrite_proto::issue::*;
use ferrite_proto::repo::IssueAccess;
use ferrite_rpc::auth::{AuthError, Caller, OperationSubject};
use ferrite_rpc::version;
use futures_util::future::try_join_all;
use tonic::Request;

use self::search::search_issues;
use super::{due_change, require_author_or, user};
use crate::encode;
use crate::error::IssueError;
use crate::model::words;
use crate::model::{Body, Class, IssueChange, LabelOwner, NewIssue, Title};
use crate::pulls::Update;
use crate::state::AppState;
use crate::store::{Condition, CounterChange, IssueFilter, IssuePage, Order, Sort, TimelineEntry};
use crate::upstream::MAX_QUESTION_REPOSITORIES;
use crate::writer::{MAX_ISSUE_LABELS, TextTargets, known_labels, label_owners, unknown_milestone};

pub(super) const MAX_PAGE_SIZE: i32 = 50;
const MAX_TIMELINE_PAGE_SIZE: i32 = 1000;
const MAX_FILTER_LABELS: usize = 100;
const MAX_ASSIGNEES: usize = 10;
/// Milestone filters for issues without a milestone, and with any.
const NONE: &str = "none";
const ANY: &str = "*";
/// Repositories in the list of a user's issues. Others can assign issues to a user without asking,
/// so their number must be bounded.
const MAX_LISTED_REPOSITORIES: i64 = 10_000;

service!(IssueService for AppState {
    create_issue(CreateIssueRequest) -> CreateIssueResponse;
    list_issues(ListIssuesRequest) -> ListIssuesResponse;
    list_user_issues(ListUserIssuesRequest) -> ListUserIssuesResponse;
    search_issues(SearchIssuesRequest) -> SearchIssuesResponse;
    get_issue(GetIssueRequest) -> GetIssueResponse;
    update_issue(UpdateIssueRequest) -> UpdateIssueResponse;
    list_timeline(ListTimelineRequest) -> ListTimelineResponse;
});

async fn create_issue(
    state: &AppState,
    request: Request<CreateIssueRequest>,
) -> Result<CreateIssueResponse, IssueError> {
    let grant = state.authorize(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateIssue")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let create = async {
        let new = decode_new(state, &grant, request).await?;
        state.limits.count_issue(&grant, new.body.as_str().len()).await?;
        let targets = state.targets(new.repository, new.author, new.body.as_str()).await?;
        let mut write = state.writer.begin_open(&new).await?;
        let issue = write.open(&new, &targets).await?;
        let (number, response) = (issue.issue.number, CreateIssueResponse { issue: Some(encode::issue(issue)) });
        write.commit_with_subject(key.as_ref(), response, number).await
    };
    let rebuild = |number: i64| async move {
        Ok(CreateIssueResponse { issue: Some(encode::issue(state.full_issue(repository, number).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, create).await
}

async fn decode_new(state: &AppState, grant: &Grant, request: CreateIssueRequest) -> Result<NewIssue, IssueError> {
    let repository = RepositoryId(request.repository_id);
    // Ignore the values of other callers, so that they do not learn what exists.
    let is_writer = grant.permission >= Permission::Write;
    let milestone_id = if is_writer { request.milestone_id } else { 0 };
    let due_us = request.due_time.filter(|_| is_writer).map(encode::due_us);
    let mut label_ids = if is_writer { request.label_ids } else { Vec::new() };
    label_ids.sort_unstable();
    label_ids.dedup();
    let labels = if label_ids.len() > MAX_ISSUE_LABELS {
        Err(FieldViolation::new("labels", "too_many", "an issue can have at most 100 labels"))
    } else {
        Ok(label_ids)
    };
    let assignees = match is_writer {
        true => assignees(state, repository, false, (&request.assignee, &request.assignees)).await?,
        false => Ok(Vec::new()),
    };
    match (Title::parse(&request.title), Body::parse(request.body), assignees, labels) {
        (Ok(title), Ok(body), Ok(assignees), Ok(label_ids)) => Ok(NewIssue {
            repository,
            organization: grant.organization_id(),
            author: user(grant)?,
            title,
            body,
            is_closed: request.is_closed,
            assignees,
            milestone_id,
            due_us,
            label_ids,
            pull_request: None,
        }),
        (title, body, assignees, labels) => {
            // Report everything at once, also what the write would find.
            let store = &state.store;
            let milestone = unknown_milestone(store, store.reader(), repository, milestone_id).await?;
            let labels = match labels {
                Ok(ids) => known_labels(store, store.reader(), &owners_of_labels(grant), &ids).await?.err(),
                Err(violation) => Some(violation),
            };
            Err(IssueError::invalid([title.err(), body.err(), assignees.err(), milestone, labels]))
        }
    }
}

/// Returns the users with these names, the first of which is empty for none, without duplicates, or
/// the first violation. They must be able to read issues, or pull requests.
pub(super) async fn assignees(
    state: &AppState,
    repository: RepositoryId,
    is_pull_request: bool,
    (first, others): (&str, &[String]),
) -> Result<Result<Vec<UserId>, FieldViolation>, IssueError> {
    let first = Some(("assignee", first)).filter(|(_, name)| !name.is_empty());
    let mut names: Vec<_> = first.into_iter().chain(others.iter().map(|name| ("assignees", name.as_str()))).collect();
    let mut seen = HashSet::new();
    names.retain(|(_, name)| seen.insert(name.to_lowercase()));
    if names.len() > MAX_ASSIGNEES {
        return Ok(Err(FieldViolation::new("assignees", "too_many", "an issue can have at most 10 assignees")));
    }
    let lookups = names.into_iter().map(|named| state.repo.assignee(repository, is_pull_request, named));
    let mut users = Vec::new();
    for found in try_join_all(lookups).await? {
        match found {
            Ok(user) if users.contains(&user) => {}
            Ok(user) => users.push(user),
            Err(violation) => return Ok(Err(violation)),
        }
    }
    Ok(Ok(users))
}

/// Returns the owners whose labels the issues of a repository can have.
pub(super) fn owners_of_labels(grant: &Grant) -> Vec<LabelOwner> {
    label_owners(LabelOwner::Repository(grant.repository_id()), grant.organization_id())
}

async fn list_issues(state: &AppState, request: Request<ListIssuesRequest>) -> Result<ListIssuesResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    require_listed(&grant, request.kind)?;
    let (mut classes, order, page) = decode_list(&request)?;
    classes.retain(|class| if class.is_pull_request { grant.pulls_enabled } else { grant.issues_enabled });
    let found = match filter(state, &grant, request, classes).await? {
        Some(filter) => state.store.list(repository, &filter, order, page).await?,
        None => IssuePage::default(),
    };
    let issues = found.issues.into_iter().map(encode::issue).collect();
    Ok(ListIssuesResponse { issues, total_count: found.total, is_partial: found.is_partial })
}

/// Fails unless the repository has what a list is of: one of issues and pull requests if it is of both.
fn require_listed(grant: &Grant, kind: i32) -> Result<(), IssueError> {
    match IssueKind::try_from(kind) {
        Ok(IssueKind::PullRequest) if grant.pulls_enabled => Ok(()),
        Ok(IssueKind::PullRequest) => Err(IssueError::PullsDisabled),
        Ok(IssueKind::Any) if grant.pulls_enabled => Ok(()),
        _ if grant.issues_enabled => Ok(()),
        _ => Err(IssueError::Disabled),
    }
}

/// Parses a kind: for each kind of issue in the list, whether it is a pull request.
fn kinds(kind: i32) -> Result<Vec<bool>, FieldViolation> {
    match IssueKind::try_from(kind) {
        Ok(IssueKind::Unspecified | IssueKind::Issue) => Ok(vec![false]),
        Ok(IssueKind::PullRequest) => Ok(vec![true]),
        Ok(IssueKind::Any) => Ok(vec![false, true]),
        Err(_) => Err(FieldViolation::new("kind", "unknown", "must be `issues`, `pulls` or `all`")),
    }
}

fn decode_list(request: &ListIssuesRequest) -> Result<(Vec<Class>, Order, Page), IssueError> {
    let unknown = |field: &str, message: &str| FieldViolation::new(field, "unknown", message);
    let states = encode::is_closed(request.state).map(|state| state.map_or(vec![false, true], |state| vec![state]));
    let kinds = kinds(request.kind);
    let sort = match IssueSort::try_from(request.sort) {
        Ok(IssueSort::Unspecified | IssueSort::Created) => Ok(Sort::Number),
        Ok(IssueSort::Updated) => Ok(Sort::Updated),
        Ok(IssueSort::Comments) => Ok(Sort::Comments),
        Err(_) => Err(unknown("sort", "must be `created`, `updated` or `comments`")),
    };
    let labels = if request.labels.len() > MAX_FILTER_LABELS {
        Err(FieldViolation::new("labels", "too_many", "must not list more than 100 labels"))
    } else {
        Ok(())
    };
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE);
    match (states, kinds, sort, labels, page) {
        (Ok(states), Ok(kinds), Ok(sort), Ok(()), Ok(page)) => {
            let of_kind =
                |is_pull_request| states.iter().map(move |is_closed| Class { is_pull_request, is_closed: *is_closed });
            let classes = kinds.into_iter().flat_map(of_kind).collect();
            Ok((classes, Order { sort, is_ascending: request.is_ascending }, page))
        }
        (states, kinds, sort, labels, page) => {
            let mut violations = page.err().unwrap_or_default();
            violations.extend([states.err(), kinds.err(), sort.err(), labels.err()].into_iter().flatten());
            Err(IssueError::Invalid(violations))
        }
    }
}

/// Returns `None` if the filter names something that does not exist, so nothing can match.
async fn filter(
    state: &AppState,
    grant: &Grant,
    request: ListIssuesRequest,
    classes: Vec<Class>,
) -> Result<Option<IssueFilter>, IssueError> {
    let (repository, store) = (RepositoryId(request.repository_id), &state.store);
    let Some((label_ids, shared_label_ids)) = label_ids(state, grant, &request.labels).await? else {
        return Ok(None);
    };
    let milestone = match request.milestone.as_str() {
        "" => None,
        NONE => Some(Condition::None),
        ANY => Some(Condition::Any),
        // If several milestones have this title, the newest one counts.
        text => {
            let Some(id) = store.milestone_named(store.reader(), repository, text).await? else { return Ok(None) };
            Some(Condition::Is(id))
        }
    };
    let assignee = request.assignee.and_then(|filter| filter.condition).map(|condition| match condition {
        assignee_filter::Condition::UserId(id) => Condition::Is(UserId(id)),
        assignee_filter::Condition::None(_) => Condition::None,
        assignee_filter::Condition::Any(_) => Condition::Any,
    });
    let words = if request.query.trim().is_empty() {
        None
    } else {
        let words = words::query_words(&request.query);
        if words.is_empty() {
            return Ok(None);
        }
        Some(store.db().pick(words::ts_query(repository, &words), words::fts5_query(repository, &words)))
    };
    Ok(Some(IssueFilter {
        classes,
        label_ids,
        shared_label_ids,
        assignee,
        creator: (request.creator_id != 0).then_some(UserId(request.creator_id)),
        milestone,
        mentioned: (!request.mentioned.is_empty()).then(|| request.mentioned.to_lowercase()),
        words,
        base_branch: None,
        since_us: request.since.map(encode::micros),
    }))
}

/// Resolves label names and ids. Returns the ids of labels of the repository, and of those of its
/// organization. `None` if one does not exist.
async fn label_ids(
    state: &AppState,
    grant: &Grant,
    labels: &[String],
) -> Result<Option<(Vec<i64>, Vec<i64>)>, IssueError> {
    if labels.is_empty() {
        return Ok(Some((Vec::new(), Vec::new())));
    }
    let ids: Vec<i64> = labels.iter().filter_map(|label| IdOrName::new(label).id()).collect();
    let store = &state.store;
    let found = store.labels_matching(store.reader(), &owners_of_labels(grant), &ids, labels).await?;
    let (mut own, mut shared) = (Vec::new(), Vec::new());
    for label in labels {
        let found = IdOrName::new(label).find(&found, |label| (label.id, &label.name));
        let Some(label) = found else { return Ok(None) };
        if label.is_shared() { shared.push(label.id) } else { own.push(label.id) }
    }
    for ids in [&mut own, &mut shared] {
        ids.sort_unstable();
        ids.dedup();
    }
    Ok(Some((own, shared)))
}

async fn list_user_issues(
    state: &AppState,
    request: Request<ListUserIssuesRequest>,
) -> Result<ListUserIssuesResponse, IssueError> {
    let grant = state.authorizer.authorize_subject(&Caller::of(&request), OperationSubject::User).await?;
    let viewer = grant.user.as_ref().ok_or(AuthError::CredentialsRequired)?;
    let user = UserId(viewer.id);
    let request = request.into_inner();
    let is_closed = encode::is_closed(request.state)?;
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let states = is_closed.map_or(vec![false, true], |is_closed| vec![is_closed]);
    let classes: Vec<_> = states.into_iter().map(|is_closed| Class { is_pull_request: false, is_closed }).collect();
    let store = &state.store;
    let assigned = store.assigned_repositories(user, &classes, MAX_LISTED_REPOSITORIES).await?;
    let mut visible = HashMap::new();
    for chunk in assigned.chunks(MAX_QUESTION_REPOSITORIES) {
        let ids: Vec<_> = chunk.iter().map(|(id, _)| *id).collect();
        let response = state.repo.access_of_user(viewer, &ids, false).await?;
        visible.extend(response.accesses.into_iter().map(|access| (access.repository_id, access)));
    }
    let (shown, hidden): (Vec<_>, Vec<_>) = assigned.iter().partition(|(id, _)| visible.contains_key(&id.0));
    let total_count: i64 = shown.iter().map(|(_, count)| count).sum();
    let shown: Vec<_> = shown.into_iter().map(|(id, _)| id).collect();
    let is_all = hidden.is_empty() && i64::try_from(assigned.len()).is_ok_and(|count| count < MAX_LISTED_REPOSITORIES);
    let issues = if page.offset() < total_count {
        store.list_assigned(user, &classes, (!is_all).then_some(shown.as_slice()), page).await?
    } else {
        Vec::new()
    };
    let repositories = issues.iter().filter_map(|full| visible.remove(&full.issue.repository.0)).map(named).collect();
    Ok(ListUserIssuesResponse { issues: issues.into_iter().map(encode::issue).collect(), total_count, repositories })
}

async fn get_issue(state: &AppState, request: Request<GetIssueRequest>) -> Result<GetIssueResponse, IssueError> {
    let GetIssueRequest { repository_id, number } = *request.get_ref();
    state.authorize_on(&request, repository_id, number).await?;
    let issue = encode::issue(state.full_issue(RepositoryId(repository_id), number).await?);
    version::tell(&issue);
    Ok(GetIssueResponse { issue: Some(issue) })
}

async fn update_issue(
    state: &AppState,
    request: Request<UpdateIssueRequest>,
) -> Result<UpdateIssueResponse, IssueError> {
    let grant = state.authorize_on(&request, request.get_ref().repository_id, request.get_ref().number).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateIssue")?;
    let request = request.into_inner();
    if let Some(key) = &key
        && key.is_used(state.store.db()).await.map_err(IdempotencyError::from)?
    {
        // Readers get a grant to edit too. Check who may edit this issue even if the request is a
        // repeat.
        check_update(state, &grant, &request).await?;
    }
    let update = async {
        let (change, targets) = match decode_change(state, &grant, &request).await {
            Ok(decoded) => decoded,
            Err(error) => {
                check_update(state, &grant, &request).await?;
                return Err(error);
            }
        };
        state.limits.count_text(&grant, change.body.as_ref().map_or(0, |body| body.as_str().len())).await?;
        let mut write = state.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        let issue = write.issue(request.number).await?;
        require_update(&grant, &request, issue.author)?;
        write.require_issue(&issue).await?;
        let actor = user(&grant)?;
        let reopens_pull = issue.class.is_pull_request && issue.class.is_closed && change.is_closed == Some(false);
        let issue = write.change(issue, change, &targets, actor).await?;
        if reopens_pull {
            // Its head may have moved while it was closed.
            let (head, now_us) = (Update::Head { number: request.number }, write.now_us());
            state.pulls.queue.record(write.tx(), issue.issue.repository, &head, actor, now_us).await?;
        }
        let response = UpdateIssueResponse { issue: Some(encode::issue(issue)) };
        write.commit_with_subject(key.as_ref(), response, request.number).await
    };
    let repository = RepositoryId(request.repository_id);
    let rebuild = |number: i64| async move {
        Ok(UpdateIssueResponse { issue: Some(encode::issue(state.full_issue(repository, number).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, update).await
}

/// Checks that the issue exists and that the caller may change it.
async fn check_update(state: &AppState, grant: &Grant, request: &UpdateIssueRequest) -> Result<(), IssueError> {
    let issue = state.issue(RepositoryId(request.repository_id), request.number).await?;
    require_update(grant, request, issue.author)
}

fn require_update(grant: &Grant, request: &UpdateIssueRequest, author: UserId) -> Result<(), IssueError> {
    let needed = Permission::Write;
    if request.requires_write && grant.permission < needed {
        return Err(AuthError::PermissionRequired { needed }.into());
    }
    require_author_or(grant, author, needed)
}

/// Returns the change and the references in its body.
async fn decode_change(
    state: &AppState,
    grant: &Grant,
    request: &UpdateIssueRequest,
) -> Result<(IssueChange, TextTargets), IssueError> {
    // Gateways of the previous version set `check_only` if they want no change. Without this check
    // the request would be an ordinary write.
    if request.check_only {
        return Err(FieldViolation::new("title", "required", "must not be blank").into());
    }
    let (repository, actor) = (RepositoryId(request.repository_id), user(grant)?);
    let title = request.title.as_deref().map(Title::parse).transpose();
    let body = request.body.clone().map(Body::parse).transpose();
    let is_closed = encode::is_closed(request.state);
    let is_writer = grant.permission >= Permission::Write;
    let milestone_id = request.milestone_id.filter(|_| is_writer);
    let has_assignees = request.assignee.is_some() || request.assignees.is_some();
    let assignees = match is_writer && has_assignees {
        true => {
            let first = request.assignee.as_deref().unwrap_or_default();
            let others = request.assignees.as_ref().map_or(&[][..], |names| names.usernames.as_slice());
            let is_pull_request = state.issue(repository, request.number).await?.class.is_pull_request;
            assignees(state, repository, is_pull_request, (first, others)).await?.map(Some)
        }
        false => Ok(None),
    };
    let due_us = due_change(grant, request.due_time, request.clear_due_time);
    let change = match (title, body, is_closed, assignees, due_us) {
        (Ok(title), Ok(body), Ok(is_closed), Ok(assignees), Ok(due_us)) => {
            IssueChange { title, body, is_closed, assignees, milestone_id, due_us }
        }
        (title, body, is_closed, assignees, due_us) => {
            let (store, id) = (&state.store, milestone_id.unwrap_or(0));
            let milestone = unknown_milestone(store, store.reader(), repository, id).await?;
            let texts = [title.err(), body.err()];
            let others = [assignees.err(), milestone, due_us.err(), is_closed.err()];
            return Err(IssueError::invalid(texts.into_iter().chain(others)));
        }
    };
    let targets = match &change.body {
        Some(body) => state.targets(repository, actor, body.as_str()).await?,
        None => TextTargets::default(),
    };
    Ok((change, targets))
}

async fn list_timeline(
    state: &AppState,
    request: Request<ListTimelineRequest>,
) -> Result<ListTimelineResponse, IssueError> {
    let grant = state.authorize_on(&request, request.get_ref().repository_id, request.get_ref().number).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_TIMELINE_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let (store, repository) = (&state.store, RepositoryId(request.repository_id));
    let issue = state.issue(repository, request.number).await?;
    let sources = store.sources(issue.id, repository).await?;
    // The caller may see the issue's own repository. Most issues have references from nowhere else.
    let accesses = match grant.user.as_ref().filter(|user| user.token_id != 0) {
        Some(user) if !sources.is_empty() => state.repo.access_of_user(user, &sources, false).await?.accesses,
        Some(_) | None => Vec::new(),
    };
    let visible: Vec<_> =
        accesses.iter().map(|access| RepositoryId(access.repository_id)).chain([repository]).collect();
    let (entries, total_count) = store.timeline(issue.id, &visible, page).await?;
    let repositories = accesses.into_iter().map(named).collect();
    let show = |mut entry: TimelineEntry| {
        // Everybody sees that the issue was closed, but only those with access see by which commit.
        if entry.source_repository_id != 0 && !visible.contains(&RepositoryId(entry.source_repository_id)) {
            entry.commit_id.clear();
            entry.source_repository_id = 0;
        }
        encode::entry(entry, repository.0)
    };
    let entries = entries.into_iter().map(show).collect();
    Ok(ListTimelineResponse { entries, total_count, repositories })
}

fn named(access: IssueAccess) -> NamedRepository {
    NamedRepository { repository_id: access.repository_id, owner: access.owner, name: access.name }
}
