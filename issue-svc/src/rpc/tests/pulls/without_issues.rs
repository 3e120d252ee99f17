//! Tests of pull requests in a repository whose issue tracker is off.

use ferrite_proto::issue::{
    DeleteCommentRequest, GetCommentRequest, GetIssueRequest, IssueKind, ListIssueLabelsRequest, UserNames,
};
use ferrite_proto::operation::{DELETE_COMMENT, GET_COMMENT, GET_ISSUE, LIST_ISSUE_LABELS};

use super::*;

/// What happens to the issue or pull request with a number, and to a comment on it.
struct Target<'a> {
    service: &'a Service,
    number: i64,
    /// How the comment is found: with the number, or without.
    number_of_comment: i64,
    comment_id: i64,
    label_id: i64,
}

impl Target<'_> {
    /// Does all that can be done. Returns the reasons of refusals.
    async fn use_all(&self, caller: &TestCaller) -> Vec<String> {
        let channel = &self.service.channel;
        let (mut issues, mut comments, mut labels) = (
            IssueServiceClient::new(channel.clone()),
            CommentServiceClient::new(channel.clone()),
            LabelServiceClient::new(channel.clone()),
        );
        let (repository_id, number, issue_number) = (REPOSITORY, self.number, self.number_of_comment);
        let comment_id = self.comment_id;
        let get = GetIssueRequest { repository_id, number };
        let timeline = ListTimelineRequest { repository_id, number, page: 1, page_size: 10 };
        let state = |state: IssueState| {
            let state = state.into();
            caller.request(UPDATE_ISSUE, UpdateIssueRequest { repository_id, number, state, ..Default::default() })
        };
        let list = ListCommentsRequest { repository_id, issue_number: number, page: 1, page_size: 10, since: None };
        let create = CreateCommentRequest { repository_id, issue_number: number, body: "more".to_owned() };
        let find = GetCommentRequest { repository_id, issue_number, comment_id };
        let edit = UpdateCommentRequest { repository_id, issue_number, comment_id, body: "edited".to_owned() };
        let labeled = ListIssueLabelsRequest { repository_id, issue_number: number };
        let change = ChangeIssueLabelsRequest {
            repository_id,
            issue_number: number,
            change: LabelChange::Add.into(),
            label_ids: vec![self.label_id],
            ..Default::default()
        };
        let delete = DeleteCommentRequest { repository_id, issue_number, comment_id };
        let outcomes = [
            issues.get_issue(caller.request(GET_ISSUE, get)).await.map(drop),
            issues.list_timeline(caller.request(LIST_TIMELINE, timeline)).await.map(drop),
            issues.update_issue(state(IssueState::Closed)).await.map(drop),
            issues.update_issue(state(IssueState::Open)).await.map(drop),
            comments.list_comments(caller.request(LIST_COMMENTS, list)).await.map(drop),
            comments.create_comment(caller.request(CREATE_COMMENT, create)).await.map(drop),
            comments.get_comment(caller.request(GET_COMMENT, find)).await.map(drop),
            comments.update_comment(caller.request(UPDATE_COMMENT, edit)).await.map(drop),
            labels.list_issue_labels(caller.request(LIST_ISSUE_LABELS, labeled)).await.map(drop),
            labels.change_issue_labels(caller.request(CHANGE_ISSUE_LABELS, change)).await.map(drop),
            comments.delete_comment(caller.request(DELETE_COMMENT, delete)).await.map(drop),
        ];
        outcomes.into_iter().filter_map(Result::err).map(|status| reason(&status)).collect()
    }
}

