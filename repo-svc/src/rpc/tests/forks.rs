//! Forks: calls to the store, events, what viewers see, and rejected requests.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::{
    AddTeamMemberRequest, CreateAccessTokenRequest, CreateTeamRequest, ForkRepositoryRequest, GetRepositoryRequest,
    ListForksRequest, Permission, Repository,
};
use tonic::{Code, Status};

use super::organizations::create as create_organization;
use super::{by_id, refusal, refused};
use crate::store::AuditFilter;
use crate::testing::{Harness, PASSWORD, StoreMode, basic, with_token};

async fn fork(harness: &Harness, id: i64, token: &str, organization: &str, name: &str) -> Result<Repository, Status> {
    let request = ForkRepositoryRequest { repository: by_id(id), organization: organization.into(), name: name.into() };
    let response = harness.repository().fork_repository(with_token(request, token)).await?;
    Ok(response.into_inner().repository.unwrap())
}

async fn get(harness: &Harness, id: i64, token: &str) -> Result<Repository, Status> {
    let request = GetRepositoryRequest { repository: by_id(id) };
    Ok(harness.repository().get_repository(with_token(request, token)).await?.into_inner().repository.unwrap())
}

async fn forks(harness: &Harness, id: i64, token: &str) -> Result<(Vec<Repository>, i64), Status> {
    let request = ListForksRequest { repository: by_id(id), page: 1, page_size: 1000 };
    let response = harness.repository().list_forks(with_token(request, token)).await?.into_inner();
    Ok((response.repositories, response.total_count))
}

#[tokio::test]
async fn a_fork_is_copied_on_the_store_told_of_its_parent_and_shown_with_it() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let parent = harness.create(&ada, "demo", false).await.unwrap();
        let made = fork(&harness, parent.id, &bob, "", "").await.unwrap();
        let owner = made.owner.as_ref().unwrap();
        assert_eq!((owner.username.as_str(), made.name.as_str(), made.is_fork), ("bob", "demo", true));
        assert_eq!((made.permission(), made.is_private, made.fork_count), (Permission::Owner, false, 0));
        let shown = made.parent.as_ref().unwrap();
        assert_eq!((shown.id, shown.fork_count, shown.permission()), (parent.id, 1, Permission::Read));

        let request = harness.create_requests().pop().unwrap();
        let asked = (request.repository_id, request.source_repository_id, request.user_id);
        assert_eq!(asked, (made.id, parent.id, owner.id));
        assert!(request.first_commit.is_none());

        let told = async || {
            for _ in 0..2000 {
                let events = harness.events().into_iter();
                let mut facts = events.filter_map(|event| match event.fact {
                    Some(Fact::RepositoryForked(fact)) => Some((event.repository_id, fact)),
                    _ => None,
                });
                if let Some(fact) = facts.next() {
                    return fact;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            panic!("nothing was told");
        };
        let (about, fact) = told().await;
        let forked = fact.fork.unwrap();
        let of = forked.parent.unwrap();
        assert_eq!((about, fact.user_id, forked.id, of.id), (parent.id, owner.id, made.id, parent.id));
        assert_eq!((of.fork_count, of.permission()), (1, Permission::Read));

        assert_eq!(get(&harness, made.id, &bob).await.unwrap(), made);
        let anonymous = get(&harness, made.id, "").await.unwrap();
        assert_eq!(anonymous.parent.unwrap().owner.unwrap().email, "");
        let (listed, total) = forks(&harness, parent.id, &ada).await.unwrap();
        assert_eq!((listed.len(), total, listed[0].parent.as_ref().unwrap().id), (1, 1, parent.id));
        assert_eq!(get(&harness, parent.id, &ada).await.unwrap().fork_count, 1);

        let filter = AuditFilter { action: Some("repository.create".into()), ..AuditFilter::default() };
        let (rows, _) = harness.state().await.audit.list(&filter, Page::nearest(1, 10, 10)).await.unwrap();
        let details: Vec<_> = rows[0].details().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            (rows[0].target.as_str(), details),
            ("bob/demo", vec!["parent=ada/demo".into(), "private=false".into()])
        );
    })
    .await;
}

