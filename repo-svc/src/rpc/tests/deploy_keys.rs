use ferrite_db::args;
use ferrite_proto::error::violations;
use ferrite_proto::repo::deploy_key_service_client::DeployKeyServiceClient;
use ferrite_proto::repo::{
    CreateDeployKeyRequest, DeleteDeployKeyRequest, DeleteRepositoryRequest, DeployKey, GetDeployKeyRequest,
    ListDeployKeysRequest,
};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Status};

use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

const ED25519: &str = include_str!("../../model/key/examples/ed25519.pub");
const ECDSA: &str = include_str!("../../model/key/examples/ecdsa-256.pub");
const WEAK: &str = include_str!("../../model/key/examples/rsa-1024.pub");

fn client(harness: &Harness) -> DeployKeyServiceClient<Channel> {
    DeployKeyServiceClient::new(harness.service.clone())
}

async fn create(harness: &Harness, token: &str, repository: i64, title: &str, key: &str) -> Result<DeployKey, Status> {
    let request = CreateDeployKeyRequest {
        repository: by_id(repository),
        title: title.into(),
        key: key.into(),
        can_write: title == "Writes",
    };
    Ok(client(harness).create_deploy_key(with_token(request, token)).await?.into_inner().key.unwrap())
}

async fn get(harness: &Harness, token: &str, repository: i64, key_id: i64) -> Result<DeployKey, Status> {
    let request = GetDeployKeyRequest { repository: by_id(repository), key_id };
    Ok(client(harness).get_deploy_key(with_token(request, token)).await?.into_inner().key.unwrap())
}

async fn delete(harness: &Harness, token: &str, repository: i64, key_id: i64) -> Result<(), Status> {
    let request = DeleteDeployKeyRequest { repository: by_id(repository), key_id };
    client(harness).delete_deploy_key(with_token(request, token)).await.map(drop)
}

async fn list(harness: &Harness, token: &str, repository: i64, page: i32) -> Result<(Vec<DeployKey>, i64), Status> {
    let request = ListDeployKeysRequest { repository: by_id(repository), page, page_size: 1 };
    let response = client(harness).list_deploy_keys(with_token(request, token)).await?.into_inner();
    Ok((response.keys, response.total_count))
}

