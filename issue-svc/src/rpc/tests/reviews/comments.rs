//! Tests of comments on lines: their commits, what they mention, and who changes them.

use super::*;
use crate::testing::MISSING_FILE;

#[tokio::test]
async fn a_review_is_of_a_commit_and_lines_of_the_pull_request() {
    on_each_url(|url| async move {
        let (service, _) = start(&url).await;
        let bob = reader(8);
        let of = |commit: &str, comments| CreateReviewRequest {
            commit_id: commit.to_owned(),
            ..new(ReviewState::Commented, "x", comments)
        };
        let asked = || service.peer.0.lock().unwrap().line_requests.last().cloned();
        review(&service, &bob, of(&id("A"), Vec::new())).await.unwrap();
        assert_eq!(asked(), None);
        assert_eq!(fields(review(&service, &bob, of(&id("5"), Vec::new())).await), ["commit_id"]);
        service.peer.0.lock().unwrap().commits.insert(id("5"));
        let inner = review(&service, &bob, of(&id("5"), Vec::new())).await.unwrap();
        assert_eq!((inner.commit_id, inner.is_stale), (id("5"), true));
        let request = asked().unwrap();
        assert_eq!((request.head_id, request.merge_base_id, request.commit_id), (id("a"), id("b"), id("5")));

        service.peer.set_branch(FORK, "topic", Some(&id("d")));
        service.deliver(vec![pushed(FORK, &[("topic", &id("a"), &id("d"))])]).await.unwrap();
        eventually("the head moved", async || get(&service, 1).await.pull_request.unwrap().head_id == id("d")).await;
        let old = NewReviewComment { is_old_side: true, line_count: 2, ..comment(9, "a") };
        let earlier = review(&service, &bob, of(&id("a"), vec![old])).await.unwrap();
        let request = asked().unwrap();
        assert_eq!((request.head_id, request.commit_id.as_str(), request.lines.len()), (id("a"), "", 1));
        let comment_of = comments(&service, &bob, earlier.id).await.unwrap().comments.remove(0);
        assert_eq!((comment_of.commit_id, comment_of.line_commit_id, comment_of.line_count), (id("a"), id("b"), 2));

        let gone = NewReviewComment { is_old_side: true, ..comment(102, "a") };
        let elsewhere = NewReviewComment { path: MISSING_FILE.to_owned(), ..comment(1, "a") };
        let missing = of("", vec![comment(100, "a"), comment(101, "a"), gone, elsewhere]);
        let missing = review(&service, &bob, missing).await;
        let expected = ["comments[1].new_position", "comments[2].old_position", "comments[3].path"];
        assert_eq!(fields(missing), expected);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_a_review_mentions_counts_once_it_is_submitted() {
    on_each_url(|url| async move {
        let (service, client) = start(&url).await;
        let bob = reader(8);
        service.create(&bob, issue(String::new())).await.unwrap();
        let pending = new(ReviewState::Pending, "@ada", vec![comment(1, "@carol #2"), comment(2, "@dan")]);
        let pending = review(&service, &bob, pending).await.unwrap();
        let references = "SELECT COUNT(*) FROM timeline WHERE action = 11";
        let referred = async || service.db().one::<(i64,)>(references, &[]).await.unwrap().0;
        assert_eq!((count(&service, "mentions").await, referred().await), (0, 0));
        let more = new(ReviewState::Commented, "@ada @erin", vec![comment(3, "@carol")]);
        review(&service, &bob, more).await.unwrap();
        assert_eq!((count(&service, "mentions").await, referred().await), (5, 1));

        let found = comments(&service, &bob, pending.id).await.unwrap().comments;
        let change = UpdateReviewCommentRequest {
            repository_id: REPOSITORY,
            comment_id: found[1].id,
            body: "nobody".to_owned(),
        };
        client.clone().update_review_comment(bob.request(UPDATE_REVIEW_COMMENT, change)).await.unwrap();
        let delete = DeleteReviewCommentRequest { repository_id: REPOSITORY, comment_id: found[0].id };
        client.clone().delete_review_comment(bob.request(DELETE_REVIEW_COMMENT, delete)).await.unwrap();
        assert_eq!(count(&service, "mentions").await, 3);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_comment_is_edited_resolved_and_deleted_by_those_who_may() {
    on_each_url(|url| async move {
        let (service, client) = start(&url).await;
        let (ada, bob, carol) = (reader(7), reader(8), reader(9));
        let reviewed = review(&service, &bob, new(ReviewState::Commented, "", vec![comment(1, "a")])).await.unwrap();
        let comment_id = comments(&service, &bob, reviewed.id).await.unwrap().comments[0].id;
        let find = async || comments(&service, &bob, reviewed.id).await.unwrap().comments[0].clone();
        let edit = async |caller: &TestCaller, body: &str| {
            let request = UpdateReviewCommentRequest { repository_id: REPOSITORY, comment_id, body: body.to_owned() };
            let request = caller.request(UPDATE_REVIEW_COMMENT, request);
            Ok::<_, Status>(client.clone().update_review_comment(request).await?.into_inner().comment.unwrap())
        };
        assert_eq!(refused(edit(&ada, " ").await).0, Code::PermissionDenied);
        assert_eq!(fields(edit(&bob, " ").await), ["body"]);
        assert_eq!(edit(&bob, "b").await.unwrap().body, "b");
        assert_eq!(edit(&TestCaller::user(9, Permission::Admin), "c").await.unwrap(), find().await);

        let resolve = async |caller: &TestCaller| {
            let request = ResolveReviewCommentRequest { repository_id: REPOSITORY, comment_id };
            client.clone().resolve_review_comment(caller.request(RESOLVE_REVIEW_COMMENT, request)).await
        };
        assert_eq!(refused(resolve(&carol).await).0, Code::PermissionDenied);
        resolve(&ada).await.unwrap();
        resolve(&TestCaller::user(9, Permission::Write)).await.unwrap();
        assert_eq!(find().await.resolver_id, 7);
        let request = UnresolveReviewCommentRequest { repository_id: REPOSITORY, comment_id };
        client.clone().unresolve_review_comment(bob.request(UNRESOLVE_REVIEW_COMMENT, request)).await.unwrap();
        assert_eq!(find().await.resolver_id, 0);

        let delete = async |caller: &TestCaller| {
            let request = DeleteReviewCommentRequest { repository_id: REPOSITORY, comment_id };
            client.clone().delete_review_comment(caller.request(DELETE_REVIEW_COMMENT, request)).await
        };
        assert_eq!(refused(delete(&carol).await).0, Code::PermissionDenied);
        delete(&bob).await.unwrap();
        assert_eq!(refused(delete(&bob).await).1, "COMMENT_NOT_FOUND");
        assert_eq!(get_review(&service, &bob, reviewed.id).await.unwrap().comment_count, 0);
        assert_eq!(review_comment_count(&service).await, 0);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_comments_of_all_reviews_are_one_list() {
    on_each_url(|url| async move {
        let (service, client) = start(&url).await;
        let (ada, bob) = (reader(7), reader(8));
        let list = async |caller: &TestCaller, filter: ListReviewCommentsRequest| {
            let request = ListReviewCommentsRequest { repository_id: REPOSITORY, number: 1, page_size: 10, ..filter };
            let request = ListReviewCommentsRequest { page: request.page.max(1), ..request };
            let request = caller.request(LIST_REVIEW_COMMENTS, request);
            Ok::<_, Status>(client.clone().list_review_comments(request).await?.into_inner())
        };
        let bodies = |listed: &ListReviewCommentsResponse| {
            listed.comments.iter().map(|comment| comment.body.clone()).collect::<Vec<_>>()
        };
        let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = ListReviewCommentsRequest::default;
        assert_eq!(list(&ada, all()).await.unwrap().total_count, 0);
        let by_bob = new(ReviewState::Commented, "", vec![comment(1, "a"), comment(2, "b")]);
        let first = review(&service, &bob, by_bob).await.unwrap();
        review(&service, &reader(9), new(ReviewState::Approved, "", vec![comment(3, "c")])).await.unwrap();
        let pending = review(&service, &bob, new(ReviewState::Pending, "", vec![comment(4, "d")])).await.unwrap();

        let listed = list(&bob, all()).await.unwrap();
        assert_eq!((bodies(&listed), listed.total_count), (strings(&["a", "b", "c", "d"]), 4));
        assert_eq!((listed.comments[0].review_id, listed.comments[3].review_id), (first.id, pending.id));
        assert_eq!((listed.head_id, listed.merge_base_id, listed.is_partial), (id("a"), id("b"), false));
        for other in [&ada, &TestCaller::user(9, Permission::Admin), &TestCaller::anonymous(Permission::Read)] {
            let listed = list(other, all()).await.unwrap();
            assert_eq!((bodies(&listed), listed.total_count), (strings(&["a", "b", "c"]), 3));
        }
        let newest = list(&ada, ListReviewCommentsRequest { is_newest_first: true, ..all() }).await.unwrap();
        assert_eq!(bodies(&newest), ["c", "b", "a"]);
        let comment_id = listed.comments[1].id;
        let resolve = ResolveReviewCommentRequest { repository_id: REPOSITORY, comment_id };
        client.clone().resolve_review_comment(ada.request(RESOLVE_REVIEW_COMMENT, resolve)).await.unwrap();
        for (is_resolved, expected) in [(true, &["b"][..]), (false, &["a", "c"])] {
            let found =
                list(&ada, ListReviewCommentsRequest { is_resolved: Some(is_resolved), ..all() }).await.unwrap();
            assert_eq!((bodies(&found), found.total_count), (strings(expected), expected.len().try_into().unwrap()));
        }
        let since = |seconds: i64| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let changed = listed.comments[0].update_time.unwrap().seconds;
        for (since, expected) in [(since(changed), 3), (since(changed + 3600), 0)] {
            let found = list(&ada, ListReviewCommentsRequest { since, ..all() }).await.unwrap();
            assert_eq!(found.total_count, expected);
        }
        let past = list(&ada, ListReviewCommentsRequest { page: 2, ..all() }).await.unwrap();
        assert_eq!((past.comments.len(), past.total_count), (0, 3));
        let none = ListReviewCommentsRequest { number: 2, ..all() };
        let request = ListReviewCommentsRequest { repository_id: REPOSITORY, page: 1, page_size: 10, ..none };
        let refusal = client.clone().list_review_comments(ada.request(LIST_REVIEW_COMMENTS, request)).await;
        assert_eq!(refused(refusal).1, "PULL_NOT_FOUND");
        service.stop().await;
    })
    .await;
}
