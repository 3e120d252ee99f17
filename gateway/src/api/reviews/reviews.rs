use ferrite_api_types::Review;
use ferrite_api_types::convert::require;
use ferrite_proto::issue::{
    self, CreateReviewRequest, DeleteReviewRequest, DismissReviewRequest, GetReviewRequest, ListReviewsRequest,
    ReviewState, SubmitReviewRequest, UndismissReviewRequest,
};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde_json::json;

use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::body::NoBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult, FieldError};
use crate::http::page::{Total, WholeList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{
    Flag, Integer, LongText, NonEmpty, Objects, OrDefault, RequestBody, Required, Text, Word, fields,
};
use crate::http::response::{Json, NoContent, TextList};
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/reviews" =>
        get list as operation::LIST_REVIEWS,
        post create as operation::CREATE_REVIEW;
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/reviews/{id}" =>
        get get as operation::GET_REVIEW,
        post submit as operation::SUBMIT_REVIEW,
        delete remove as operation::DELETE_REVIEW;
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/reviews/{id}/dismissals" => post dismiss as operation::DISMISS_REVIEW;
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/reviews/{id}/undismissals" =>
        post undismiss as operation::UNDISMISS_REVIEW;
}

words! {
    /// What a review says, or that it is pending. `APPROVE` is the word of other services.
    enum Event: ReviewState {
        "PENDING" = ReviewState::Pending,
        "COMMENT" = ReviewState::Commented,
        "APPROVED" = ReviewState::Approved,
        "APPROVE" = ReviewState::Approved,
        "REQUEST_CHANGES" = ReviewState::ChangesRequested,
    }
}

words! {
    /// What a review is submitted as.
    enum SubmittedEvent: ReviewState {
        "COMMENT" = ReviewState::Commented,
        "APPROVED" = ReviewState::Approved,
        "APPROVE" = ReviewState::Approved,
        "REQUEST_CHANGES" = ReviewState::ChangesRequested,
    }
}

fields! {
    /// A new review.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct NewReview {
        /// What the review says. With `PENDING`, which is the default, it is submitted later, and
        /// only its author sees it until then. `APPROVE` is the same as `APPROVED`.
        event: NonEmpty<Word<Event>> = "APPROVED",
        /// Required to request changes, and for `COMMENT`, unless there are comments.
        body: OrDefault<LongText> = "Well done.",
        /// The commit that was reviewed; the head by default. A review of another commit is stale.
        commit_id: OrDefault<Text<40>> = "9e107d9d372bb6826bd81d3542a419d6e277e1a2",
        /// Comments on lines, at most 100.
        comments: OrDefault<Objects<NewReviewComment>> =
            json!([{"path": "src/main.rs", "new_position": 3, "body": "Why?"}]),
    }
}

fields! {
    /// A comment on lines. It needs `new_position` or `old_position`, not both.
    struct NewReviewComment {
        /// The path of the file.
        path: Required<Text<4096>> = "src/main.rs",
        body: Required<LongText> = "Why?",
        /// The last line in the file of the head, from 1; 0 for a comment on the old side.
        new_position: OrDefault<Integer> = 3,
        /// The last line in the file of the merge base, from 1; 0 for a comment on the new side.
        old_position: OrDefault<Integer> = 0,
        /// The number of lines that end there, at most 1,000; one by default.
        line_count: NonEmpty<Integer> = 1,
    }
}

fields! {
    /// How to submit a pending review.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct SubmittedReview {
        /// What the review says. `APPROVE` is the same as `APPROVED`.
        event: Required<Word<SubmittedEvent>> = "COMMENT",
        /// The text, in place of that of the pending review. An empty one changes nothing.
        body: OrDefault<LongText> = "Some questions.",
    }
}

fields! {
    /// Why a review is dismissed.
    struct Dismissal {
        /// One line for the timeline.
        message: OrDefault<Text<255>> = "The reviewer is on leave.",
        /// Whether to dismiss earlier reviews of the same user, too.
        priors: OrDefault<Flag> = false,
    }
}

impl NewReview {
    /// Returns the request of a pull request to be named. Errors name all comments with two
    /// positions; issue-svc checks the rest.
    fn into_request(self) -> ApiResult<CreateReviewRequest> {
        let is_ambiguous = |comment: &NewReviewComment| comment.new_position != 0 && comment.old_position != 0;
        let ambiguous = self.comments.iter().enumerate().filter(|(_, comment)| is_ambiguous(comment));
        let errors: Vec<_> = ambiguous.map(|(place, _)| two_positions(place)).collect();
        if !errors.is_empty() {
            return Err(ApiError::invalid(errors));
        }
        Ok(CreateReviewRequest {
            state: self.event.unwrap_or(ReviewState::Pending).into(),
            body: self.body,
            commit_id: self.commit_id,
            comments: self.comments.into_iter().map(NewReviewComment::into_request).collect(),
            ..Default::default()
        })
    }
}

fn two_positions(place: usize) -> FieldError {
    FieldError::new(&format!("comments[{place}].old_position"), "invalid", "cannot be combined with `new_position`")
}

