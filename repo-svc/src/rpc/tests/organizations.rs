use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferrite_db::args;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::repo::organization_service_client::OrganizationServiceClient;
use ferrite_proto::repo::{
    CreateOrganizationRequest, DeleteOrganizationRequest, GetMembershipRequest, GetMembershipResponse,
    GetOrganizationRequest, ListMembersRequest, ListOrganizationsRequest, MembershipRole, Organization,
    RemoveMemberRequest, SetMembershipRequest, SetMembershipVisibilityRequest, UpdateOrganizationRequest,
};
use ferrite_proto::{Scope, Scopes};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Request, Status};

use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

pub(super) fn client(harness: &Harness) -> OrganizationServiceClient<Channel> {
    OrganizationServiceClient::new(harness.service.clone())
}

fn named(name: &str) -> CreateOrganizationRequest {
    CreateOrganizationRequest { username: name.into(), ..Default::default() }
}

pub(super) async fn create(harness: &Harness, token: &str, name: &str) -> Organization {
    let response = client(harness).create_organization(with_token(named(name), token)).await.unwrap();
    response.into_inner().organization.unwrap()
}

pub(super) async fn set(
    harness: &Harness,
    token: &str,
    organization: &str,
    username: &str,
    role: MembershipRole,
) -> Result<(), Status> {
    let request =
        SetMembershipRequest { organization: organization.into(), username: username.into(), role: role.into() };
    client(harness).set_membership(with_token(request, token)).await.map(|_| ())
}

pub(super) async fn remove(harness: &Harness, token: &str, organization: &str, username: &str) -> Result<(), Status> {
    let request = RemoveMemberRequest { organization: organization.into(), username: username.into() };
    client(harness).remove_member(with_token(request, token)).await.map(|_| ())
}

pub(super) async fn show(harness: &Harness, token: &str, organization: &str, is_public: bool) -> Result<(), Status> {
    let request = SetMembershipVisibilityRequest { organization: organization.into(), is_public };
    client(harness).set_membership_visibility(with_token(request, token)).await.map(|_| ())
}

async fn membership(
    harness: &Harness,
    token: &str,
    organization: &str,
    username: &str,
) -> Result<GetMembershipResponse, Status> {
    let request = GetMembershipRequest { organization: organization.into(), username: username.into() };
    client(harness).get_membership(with_token(request, token)).await.map(tonic::Response::into_inner)
}

async fn members(harness: &Harness, token: &str, organization: &str) -> Result<Vec<String>, Status> {
    let request =
        ListMembersRequest { organization: organization.into(), page: 1, page_size: 1000, only_public: false };
    let response = client(harness).list_members(with_token(request, token)).await?.into_inner();
    assert_eq!(response.users.len() as i64, response.total_count);
    Ok(response.users.into_iter().map(|user| user.username).collect())
}

async fn organizations(harness: &Harness, token: &str, username: &str) -> Result<Vec<String>, Status> {
    let request = ListOrganizationsRequest { username: username.into(), page: 1, page_size: 1000 };
    let response = client(harness).list_organizations(with_token(request, token)).await?.into_inner();
    assert_eq!(response.organizations.len() as i64, response.total_count);
    Ok(response.organizations.into_iter().map(|row| row.username).collect())
}

/// Sets the scopes of all tokens with this name.
pub(super) async fn narrow(harness: &Harness, token_name: &str, scopes: &[Scope]) {
    let bits = scopes.iter().copied().collect::<Scopes>().bits();
    let sql = "UPDATE access_tokens SET scopes = $1 WHERE name = $2";
    harness.db().await.execute(sql, &args![bits, token_name]).await.unwrap();
}

/// The audit log, oldest first, without users, tokens and repositories.
pub(super) async fn log_entries(harness: &Harness) -> Vec<String> {
    let sql = "SELECT actor || ' ' || action || ' ' || target || ' ' || details FROM audit_log \
               WHERE action NOT LIKE 'user.%' AND action NOT LIKE 'token.%' AND action NOT LIKE 'repository.%' ORDER BY id";
    let rows: Vec<(String,)> = harness.db().await.all(sql, &[]).await.unwrap();
    rows.into_iter().map(|(row,)| row).collect()
}

