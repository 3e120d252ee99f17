use ferrite_api_types::Review;
use ferrite_proto::issue::{RemoveReviewRequestsRequest, RequestReviewsRequest};
use ferrite_proto::operation;

use super::reviews::convert_all;
use crate::api::access::after_refusal;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{OrDefault, RequestBody, Texts, fields};
use crate::http::response::{Created, NoContent};

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/requested_reviewers" =>
        post request as operation::REQUEST_REVIEWS,
        delete remove as operation::REMOVE_REVIEW_REQUESTS;
}

fields! {
    /// The users and teams of requests for reviews.
    struct Reviewers {
        /// The names of users, at most 50.
        reviewers: OrDefault<Texts<50>> = ["eve"],
        /// The names of teams of the organization that owns the repository, at most 10.
        team_reviewers: OrDefault<Texts<10>> = ["maintainers"],
    }
}

async fn request(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<Reviewers>,
) -> ApiResult<Created<Vec<Review>>> {
    let access = call.access(&path, operation::REQUEST_REVIEWS).await?;
    let blank = RequestReviewsRequest { repository_id: access.id, number: params.id("index"), ..Default::default() };
    let check =
        async { call.clients.reviews().request_reviews(call.blank_with_grant(&access.grant, blank.clone())).await };
    let (named, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::REQUEST_REVIEWS).await?;
    let request = RequestReviewsRequest { usernames: named.reviewers, team_names: named.team_reviewers, ..blank };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.reviews().request_reviews(request).await?.into_inner();
    let location = format!("{}/pulls/{}/reviews", access.urls.api(), params.id("index"));
    Ok(Created::at(location, convert_all(&call, &access, response.reviews).await?))
}

async fn remove(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<Reviewers>,
) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::REMOVE_REVIEW_REQUESTS).await?;
    let (repository_id, number) = (access.id, params.id("index"));
    let blank = RemoveReviewRequestsRequest { repository_id, number, ..Default::default() };
    let check = async {
        call.clients.reviews().remove_review_requests(call.blank_with_grant(&access.grant, blank.clone())).await
    };
    let (named, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::REMOVE_REVIEW_REQUESTS).await?;
    let request = RemoveReviewRequestsRequest { usernames: named.reviewers, team_names: named.team_reviewers, ..blank };
    call.clients.reviews().remove_review_requests(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}
