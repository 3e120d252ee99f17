use ferrite_db::testing::on_each_url;
use ferrite_db::{Db, args};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{ResolveAccessRequest, ResolveAccessResponse, ResolveKeyRequest};
use ferrite_proto::{Permission, ServiceRole, operation};
use tonic::{Code, Status};

use super::{by_id, by_name, of_demo, refusal, refused};
use crate::store::{KeyHolder, key_holder};
use crate::testing::{Harness, PASSWORD, basic, on_both};

pub(super) const ADD_USER_KEY: &str = "INSERT INTO public_keys (user_id, fingerprint, content, title, title_key, created_us) \
     SELECT id, $2, $2, $2, $2, 0 FROM users WHERE name_key = $1";
pub(super) const ADD_DEPLOY_KEY: &str = "INSERT INTO deploy_keys \
     (repository_id, fingerprint, content, title, title_key, is_read_only, created_us) VALUES ($1, $2, $2, $2, $2, $3, 0)";

async fn resolve(
    harness: &Harness,
    fingerprint: &str,
    operation: &str,
    name: &str,
) -> Result<ResolveAccessResponse, Status> {
    let request = ResolveAccessRequest {
        repository: by_name("ada", name),
        operation: operation.to_owned(),
        ssh_fingerprint: Some(fingerprint.to_owned()),
        ..ResolveAccessRequest::default()
    };
    Ok(harness.access().resolve_access(request).await?.into_inner())
}

/// The level in the grant for a key, or the reason of the error.
async fn outcome(harness: &Harness, key: &str, operation: &str, name: &str) -> Result<Permission, String> {
    match resolve(harness, key, operation, name).await {
        Ok(response) => Ok(harness.trust().verifier.verify(&response.grant).unwrap().0.permission),
        Err(status) => Err(ferrite_proto::error::reason(&status).unwrap_or_default()),
    }
}

#[tokio::test]
async fn only_the_gateway_names_keys_and_passwords() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", true).await.unwrap();
    harness.db().await.execute(ADD_USER_KEY, &args!["ada", "SHA256:ada"]).await.unwrap();
    assert_eq!(outcome(&harness, "SHA256:ada", operation::UPLOAD_PACK, "demo").await, Ok(Permission::Owner));
    let by_key =
        ResolveAccessRequest { ssh_fingerprint: Some("SHA256:ada".to_owned()), ..of_demo(operation::UPLOAD_PACK) };
    let by_password =
        ResolveAccessRequest { ssh_fingerprint: None, basic: Some(basic("ada", PASSWORD)), ..by_key.clone() };
    for role in [ServiceRole::IssueSvc, ServiceRole::HookSvc, ServiceRole::GitSvc] {
        for request in [&by_key, &by_password] {
            let mut access = AccessServiceClient::new(harness.channel_of(role));
            let refusal = access.resolve_access(request.clone()).await.unwrap_err();
            assert_eq!(ferrite_proto::error::reason(&refusal).as_deref(), Some("SERVICE_NOT_PERMITTED"), "{role}");
        }
    }
}

#[tokio::test]
async fn a_users_key_authenticates_the_user_until_it_is_disabled() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.user("root", true).await;
    harness.create(&ada, "demo", true).await.unwrap();
    let db = harness.db().await;
    db.execute(ADD_USER_KEY, &args!["ada", "SHA256:ada"]).await.unwrap();
    db.execute(ADD_USER_KEY, &args!["root", "SHA256:root"]).await.unwrap();
    let key = ResolveKeyRequest { fingerprint: "SHA256:ada".into() };
    let identity = harness.access().resolve_key(key.clone()).await.unwrap().into_inner().identity.unwrap();
    assert_eq!((identity.username.as_str(), identity.token_id), ("ada", 0));
    let response = resolve(&harness, "SHA256:ada", operation::RECEIVE_PACK, "demo").await.unwrap();
    let (grant, _) = harness.trust().verifier.verify(&response.grant).unwrap();
    assert_eq!((grant.user.unwrap().username.as_str(), grant.permission), ("ada", Permission::Owner));
    // Over git, site administrators can read every repository and push to none.
    assert_eq!(outcome(&harness, "SHA256:root", operation::UPLOAD_PACK, "demo").await, Ok(Permission::Read));
    let refused_push = outcome(&harness, "SHA256:root", operation::RECEIVE_PACK, "demo").await;
    assert_eq!(refused_push, Err("PERMISSION_REQUIRED".to_owned()));
    db.execute("UPDATE users SET is_active = $1", &args![false]).await.unwrap();
    assert_eq!(refusal(harness.access().resolve_key(key).await), refused(Code::Unauthenticated, "BAD_CREDENTIALS"));
    let disabled = outcome(&harness, "SHA256:ada", operation::UPLOAD_PACK, "demo").await;
    assert_eq!(disabled, Err("BAD_CREDENTIALS".to_owned()));
}

