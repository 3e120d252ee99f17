//! Tests of reviews, with fakes of repo-svc and git-svc. User 7 opens the pull request #1, user 8
//! reviews it.

use ferrite_core::Secret;
use ferrite_core::testing::eventually;
use ferrite_events::event;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, PullReviewed, RepositoryDeleted};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::review_service_client::ReviewServiceClient;
use ferrite_proto::issue::*;
use ferrite_proto::metadata::{PRECONDITION, VERSION};
use ferrite_proto::operation::*;
use ferrite_proto::repo::Reviewer;
use ferrite_rpc::grpc::Channel;
use prost::Message;

use super::pulls::{FORK, create, get, id, new_pull, pushed, refused, update};
use super::*;

mod comments;

pub(super) fn reader(user: i64) -> TestCaller {
    TestCaller::user(user, Permission::Read)
}

async fn start(url: &Secret) -> (Service, ReviewServiceClient<Channel>) {
    let service = super::pulls::start(url).await;
    create(&service, &reader(7), new_pull(7)).await.unwrap();
    let client = ReviewServiceClient::new(service.channel.clone());
    (service, client)
}

fn comment(line: i32, body: &str) -> NewReviewComment {
    NewReviewComment { path: "src/a.rs".to_owned(), line, body: body.to_owned(), ..Default::default() }
}

pub(super) fn new(state: ReviewState, body: &str, comments: Vec<NewReviewComment>) -> CreateReviewRequest {
    CreateReviewRequest {
        repository_id: REPOSITORY,
        number: 1,
        state: state.into(),
        body: body.to_owned(),
        comments,
        ..Default::default()
    }
}

/// Reviews as a caller.
pub(super) async fn review(service: &Service, caller: &TestCaller, new: CreateReviewRequest) -> Result<Review, Status> {
    let mut client = ReviewServiceClient::new(service.channel.clone());
    Ok(client.create_review(caller.request(CREATE_REVIEW, new)).await?.into_inner().review.unwrap())
}

pub(super) async fn submit(
    service: &Service,
    caller: &TestCaller,
    review_id: i64,
    state: ReviewState,
    body: &str,
) -> Result<Review, Status> {
    let (state, body) = (state.into(), body.to_owned());
    let request = SubmitReviewRequest { repository_id: REPOSITORY, number: 1, review_id, state, body };
    let mut client = ReviewServiceClient::new(service.channel.clone());
    Ok(client.submit_review(caller.request(SUBMIT_REVIEW, request)).await?.into_inner().review.unwrap())
}

async fn get_review(service: &Service, caller: &TestCaller, review_id: i64) -> Result<Review, Status> {
    let request = GetReviewRequest { repository_id: REPOSITORY, number: 1, review_id };
    let mut client = ReviewServiceClient::new(service.channel.clone());
    Ok(client.get_review(caller.request(GET_REVIEW, request)).await?.into_inner().review.unwrap())
}

pub(super) async fn list(service: &Service, caller: &TestCaller) -> ListReviewsResponse {
    let request = ListReviewsRequest { repository_id: REPOSITORY, number: 1, page: 1, page_size: 10 };
    let mut client = ReviewServiceClient::new(service.channel.clone());
    client.list_reviews(caller.request(LIST_REVIEWS, request)).await.unwrap().into_inner()
}

async fn comments(
    service: &Service,
    caller: &TestCaller,
    review_id: i64,
) -> Result<ListReviewCommentsResponse, Status> {
    let (page, page_size) = (1, 10);
    let request = ListReviewCommentsRequest {
        repository_id: REPOSITORY,
        number: 1,
        review_id,
        page,
        page_size,
        ..Default::default()
    };
    let mut client = ReviewServiceClient::new(service.channel.clone());
    Ok(client.list_review_comments(caller.request(LIST_REVIEW_COMMENTS, request)).await?.into_inner())
}

async fn timeline(service: &Service) -> Vec<TimelineEntry> {
    let request = ListTimelineRequest { repository_id: REPOSITORY, number: 1, page: 1, page_size: 100 };
    let mut client = IssueServiceClient::new(service.channel.clone());
    client.list_timeline(reader(7).request(LIST_TIMELINE, request)).await.unwrap().into_inner().entries
}