#[tokio::test]
async fn pull_requests_are_used_and_issues_are_not_there() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Admin);
        create(&service, &ada, new_pull(7)).await.unwrap();
        let issue_number = service.create(&ada, issue(String::new())).await.unwrap().number;
        let new = CreateLabelRequest {
            repository_id: REPOSITORY,
            name: "bug".to_owned(),
            color: "#ff0000".to_owned(),
            ..Default::default()
        };
        let mut labels = LabelServiceClient::new(service.channel.clone());
        let label_id =
            labels.create_label(ada.request(CREATE_LABEL, new)).await.unwrap().into_inner().label.unwrap().id;
        let off = ada.without_issues();
        for is_by_number in [true, false] {
            for (number, is_pull) in [(1, true), (issue_number, false)] {
                let body = "text".to_owned();
                let new = CreateCommentRequest { repository_id: REPOSITORY, issue_number: number, body };
                let mut comments = CommentServiceClient::new(service.channel.clone());
                let made = comments.create_comment(ada.request(CREATE_COMMENT, new)).await.unwrap().into_inner();
                let comment_id = made.comment.unwrap().id;
                let number_of_comment = if is_by_number { number } else { 0 };
                let target = Target { service: &service, number, number_of_comment, comment_id, label_id };
                if is_pull {
                    let hidden = target.use_all(&ada.without_pulls()).await;
                    assert_eq!(hidden, vec!["PULLS_DISABLED".to_owned(); 11], "{number}");
                }
                let refused = if is_pull { Vec::new() } else { vec!["ISSUES_DISABLED".to_owned(); 11] };
                assert_eq!(target.use_all(&off).await, refused, "{number}");
                assert_eq!(target.use_all(&off.without_pulls()).await.first().unwrap(), "ISSUES_DISABLED");
            }
        }
        let list = ListCommentsRequest { repository_id: REPOSITORY, page: 1, page_size: 10, ..Default::default() };
        let mut comments = CommentServiceClient::new(service.channel.clone());
        let of_all = comments.list_comments(off.request(LIST_COMMENTS, list)).await.unwrap_err();
        assert_eq!(reason(&of_all), "ISSUES_DISABLED");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn lists_have_the_kinds_that_are_on() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Admin);
        create(&service, &ada, new_pull(7)).await.unwrap();
        service.create(&ada, issue(String::new())).await.unwrap();
        let list = async |caller: &TestCaller, kind: IssueKind| {
            let (page, page_size, kind) = (1, 10, kind.into());
            let request = ListIssuesRequest { repository_id: REPOSITORY, page, page_size, kind, ..Default::default() };
            let listed = service.list(caller, request).await.map_err(|status| reason(&status))?;
            Ok::<_, String>(listed.issues.iter().map(|issue| issue.number).collect::<Vec<_>>())
        };
        let (issues_off, pulls_off) = (|| Err("ISSUES_DISABLED".to_owned()), || Err("PULLS_DISABLED".to_owned()));
        for (caller, issues, pulls, all) in [
            (ada.clone(), Ok(vec![2]), Ok(vec![1]), Ok(vec![2, 1])),
            (ada.without_issues(), issues_off(), Ok(vec![1]), Ok(vec![1])),
            (ada.without_pulls(), Ok(vec![2]), pulls_off(), Ok(vec![2])),
            (ada.without_issues().without_pulls(), issues_off(), pulls_off(), issues_off()),
        ] {
            assert_eq!(list(&caller, IssueKind::Issue).await, issues);
            assert_eq!(list(&caller, IssueKind::PullRequest).await, pulls);
            assert_eq!(list(&caller, IssueKind::Any).await, all);
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn who_reads_pull_requests_alone_is_assigned_to_them() {
    on_each_url(|url| async move {
        let service = start(&url).await;
        let ada = TestCaller::user(7, Permission::Write).without_issues();
        service.peer.set_reviewer("bob", 8, false);
        let bob = || vec!["bob".to_owned()];
        let of = |pull: &Issue| (pull.assignee_id, pull.other_assignee_ids.len());
        let pull = create(&service, &ada, CreatePullRequest { assignees: bob(), ..new_pull(7) }).await.unwrap();
        assert_eq!(of(&pull), (8, 0));
        let assign = |usernames| UpdatePullRequest { assignees: Some(UserNames { usernames }), ..Default::default() };
        assert_eq!(of(&update(&service, &ada, assign(Vec::new())).await.unwrap()), (0, 0));
        assert_eq!(of(&update(&service, &ada, assign(bob())).await.unwrap()), (8, 0));
        let unassigned = UpdateIssueRequest {
            repository_id: REPOSITORY,
            number: 1,
            assignees: Some(UserNames::default()),
            ..Default::default()
        };
        let assigned = UpdateIssueRequest { assignees: Some(UserNames { usernames: bob() }), ..unassigned.clone() };
        let mut issues = IssueServiceClient::new(service.channel.clone());
        for (request, expected) in [(unassigned, (0, 0)), (assigned, (8, 0))] {
            let changed = issues.update_issue(ada.request(UPDATE_ISSUE, request)).await.unwrap().into_inner();
            assert_eq!(of(&changed.issue.unwrap()), expected);
        }
        // The fake of repo-svc says that nobody reads issues.
        let new = CreateIssueRequest { assignee: "bob".to_owned(), ..issue(String::new()) };
        let refused = service.create(&TestCaller::user(7, Permission::Write), new).await.unwrap_err();
        assert_eq!(ferrite_proto::error::violations(&refused)[0].0, "assignee");
        service.stop().await;
    })
    .await;
}
