use ferrite_core::testing::eventually;
use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::events::event::Fact;
use ferrite_proto::grant::{Grant, IssueReach};
use ferrite_proto::repo::{DeleteRepositoryRequest, RepositoryRef, ResolveAccessRequest, UpdateWikiRequest};
use ferrite_proto::{Permission, operation};
use tonic::{Code, Status};

use super::ssh::ADD_DEPLOY_KEY;
use super::{refusal, refused};
use crate::testing::{Harness, StoreMode, basic, with_token};

const FETCH: &str = operation::UPLOAD_PACK;
const PUSH: &str = operation::RECEIVE_PACK;

fn by_name(name: &str) -> Option<RepositoryRef> {
    super::by_name("ada", name)
}

fn request(name: &str, operation: &str) -> ResolveAccessRequest {
    ResolveAccessRequest {
        repository: by_name(name),
        operation: operation.into(),
        is_wiki: true,
        ..ResolveAccessRequest::default()
    }
}

/// Returns the grant for a wiki. An empty token is anonymous.
async fn resolve(harness: &Harness, token: &str, name: &str, operation: &str) -> Result<Grant, Status> {
    let response = harness.access().resolve_access(with_token(request(name, operation), token)).await?.into_inner();
    let (grant, _) = harness.trust().verifier.verify(&response.grant).unwrap();
    assert_eq!(grant.repository, response.stored_id);
    Ok(grant)
}

async fn reason(harness: &Harness, token: &str, name: &str, operation: &str) -> String {
    match resolve(harness, token, name, operation).await {
        Ok(grant) => grant.permission.to_string(),
        Err(status) => ferrite_proto::error::reason(&status).unwrap_or_default(),
    }
}

async fn update(harness: &Harness, token: &str, name: &str, change: UpdateWikiRequest) -> Result<(), Status> {
    let request = UpdateWikiRequest { repository: by_name(name), ..change };
    harness.repository().update_wiki(with_token(request, token)).await.map(drop)
}

#[tokio::test]
async fn a_wiki_is_made_by_the_first_push_and_deleted_with_its_repository() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let id = harness.create(&ada, "demo", false).await.unwrap().id;
        let missing = refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
        assert_eq!(refusal(resolve(&harness, &ada, "demo", FETCH).await), missing);
        // The first attempt fails on one side or the other.
        harness.set_store(StoreMode::Down);
        let down = refusal(resolve(&harness, &ada, "demo", PUSH).await);
        assert_eq!(down, refused(Code::Unavailable, "STORE_UNAVAILABLE"));
        harness.set_store(StoreMode::FailsAfterCreate);
        assert_eq!(refusal(resolve(&harness, &ada, "demo", PUSH).await).0, Code::Internal);
        assert_eq!(refusal(resolve(&harness, &ada, "demo", FETCH).await), missing);
        harness.set_store(StoreMode::Works);
        let push = resolve(&harness, &ada, "demo", PUSH).await.unwrap();
        assert!(push.repository > id && harness.stored().contains(&push.repository));
        assert_eq!((push.permission, push.issue_reach), (Permission::Owner, IssueReach::None));
        let made: Vec<_> = harness.create_requests().into_iter().filter(|made| made.is_wiki).collect();
        // The call that failed as unavailable was retried.
        assert!(made.len() >= 3 && made.iter().all(|made| made.repository_id == push.repository), "{made:?}");
        assert!(made.iter().all(|made| made.default_branch == "main" && made.first_commit.is_none()));
        assert_eq!(resolve(&harness, "", "demo", FETCH).await.unwrap().repository, push.repository);
        resolve(&harness, &ada, "demo", PUSH).await.unwrap();
        let count = harness.create_requests().iter().filter(|made| made.is_wiki).count();
        assert_eq!(count, made.len(), "once it is made");
        let delete = DeleteRepositoryRequest { repository: by_name("demo") };
        harness.repository().delete_repository(with_token(delete, &ada)).await.unwrap();
        let told = || {
            harness.events().into_iter().find_map(|event| match event.fact {
                Some(Fact::RepositoryDeleted(deleted)) => Some((event.repository_id, deleted.wiki_id)),
                _ => None,
            })
        };
        // The call waits only briefly for its event.
        eventually("the deletion is sent", || async { told().is_some() }).await;
        assert_eq!(told(), Some((id, push.repository)));
        assert_eq!(refusal(resolve(&harness, &ada, "demo", PUSH).await), missing);
    })
    .await;
}