/// Returns the events of reviews in order.
async fn events(service: &Service) -> Vec<PullReviewed> {
    let sql = "SELECT payload FROM outbox WHERE kind = 'pull.reviewed' ORDER BY id";
    let rows: Vec<(Vec<u8>,)> = service.db().all(sql, &[]).await.unwrap();
    let fact = |(payload,): (Vec<u8>,)| match Event::decode(payload.as_slice()).unwrap().fact {
        Some(Fact::PullReviewed(reviewed)) => reviewed,
        other => panic!("not a review: {other:?}"),
    };
    rows.into_iter().map(fact).collect()
}

async fn review_comment_count(service: &Service) -> i64 {
    get(service, 1).await.pull_request.unwrap().review_comment_count
}

fn fields<T: std::fmt::Debug>(outcome: Result<T, Status>) -> Vec<String> {
    violations(&outcome.unwrap_err()).into_iter().map(|(field, ..)| field).collect()
}

#[tokio::test]
async fn a_pending_review_is_seen_by_its_author_alone_until_it_is_submitted() {
    on_each_url(|url| async move {
        let (service, mut client) = start(&url).await;
        let writer = Reviewer { user_id: 8, can_read: true, can_write: true, ..Default::default() };
        service.peer.0.lock().unwrap().reviewers.insert("bob".to_owned(), writer);
        let (ada, bob) = (reader(7), reader(8));
        let first = new(ReviewState::Pending, "One", vec![comment(3, "a"), comment(5, "b")]);
        let begun = review(&service, &bob, first).await.unwrap().id;
        let more = new(ReviewState::Pending, "Two", vec![comment(7, "c")]);
        let pending = review(&service, &bob, more).await.unwrap();
        assert_eq!(pending.id, begun);
        assert_eq!(
            (pending.state(), pending.body.as_str(), pending.comment_count),
            (ReviewState::Pending, "One\n\nTwo", 3)
        );
        assert_eq!((pending.is_official, pending.submit_time), (false, None));
        let listed = comments(&service, &bob, pending.id).await.unwrap();
        assert_eq!((listed.total_count, listed.head_id, listed.merge_base_id), (3, id("a"), id("b")));
        let last = listed.comments[2].clone();
        assert!(last.id > 1 << 40);
        assert_eq!((last.line, last.line_count, last.diff_hunk.as_str()), (7, 1, "@@ src/a.rs"));
        assert_eq!((last.commit_id.clone(), last.line_commit_id.clone()), (id("a"), id("a")));
        let get_comment = |caller: &TestCaller| {
            let request = GetReviewCommentRequest { repository_id: REPOSITORY, comment_id: last.id };
            caller.request(GET_REVIEW_COMMENT, request)
        };

        for other in [&ada, &TestCaller::user(9, Permission::Admin), &TestCaller::anonymous(Permission::Read)] {
            assert_eq!(list(&service, other).await, ListReviewsResponse::default());
            assert_eq!(refused(get_review(&service, other, pending.id).await).1, "REVIEW_NOT_FOUND");
            assert_eq!(refused(comments(&service, other, pending.id).await).1, "REVIEW_NOT_FOUND");
            assert_eq!(refused(client.get_review_comment(get_comment(other)).await).1, "COMMENT_NOT_FOUND");
        }
        assert_eq!((timeline(&service).await.len(), events(&service).await.len()), (0, 0));
        assert_eq!(review_comment_count(&service).await, 0);

        let submitted = submit(&service, &bob, pending.id, ReviewState::ChangesRequested, "").await.unwrap();
        assert_eq!((submitted.state(), submitted.body.as_str()), (ReviewState::ChangesRequested, "One\n\nTwo"));
        assert!(submitted.is_official && submitted.submit_time.is_some() && !submitted.is_stale);
        assert_eq!(list(&service, &ada).await.reviews, std::slice::from_ref(&submitted));
        assert_eq!(client.get_review_comment(get_comment(&ada)).await.unwrap().into_inner().comment.unwrap(), last);
        assert_eq!(review_comment_count(&service).await, 3);
        let entry = &timeline(&service).await[0];
        assert_eq!((entry.action(), entry.user_id, entry.review_id), (TimelineAction::Reviewed, 8, submitted.id));
        assert_eq!(entry.review_state(), ReviewState::ChangesRequested);
        let told = events(&service).await;
        assert_eq!((told.len(), told[0].review.clone().unwrap(), told[0].is_deleted), (1, submitted.clone(), false));
        assert_eq!(told[0].pull.as_ref().unwrap().number, 1);
        let again = submit(&service, &bob, submitted.id, ReviewState::Approved, "").await;
        assert_eq!(refused(again), (Code::FailedPrecondition, "REVIEW_SUBMITTED".into()));
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_approval_needs_no_text_and_submits_what_was_pending() {
    on_each_url(|url| async move {
        let (service, _) = start(&url).await;
        let bob = reader(8);
        let pending = review(&service, &bob, new(ReviewState::Pending, "", vec![comment(1, "a")])).await.unwrap();
        let approval = new(ReviewState::Approved, "Good", vec![comment(2, "b")]);
        let approved = review(&service, &bob, approval).await.unwrap();
        assert_eq!((approved.id, approved.comment_count, approved.body.as_str()), (pending.id, 2, "Good"));
        let carol = review(&service, &reader(9), new(ReviewState::Approved, "", Vec::new())).await.unwrap();
        assert!(!carol.is_official);
        service.peer.set_branch(FORK, "topic", Some(&id("d")));
        service.deliver(vec![pushed(FORK, &[("topic", &id("a"), &id("d"))])]).await.unwrap();
        eventually("the review is stale", async || get_review(&service, &bob, carol.id).await.unwrap().is_stale).await;
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_review_needs_an_outcome_a_text_and_the_pull_request_of_somebody_else() {
    on_each_url(|url| async move {
        let (service, _) = start(&url).await;
        let (ada, bob) = (reader(7), reader(8));
        for state in [ReviewState::Pending, ReviewState::Commented, ReviewState::ChangesRequested] {
            assert_eq!(fields(review(&service, &bob, new(state, " ", Vec::new())).await), ["body"]);
        }
        assert_eq!(list(&service, &bob).await.total_count, 0);
        for state in [ReviewState::Approved, ReviewState::ChangesRequested] {
            assert_eq!(fields(review(&service, &ada, new(state, "x", Vec::new())).await), ["event"]);
        }
        review(&service, &ada, new(ReviewState::Commented, "x", Vec::new())).await.unwrap();
        let wrong = CreateReviewRequest {
            state: ReviewState::Requested.into(),
            commit_id: "x".to_owned(),
            comments: vec![comment(0, "a"), NewReviewComment { is_old_side: true, ..comment(-1, " ") }],
            ..new(ReviewState::Approved, "\0", Vec::new())
        };
        let found = fields(review(&service, &bob, wrong).await);
        let of_comments = ["comments[0].new_position", "comments[1].old_position", "comments[1].body"];
        assert_eq!(found, [&["event", "body", "commit_id"][..], &of_comments].concat());
        let many = new(ReviewState::Pending, "", vec![comment(1, "a"); 101]);
        assert_eq!(fields(review(&service, &bob, many).await), ["comments"]);
        let pending = review(&service, &bob, new(ReviewState::Pending, "x", Vec::new())).await.unwrap();
        assert_eq!(fields(submit(&service, &bob, pending.id, ReviewState::Pending, "").await), ["event"]);

        let closed = UpdatePullRequest { state: IssueState::Closed.into(), ..Default::default() };
        update(&service, &ada, closed).await.unwrap();
        let approval = submit(&service, &bob, pending.id, ReviewState::Approved, "").await;
        assert_eq!(refused(approval), (Code::FailedPrecondition, "PULL_CLOSED".into()));
        submit(&service, &bob, pending.id, ReviewState::Commented, "").await.unwrap();
        let none = CreateReviewRequest { number: 2, ..new(ReviewState::Approved, "", Vec::new()) };
        assert_eq!(refused(review(&service, &bob, none).await).1, "PULL_NOT_FOUND");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_review_that_approves_or_rejects_is_dismissed_and_counts_again() {
    on_each_url(|url| async move {
        let (service, client) = start(&url).await;
        let (bob, admin) = (reader(8), TestCaller::user(9, Permission::Admin));
        let [comment, approval, rejection] =
            [ReviewState::Commented, ReviewState::Approved, ReviewState::ChangesRequested].map(|state| {
                let (service, bob) = (&service, &bob);
                async move { review(service, bob, new(state, "x", Vec::new())).await.unwrap().id }
            });
        let (comment, approval, rejection) = (comment.await, approval.await, rejection.await);
        let dismiss = async |review_id, with_priors| {
            let message = " Fixed\nnow ".to_owned();
            let request =
                DismissReviewRequest { repository_id: REPOSITORY, number: 1, review_id, message, with_priors };
            let dismissed = client.clone().dismiss_review(admin.request(DISMISS_REVIEW, request)).await?;
            Ok::<_, Status>(dismissed.into_inner().review.unwrap())
        };
        let undismiss = async |review_id| {
            let request = UndismissReviewRequest { repository_id: REPOSITORY, number: 1, review_id };
            let review = client.clone().undismiss_review(admin.request(UNDISMISS_REVIEW, request)).await?;
            Ok::<_, Status>(review.into_inner().review.unwrap())
        };
        assert_eq!(refused(dismiss(comment, false).await), (Code::FailedPrecondition, "NOT_DISMISSIBLE".into()));
        assert_eq!(refused(undismiss(approval).await), (Code::FailedPrecondition, "NOT_DISMISSED".into()));
        for _ in 0..2 {
            assert!(dismiss(rejection, false).await.unwrap().is_dismissed);
        }
        assert!(!get_review(&service, &bob, approval).await.unwrap().is_dismissed);
        let entries = timeline(&service).await;
        let entry = entries.last().unwrap();
        assert_eq!((entries.len(), entry.action(), entry.user_id), (4, TimelineAction::ReviewDismissed, 9));
        assert_eq!((entry.assignee_id, entry.review_id, entry.message.as_str()), (8, rejection, "Fixed now"));
        assert!(!undismiss(rejection).await.unwrap().is_dismissed);
        let entry = timeline(&service).await.pop().unwrap();
        assert_eq!((entry.action(), entry.user_id), (TimelineAction::ReviewUndismissed, 9));
        assert_eq!((entry.assignee_id, entry.review_id, entry.message.as_str()), (8, rejection, ""));
        dismiss(rejection, true).await.unwrap();
        assert!(get_review(&service, &bob, approval).await.unwrap().is_dismissed);
        assert_eq!(events(&service).await.len(), 3);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_review_is_deleted_with_its_comments_by_its_author_or_an_admin() {
    on_each_url(|url| async move {
        let (service, client) = start(&url).await;
        let bob = reader(8);
        let delete = async |caller: &TestCaller, review_id| {
            let request = DeleteReviewRequest { repository_id: REPOSITORY, number: 1, review_id };
            client.clone().delete_review(caller.request(DELETE_REVIEW, request)).await
        };
        let commented = || new(ReviewState::Commented, "@ada", vec![comment(1, "@carol"), comment(2, "b")]);
        let [first, second] = [
            review(&service, &bob, commented()).await.unwrap().id,
            review(&service, &bob, commented()).await.unwrap().id,
        ];
        assert_eq!((review_comment_count(&service).await, count(&service, "mentions").await), (4, 4));
        assert_eq!(refused(delete(&reader(7), first).await).0, Code::PermissionDenied);
        delete(&bob.with_key("k"), first).await.unwrap();
        delete(&bob.with_key("k"), first).await.unwrap();
        assert_eq!((review_comment_count(&service).await, count(&service, "mentions").await), (2, 2));
        let told = events(&service).await.pop().unwrap();
        assert_eq!(
            (told.is_deleted, told.review.map(|review| (review.id, review.body))),
            (true, Some((first, String::new())))
        );
        delete(&TestCaller::user(9, Permission::Admin), second).await.unwrap();
        assert_eq!((count(&service, "reviews").await, count(&service, "review_comments").await), (0, 0));

        let pending = review(&service, &bob, new(ReviewState::Pending, "x", Vec::new())).await.unwrap().id;
        assert_eq!(refused(delete(&TestCaller::user(9, Permission::Admin), pending).await).1, "REVIEW_NOT_FOUND");
        delete(&bob, pending).await.unwrap();
        assert_eq!(events(&service).await.len(), 4);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_review_is_written_once_and_reviews_have_limits() {
    on_each_url(|url| async move {
        let (service, _) = start(&url).await;
        let bob = reader(8);
        let large = new(ReviewState::Pending, &"x".repeat(MAX_STORED_RESPONSE_BYTES), vec![comment(1, "a"); 100]);
        let first = review(&service, &bob.with_key("k"), large.clone()).await.unwrap();
        assert_eq!(review(&service, &bob.with_key("k"), large).await.unwrap(), first);
        for _ in 1..5 {
            review(&service, &bob, new(ReviewState::Pending, "", vec![comment(1, "a"); 100])).await.unwrap();
        }
        let more = new(ReviewState::Pending, "", vec![comment(1, "a")]);
        assert_eq!(fields(review(&service, &bob, more).await), ["comments"]);
        assert_eq!(count(&service, "review_comments").await, 500);
        let submitted = submit(&service, &bob.with_key("s"), first.id, ReviewState::Commented, "y").await.unwrap();
        let again = submit(&service, &bob.with_key("s"), first.id, ReviewState::Commented, "y").await.unwrap();
        assert_eq!((submitted.body.as_str(), &again), ("y", &submitted));
        assert_eq!(events(&service).await.len(), 1);

        let fill = "INSERT INTO reviews (repository_id, issue_id, user_id, team_id, team_name, state, body, commit_id, \
             merge_base_id, is_official, is_dismissed, comment_count, created_us, submitted_us, updated_us) \
             WITH RECURSIVE numbers (number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM numbers WHERE number < 5000) \
             SELECT reviews.repository_id, issue_id, 9, 0, '', 2, '', '', '', FALSE, FALSE, 0, 1, 1, 1 FROM numbers, reviews";
        service.db().execute(fill, &[]).await.unwrap();
        let one_more = review(&service, &bob, new(ReviewState::Approved, "", Vec::new())).await;
        assert_eq!(refused(one_more), (Code::FailedPrecondition, "TOO_MANY_REVIEWS".into()));

        let deleted = event(RepositoryId(REPOSITORY), 1, Fact::RepositoryDeleted(RepositoryDeleted::default()));
        service.deliver(vec![deleted]).await.unwrap();
        eventually("the reviews are gone", async || count(&service, "reviews").await == 0).await;
        assert_eq!(count(&service, "review_comments").await, 0);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_review_is_changed_only_in_the_version_that_was_read() {
    on_each_url(|url| async move {
        let (service, client) = start(&url).await;
        let (bob, admin) = (reader(8), TestCaller::user(9, Permission::Admin));
        let approval = new(ReviewState::Approved, "", vec![comment(1, "a")]);
        let review_id = review(&service, &bob, approval).await.unwrap().id;
        let comment_id = comments(&service, &bob, review_id).await.unwrap().comments[0].id;
        let mut ask = bob.request(GET_REVIEW, GetReviewRequest { repository_id: REPOSITORY, number: 1, review_id });
        ask.metadata_mut().insert(VERSION, "?".parse().unwrap());
        let told = client.clone().get_review(ask).await.unwrap();
        let version = format!("version={}", told.metadata().get(VERSION).unwrap().to_str().unwrap());
        let dismiss = || {
            let request =
                DismissReviewRequest { repository_id: REPOSITORY, number: 1, review_id, ..Default::default() };
            let mut request = admin.request(DISMISS_REVIEW, request);
            request.metadata_mut().insert(PRECONDITION, version.parse().unwrap());
            request
        };
        client.clone().dismiss_review(dismiss()).await.unwrap();
        assert_eq!(
            refused(client.clone().dismiss_review(dismiss()).await),
            (Code::Aborted, "PRECONDITION_FAILED".into())
        );

        let request = GetReviewCommentRequest { repository_id: REPOSITORY, comment_id };
        let mut ask = bob.request(GET_REVIEW_COMMENT, request);
        ask.metadata_mut().insert(VERSION, "?".parse().unwrap());
        let told = client.clone().get_review_comment(ask).await.unwrap();
        let version = format!("version={}", told.metadata().get(VERSION).unwrap().to_str().unwrap());
        let edit = |body: &str| {
            let request = UpdateReviewCommentRequest { repository_id: REPOSITORY, comment_id, body: body.to_owned() };
            let mut request = bob.request(UPDATE_REVIEW_COMMENT, request);
            request.metadata_mut().insert(PRECONDITION, version.parse().unwrap());
            request
        };
        client.clone().update_review_comment(edit("b")).await.unwrap();
        let refusal = refused(client.clone().update_review_comment(edit("c")).await);
        assert_eq!(refusal, (Code::Aborted, "PRECONDITION_FAILED".into()));
        service.stop().await;
    })
    .await;
}