#[tokio::test]
async fn a_fork_goes_where_its_maker_may_create() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let acme = create_organization(&harness, &bob, "Acme").await;
    let parent = harness.create(&ada, "demo", false).await.unwrap();
    let of_acme = fork(&harness, parent.id, &bob, "aCME", "other").await.unwrap();
    assert_eq!((of_acme.owner.unwrap().id, of_acme.name.as_str()), (acme.id, "other"));
    // The same account can have several forks under different names.
    fork(&harness, parent.id, &ada, "", "again").await.unwrap();
    fork(&harness, parent.id, &bob, "", "").await.unwrap();
    let taken = refused(Code::AlreadyExists, "REPOSITORY_ALREADY_EXISTS");
    assert_eq!(refusal(fork(&harness, parent.id, &ada, "", "").await), taken);
    assert_eq!(refusal(fork(&harness, parent.id, &bob, "", "DEMO").await), taken);
    let not_owned = fork(&harness, parent.id, &ada, "acme", "x").await;
    assert_eq!(refusal(not_owned), refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED"));
    for (organization, name, field) in
        [("nobody", "x", "organization"), ("bob", "x", "organization"), ("", "-", "name")]
    {
        let status = fork(&harness, parent.id, &ada, organization, name).await.unwrap_err();
        assert_eq!((status.code(), violations(&status)[0].0.as_str()), (Code::InvalidArgument, field));
    }
    assert_eq!(get(&harness, parent.id, &ada).await.unwrap().fork_count, 3);
}

#[tokio::test]
async fn forking_takes_what_creating_and_reading_take() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let (open, closed) =
        (harness.create(&ada, "open", false).await.unwrap(), harness.create(&ada, "closed", true).await.unwrap());
    let request = CreateAccessTokenRequest {
        credential: Some(basic("bob", PASSWORD)),
        username: "bob".into(),
        name: "writer".into(),
        scopes: vec!["repo:write".into()],
        ..Default::default()
    };
    let writer = harness.account().create_access_token(request).await.unwrap().into_inner().value;
    let outcome = fork(&harness, open.id, &writer, "", "").await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
    assert_eq!(
        refusal(fork(&harness, open.id, "", "", "").await),
        refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED")
    );
    let hidden = refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
    assert_eq!(refusal(fork(&harness, closed.id, &bob, "", "").await), hidden);
    assert_eq!(refusal(forks(&harness, closed.id, &bob).await), hidden);
    assert_eq!(refusal(forks(&harness, closed.id, "").await), hidden);
    for viewer in ["", &bob] {
        assert_eq!(forks(&harness, open.id, viewer).await.unwrap().1, 0);
    }

    // Viewers who lose access to the parent first see the fork without it, then not at all.
    let db = harness.db().await;
    let sql = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
         SELECT $1, id, 'read', 0 FROM users WHERE name_key = 'bob'";
    db.execute(sql, &args![closed.id]).await.unwrap();
    let made = fork(&harness, closed.id, &bob, "", "").await.unwrap();
    assert!(made.is_private && made.parent.is_some());
    assert_eq!(forks(&harness, closed.id, &bob).await.unwrap().1, 1);
    assert_eq!(forks(&harness, closed.id, &ada).await.unwrap().1, 0, "the owner of the parent has no role on the fork");
    db.execute("DELETE FROM collaborators WHERE repository_id = $1", &args![closed.id]).await.unwrap();
    assert_eq!(refusal(get(&harness, made.id, &bob).await), hidden);
}

#[tokio::test]
async fn a_fork_that_the_store_does_not_make_leaves_nothing() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let parent = harness.create(&ada, "demo", false).await.unwrap();
    let stored = harness.stored();
    harness.set_store(StoreMode::FailsAfterCreate);
    assert_eq!(refusal(fork(&harness, parent.id, &ada, "", "copy").await), refused(Code::Internal, "INTERNAL"));
    harness.set_store(StoreMode::Down);
    let outcome = fork(&harness, parent.id, &ada, "", "copy").await;
    assert_eq!(refusal(outcome), refused(Code::Unavailable, "STORE_UNAVAILABLE"));
    harness.set_store(StoreMode::Works);
    assert_eq!(harness.stored(), stored);
    assert_eq!(get(&harness, parent.id, &ada).await.unwrap().fork_count, 0);
    fork(&harness, parent.id, &ada, "", "copy").await.unwrap();
}

#[tokio::test]
async fn a_member_of_a_team_that_may_create_repositories_forks_into_the_organization() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    create_organization(&harness, &ada, "acme").await;
    let parent = harness.create(&ada, "demo", false).await.unwrap();
    let mut teams = TeamServiceClient::new(harness.service.clone());
    let (organization, name) = ("acme".to_owned(), "makers".to_owned());
    let new = CreateTeamRequest { organization, name, can_create_repositories: true, ..Default::default() };
    let team_id = teams.create_team(with_token(new, &ada)).await.unwrap().into_inner().team.unwrap().id;
    let not_yet = fork(&harness, parent.id, &bob, "acme", "").await;
    assert_eq!(refusal(not_yet), refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED"));
    let member = AddTeamMemberRequest { team_id, username: "bob".into(), as_administrator: false };
    teams.add_team_member(with_token(member, &ada)).await.unwrap();
    let made = fork(&harness, parent.id, &bob, "acme", "").await.unwrap();
    assert_eq!((made.owner.as_ref().unwrap().username.as_str(), made.permission()), ("acme", Permission::Admin));
}
