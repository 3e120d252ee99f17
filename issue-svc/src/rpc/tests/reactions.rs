//! Tests of reactions.

use ferrite_events::event;
use ferrite_proto::events::RepositoryDeleted;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::reaction_service_client::ReactionServiceClient;
use ferrite_proto::issue::reaction_subject::Subject;
use ferrite_proto::issue::{
    AddReactionRequest, AddReactionResponse, DeleteCommentRequest, ListReactionsRequest, ListReactionsResponse,
    ReactionSubject, RemoveReactionRequest,
};
use ferrite_proto::metadata::{PRECONDITION, VERSION};
use ferrite_proto::operation::{ADD_REACTION, DELETE_COMMENT, LIST_REACTIONS, REMOVE_REACTION};

use super::*;
use crate::store::MAX_UNCOUNTED_ROWS;

const ISSUE: Subject = Subject::IssueNumber(1);

fn named(subject: Subject) -> Option<ReactionSubject> {
    Some(ReactionSubject { subject: Some(subject) })
}

fn client(service: &Service) -> ReactionServiceClient<ferrite_rpc::grpc::Channel> {
    ReactionServiceClient::new(service.channel.clone())
}

async fn add(
    service: &Service,
    caller: &TestCaller,
    subject: Subject,
    content: &str,
) -> Result<AddReactionResponse, Status> {
    let (subject, content) = (named(subject), content.to_owned());
    let request = AddReactionRequest { repository_id: REPOSITORY, subject, content };
    Ok(client(service).add_reaction(caller.request(ADD_REACTION, request)).await?.into_inner())
}

async fn remove(service: &Service, caller: &TestCaller, subject: Subject, content: &str) -> Result<(), Status> {
    let (subject, content) = (named(subject), content.to_owned());
    let request = RemoveReactionRequest { repository_id: REPOSITORY, subject, content };
    client(service).remove_reaction(caller.request(REMOVE_REACTION, request)).await.map(drop)
}

fn listing(subject: Subject, page: i32) -> ListReactionsRequest {
    ListReactionsRequest { repository_id: REPOSITORY, subject: named(subject), page, page_size: 50 }
}

async fn list(service: &Service, caller: &TestCaller, subject: Subject) -> Result<ListReactionsResponse, Status> {
    let request = caller.request(LIST_REACTIONS, listing(subject, 1));
    Ok(client(service).list_reactions(request).await?.into_inner())
}

async fn shown(service: &Service, subject: Subject) -> Vec<(i64, String)> {
    let listed = list(service, &ada(), subject).await.unwrap();
    assert_eq!((listed.total_count, listed.is_partial), (i64::try_from(listed.reactions.len()).unwrap(), false));
    listed.reactions.into_iter().map(|reaction| (reaction.user_id, reaction.content)).collect()
}

async fn comment(service: &Service) -> i64 {
    let new = CreateCommentRequest { repository_id: REPOSITORY, issue_number: 1, body: "text".to_owned() };
    let mut comments = CommentServiceClient::new(service.channel.clone());
    comments.create_comment(ada().request(CREATE_COMMENT, new)).await.unwrap().into_inner().comment.unwrap().id
}