#[tokio::test]
async fn a_deploy_key_reads_its_repositories_and_public_ones() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let mut ids = Vec::new();
    for (name, is_private) in [("mine", true), ("shared", true), ("other", true), ("open", false)] {
        ids.push(harness.create(&ada, name, is_private).await.unwrap().id);
    }
    let db = harness.db().await;
    db.execute(ADD_DEPLOY_KEY, &args![ids[0], "SHA256:bot", false]).await.unwrap();
    db.execute(ADD_DEPLOY_KEY, &args![ids[1], "SHA256:bot", true]).await.unwrap();
    let key = ResolveKeyRequest { fingerprint: "SHA256:bot".into() };
    assert_eq!(harness.access().resolve_key(key).await.unwrap().into_inner().identity, None);
    let (missing, denied) = (Err("REPOSITORY_NOT_FOUND".to_owned()), Err("PERMISSION_REQUIRED".to_owned()));
    for (name, fetch, push) in [
        ("mine", Ok(Permission::Write), Ok(Permission::Write)),
        ("shared", Ok(Permission::Read), denied.clone()),
        ("other", missing.clone(), missing.clone()),
        ("open", Ok(Permission::Read), denied),
        ("nothing", missing.clone(), missing),
    ] {
        assert_eq!(outcome(&harness, "SHA256:bot", operation::UPLOAD_PACK, name).await, fetch, "{name}");
        assert_eq!(outcome(&harness, "SHA256:bot", operation::RECEIVE_PACK, name).await, push, "{name}");
    }
    let response = resolve(&harness, "SHA256:bot", operation::RECEIVE_PACK, "mine").await.unwrap();
    let (grant, _) = harness.trust().verifier.verify(&response.grant).unwrap();
    assert!(grant.user.is_none() && response.identity.is_none());
}

/// The account that an operation with a deploy key counts for, and its percentage of the limits.
async fn counted(harness: &Harness, repository: i64, operation: &str) -> (Option<i64>, Option<u32>) {
    let request = ResolveAccessRequest {
        repository: by_id(repository),
        operation: operation.to_owned(),
        ssh_fingerprint: Some("SHA256:bot".to_owned()),
        ..ResolveAccessRequest::default()
    };
    let response = harness.access().resolve_access(request).await.unwrap().into_inner();
    let limits = harness.trust().verifier.verify(&response.grant).unwrap().0.limits;
    (limits.account, limits.rate_percent)
}

#[tokio::test]
async fn a_deploy_key_counts_for_the_user_who_added_it_and_without_it_for_the_owner() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.user("bob", false).await.id);
        let db = harness.db().await;
        let mut owners = Vec::new();
        for name in ["one", "two"] {
            let made = harness.create(&ada, name, true).await.unwrap();
            db.execute(ADD_DEPLOY_KEY, &args![made.id, "SHA256:bot", false]).await.unwrap();
            owners.push((made.id, made.owner.unwrap().id));
        }
        // Somebody else added the same key to another repository.
        let [(one, ada), (two, _)] = owners[..] else { panic!("{owners:?}") };
        db.execute("UPDATE deploy_keys SET user_id = $1 WHERE repository_id = $2", &args![bob, one]).await.unwrap();
        db.execute("UPDATE deploy_keys SET user_id = $1 WHERE repository_id = $2", &args![ada, two]).await.unwrap();
        let quota = "INSERT INTO owner_quotas (owner_id, used_bytes, rate_percent) VALUES ($1, 0, 250)";
        db.execute(quota, &args![bob]).await.unwrap();
        set_collaborator(&db, one, bob.0, "admin").await;
        for (repository, push, fetch) in
            [(one, (Some(bob.0), Some(250)), (Some(bob.0), None)), (two, (Some(ada), None), (Some(ada), None))]
        {
            assert_eq!(counted(&harness, repository, operation::RECEIVE_PACK).await, push);
            assert_eq!(counted(&harness, repository, operation::UPLOAD_PACK).await, fetch);
        }
        db.execute("DELETE FROM users WHERE id = $1", &args![bob]).await.unwrap();
        assert_eq!(counted(&harness, one, operation::RECEIVE_PACK).await, (Some(ada), None));
    })
    .await;
}