impl NewReviewComment {
    /// At most one position is given. Without one, issue-svc refuses `new_position`.
    fn into_request(self) -> issue::NewReviewComment {
        // issue-svc refuses what is no line.
        let number = |value: i64| i32::try_from(value).unwrap_or(-1);
        let is_old_side = self.old_position != 0;
        issue::NewReviewComment {
            path: self.path,
            is_old_side,
            line: number(if is_old_side { self.old_position } else { self.new_position }),
            line_count: self.line_count.map_or(0, number),
            body: self.body,
        }
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
) -> ApiResult<TextList<Review>> {
    let access = call.access(&path, operation::LIST_REVIEWS).await?;
    let request = ListReviewsRequest {
        repository_id: access.id,
        number: params.id("index"),
        page: query.page.number,
        page_size: query.page.size,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.reviews().list_reviews(request).await?.into_inner();
    let reviews = convert_all(&call, &access, response.reviews).await?;
    Ok(query.text_list(reviews, Total::counted(response.total_count, false), &call.links))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult<Json<Review>> {
    let access = call.access(&path, operation::GET_REVIEW).await?;
    let request = GetReviewRequest { repository_id: access.id, number: params.id("index"), review_id: params.id("id") };
    let request = call.request_with_grant(&access.grant, request);
    let found = call.clients.reviews().get_review(request).await?.into_inner().review;
    Ok(Json(convert(&call, &access, found).await?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NewReview>,
) -> ApiResult<Json<Review>> {
    let access = call.access(&path, operation::CREATE_REVIEW).await?;
    let blank = CreateReviewRequest { repository_id: access.id, number: params.id("index"), ..Default::default() };
    let check =
        async { call.clients.reviews().create_review(call.blank_with_grant(&access.grant, blank.clone())).await };
    let read = body.read(&call.body_limits).await.and_then(|(new, permit)| Ok((new.into_request()?, permit)));
    let (new, _permit) = after_refusal(check, read).await?;
    let access = call.confirm(access, operation::CREATE_REVIEW).await?;
    let request = CreateReviewRequest { repository_id: blank.repository_id, number: blank.number, ..new };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let made = call.clients.reviews().create_review(request).await?.into_inner().review;
    Ok(Json(convert(&call, &access, made).await?))
}

async fn submit(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<SubmittedReview>,
) -> ApiResult<Json<Review>> {
    let access = call.access(&path, operation::SUBMIT_REVIEW).await?;
    let blank = SubmitReviewRequest {
        repository_id: access.id,
        number: params.id("index"),
        review_id: params.id("id"),
        ..Default::default()
    };
    let check =
        async { call.clients.reviews().submit_review(call.blank_with_grant(&access.grant, blank.clone())).await };
    let (submitted, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::SUBMIT_REVIEW).await?;
    let request = SubmitReviewRequest { state: submitted.event.into(), body: submitted.body, ..blank };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let review = call.clients.reviews().submit_review(request).await?.into_inner().review;
    Ok(Json(convert(&call, &access, review).await?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_REVIEW).await?;
    let request =
        DeleteReviewRequest { repository_id: access.id, number: params.id("index"), review_id: params.id("id") };
    call.clients.reviews().delete_review(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

async fn dismiss(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<Dismissal>,
) -> ApiResult<Json<Review>> {
    let (access, dismissal, _permit) = call.access_and_body(&path, operation::DISMISS_REVIEW, body).await?;
    let request = DismissReviewRequest {
        repository_id: access.id,
        number: params.id("index"),
        review_id: params.id("id"),
        message: dismissal.message,
        with_priors: dismissal.priors,
    };
    let request = call.request_with_grant(&access.grant, request);
    let review = call.clients.reviews().dismiss_review(request).await?.into_inner().review;
    Ok(Json(convert(&call, &access, review).await?))
}

async fn undismiss(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: NoBody,
) -> ApiResult<Json<Review>> {
    let access = call.access(&path, operation::UNDISMISS_REVIEW).await?;
    body.read()?;
    let request =
        UndismissReviewRequest { repository_id: access.id, number: params.id("index"), review_id: params.id("id") };
    let request = call.request_with_grant(&access.grant, request);
    let review = call.clients.reviews().undismiss_review(request).await?.into_inner().review;
    Ok(Json(convert(&call, &access, review).await?))
}

async fn convert(call: &ApiCall, access: &ResolvedAccess, review: Option<issue::Review>) -> ApiResult<Review> {
    let shown = convert_all(call, access, vec![require(review, "review")?]).await?;
    Ok(require(shown.into_iter().next(), "review")?)
}

/// Converts reviews of one pull request, with one call for their users.
pub(super) async fn convert_all(
    call: &ApiCall,
    access: &ResolvedAccess,
    reviews: Vec<issue::Review>,
) -> ApiResult<Vec<Review>> {
    let ids = reviews.iter().map(|review| review.user_id).filter(|id| *id != 0);
    let accounts = call.accounts_beside_caller(access, ids).await?;
    let reviews = reviews.into_iter().map(|review| Review::new(review, &accounts, &access.urls));
    Ok(reviews.collect::<Result<_, _>>()?)
}