#[tokio::test]
async fn a_user_has_each_reaction_once_on_an_issue_and_on_a_comment() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        service.create(&ada(), issue(String::new())).await.unwrap();
        let (eve, on_comment) = (TestCaller::user(8, Permission::Read), Subject::CommentId(comment(&service).await));
        let before = service.get(&ada(), REPOSITORY, 1).await.unwrap();
        let first = add(&service, &eve, ISSUE, "+1").await.unwrap();
        let reaction = first.reaction.clone().unwrap();
        assert_eq!((first.is_new, reaction.user_id, reaction.content.as_str()), (true, 8, "+1"));
        let again = add(&service, &eve, ISSUE, "+1").await.unwrap();
        assert_eq!((again.is_new, again.reaction), (false, first.reaction));
        add(&service, &ada(), ISSUE, "+1").await.unwrap();
        add(&service, &eve, ISSUE, "eyes").await.unwrap();
        add(&service, &eve, on_comment, "heart").await.unwrap();
        let pairs = |pairs: &[(i64, &str)]| -> Vec<_> {
            pairs.iter().map(|(user, content)| (*user, (*content).to_owned())).collect()
        };
        assert_eq!(shown(&service, ISSUE).await, pairs(&[(8, "+1"), (7, "+1"), (8, "eyes")]));
        assert_eq!(shown(&service, on_comment).await, pairs(&[(8, "heart")]));
        // Nobody removes those of others.
        for content in ["+1", "eyes", "rocket"] {
            remove(&service, &ada(), ISSUE, content).await.unwrap();
        }
        assert_eq!(shown(&service, ISSUE).await, pairs(&[(8, "+1"), (8, "eyes")]));
        assert_eq!(service.get(&ada(), REPOSITORY, 1).await.unwrap(), before);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn reactions_go_with_their_comment_and_their_repository() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        service.create(&ada(), issue(String::new())).await.unwrap();
        let comment_id = comment(&service).await;
        add(&service, &ada(), ISSUE, "laugh").await.unwrap();
        add(&service, &ada(), Subject::CommentId(comment_id), "laugh").await.unwrap();
        let delete = DeleteCommentRequest { repository_id: REPOSITORY, issue_number: 0, comment_id };
        let mut comments = CommentServiceClient::new(service.channel.clone());
        comments.delete_comment(ada().request(DELETE_COMMENT, delete)).await.unwrap();
        assert_eq!(count(&service, "reactions").await, 1);
        for refused in [
            add(&service, &ada(), Subject::CommentId(comment_id), "laugh").await.unwrap_err(),
            list(&service, &ada(), Subject::CommentId(comment_id)).await.unwrap_err(),
        ] {
            assert_eq!(reason(&refused), "COMMENT_NOT_FOUND");
        }
        let gone = event(RepositoryId(REPOSITORY), 1, Fact::RepositoryDeleted(RepositoryDeleted::default()));
        service.deliver(vec![gone]).await.unwrap();
        assert_eq!(count(&service, "reactions").await, 0);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn reactions_are_as_visible_as_what_they_are_to() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        service.create(&ada(), issue(String::new())).await.unwrap();
        let pull = "INSERT INTO issues (repository_id, number, user_id, title, body, comment_count, created_us, updated_us, class) \
             VALUES (42, 2, 7, '', '', 0, 1, 1, 2)";
        service.db().execute(pull, &[]).await.unwrap();
        let of_pull = Subject::IssueNumber(2);
        for (caller, subject, content, expected) in [
            (ada(), of_pull, "+1", ""),
            (ada().without_issues(), of_pull, "eyes", ""),
            (ada().without_pulls(), of_pull, "eyes", "ISSUE_NOT_FOUND"),
            (ada().without_pulls(), of_pull, "unknown", "ISSUE_NOT_FOUND"),
            (ada().without_issues(), ISSUE, "eyes", "ISSUES_DISABLED"),
            (ada().without_issues(), ISSUE, "unknown", "ISSUES_DISABLED"),
            (ada().without_issues(), Subject::IssueNumber(3), "eyes", "ISSUES_DISABLED"),
            (ada(), Subject::IssueNumber(3), "eyes", "ISSUE_NOT_FOUND"),
            (ada(), Subject::CommentId(3), "unknown", "COMMENT_NOT_FOUND"),
            (ada(), ISSUE, "unknown", "INVALID_REQUEST"),
            (ada(), ISSUE, "", "INVALID_REQUEST"),
            (TestCaller::anonymous(Permission::Read), ISSUE, "+1", "CREDENTIALS_REQUIRED"),
        ] {
            let found = match add(&service, &caller, subject, content).await {
                Ok(_) => String::new(),
                Err(status) => reason(&status),
            };
            assert_eq!(found, expected, "{subject:?} {content}");
            let removed = remove(&service, &caller, subject, content).await;
            assert_eq!(removed.err().map_or_else(String::new, |status| reason(&status)), expected, "{content}");
        }
        let hidden = list(&service, &ada().without_pulls(), of_pull).await.unwrap_err();
        assert_eq!(reason(&hidden), "ISSUE_NOT_FOUND");
        list(&service, &TestCaller::anonymous(Permission::Read), of_pull).await.unwrap();
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_long_list_of_reactions_ends_where_it_is_not_counted() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        service.create(&ada(), issue(String::new())).await.unwrap();
        let users: Vec<_> = (0..=MAX_UNCOUNTED_ROWS)
            .map(|user| {
                format!("((SELECT id FROM issues WHERE number = 1 AND repository_id = 42), 0, {user}, 'eyes', 1)")
            })
            .collect();
        let sql = "INSERT INTO reactions (issue_id, comment_id, user_id, content, created_us) VALUES ";
        service.db().execute(&format!("{sql}{}", users.join(", ")), &[]).await.unwrap();
        for (page, expected) in [(1, 50), (2, 10), (3, 0)] {
            let request = ada().request(LIST_REACTIONS, listing(ISSUE, page));
            let listed = client(&service).list_reactions(request).await.unwrap().into_inner();
            let found = (listed.reactions.len(), listed.total_count, listed.is_partial);
            assert_eq!(found, (expected, MAX_UNCOUNTED_ROWS, true), "{page}");
        }
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_reaction_is_removed_in_the_version_that_was_read_alone() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        service.create(&ada(), issue(String::new())).await.unwrap();
        let version = async || {
            let mut request = ada().request(LIST_REACTIONS, listing(ISSUE, 1));
            request.metadata_mut().insert(VERSION, "?".parse().unwrap());
            let response = client(&service).list_reactions(request).await.unwrap();
            response.metadata().get(VERSION).unwrap().to_str().unwrap().to_owned()
        };
        let remove_in = async |version: &str| {
            let content = "eyes".to_owned();
            let request = RemoveReactionRequest { repository_id: REPOSITORY, subject: named(ISSUE), content };
            let mut request = ada().request(REMOVE_REACTION, request);
            request.metadata_mut().insert(PRECONDITION, format!("version={version}").parse().unwrap());
            client(&service).remove_reaction(request).await
        };
        add(&service, &ada(), ISSUE, "eyes").await.unwrap();
        let first = version().await;
        remove(&service, &ada(), ISSUE, "eyes").await.unwrap();
        add(&service, &ada(), ISSUE, "eyes").await.unwrap();
        let second = version().await;
        assert_ne!(first, second);
        assert_eq!(reason(&remove_in(&first).await.unwrap_err()), "PRECONDITION_FAILED");
        remove_in(&second).await.unwrap();
        assert!(shown(&service, ISSUE).await.is_empty());
        service.stop().await;
    })
    .await;
}