#[tokio::test]
async fn the_level_is_that_of_the_repository_and_a_public_wiki_is_read_by_everybody() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        for (name, is_private) in [("open", false), ("hidden", true)] {
            harness.create(&ada, name, is_private).await.unwrap();
            resolve(&harness, &ada, name, PUSH).await.unwrap();
        }
        let outcomes = async |name: &str| {
            let mut outcomes = Vec::new();
            for token in ["", &bob] {
                for operation in [FETCH, PUSH] {
                    outcomes.push(reason(&harness, token, name, operation).await);
                }
            }
            outcomes
        };
        let (missing, denied) = ("REPOSITORY_NOT_FOUND", "PERMISSION_REQUIRED");
        assert_eq!(outcomes("open").await, ["read", "CREDENTIALS_REQUIRED", "read", denied]);
        assert_eq!(outcomes("hidden").await, [missing; 4]);
        let public = UpdateWikiRequest { allow_public_wiki: Some(true), ..Default::default() };
        update(&harness, &ada, "hidden", public).await.unwrap();
        assert_eq!(outcomes("hidden").await, ["read", "CREDENTIALS_REQUIRED", "read", denied]);
        // The repository itself stays hidden, and so does a missing wiki.
        let itself = ResolveAccessRequest { is_wiki: false, ..request("hidden", FETCH) };
        let hidden = refusal(harness.access().resolve_access(with_token(itself, &bob)).await);
        assert_eq!(hidden, refused(Code::NotFound, missing));
        for (off, on) in [
            (
                UpdateWikiRequest { enable_wiki: Some(false), ..Default::default() },
                UpdateWikiRequest { enable_wiki: Some(true), ..Default::default() },
            ),
            (
                UpdateWikiRequest {
                    enable_external_wiki: Some(true),
                    external_wiki_url: Some("https://wiki.example.com".into()),
                    ..Default::default()
                },
                UpdateWikiRequest { enable_external_wiki: Some(false), ..Default::default() },
            ),
        ] {
            update(&harness, &ada, "hidden", off).await.unwrap();
            assert_eq!(reason(&harness, &bob, "hidden", FETCH).await, missing);
            assert_eq!(reason(&harness, &ada, "hidden", FETCH).await, missing);
            assert_eq!(reason(&harness, &ada, "hidden", PUSH).await, missing);
            update(&harness, &ada, "hidden", on).await.unwrap();
            assert_eq!(reason(&harness, &bob, "hidden", FETCH).await, "read");
        }
        let of_api = request("open", operation::LIST_BRANCHES);
        assert_eq!(refusal(harness.access().resolve_access(with_token(of_api, &ada)).await).0, Code::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn the_first_page_makes_a_wiki_and_its_grant_names_the_repository() {
    on_each_url(async |url| {
        const PAGES: &str = operation::LIST_WIKI_PAGES;
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let id = harness.create(&ada, "demo", true).await.unwrap().id;
        let resolve = async |token: &str, operation: &str| {
            // These operations are always on the wiki.
            let request = ResolveAccessRequest { is_wiki: false, ..request("demo", operation) };
            let response = harness.access().resolve_access(with_token(request, token)).await?.into_inner();
            Ok::<_, Status>((harness.trust().verifier.verify(&response.grant).unwrap().0, response.reauthorization))
        };
        let (hidden, none) =
            (refused(Code::NotFound, "REPOSITORY_NOT_FOUND"), refused(Code::NotFound, "WIKI_NOT_FOUND"));
        for operation in [PAGES, operation::UPDATE_WIKI_PAGE, operation::DELETE_WIKI_PAGE] {
            assert_eq!(refusal(resolve(&ada, operation).await), none, "{operation}");
            assert_eq!(refusal(resolve(&bob, operation).await), hidden, "{operation}");
        }
        assert_eq!(reason(&harness, &ada, "demo", operation::RAW).await, "WIKI_NOT_FOUND");
        // A public wiki without pages tells nothing about its repository.
        let public = UpdateWikiRequest { allow_public_wiki: Some(true), ..Default::default() };
        update(&harness, &ada, "demo", public).await.unwrap();
        assert_eq!(refusal(resolve(&bob, PAGES).await), hidden);
        let (grant, again) = resolve(&ada, operation::CREATE_WIKI_PAGE).await.unwrap();
        let access = grant.reauthorization.unwrap();
        assert!(grant.repository > id && grant.issue_reach == IssueReach::None);
        assert_eq!((access.repository, access.is_wiki), (id, true));
        harness.access().reauthorize_access(again.unwrap()).await.unwrap();
        assert_eq!(resolve(&bob, PAGES).await.unwrap().0.repository, grant.repository);
        assert_eq!(reason(&harness, &bob, "demo", operation::RAW).await, "read");
        assert_eq!(refusal(resolve(&bob, operation::UPDATE_WIKI_PAGE).await).0, Code::PermissionDenied);
        let off = UpdateWikiRequest { enable_wiki: Some(false), ..Default::default() };
        update(&harness, &ada, "demo", off).await.unwrap();
        assert_eq!(refusal(resolve(&ada, PAGES).await), none);
        assert_eq!(refusal(resolve(&bob, PAGES).await), hidden);
    })
    .await;
}

#[tokio::test]
async fn deploy_keys_reach_the_wiki_of_their_repository_and_archived_ones_take_no_push() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let db = harness.db().await;
    let id = harness.create(&ada, "demo", true).await.unwrap().id;
    harness.create(&ada, "other", true).await.unwrap();
    db.execute(ADD_DEPLOY_KEY, &args![id, "SHA256:bot", false]).await.unwrap();
    let with_key = async |name: &str, operation: &str| {
        let request = ResolveAccessRequest { ssh_fingerprint: Some("SHA256:bot".into()), ..request(name, operation) };
        harness.access().resolve_access(request).await.map(|response| response.into_inner().stored_id)
    };
    let wiki = with_key("demo", PUSH).await.unwrap();
    assert_eq!(with_key("demo", FETCH).await.unwrap(), wiki);
    assert_eq!(refusal(with_key("other", PUSH).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    db.execute("UPDATE repositories SET is_archived = $1", &args![true]).await.unwrap();
    assert_eq!(with_key("demo", FETCH).await.unwrap(), wiki);
    assert_eq!(refusal(with_key("demo", PUSH).await), refused(Code::PermissionDenied, "REPOSITORY_ARCHIVED"));
    let by_password =
        ResolveAccessRequest { basic: Some(basic("ada", crate::testing::PASSWORD)), ..request("demo", PUSH) };
    let archived = refusal(harness.access().resolve_access(by_password).await);
    assert_eq!(archived, refused(Code::PermissionDenied, "REPOSITORY_ARCHIVED"));
}

#[tokio::test]
async fn only_changes_of_the_settings_are_recorded() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    harness.create(&ada, "demo", false).await.unwrap();
    let off = UpdateWikiRequest { enable_wiki: Some(false), ..Default::default() };
    assert_eq!(refusal(update(&harness, &bob, "demo", off.clone()).await).0, Code::PermissionDenied);
    for change in [UpdateWikiRequest::default(), off.clone(), off] {
        update(&harness, &ada, "demo", change).await.unwrap();
    }
    let external = UpdateWikiRequest { enable_external_wiki: Some(true), ..Default::default() };
    assert_eq!(refusal(update(&harness, &ada, "demo", external.clone()).await).0, Code::InvalidArgument);
    let external_wiki_url = Some("https://wiki.example.com".into());
    update(&harness, &ada, "demo", UpdateWikiRequest { external_wiki_url, ..external }).await.unwrap();
    let sql = "SELECT details FROM audit_log WHERE action = 'repository.update' ORDER BY id";
    let rows: Vec<(String,)> = harness.db().await.all(sql, &[]).await.unwrap();
    let rows: Vec<_> = rows.into_iter().map(|(row,)| row).collect();
    let fields = |fields: &str| format!("{{\"fields\":\"{fields}\"}}");
    assert_eq!(rows, [fields("enable_wiki"), fields("enable_external_wiki,external_wiki_url")]);
}
