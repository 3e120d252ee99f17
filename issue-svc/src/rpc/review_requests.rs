//! RequestReviews and RemoveReviewRequests.

use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::*;
use ferrite_proto::repo::{Reviewer, ReviewingTeam};
use ferrite_rpc::auth::AuthError;
use tonic::Request;

use super::{require_author_or, user};
use crate::encode;
use crate::error::IssueError;
use crate::model::{NewReviewRequest, Requested, ReviewRequest};
use crate::state::AppState;

const MAX_USERS: usize = 50;
/// As many as repo-svc describes at a time.
const MAX_TEAMS: usize = 10;

pub(super) async fn request_reviews(
    state: &AppState,
    request: Request<RequestReviewsRequest>,
) -> Result<RequestReviewsResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "RequestReviews")?;
    let RequestReviewsRequest { repository_id, number, usernames, team_names } = request.into_inner();
    let repository = RepositoryId(repository_id);
    // Readers get a grant to ask too.
    let full = state.full_pull(repository, number).await?;
    let (author, id) = (full.issue.author, full.issue.id);
    require_author_or(&grant, author, Permission::Write)?;
    require_names(&usernames, &team_names)?;
    let reviews = move |requests: Vec<ReviewRequest>| {
        let reviews = requests.into_iter().map(|found| encode::review_request(found, repository, number)).collect();
        RequestReviewsResponse { reviews }
    };
    let (grant, usernames, team_names) = (&grant, &usernames, &team_names);
    let ask = async {
        let asked = reviewers(state, grant, author, usernames, team_names).await?;
        let asked = asked.map_err(IssueError::Invalid)?;
        state.limits.count_text(grant, 0).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let (issue, pull) = write.pull(number).await?;
        let (_, requests) = write.request_reviews(issue, &pull, &asked, actor).await?;
        write.commit_with_subject(key.as_ref(), reviews(requests), number).await
    };
    let rebuild = |_: i64| async move {
        let asked = reviewers(state, grant, author, usernames, team_names).await?;
        let asked = asked.map_err(IssueError::Invalid)?;
        let open = state.store.review_requests(state.store.reader(), id).await?;
        let find = |new: &NewReviewRequest| open.iter().find(|request| request.requested.is_same(&new.requested));
        Ok(reviews(asked.iter().filter_map(find).cloned().collect()))
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, ask).await
}

pub(super) async fn remove_review_requests(
    state: &AppState,
    request: Request<RemoveReviewRequestsRequest>,
) -> Result<RemoveReviewRequestsResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "RemoveReviewRequests")?;
    let RemoveReviewRequestsRequest { repository_id, number, usernames, team_names } = request.into_inner();
    let repository = RepositoryId(repository_id);
    state.full_pull(repository, number).await?;
    let own_name = grant.user.as_ref().map_or("", |user| user.username.as_str());
    let is_own = !usernames.is_empty() && usernames.iter().all(|name| name.eq_ignore_ascii_case(own_name));
    // Not its author: an open request can hold the merge back.
    let removes_others = grant.permission >= Permission::Write;
    if !removes_others && (!is_own || !team_names.is_empty()) {
        return Err(AuthError::PermissionRequired { needed: Permission::Write }.into());
    }
    require_names(&usernames, &team_names)?;
    let remove = async {
        check_counts(&usernames, &team_names).map_err(IssueError::Invalid)?;
        let found = state.repo.reviewers(repository, &usernames, &[], &team_names).await?;
        state.limits.count_text(&grant, 0).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let (issue, _) = write.pull(number).await?;
        // A team may have been deleted, or may not belong to the owner of the repository any more.
        let is_named = |team: &str| team_names.iter().any(|name| name.to_lowercase() == team.to_lowercase());
        let is_given = |requested: &Requested| match requested {
            // The name may be that of another user by now.
            Requested::User(user) if !removes_others && *user != actor => false,
            Requested::User(user) => found.users.iter().any(|found| found.user_id == user.0),
            Requested::Team { id, name } => is_named(name) || found.teams.iter().any(|found| found.team_id == *id),
        };
        let mut removed = write.review_requests(issue.id).await?;
        removed.retain(|request| is_given(&request.requested));
        state.pulls.retry_merge(&mut write, (repository, issue.id, number)).await?;
        write.remove_review_requests(issue, removed, actor).await?;
        write.commit(key.as_ref(), RemoveReviewRequestsResponse {}).await
    };
    once(state.store.db(), key.as_ref(), remove).await
}