async fn set_collaborator(db: &Db, repository: i64, user: i64, permission: &str) {
    let sql = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) VALUES ($1, $2, $3, 0) \
         ON CONFLICT (repository_id, user_id) DO UPDATE SET permission = excluded.permission";
    db.execute(sql, &args![repository, user, permission]).await.unwrap();
}

#[tokio::test]
async fn a_deploy_key_counts_for_its_user_only_while_that_administers_the_repository() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let (eve, mallory) = (harness.signed_in("eve").await, harness.user("mallory", false).await.id.0);
        let made = harness.create(&eve, "demo", true).await.unwrap();
        let (demo, eve) = (made.id, made.owner.unwrap().id);
        let db = harness.db().await;
        db.execute(ADD_DEPLOY_KEY, &args![demo, "SHA256:bot", false]).await.unwrap();
        db.execute("UPDATE deploy_keys SET user_id = $1", &args![mallory]).await.unwrap();
        let of = async || counted(&harness, demo, operation::RECEIVE_PACK).await.0.unwrap();
        assert_eq!(of().await, eve, "no collaborator");
        for (permission, expected) in [("admin", mallory), ("write", eve), ("admin", mallory)] {
            set_collaborator(&db, demo, mallory, permission).await;
            assert_eq!(of().await, expected, "{permission}");
        }
        db.execute("UPDATE users SET is_active = $1 WHERE id = $2", &args![false, mallory]).await.unwrap();
        assert_eq!(of().await, eve, "disabled");
        db.execute("UPDATE users SET is_active = $1 WHERE id = $2", &args![true, mallory]).await.unwrap();
        assert_eq!(of().await, mallory);
        db.execute("DELETE FROM collaborators", &[]).await.unwrap();
        assert_eq!(of().await, eve, "removed");
        db.execute("UPDATE users SET is_admin = $1 WHERE id = $2", &args![true, mallory]).await.unwrap();
        assert_eq!(of().await, mallory, "an administrator of the site");
    })
    .await;
}

#[tokio::test]
async fn a_deploy_key_of_no_known_user_has_the_limits_of_the_owner() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let ada = harness.signed_in("ada").await;
        let mut ids = Vec::new();
        for (token, name) in [(&ada, "one"), (&ada, "two"), (&root, "site")] {
            let made = harness.create(token, name, true).await.unwrap();
            harness.db().await.execute(ADD_DEPLOY_KEY, &args![made.id, "SHA256:bot", false]).await.unwrap();
            ids.push((made.id, made.owner.unwrap().id));
        }
        for ((id, owner), rate_percent) in ids.into_iter().zip([None, None, Some(10_000)]) {
            // Reads do not count against the hourly limits, but take slots on the store.
            assert_eq!(counted(&harness, id, operation::RECEIVE_PACK).await, (Some(owner), rate_percent), "{id}");
            assert_eq!(counted(&harness, id, operation::UPLOAD_PACK).await, (Some(owner), None), "{id}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_unknown_key_is_refused_and_no_key_calls_the_api() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "open", false).await.unwrap();
    harness.db().await.execute(ADD_USER_KEY, &args!["ada", "SHA256:ada"]).await.unwrap();
    let long = "x".repeat(10_000);
    for unknown in ["", "SHA256:", "SHA256:ada ", "sha256:ada", "SHA256:a\0b", &long] {
        let found = outcome(&harness, unknown, operation::UPLOAD_PACK, "open").await;
        assert_eq!(found, Err("BAD_CREDENTIALS".to_owned()), "{unknown:?}");
    }
    let api = resolve(&harness, "SHA256:ada", operation::LIST_BRANCHES, "open").await;
    assert_eq!(api.unwrap_err().code(), Code::InvalidArgument);
    let mut both = ResolveAccessRequest {
        operation: operation::UPLOAD_PACK.to_owned(),
        ssh_fingerprint: Some("SHA256:ada".to_owned()),
        ..ResolveAccessRequest::default()
    };
    both.basic = Some(basic("ada", crate::testing::PASSWORD));
    assert_eq!(harness.access().resolve_access(both).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_lookup_is_the_same_in_both_databases() {
    on_both(|db| async move {
        let sql = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
             VALUES ('user', 'Ada', 'ada', '', 'a', $1, $2, 0)";
        db.execute(sql, &args![false, true]).await.unwrap();
        db.execute(ADD_USER_KEY, &args!["ada", "SHA256:ada"]).await.unwrap();
        let found = key_holder(&db, "SHA256:ada", 0).await.unwrap();
        assert!(matches!(found, Some(KeyHolder::User(user)) if user.username == "Ada"));
        assert_eq!(key_holder(&db, "SHA256:other", 0).await.unwrap(), None);
    })
    .await;
}
