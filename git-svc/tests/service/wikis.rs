//! Pages of wikis. The grants name the wiki, and the requests its repository.

use ferrite_proto::{
    git::{
        CreateRepositoryRequest, CreateWikiPageRequest, DeleteWikiPageRequest, GetWikiPageRequest,
        ListWikiPagesRequest, ListWikiRevisionsRequest, UpdateWikiPageRequest, WikiPageContent,
        wiki_service_client::WikiServiceClient,
    },
    grant::{Credential, Grant, Reauthorization},
    metadata::IDEMPOTENCY_KEY,
};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Request, Status};

use crate::harness::{Service, creation, reason, with_token};
use crate::operations::Operation;

/// A repository that the store does not have, and its wiki.
const REPOSITORY: i64 = 900;
const WIKI: i64 = 901;

async fn service() -> (Service, WikiServiceClient<Channel>) {
    let service = Service::start().await;
    let wiki = CreateRepositoryRequest { is_wiki: true, ..creation(WIKI) };
    service.storage().create_repository(wiki).await.unwrap();
    let client = WikiServiceClient::new(service.channel());
    (service, client)
}

fn with_grant<T: Operation>(service: &Service, message: T) -> Request<T> {
    let access =
        Reauthorization { repository: REPOSITORY, is_wiki: true, is_git: false, credential: Credential::Anonymous };
    let grant = Grant { reauthorization: Some(access), ..service.grant(WIKI, T::OPERATION) };
    with_token(message, &service.sign(grant))
}

fn new(title: &str, content: &str) -> CreateWikiPageRequest {
    let (title, content) = (title.to_owned(), content.to_owned().into());
    CreateWikiPageRequest { repository_id: REPOSITORY, title, content, message: String::new() }
}

fn change(name: &str) -> UpdateWikiPageRequest {
    UpdateWikiPageRequest { repository_id: REPOSITORY, name: name.into(), ..Default::default() }
}

fn wanted(name: &str) -> GetWikiPageRequest {
    GetWikiPageRequest { repository_id: REPOSITORY, name: name.into() }
}

#[track_caller]
fn check(refused: Result<impl std::fmt::Debug, Status>, code: Code, expected: &str) {
    let status = refused.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{status:?}");
}

#[tokio::test]
async fn pages_are_written_and_read_without_events() {
    let (service, mut wikis) = service().await;
    let listed = ListWikiPagesRequest { repository_id: REPOSITORY, page: 1, page_size: 10 };
    let empty = wikis.list_wiki_pages(with_grant(&service, listed)).await.unwrap().into_inner();
    assert_eq!((empty.pages.len(), empty.total_count), (0, 0));
    let mut request = with_grant(&service, new("Getting started", "one"));
    request.metadata_mut().insert(IDEMPOTENCY_KEY, "k".parse().unwrap());
    let mut repeat = with_grant(&service, new("Getting started", "one"));
    repeat.metadata_mut().insert(IDEMPOTENCY_KEY, "k".parse().unwrap());
    let made = wikis.create_wiki_page(request).await.unwrap().into_inner().page.unwrap();
    assert_eq!(wikis.create_wiki_page(repeat).await.unwrap().into_inner().page.unwrap(), made);
    let WikiPageContent { page, content, commit_count, .. } = made.clone();
    let page = page.unwrap();
    assert_eq!((page.title.as_str(), page.name.as_str()), ("Getting started", "Getting-started"));
    assert_eq!((content.as_deref(), commit_count), (Some(b"one".as_slice()), 1));
    let commit = page.last_commit.unwrap();
    assert_eq!(commit.author.unwrap().name, b"Ada Lovelace");
    let found = wikis.get_wiki_page(with_grant(&service, wanted("Getting-started"))).await.unwrap().into_inner();
    assert_eq!(found.page, Some(made));

    let changed = UpdateWikiPageRequest {
        title: "First steps".into(),
        content: Some("two".into()),
        expected_blob_id: page.blob_id.clone(),
        ..change("Getting-started")
    };
    let changed = wikis.update_wiki_page(with_grant(&service, changed)).await.unwrap().into_inner().page.unwrap();
    assert_eq!(changed.page.unwrap().path, b"First-steps.md");
    let stale =
        UpdateWikiPageRequest { content: Some("x".into()), expected_blob_id: page.blob_id, ..change("First-steps") };
    check(wikis.update_wiki_page(with_grant(&service, stale)).await, Code::Aborted, "STALE_BLOB");
    let all = wikis.list_wiki_pages(with_grant(&service, listed)).await.unwrap().into_inner();
    let names: Vec<_> = all.pages.iter().map(|page| (page.name.as_str(), page.last_commit.is_some())).collect();
    assert_eq!((names, all.total_count), (vec![("First-steps", true)], 1));
    let revisions =
        ListWikiRevisionsRequest { repository_id: REPOSITORY, name: "First-steps".into(), page: 1, page_size: 10 };
    let revisions = wikis.list_wiki_revisions(with_grant(&service, revisions)).await.unwrap().into_inner();
    assert_eq!((revisions.commits.len(), revisions.total_count), (1, 1));

    let gone = DeleteWikiPageRequest { repository_id: REPOSITORY, name: "First-steps".into() };
    wikis.delete_wiki_page(with_grant(&service, gone.clone())).await.unwrap();
    let (code, missing) = (Code::NotFound, "WIKI_PAGE_NOT_FOUND");
    check(wikis.delete_wiki_page(with_grant(&service, gone)).await, code, missing);
    check(wikis.get_wiki_page(with_grant(&service, wanted("First-steps"))).await, code, missing);
    check(wikis.update_wiki_page(with_grant(&service, change(""))).await, code, missing);
    service.updates(WIKI, 0).await;
}

#[tokio::test]
async fn all_mistakes_of_a_page_are_told_and_other_grants_are_refused() {
    let (service, mut wikis) = service().await;
    let wrong = CreateWikiPageRequest {
        content: vec![b'x'; (1 << 20) + 1].into(),
        message: "m".repeat((16 << 10) + 1),
        ..new("_new", "")
    };
    let refused = wikis.create_wiki_page(with_grant(&service, wrong)).await.unwrap_err();
    let fields = ferrite_proto::error::violations(&refused);
    let fields: Vec<_> = fields.iter().map(|(field, ..)| field.as_str()).collect();
    assert_eq!(fields, ["message", "title", "content_base64"]);
    // A grant for a repository, and one for the wiki of another.
    let of_repository = service.with_grant(WIKI, GetWikiPageRequest { repository_id: WIKI, name: "Home".into() });
    check(wikis.get_wiki_page(of_repository).await, Code::Unauthenticated, "BAD_GRANT");
    let other = with_grant(&service, GetWikiPageRequest { repository_id: WIKI, name: "Home".into() });
    check(wikis.get_wiki_page(other).await, Code::Unauthenticated, "BAD_GRANT");
}
