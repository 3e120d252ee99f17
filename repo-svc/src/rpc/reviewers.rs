//! What users and teams may do with the pull requests of a repository.

use std::collections::HashMap;

use ferrite_proto::Permission;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{self as proto, DescribeReviewersRequest, DescribeReviewersResponse};
use ferrite_rpc::auth::AuthError;
use tonic::Request;

use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::lookup_key;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{RepositoryKey, Reviewer};

const MAX_USERS: usize = 200;
const MAX_TEAMS: usize = 10;

/// Three queries after that for the repository, whatever the number of users and teams.
pub(super) async fn describe_reviewers(
    state: &AppState,
    _: Authorized,
    request: Request<DescribeReviewersRequest>,
) -> Result<DescribeReviewersResponse, RepoError> {
    let request = request.into_inner();
    if request.usernames.len() + request.user_ids.len() > MAX_USERS {
        return Err(RepoError::field("user_ids", "too_long", "a request can look up at most 200 users"));
    }
    if request.team_names.len() > MAX_TEAMS {
        return Err(RepoError::field("team_names", "too_long", "a request can look up at most 10 teams"));
    }
    let key = RepositoryKey::Id(RepositoryId(request.repository_id));
    let repository = state.repositories.find(&key, &Viewer::of(None)).await?.ok_or(AuthError::RepositoryNotFound)?;

    // Skip invalid names like unknown ones.
    let folded = |names: &[String]| names.iter().map(|name| lookup_key(name)).collect::<Vec<_>>();
    let (user_keys, team_keys) = (folded(&request.usernames), folded(&request.team_names));
    let known: Vec<_> = user_keys.iter().flatten().map(String::as_str).collect();
    let users = state.repositories.reviewers(&repository, &request.user_ids, &known).await?;
    let known: Vec<_> = team_keys.iter().flatten().map(String::as_str).collect();
    let teams = state.repositories.reviewing_teams(&repository, &known).await?;

    let by_name: HashMap<_, _> = users.iter().map(|user| (user.name_key.as_str(), user)).collect();
    let by_id: HashMap<_, _> = users.iter().map(|user| (user.id.0, user)).collect();
    let named = user_keys.iter().map(|key| by_name.get(key.as_deref()?).copied());
    let numbered = request.user_ids.iter().map(|id| by_id.get(id).copied());
    let team = |key: &Option<String>| {
        let found = teams.iter().find(|team| Some(&team.name_key) == key.as_ref());
        found.map_or_else(proto::ReviewingTeam::default, |team| proto::ReviewingTeam {
            team_id: team.id,
            name: team.name.clone(),
            can_read: team.holds,
        })
    };
    Ok(DescribeReviewersResponse {
        users: named.chain(numbered).map(|found| found.map_or_else(proto::Reviewer::default, reviewer)).collect(),
        teams: team_keys.iter().map(team).collect(),
    })
}

fn reviewer(user: &Reviewer) -> proto::Reviewer {
    proto::Reviewer {
        user_id: user.id.0,
        can_read: user.level >= Permission::Read,
        can_write: user.level >= Permission::Write,
        team_ids: user.team_ids.clone(),
    }
}