fn missing(what: &str) -> (Code, String) {
    refused(Code::NotFound, what)
}

fn owners_only() -> (Code, String) {
    refused(Code::PermissionDenied, "ORGANIZATION_OWNER_REQUIRED")
}

#[tokio::test]
async fn an_organization_is_created_once_per_key_and_read_anonymously() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let request = || {
        let message = CreateOrganizationRequest {
            full_name: "Acme Company".into(),
            description: "About it".into(),
            website: "https://example.com/".into(),
            location: "Here".into(),
            ..named("Acme")
        };
        let mut request: Request<_> = with_token(message, &ada);
        request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
        request
    };
    let made = client(&harness).create_organization(request()).await.unwrap().into_inner().organization.unwrap();
    assert_eq!((made.username.as_str(), made.full_name.as_str()), ("Acme", "Acme Company"));
    assert_eq!((made.website.as_str(), made.location.as_str()), ("https://example.com/", "Here"));
    let again = client(&harness).create_organization(request()).await.unwrap().into_inner().organization.unwrap();
    assert_eq!(made, again);
    let get = async |name: &str| {
        client(&harness).get_organization(GetOrganizationRequest { organization: name.into() }).await
    };
    assert_eq!(get("aCME").await.unwrap().into_inner().organization.unwrap(), made);
    for name in ["ada", "unknown", "", "a/b", "a\0"] {
        assert_eq!(refusal(get(name).await), missing("ORGANIZATION_NOT_FOUND"), "{name:?}");
    }
    for taken in ["ACME", "Ada"] {
        let outcome = client(&harness).create_organization(with_token(named(taken), &ada)).await;
        assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "USER_ALREADY_EXISTS"));
    }
    let bad = CreateOrganizationRequest { website: "javascript:x".into(), location: "x".repeat(51), ..named("Admin") };
    let status = client(&harness).create_organization(with_token(bad, &ada)).await.unwrap_err();
    let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
    assert_eq!((status.code(), fields.join(",")), (Code::InvalidArgument, "username,website,location".into()));
    assert_eq!(log_entries(&harness).await, [r#"ada organization.create Acme {"owner":"ada"}"#]);
}

#[tokio::test]
async fn only_administrators_create_organizations_for_others() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    let make = async |name: &str, owner: &str, as_administrator, token: &str| {
        let request = CreateOrganizationRequest { owner: owner.into(), as_administrator, ..named(name) };
        client(&harness).create_organization(with_token(request, token)).await
    };
    let admins_only = || refused(Code::PermissionDenied, "ADMIN_REQUIRED");
    assert_eq!(refusal(make("one", "ada", true, &ada).await), admins_only());
    assert_eq!(refusal(make("one", "root", false, &ada).await), admins_only());
    assert_eq!(refusal(make("one", "ada", false, &root).await), admins_only());
    assert_eq!(refusal(make("one", "", false, "").await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    make("own", "ADA", false, &ada).await.unwrap();
    make("hers", "ada", true, &root).await.unwrap();
    make("his", "", true, &root).await.unwrap();
    for name in ["unknown", "own"] {
        assert_eq!(refusal(make("more", name, true, &root).await), missing("USER_NOT_FOUND"));
    }
    assert_eq!(organizations(&harness, &ada, "").await.unwrap(), ["own", "hers"]);
    assert_eq!(organizations(&harness, &root, "").await.unwrap(), ["his"]);
    assert_eq!(membership(&harness, &ada, "hers", "ada").await.unwrap().role(), MembershipRole::Admin);
}

#[tokio::test]
async fn owners_and_site_administrators_change_an_organization_and_absent_fields_stay() {
    let harness = Harness::start().await;
    let (ada, bob, eve) =
        (harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await);
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    create(&harness, &ada, "acme").await;
    set(&harness, &ada, "acme", "bob", MembershipRole::Member).await.unwrap();
    let update = async |token: &str, full_name: Option<&str>, website: Option<&str>| {
        let request = UpdateOrganizationRequest {
            organization: "ACME".into(),
            full_name: full_name.map(str::to_owned),
            website: website.map(str::to_owned),
            ..Default::default()
        };
        let response = client(&harness).update_organization(with_token(request, token)).await?.into_inner();
        Ok::<_, Status>(response.organization.unwrap())
    };
    for other in [&bob, &eve] {
        assert_eq!(refusal(update(other, Some("x"), Some("not valid")).await), owners_only());
    }
    assert_eq!(refusal(update("", None, None).await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(update(&ada, Some("Acme"), Some("http://a")).await.unwrap().website, "http://a");
    let changed = update(&root, None, Some("")).await.unwrap();
    assert_eq!((changed.full_name.as_str(), changed.website.as_str()), ("Acme", ""));
    update(&ada, None, Some("")).await.unwrap();
    let status = update(&ada, Some("a\nb"), Some("x")).await.unwrap_err();
    assert_eq!((status.code(), violations(&status).len()), (Code::InvalidArgument, 2));
    let log = log_entries(&harness).await;
    assert_eq!(
        log[2..],
        [
            r#"ada organization.update acme {"fields":"full_name,website"}"#,
            r#"root organization.update acme {"fields":"website"}"#
        ]
    );
}

#[tokio::test]
async fn an_organization_is_deleted_by_its_owners_when_it_owns_nothing() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let acme = create(&harness, &ada, "acme").await.id;
    let request = ferrite_proto::repo::CreateRepositoryRequest {
        name: "demo".into(),
        owner: "acme".into(),
        ..Default::default()
    };
    let made = harness.repository().create_repository(with_token(request, &ada)).await.unwrap().into_inner();
    let delete = async |token: &str| {
        let request = DeleteOrganizationRequest { organization: "acme".into() };
        client(&harness).delete_organization(with_token(request, token)).await
    };
    assert_eq!(refusal(delete(&bob).await), owners_only());
    assert_eq!(refusal(delete(&ada).await), refused(Code::FailedPrecondition, "ACCOUNT_OWNS_REPOSITORIES"));
    let request = ferrite_proto::repo::DeleteRepositoryRequest { repository: by_id(made.repository.unwrap().id) };
    harness.repository().delete_repository(with_token(request, &ada)).await.unwrap();
    delete(&ada).await.unwrap();
    assert_eq!(refusal(delete(&ada).await), missing("ORGANIZATION_NOT_FOUND"));
    assert_eq!(organizations(&harness, &ada, "").await.unwrap(), Vec::<String>::new());
    create(&harness, &bob, "acme").await;
    // One event, for each service that keeps data of organizations.
    let deleted = || -> BTreeSet<_> {
        let deletions = harness.events().into_iter().filter_map(|event| match event.fact? {
            Fact::OrganizationDeleted(fact) => Some((event.repository_id, fact.organization_id)),
            _ => None,
        });
        deletions.collect()
    };
    for _ in 0..2000 {
        if !deleted().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(deleted(), BTreeSet::from([(0, acme)]));
}

#[tokio::test]
async fn memberships_are_private_until_made_public() {
    let harness = Harness::start().await;
    let (ada, bob, eve) =
        (harness.signed_in("ada").await, harness.signed_in("bob").await, harness.signed_in("eve").await);
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    create(&harness, &ada, "acme").await;
    set(&harness, &ada, "acme", "bob", MembershipRole::Unspecified).await.unwrap();
    show(&harness, &bob, "acme", true).await.unwrap();
    show(&harness, &bob, "acme", true).await.unwrap();
    for who in [&ada, &bob, &root] {
        assert_eq!(members(&harness, who, "acme").await.unwrap(), ["ada", "bob"]);
        assert_eq!(organizations(&harness, who, "ada").await.unwrap(), ["acme"]);
        let found = membership(&harness, who, "Acme", "ADA").await.unwrap();
        assert_eq!((found.role(), found.is_public), (MembershipRole::Admin, false));
    }
    assert_eq!(members(&harness, &eve, "acme").await.unwrap(), ["bob"]);
    assert_eq!(organizations(&harness, &eve, "ada").await.unwrap(), Vec::<String>::new());
    for who in ["", &eve] {
        assert_eq!(organizations(&harness, who, "bob").await.unwrap(), ["acme"]);
    }
    let nobody = organizations(&harness, "", "").await;
    assert_eq!(refusal(nobody), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    let found = membership(&harness, &eve, "acme", "bob").await.unwrap();
    assert_eq!((found.role(), found.is_public), (MembershipRole::Member, true));
    assert_eq!(found.user.unwrap().username, "bob");
    for hidden in ["ada", "eve", "unknown", "acme", "a/b"] {
        assert_eq!(refusal(membership(&harness, &eve, "acme", hidden).await), missing("MEMBER_NOT_FOUND"));
    }
    assert_eq!(refusal(membership(&harness, &eve, "ada", "ada").await), missing("ORGANIZATION_NOT_FOUND"));
    assert_eq!(members(&harness, "", "acme").await.unwrap(), ["bob"]);
    for name in ["unknown", "acme"] {
        assert_eq!(refusal(organizations(&harness, &eve, name).await), missing("USER_NOT_FOUND"));
    }
    let outcome = show(&harness, &eve, "acme", true).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ORGANIZATION_MEMBER_REQUIRED"));
    assert_eq!(refusal(show(&harness, &root, "acme", true).await), missing("MEMBER_NOT_FOUND"));
    show(&harness, &bob, "acme", false).await.unwrap();
    assert_eq!(members(&harness, &eve, "acme").await.unwrap(), Vec::<String>::new());
    let log = log_entries(&harness).await;
    assert_eq!(
        log[1..],
        [
            r#"ada member.set acme {"role":"member","user":"bob"}"#,
            r#"bob member.set acme {"public":"true","user":"bob"}"#,
            r#"bob member.set acme {"public":"false","user":"bob"}"#
        ]
    );
}

#[tokio::test]
async fn a_token_without_the_scope_sees_no_more_than_a_non_member() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    create(&harness, &ada, "acme").await;
    set(&harness, &ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
    narrow(&harness, "test", &[Scope::User, Scope::RepoAdmin]).await;
    assert_eq!(organizations(&harness, &ada, "").await.unwrap(), Vec::<String>::new());
    assert_eq!(organizations(&harness, &bob, "ada").await.unwrap(), Vec::<String>::new());
    assert_eq!(members(&harness, &ada, "acme").await.unwrap(), Vec::<String>::new());
    assert_eq!(refusal(membership(&harness, &ada, "acme", "ada").await), missing("MEMBER_NOT_FOUND"));
    let too_small = || refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE");
    assert_eq!(refusal(set(&harness, &ada, "acme", "bob", MembershipRole::Member).await), too_small());
    assert_eq!(refusal(remove(&harness, &ada, "acme", "bob").await), too_small());
    assert_eq!(refusal(show(&harness, &ada, "acme", true).await), too_small());
    assert_eq!(refusal(client(&harness).create_organization(with_token(named("x"), &ada)).await), too_small());
}

#[tokio::test]
async fn owners_add_members_and_owners_and_one_owner_always_remains() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    harness.user("eve", false).await;
    create(&harness, &ada, "acme").await;
    let last = || refused(Code::FailedPrecondition, "LAST_OWNER");
    assert_eq!(refusal(set(&harness, &ada, "acme", "ada", MembershipRole::Member).await), last());
    assert_eq!(refusal(remove(&harness, &ada, "acme", "ada").await), last());
    for name in ["unknown", "acme"] {
        let outcome = set(&harness, &ada, "acme", name, MembershipRole::Member).await;
        assert_eq!(refusal(outcome), missing("USER_NOT_FOUND"));
    }
    assert_eq!(refusal(set(&harness, &bob, "acme", "bob", MembershipRole::Admin).await), owners_only());
    let request = SetMembershipRequest { organization: "acme".into(), username: "bob".into(), role: 9 };
    let status = client(&harness).set_membership(with_token(request, &ada)).await.unwrap_err();
    assert_eq!(violations(&status)[0].0, "role");

    set(&harness, &ada, "acme", "bob", MembershipRole::Member).await.unwrap();
    set(&harness, &ada, "acme", "eve", MembershipRole::Member).await.unwrap();
    assert_eq!(refusal(set(&harness, &bob, "acme", "eve", MembershipRole::Admin).await), owners_only());
    assert_eq!(refusal(remove(&harness, &bob, "acme", "eve").await), owners_only());
    set(&harness, &ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
    set(&harness, &ada, "acme", "bob", MembershipRole::Admin).await.unwrap();
    set(&harness, &bob, "acme", "ada", MembershipRole::Member).await.unwrap();
    assert_eq!(refusal(remove(&harness, &ada, "acme", "eve").await), owners_only());
    remove(&harness, &ada, "acme", "ADA").await.unwrap();
    let outcome = remove(&harness, &ada, "acme", "ada").await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ORGANIZATION_MEMBER_REQUIRED"));
    for name in ["ada", "unknown", "a/b"] {
        assert_eq!(refusal(remove(&harness, &bob, "acme", name).await), missing("MEMBER_NOT_FOUND"));
    }
    remove(&harness, &bob, "acme", "eve").await.unwrap();
    assert_eq!(members(&harness, &bob, "acme").await.unwrap(), ["bob"]);
    let log = log_entries(&harness).await;
    assert_eq!(
        log[1..],
        [
            r#"ada member.set acme {"role":"member","user":"bob"}"#,
            r#"ada member.set acme {"role":"member","user":"eve"}"#,
            r#"ada member.set acme {"role":"admin","user":"bob"}"#,
            r#"bob member.set acme {"role":"member","user":"ada"}"#,
            r#"ada member.remove acme {"user":"ada"}"#,
            r#"bob member.remove acme {"user":"eve"}"#
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_owners_who_demote_each_other_at_once_leave_one() {
    let harness = Arc::new(Harness::start().await);
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let life = ferrite_core::Lifecycle::new(Duration::from_secs(5));
    for round in 0..4 {
        let name = format!("acme{round}");
        create(&harness, &ada, &name).await;
        set(&harness, &ada, &name, "bob", MembershipRole::Admin).await.unwrap();
        let (one, two, token, organization) = (harness.clone(), harness.clone(), bob.clone(), name.clone());
        let other = life.spawn("demote", async move { remove(&one, &token, &organization, "ada").await });
        let own = set(&two, &ada, &name, "bob", MembershipRole::Member).await;
        let outcomes = [own, other.await.unwrap()];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        let sql = "SELECT COUNT(*) FROM team_members m JOIN teams t ON t.id = m.team_id JOIN users o \
                   ON o.id = t.organization_id WHERE t.level = 4 AND o.name = $1";
        let owners: (i64,) = harness.db().await.one(sql, &args![name.as_str()]).await.unwrap();
        assert_eq!(owners, (1,));
    }
}

#[tokio::test]
async fn a_user_creates_a_limited_number_of_organizations() {
    let harness = Harness::start_with(&["--organization-limit", "2"]).await;
    let ada = harness.signed_in("ada").await;
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    create(&harness, &ada, "one").await;
    let for_ada = async |name: &str| {
        let request = CreateOrganizationRequest { owner: "ada".into(), as_administrator: true, ..named(name) };
        client(&harness).create_organization(with_token(request, &root)).await
    };
    // An organization that an administrator creates for a user counts for the user.
    for_ada("two").await.unwrap();
    let limit = refused(Code::FailedPrecondition, "ORGANIZATION_LIMIT_REACHED");
    assert_eq!(refusal(for_ada("three").await), limit);
    let status = client(&harness).create_organization(with_token(named("three"), &ada)).await.unwrap_err();
    assert_eq!(status.message(), "organization limit reached: the user created 2; the limit is 2");
    for name in ["three", "four", "five"] {
        create(&harness, &root, name).await;
    }
}
