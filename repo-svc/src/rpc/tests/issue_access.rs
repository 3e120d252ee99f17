use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::access_service_server::AccessService;
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_proto::repo::{
    CreateAccessTokenRequest, CreateRepositoryRequest, IssueAccess, RepositoryRef, ResolveIssueAccessRequest,
    ResolveIssueAccessResponse, User,
};
use ferrite_proto::{Scope, ServiceRole};
use ferrite_rpc::auth::{Caller, TokenHash};
use tonic::{Code, Request, Status};

use super::organizations::{create, narrow};
use super::{refusal, refused};
use crate::testing::{Harness, PASSWORD, basic, with_token};

const ADD_COLLABORATOR: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
     SELECT $1, id, 'write', 0 FROM users WHERE name_key = $2";
const ADD_TEAM: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
     VALUES ($1, 'core', 'core', '', 2, 0)";
const ADD_TEAM_MEMBER: &str = "INSERT INTO team_members (team_id, user_id, created_us) \
     SELECT t.id, u.id, 0 FROM teams t CROSS JOIN users u WHERE t.name_key = 'core' AND u.name_key = $1";
const ADD_TEAM_REPOSITORY: &str = "INSERT INTO team_repositories (team_id, repository_id, created_us) \
     SELECT id, $1, 0 FROM teams WHERE name_key = 'core'";
/// Adds private repositories named by number.
const ADD_MANY: &str = "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $2) \
     INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, is_mirror, \
     is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, open_issue_count, \
     issues_version, refs_number, created_us, updated_us) \
     SELECT $1, 'demo' || i, 'demo' || i, '', '', '', 'ready', $3, $4, $4, $3, 'main', 0, 0, 0, 1, 0, 0, 0, i, i FROM numbers";

fn username(name: &str) -> Option<Account> {
    Some(Account::Username(name.to_owned()))
}

async fn resolve(
    harness: &Harness,
    token: &str,
    account: Option<Account>,
    repositories: &[RepositoryRef],
) -> Result<ResolveIssueAccessResponse, Status> {
    let request = ResolveIssueAccessRequest { repositories: repositories.to_vec(), account, ..Default::default() };
    let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::IssueSvc));
    Ok(client.resolve_issue_access(with_token(request, token)).await?.into_inner())
}

/// The indexes and levels of a response, such as `0:read 3:owner`.
fn levels(response: &ResolveIssueAccessResponse) -> String {
    let level = |number| ferrite_proto::Permission::from(ferrite_proto::repo::Permission::try_from(number).unwrap());
    let all = response.accesses.iter().map(|access| format!("{}:{}", access.index, level(access.permission)));
    all.collect::<Vec<_>>().join(" ")
}

/// Accounts of all roles and repositories of all kinds.
struct Fixture {
    harness: Harness,
    ada: String,
    /// Public, private, of an organization, without issues, with an external tracker, missing, with
    /// invalid names, and the public one again by name.
    repositories: Vec<RepositoryRef>,
    organization: i64,
}

impl Fixture {
    async fn start(url: ferrite_core::Secret) -> Self {
        let harness = Harness::start_on(url).await;
        let (ada, olga) = (harness.signed_in("ada").await, harness.signed_in("olga").await);
        for (name, is_admin) in [("bob", false), ("carl", false), ("eve", false), ("root", true)] {
            harness.user(name, is_admin).await;
        }
        let open = harness.create(&ada, "Open", false).await.unwrap().id;
        let closed = harness.create(&ada, "closed", true).await.unwrap().id;
        let off = harness.create(&ada, "off", false).await.unwrap().id;
        let elsewhere = harness.create(&ada, "elsewhere", false).await.unwrap().id;
        let acme = create(&harness, &olga, "Acme").await.id;
        let request = CreateRepositoryRequest {
            name: "tools".into(),
            owner: "acme".into(),
            is_private: true,
            ..CreateRepositoryRequest::default()
        };
        let tools = harness.repository().create_repository(with_token(request, &olga)).await.unwrap();
        let tools = tools.into_inner().repository.unwrap().id;
        let db = harness.db().await;
        for (sql, args) in [
            (ADD_COLLABORATOR, &args![closed, "bob"][..]),
            (ADD_TEAM, &args![acme]),
            (ADD_TEAM_MEMBER, &args!["carl"]),
            (ADD_TEAM_REPOSITORY, &args![tools]),
            ("UPDATE repositories SET is_issues_enabled = $2 WHERE id = $1", &args![off, false]),
            ("UPDATE repositories SET is_external_tracker = $2 WHERE id = $1", &args![elsewhere, true]),
        ] {
            assert_eq!(db.execute(sql, args).await.unwrap(), 1, "{sql}");
        }
        let repositories = vec![
            RepositoryRef::by_id(open),
            RepositoryRef::by_name("ADA", "Closed"),
            RepositoryRef::by_name("acme", "TOOLS"),
            RepositoryRef::by_id(off),
            RepositoryRef::by_name("ada", "elsewhere"),
            RepositoryRef::by_id(999),
            RepositoryRef::by_name("ada", "nothing"),
            RepositoryRef::by_name("ada\0", "../x"),
            RepositoryRef { by: None },
            RepositoryRef::by_name("ada", "open"),
        ];
        Self { harness, ada, repositories, organization: acme }
    }

