//! Tests of pull requests that were merged by hand.

use ferrite_proto::issue::MarkMergedRequest;
use ferrite_proto::operation::MARK_MERGED;

use super::*;

async fn mark(service: &Service, caller: &TestCaller, commit_id: &str, head_id: &str) -> Result<Issue, Status> {
    let (commit_id, head_id) = (commit_id.to_owned(), head_id.to_owned());
    let request = MarkMergedRequest { repository_id: REPOSITORY, number: 1, commit_id, head_id };
    let mut client = PullServiceClient::new(service.channel.clone());
    Ok(client.mark_merged(caller.request(MARK_MERGED, request)).await?.into_inner().pull.unwrap())
}

async fn start_with_pull(url: &ferrite_core::Secret, body: &str) -> Service {
    let service = start(url).await;
    let new = CreatePullRequest { body: body.to_owned(), ..new_pull(7) };
    create(&service, &TestCaller::user(7, Permission::Read), new).await.unwrap();
    service.peer.0.lock().unwrap().merged_heads.insert(id("c"));
    service
}

#[tokio::test]
async fn a_commit_of_the_base_marks_a_pull_request_as_merged_where_that_is_allowed() {
    on_each_url(|url| async move {
        let service = start_with_pull(&url, "Closes #2").await;
        service.create(&ada(), issue(String::new())).await.unwrap();
        let eve = TestCaller::user(8, Permission::Write);
        let off = (Code::FailedPrecondition, "STYLE_NOT_ALLOWED".to_owned());
        assert_eq!(refused(mark(&service, &eve, &id("c"), "").await), off);
        service.peer.0.lock().unwrap().allows_manual_merges = true;
        for commit_id in [String::new(), "c".to_owned(), id("d")] {
            let status = mark(&service, &eve, &commit_id, "").await.unwrap_err();
            assert_eq!(ferrite_proto::error::violations(&status)[0].0, "MergeCommitID", "{commit_id}");
        }
        let moved = (Code::Aborted, "HEAD_MOVED".to_owned());
        assert_eq!(refused(mark(&service, &eve, &id("c"), &id("d")).await), moved);
        let no_pulls = (Code::NotFound, "PULLS_DISABLED".to_owned());
        assert_eq!(refused(mark(&service, &eve.without_pulls(), &id("c"), "").await), no_pulls);
        assert!(!ends(&service, 1).await.is_merged);

        let pull = mark(&service, &eve.with_key("k"), &id("C"), &id("A")).await.unwrap();
        let fields = pull.pull_request.clone().unwrap();
        assert_eq!((pull.state(), fields.is_merged, fields.merger_id), (IssueState::Closed, true, 8));
        assert_eq!((fields.merge_commit_id, fields.merged_base_id, fields.head_id), (id("c"), id("b"), id("a")));
        assert_eq!(get(&service, 1).await, pull);
        assert_eq!(service.sent_changes().await.last().unwrap().open_pull_count, Some(0));
        assert_eq!(mark(&service, &eve.with_key("k"), &id("C"), &id("A")).await.unwrap(), pull);
        // What is merged is refused as that, whatever the settings are by now.
        service.peer.0.lock().unwrap().allows_manual_merges = false;
        let already = (Code::FailedPrecondition, "ALREADY_MERGED".to_owned());
        assert_eq!(refused(mark(&service, &eve, &id("c"), "").await), already);
        // Its closing words, which the fake of repo-svc does not let anybody apply.
        assert_eq!(waiting(&service).await, 1);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_closed_pull_request_and_a_lost_access_mark_nothing() {
    on_each_url(|url| async move {
        let service = start_with_pull(&url, "").await;
        service.peer.0.lock().unwrap().allows_manual_merges = true;
        let eve = TestCaller::user(8, Permission::Write).with_token(5);
        service.peer.0.lock().unwrap().lost_access = true;
        let lost = (Code::NotFound, "REPOSITORY_NOT_FOUND".to_owned());
        assert_eq!(refused(mark(&service, &eve, &id("c"), "").await), lost);
        assert!(!ends(&service, 1).await.is_merged);
        service.peer.0.lock().unwrap().lost_access = false;
        let closed = UpdatePullRequest { state: IssueState::Closed.into(), ..Default::default() };
        update(&service, &TestCaller::user(7, Permission::Read), closed).await.unwrap();
        let closed = (Code::FailedPrecondition, "PULL_CLOSED".to_owned());
        assert_eq!(refused(mark(&service, &eve, &id("c"), "").await), closed);
        service.stop().await;
    })
    .await;
}
