use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::error::violations;
use ferrite_proto::repo::*;
use tonic::{Code, Status};

use super::{refusal, refused};
use crate::testing::{Harness, with_token};

/// A made-up key, distinct for each number.
fn line(number: u8) -> String {
    let mut blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20".to_vec();
    blob.extend([number; 32]);
    format!("ssh-ed25519 {}", STANDARD.encode(blob))
}

fn new(title: &str, key: &str) -> CreatePublicKeyRequest {
    CreatePublicKeyRequest { title: title.into(), key: key.into(), ..CreatePublicKeyRequest::default() }
}

async fn create(harness: &Harness, token: &str, request: CreatePublicKeyRequest) -> Result<PublicKey, Status> {
    let response = harness.public_keys().create_public_key(with_token(request, token)).await?;
    Ok(response.into_inner().key.unwrap())
}

async fn list(harness: &Harness, token: &str, username: &str) -> Result<Vec<i64>, Status> {
    let request = ListPublicKeysRequest { username: username.into(), page: 1, page_size: 100 };
    let response = harness.public_keys().list_public_keys(with_token(request, token)).await?.into_inner();
    assert_eq!(response.total_count, response.keys.len() as i64);
    Ok(response.keys.into_iter().map(|key| key.id).collect())
}

async fn get(harness: &Harness, token: &str, key_id: i64) -> Result<PublicKey, Status> {
    let response = harness.public_keys().get_public_key(with_token(GetPublicKeyRequest { key_id }, token)).await?;
    Ok(response.into_inner().key.unwrap())
}

async fn delete(harness: &Harness, token: &str, key_id: i64) -> Result<(), Status> {
    let request = DeletePublicKeyRequest { key_id, ..DeletePublicKeyRequest::default() };
    harness.public_keys().delete_public_key(with_token(request, token)).await.map(drop)
}

#[tokio::test]
async fn keys_are_listed_for_all_users_and_read_by_their_own_user_only() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let key = create(&harness, &ada, new("Laptop", &format!(" {}  ada  at work\n", line(1)))).await.unwrap();
    assert_eq!((key.key.as_str(), key.title.as_str()), (format!("{} ada at work", line(1)).as_str(), "Laptop"));
    assert!(key.fingerprint.starts_with("SHA256:") && key.create_time.unwrap().seconds > 0);
    assert_eq!(key.user.as_ref().map(|user| user.username.as_str()), Some("ada"));
    for (token, name) in [(&ada, ""), (&ada, "ada"), (&bob, "ADA")] {
        assert_eq!(list(&harness, token, name).await.unwrap(), [key.id]);
    }
    assert_eq!(list(&harness, &bob, "").await.unwrap(), Vec::<i64>::new());
    assert_eq!(refusal(list(&harness, &ada, "unknown").await), refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!(refusal(list(&harness, "", "ada").await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(get(&harness, &ada, key.id).await.unwrap(), key);
    for (token, id) in [(&bob, key.id), (&ada, 999), (&ada, -1)] {
        assert_eq!(refusal(get(&harness, token, id).await), refused(Code::NotFound, "KEY_NOT_FOUND"));
        assert_eq!(refusal(delete(&harness, token, id).await), refused(Code::NotFound, "KEY_NOT_FOUND"));
    }
    delete(&harness, &ada, key.id).await.unwrap();
    assert_eq!(refusal(delete(&harness, &ada, key.id).await), refused(Code::NotFound, "KEY_NOT_FOUND"));
    create(&harness, &bob, new("was ada's", &line(1))).await.unwrap();
    let sql = "SELECT action, target, details FROM audit_log WHERE action LIKE 'key.%' ORDER BY id";
    let log: Vec<(String, String, String)> = harness.db().await.all(sql, &[]).await.unwrap();
    let log: Vec<_> = log.iter().map(|(action, target, _)| (action.as_str(), target.as_str())).collect();
    assert_eq!(log, [("key.add", "ada"), ("key.remove", "ada"), ("key.add", "bob")]);
}

#[tokio::test]
async fn a_key_or_title_in_use_and_an_invalid_one_are_refused() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    create(&harness, &ada, new("one", &line(1))).await.unwrap();
    for (token, title) in [(&ada, "two"), (&bob, "two")] {
        let outcome = create(&harness, token, new(title, &format!("{} other comment", line(1)))).await;
        assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "KEY_ALREADY_USED"));
    }
    let outcome = create(&harness, &ada, new("ONE", &line(2))).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "KEY_TITLE_ALREADY_USED"));
    let deploy = "INSERT INTO key_fingerprints (fingerprint, kind, uses) VALUES ($1, 'deploy', 1)";
    let fingerprint = crate::model::SshKey::parse(&line(3), "key").unwrap().fingerprint().to_owned();
    harness.db().await.execute(deploy, &ferrite_db::args![fingerprint]).await.unwrap();
    let outcome = create(&harness, &ada, new("three", &line(3))).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "KEY_ALREADY_USED"));
    let status = create(&harness, &ada, new("", "ssh-dss AAAA")).await.unwrap_err();
    let found: Vec<_> = violations(&status).into_iter().map(|(field, code, _)| (field, code)).collect();
    assert_eq!(found, [("title".into(), "required".into()), ("key".into(), "invalid".into())]);
    // The rejected request did not use up its title.
    create(&harness, &ada, new("three", &line(4))).await.unwrap();
}