    async fn resolve(&self, token: &str, account: Option<Account>) -> Result<ResolveIssueAccessResponse, Status> {
        resolve(&self.harness, token, account, &self.repositories).await
    }

    async fn id_of(&self, name: &str) -> i64 {
        self.harness.db().await.one::<(i64,)>("SELECT id FROM users WHERE name_key = $1", &args![name]).await.unwrap().0
    }
}

#[tokio::test]
async fn a_named_account_has_the_levels_of_all_its_roles() {
    on_each_url(async |url| {
        let fixture = Fixture::start(url).await;
        for (name, expected) in [
            ("ada", "0:owner 1:owner 9:owner"),
            ("bob", "0:read 1:write 9:read"),
            ("carl", "0:read 2:write 9:read"),
            ("olga", "0:read 2:owner 9:read"),
            ("eve", "0:read 9:read"),
            ("root", "0:owner 1:owner 2:owner 9:owner"),
        ] {
            let response = fixture.resolve("", username(&name.to_uppercase())).await.unwrap();
            assert_eq!(levels(&response), expected, "{name}");
            let user = response.user.clone().unwrap();
            assert_eq!((user.username.as_str(), user.email.as_str(), user.is_admin), (name, "", name == "root"));
            let by_id = fixture.resolve("", Some(Account::UserId(user.id))).await.unwrap();
            assert_eq!(by_id, response, "{name}");
            // The token belongs to another user and does not count.
            let with_token = fixture.resolve(&fixture.ada, username(name)).await.unwrap();
            assert_eq!(levels(&with_token), expected, "{name}");
        }
        let response = fixture.resolve("", username("ada")).await.unwrap();
        let names: Vec<_> =
            response.accesses.iter().map(|access| (access.owner.as_str(), access.name.as_str())).collect();
        assert_eq!(names, [("ada", "Open"), ("ada", "closed"), ("ada", "Open")]);
        assert_eq!(response.accesses[0].repository_id, response.accesses[2].repository_id);
    })
    .await;
}