#[tokio::test]
async fn keys_are_added_read_listed_and_removed() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let demo = harness.create(&ada, "demo", true).await.unwrap().id;
    let reads = create(&harness, &ada, demo, "Reads", ED25519).await.unwrap();
    assert_eq!((reads.title.as_str(), reads.key.as_str(), reads.is_read_only), ("Reads", ED25519.trim(), true));
    assert!(reads.fingerprint.starts_with("SHA256:") && reads.create_time.is_some());
    let writes = create(&harness, &ada, demo, "Writes", ECDSA).await.unwrap();
    assert!(!writes.is_read_only);
    let sql = "SELECT COUNT(*) FROM deploy_keys k JOIN users u ON u.id = k.user_id WHERE u.name_key = 'ada'";
    let (count,): (i64,) = harness.db().await.one(sql, &[]).await.unwrap();
    assert_eq!(count, 2, "the user who added a key is stored with it");
    assert_eq!(get(&harness, &ada, demo, reads.id).await.unwrap(), reads);
    assert_eq!(list(&harness, &ada, demo, 1).await.unwrap(), (vec![reads.clone()], 2));
    assert_eq!(list(&harness, &ada, demo, 2).await.unwrap(), (vec![writes], 2));
    delete(&harness, &ada, demo, reads.id).await.unwrap();
    let gone = || refused(Code::NotFound, "KEY_NOT_FOUND");
    assert_eq!(refusal(get(&harness, &ada, demo, reads.id).await), gone());
    assert_eq!(refusal(delete(&harness, &ada, demo, reads.id).await), gone());
    assert_eq!(refusal(get(&harness, &ada, demo, -1).await), gone());

    let sql = "SELECT action, target, details FROM audit_log WHERE action LIKE 'deploy_key.%' ORDER BY id";
    let log: Vec<(String, String, String)> = harness.db().await.all(sql, &[]).await.unwrap();
    let actions: Vec<_> = log.iter().map(|(action, target, _)| (action.as_str(), target.as_str())).collect();
    let (add, remove) = ("deploy_key.add", "deploy_key.remove");
    assert_eq!(actions, [(add, "ada/demo"), (add, "ada/demo"), (remove, "ada/demo")]);
    assert!(log[1].2.contains(r#""read_only":"false","title":"Writes""#), "{}", log[1].2);
    assert!(log[2].2.contains(&reads.fingerprint) && !log[2].2.contains("AAAA"), "{}", log[2].2);
}

#[tokio::test]
async fn a_key_and_a_title_are_taken_once_per_repository() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let demo = harness.create(&ada, "demo", false).await.unwrap().id;
    let other = harness.create(&ada, "other", false).await.unwrap().id;
    let made = create(&harness, &ada, demo, "Build", ED25519).await.unwrap();
    let used = || refused(Code::AlreadyExists, "KEY_ALREADY_USED");
    assert_eq!(refusal(create(&harness, &ada, demo, "x", ED25519).await), used());
    let taken = refusal(create(&harness, &ada, demo, "BUILD", ECDSA).await);
    assert_eq!(taken, refused(Code::AlreadyExists, "KEY_TITLE_ALREADY_USED"));
    let twin = create(&harness, &ada, other, "Build", ED25519).await.unwrap();
    assert_ne!(twin.id, made.id);
    assert_eq!(refusal(get(&harness, &ada, demo, twin.id).await), refused(Code::NotFound, "KEY_NOT_FOUND"));
    assert_eq!(refusal(delete(&harness, &ada, demo, twin.id).await), refused(Code::NotFound, "KEY_NOT_FOUND"));

    let db = harness.db().await;
    let claims = async || {
        let rows: Vec<(String, i64)> = db.all("SELECT kind, uses FROM key_fingerprints", &[]).await.unwrap();
        rows
    };
    assert_eq!(claims().await, [("deploy".to_owned(), 2)]);
    for repository in [demo, other] {
        let request = DeleteRepositoryRequest { repository: by_id(repository) };
        harness.repository().delete_repository(with_token(request, &ada)).await.unwrap();
    }
    assert_eq!(claims().await, [], "a repository that goes sets its keys free");
    db.execute("INSERT INTO key_fingerprints VALUES ($1, 'user', 1)", &args![made.fingerprint]).await.unwrap();
    let third = harness.create(&ada, "third", false).await.unwrap().id;
    assert_eq!(refusal(create(&harness, &ada, third, "Build", ED25519).await), used());
}

#[tokio::test]
async fn violations_are_reported_after_access_is_checked() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let demo = harness.create(&ada, "demo", false).await.unwrap().id;
    let hidden = harness.create(&ada, "hidden", true).await.unwrap().id;
    for (title, key, expected) in [
        ("", "", vec!["title", "key"]),
        ("Build", "nonsense", vec!["key"]),
        ("Build", WEAK, vec!["key"]),
        (" ", ED25519, vec!["title"]),
    ] {
        let status = create(&harness, &ada, demo, title, key).await.unwrap_err();
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
        assert_eq!((status.code(), fields), (Code::InvalidArgument, expected.into_iter().map(str::to_owned).collect()));
    }
    let small = || refused(Code::PermissionDenied, "PERMISSION_REQUIRED");
    let missing = || refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
    for (repository, response) in [(demo, small()), (hidden, missing()), (999, missing())] {
        assert_eq!(refusal(create(&harness, &bob, repository, "", "").await), response);
        assert_eq!(refusal(get(&harness, &bob, repository, 1).await), response);
        assert_eq!(refusal(delete(&harness, &bob, repository, 1).await), response);
        assert_eq!(refusal(list(&harness, &bob, repository, 1).await), response);
    }
    let anonymous = refusal(list(&harness, "", demo, 1).await);
    assert_eq!(anonymous, refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
}