#[tokio::test]
async fn only_administrators_add_read_and_remove_keys_of_others() {
    let harness = Harness::start().await;
    harness.user("root", true).await;
    let (root, ada) = (harness.token("root", "test").await, harness.signed_in("ada").await);
    let of = |username: &str, as_administrator| CreatePublicKeyRequest {
        username: username.into(),
        as_administrator,
        ..new("t", &line(1))
    };
    for (token, request) in [(&ada, of("root", false)), (&ada, of("root", true)), (&root, of("ada", false))] {
        let outcome = create(&harness, token, request).await;
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    }
    // Violations are only reported to callers who may make the request.
    let broken = |request| CreatePublicKeyRequest { key: "x".into(), ..request };
    let outcome = create(&harness, &ada, broken(of("unknown", false))).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    let outcome = create(&harness, &root, broken(of("unknown", true))).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "INVALID_FIELDS"));
    let outcome = create(&harness, &root, of("unknown", true)).await;
    assert_eq!(refusal(outcome), refused(Code::NotFound, "USER_NOT_FOUND"));
    let key = create(&harness, &root, of("ADA", true)).await.unwrap();
    assert_eq!(list(&harness, &root, "ada").await.unwrap(), [key.id]);
    create(&harness, &ada, CreatePublicKeyRequest { title: "mine".into(), key: line(2), ..of("Ada", false) })
        .await
        .unwrap();
    let read = get(&harness, &root, key.id).await.unwrap();
    assert_eq!((read.user.unwrap().username.as_str(), read.token), ("ada", None));
    let remove = async |token: &str, username: &str, as_administrator| {
        let request = DeletePublicKeyRequest { key_id: key.id, username: username.into(), as_administrator };
        harness.public_keys().delete_public_key(with_token(request, token)).await.map(drop)
    };
    for (token, username, as_administrator) in [(&ada, "root", false), (&ada, "ada", true), (&root, "ada", false)] {
        let outcome = remove(token, username, as_administrator).await;
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
    }
    assert_eq!(refusal(remove(&root, "root", true).await), refused(Code::NotFound, "KEY_NOT_FOUND"));
    assert_eq!(refusal(remove(&root, "unknown", true).await), refused(Code::NotFound, "USER_NOT_FOUND"));
    remove(&root, "Ada", true).await.unwrap();
    let sql = "SELECT action, actor, target FROM audit_log WHERE action = 'key.remove'";
    let log: Vec<(String, String, String)> = harness.db().await.all(sql, &[]).await.unwrap();
    assert_eq!(log, [("key.remove".to_owned(), "root".to_owned(), "ada".to_owned())]);
}

#[tokio::test]
async fn the_same_idempotency_key_adds_and_removes_once() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    fn keyed<T>(message: T, token: &str) -> tonic::Request<T> {
        let mut request = with_token(message, token);
        request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
        request
    }
    let mut client = harness.public_keys();
    let first = client.create_public_key(keyed(new("t", &line(1)), &ada)).await.unwrap().into_inner();
    let second = client.create_public_key(keyed(new("t", &line(1)), &ada)).await.unwrap().into_inner();
    assert_eq!(first, second);
    let key_id = first.key.unwrap().id;
    for _ in 0..2 {
        let request = DeletePublicKeyRequest { key_id, ..DeletePublicKeyRequest::default() };
        client.delete_public_key(keyed(request, &ada)).await.unwrap();
    }
}