#[tokio::test]
async fn an_organization_owns_its_repositories_and_is_no_user_by_name() {
    on_each_url(async |url| {
        let fixture = Fixture::start(url).await;
        let response = fixture.resolve("", Some(Account::UserId(fixture.organization))).await.unwrap();
        assert_eq!(levels(&response), "0:read 2:owner 9:read");
        assert!(response.user.unwrap().is_organization);
        let missing = refused(Code::NotFound, "USER_NOT_FOUND");
        let (bob, disabled) = (fixture.id_of("bob").await, "UPDATE users SET is_active = $1 WHERE name_key = 'bob'");
        fixture.harness.db().await.execute(disabled, &args![false]).await.unwrap();
        for account in [Account::UserId(bob), Account::UserId(0), Account::UserId(-1), Account::UserId(i64::MAX)] {
            assert_eq!(refusal(fixture.resolve("", Some(account)).await), missing);
        }
        for name in ["acme", "bob", "unknown", "", "a\0b", "ada@example.com"] {
            assert_eq!(refusal(fixture.resolve("", username(name)).await), missing, "{name:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_caller_has_the_levels_that_its_token_leaves() {
    on_each_url(async |url| {
        let fixture = Fixture::start(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let response = fixture.resolve(ada, None).await.unwrap();
        assert_eq!(levels(&response), "0:owner 1:owner 9:owner");
        let user = response.user.unwrap();
        assert_eq!((user.username.as_str(), user.email.as_str()), ("ada", "ada@example.com"));
        let limited = CreateAccessTokenRequest {
            credential: Some(basic("ada", PASSWORD)),
            username: "ada".into(),
            name: "limited".into(),
            repositories: vec!["ada/open".into()],
            ..CreateAccessTokenRequest::default()
        };
        let limited = harness.account().create_access_token(limited).await.unwrap().into_inner().value;
        assert_eq!(levels(&fixture.resolve(&limited, None).await.unwrap()), "0:owner 9:owner");
        let root = harness.token("root", "test").await;
        assert_eq!(levels(&fixture.resolve(&root, None).await.unwrap()), "0:owner 1:owner 2:owner 9:owner");
        narrow(harness, "test", &[Scope::Issue]).await;
        assert_eq!(levels(&fixture.resolve(ada, None).await.unwrap()), "0:owner 1:owner 9:owner");
        assert_eq!(levels(&fixture.resolve(&root, None).await.unwrap()), "0:read 9:read");
        narrow(harness, "test", &[Scope::RepoAdmin, Scope::User, Scope::Admin]).await;
        let refusals = [
            (ada, refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE")),
            ("", refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED")),
            ("0123456789012345678901234567890123456789", refused(Code::Unauthenticated, "BAD_CREDENTIALS")),
        ];
        for (token, expected) in refusals {
            assert_eq!(refusal(fixture.resolve(token, None).await), expected);
        }
    })
    .await;
}

#[tokio::test]
async fn the_owner_of_a_token_has_the_levels_that_it_leaves_as_long_as_it_is_valid() {
    on_each_url(async |url| {
        let fixture = Fixture::start(url).await;
        let (harness, db) = (&fixture.harness, fixture.harness.db().await);
        let limited = CreateAccessTokenRequest {
            credential: Some(basic("ada", PASSWORD)),
            username: "ada".into(),
            name: "limited".into(),
            repositories: vec!["ada/open".into()],
            ..CreateAccessTokenRequest::default()
        };
        let limited = harness.account().create_access_token(limited).await.unwrap().into_inner();
        let by_id = |id| fixture.resolve("", Some(Account::TokenId(id)));
        let limited = limited.token.unwrap().id;
        let response = by_id(limited).await.unwrap();
        assert_eq!((levels(&response).as_str(), response.user.unwrap().username.as_str()), ("0:owner 9:owner", "ada"));
        let (test,): (i64,) = db.one("SELECT id FROM access_tokens WHERE name = 'test' AND user_id = (SELECT id FROM users WHERE name_key = 'ada')", &[]).await.unwrap();
        assert_eq!(levels(&by_id(test).await.unwrap()), "0:owner 1:owner 9:owner");
        // The request's token belongs to another user and does not count.
        let beside = fixture.resolve(&fixture.ada, Some(Account::TokenId(limited))).await.unwrap();
        assert_eq!(levels(&beside), "0:owner 9:owner");
        narrow(harness, "test", &[Scope::RepoAdmin]).await;
        assert_eq!(refusal(by_id(test).await), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
        let revoked = refused(Code::Unauthenticated, "BAD_CREDENTIALS");
        db.execute("DELETE FROM access_tokens WHERE id = $1", &args![limited]).await.unwrap();
        for id in [limited, 0, -1, i64::MAX] {
            assert_eq!(refusal(by_id(id).await), revoked, "{id}");
        }
        db.execute("UPDATE users SET is_active = $1 WHERE name_key = 'ada'", &args![false]).await.unwrap();
        assert_eq!(refusal(by_id(test).await), revoked);
    })
    .await;
}

#[tokio::test]
async fn pull_requests_are_seen_apart_from_issues() {
    on_each_url(async |url| {
        let fixture = Fixture::start(url).await;
        let harness = &fixture.harness;
        let off = "UPDATE repositories SET has_pulls = $1 WHERE name_key = 'open'";
        harness.db().await.execute(off, &args![false]).await.unwrap();
        let levels = async |account: Option<Account>| {
            let repositories = fixture.repositories.clone();
            let request = ResolveIssueAccessRequest { repositories, account, with_pulls: true, ..Default::default() };
            let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::IssueSvc));
            let response = client.resolve_issue_access(with_token(request, &fixture.ada)).await.unwrap().into_inner();
            let level = |level: ferrite_proto::repo::Permission| ferrite_proto::Permission::from(level);
            let of = |access: &IssueAccess| {
                format!("{}:{}/{}", access.index, level(access.permission()), level(access.pull_permission()))
            };
            response.accesses.iter().map(of).collect::<Vec<_>>().join(" ")
        };
        let all = "0:owner/none 1:owner/owner 3:none/owner 4:none/owner 9:owner/none";
        assert_eq!((levels(username("ada")).await.as_str(), levels(None).await.as_str()), (all, all));
        let of_bob = "0:read/none 1:write/write 3:none/read 4:none/read 9:read/none";
        assert_eq!(levels(username("bob")).await, of_bob);
        narrow(harness, "test", &[Scope::Issue]).await;
        assert_eq!(levels(None).await, "0:owner/none 1:owner/none 3:none/read 4:none/read 9:owner/none");
    })
    .await;
}

#[tokio::test]
async fn only_services_ask_and_for_a_thousand_at_most() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let made = harness.create(&ada, "demo", false).await.unwrap();
    let many = vec![RepositoryRef::by_id(made.id); 1_000];
    let response = resolve(&harness, &ada, None, &many).await.unwrap();
    assert!(response.accesses.iter().map(|access| access.index).eq(0..1_000));
    let more = [many.as_slice(), &[RepositoryRef::by_id(made.id)]].concat();
    let outcome = resolve(&harness, &ada, username("ada"), &more).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "INVALID_FIELDS"));
    assert_eq!(levels(&resolve(&harness, &ada, None, &[]).await.unwrap()), "");
    let request = ResolveIssueAccessRequest { repositories: many, account: username("ada"), ..Default::default() };
    let mut client = AccessServiceClient::new(harness.unauthenticated.clone());
    let outcome = client.resolve_issue_access(with_token(request, &ada)).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
}

#[tokio::test]
async fn five_hundred_repositories_cost_as_many_statements_as_ten() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let state = harness.state().await;
        let identity = state.token_authenticator.identity(&TokenHash::of(&ada)).await.unwrap();
        let (owner, token) = identity.as_ref().map(|ada| (ada.user_id, ada.token_id)).unwrap();
        assert_eq!(state.db.execute(ADD_MANY, &args![owner, 500, true, false]).await.unwrap(), 500);
        let rows: Vec<(i64, String)> =
            state.db.all("SELECT id, name FROM repositories ORDER BY id", &[]).await.unwrap();
        let caller = Caller {
            service: Some(ServiceRole::IssueSvc),
            identity,
            operation: "ferrite.repo.v1.AccessService/ResolveIssueAccess".into(),
            ..Caller::default()
        };
        let ids = |count: usize| rows[..count].iter().map(|(id, _)| RepositoryRef::by_id(*id)).collect::<Vec<_>>();
        let names = |count: usize| {
            rows[..count].iter().map(|(_, name)| RepositoryRef::by_name("Ada", name)).collect::<Vec<_>>()
        };
        for count in [10, 500] {
            let both = [ids(count), names(count)].concat();
            for (repositories, account, statements) in [
                (ids(count), None, 1),
                (names(count), None, 1),
                (both.clone(), None, 2),
                (both.clone(), username("ada"), 3),
                (both.clone(), Some(Account::UserId(owner)), 3),
                (both, Some(Account::TokenId(token)), 3),
                (Vec::new(), None, 0),
            ] {
                let expected = repositories.len();
                let request = ResolveIssueAccessRequest { repositories, account, to_change: true, with_pulls: true };
                let mut request = Request::new(request);
                request.extensions_mut().insert(caller.clone());
                let before = state.db.statements();
                let response = state.resolve_issue_access(request).await.unwrap().into_inner();
                assert_eq!((response.accesses.len(), state.db.statements() - before), (expected, statements));
                assert_eq!(response.user.as_ref().map(|user: &User| user.id), Some(owner));
            }
        }
    })
    .await;
}