fn require_names(usernames: &[String], team_names: &[String]) -> Result<(), FieldViolation> {
    match usernames.is_empty() && team_names.is_empty() {
        true => Err(FieldViolation::new("reviewers", "required", "must name a user, or `team_reviewers` a team")),
        false => Ok(()),
    }
}

fn check_counts(usernames: &[String], team_names: &[String]) -> Result<(), Vec<FieldViolation>> {
    let too_many = |field: &str, message: &str| FieldViolation::new(field, "too_many", message);
    let users = (usernames.len() > MAX_USERS).then(|| too_many("reviewers", "must not list more than 50 users"));
    let teams = (team_names.len() > MAX_TEAMS).then(|| too_many("team_reviewers", "must not list more than 10 teams"));
    let violations: Vec<_> = users.into_iter().chain(teams).collect();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Returns the users and teams with these names, without duplicates, who may be asked about a pull
/// request of `author` by a caller with this grant, or the first violation of each field.
pub(super) async fn reviewers(
    state: &AppState,
    grant: &Grant,
    author: UserId,
    usernames: &[String],
    team_names: &[String],
) -> Result<Result<Vec<NewReviewRequest>, Vec<FieldViolation>>, IssueError> {
    if let Err(violations) = check_counts(usernames, team_names) {
        return Ok(Err(violations));
    }
    if usernames.is_empty() && team_names.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    // Others must not learn which teams there are.
    if grant.permission < Permission::Write && !team_names.is_empty() {
        let message = "write permission is required to ask a team";
        return Ok(Err(vec![FieldViolation::new("team_reviewers", "no_access", message)]));
    }
    let found = state.repo.reviewers(grant.repository_id(), usernames, &[], team_names).await?;
    let users: Result<Vec<_>, _> = found.users.iter().map(|user| reviewer(user, author)).collect();
    let teams: Result<Vec<_>, _> = found.teams.into_iter().map(reviewing_team).collect();
    match (users, teams) {
        (Ok(users), Ok(teams)) => {
            let mut asked: Vec<NewReviewRequest> = Vec::new();
            for new in users.into_iter().chain(teams) {
                if !asked.iter().any(|other| other.requested.is_same(&new.requested)) {
                    asked.push(new);
                }
            }
            Ok(Ok(asked))
        }
        (users, teams) => Ok(Err([users.err(), teams.err()].into_iter().flatten().collect())),
    }
}

fn reviewer(user: &Reviewer, author: UserId) -> Result<NewReviewRequest, FieldViolation> {
    let refuse = |code, message: &str| Err(FieldViolation::new("reviewers", code, message));
    match user.user_id {
        0 => refuse("unknown", "user does not exist"),
        id if id == author.0 => refuse("invalid", "the author of a pull request cannot review it"),
        _ if !user.can_read => refuse("no_access", "this user cannot read the repository"),
        id => Ok(NewReviewRequest { requested: Requested::User(UserId(id)), is_official: user.can_write }),
    }
}

fn reviewing_team(team: ReviewingTeam) -> Result<NewReviewRequest, FieldViolation> {
    match team.team_id {
        id if id != 0 && team.can_read => {
            Ok(NewReviewRequest { requested: Requested::Team { id, name: team.name }, is_official: false })
        }
        // The same for both, so that nobody learns the names of other teams.
        _ => {
            let message = "no team of this name can read the repository";
            Err(FieldViolation::new("team_reviewers", "unknown", message))
        }
    }
}
