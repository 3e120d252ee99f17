use ferrite_proto::events::DeliverRequest;
use tonic::Request;
use tonic::metadata::MetadataValue;

use super::*;
use crate::testing::{on_each, service_tables};

/// Returns a message that the tests use both as request and as response.
fn message(number: i64) -> DeliverRequest {
    let event = ferrite_proto::events::Event { repository_id: number, ..Default::default() };
    DeliverRequest { events: vec![event], ..Default::default() }
}

fn key(text: &str, caller: i64, method: &str, body: i64) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let mut request = Request::new(message(body));
    request.metadata_mut().insert(IDEMPOTENCY_KEY, MetadataValue::try_from(text).unwrap());
    IdempotencyKey::of(&request, caller, method)
}

async fn store(db: &Db, key: &IdempotencyKey, response: i64, now_us: i64) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    key.store(&mut tx, &message(response), now_us).await?;
    tx.commit().await
}

#[tokio::test]
async fn a_repeated_write_gets_the_stored_response() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let first = key("k", 1, "Create", 1).unwrap().unwrap();
        assert_eq!(first.replay::<DeliverRequest>(&test.db).await.unwrap(), None);
        store(&test.db, &first, 99, 0).await.unwrap();
        let again = key("k", 1, "Create", 1).unwrap().unwrap();
        assert_eq!(again.replay(&test.db).await.unwrap(), Some(message(99)));
    })
    .await;
}

#[tokio::test]
async fn another_write_with_the_key_is_refused_by_field() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        store(&test.db, &key("k", 1, "Create", 1).unwrap().unwrap(), 99, 0).await.unwrap();
        let other = key("k", 1, "Create", 2).unwrap().unwrap();
        let error = other.replay::<DeliverRequest>(&test.db).await.unwrap_err();
        assert!(matches!(error, IdempotencyError::Reused));
        let status = Status::from(error);
        assert_eq!(ferrite_proto::error::reason(&status).as_deref(), Some("IDEMPOTENCY_KEY_REUSED"));
        assert_eq!(ferrite_proto::error::violations(&status)[0].0, "Idempotency-Key");
    })
    .await;
}

#[tokio::test]
async fn a_key_belongs_to_one_caller_and_one_method() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        store(&test.db, &key("k", 1, "Create", 1).unwrap().unwrap(), 99, 0).await.unwrap();
        for (caller, method) in [(2, "Create"), (1, "Delete")] {
            let other = key("k", caller, method, 1).unwrap().unwrap();
            assert_eq!(other.replay::<DeliverRequest>(&test.db).await.unwrap(), None, "{caller} {method}");
        }
    })
    .await;
}

#[tokio::test]
async fn forms_of_a_request_share_its_response_and_the_last_form_is_stored() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let plain = || key("k", 1, "Create", 1).unwrap().unwrap();
        store(&test.db, &plain(), 99, 0).await.unwrap();
        let forms = plain().in_form(&message(2)).in_form(&message(3));
        assert_eq!(forms.replay(&test.db).await.unwrap(), Some(message(99)));
        let other = key("other", 1, "Create", 1).unwrap().unwrap().in_form(&message(2)).in_form(&message(3));
        store(&test.db, &other, 99, 0).await.unwrap();
        for (body, is_same) in [(1, false), (2, false), (3, true)] {
            let found = key("other", 1, "Create", body).unwrap().unwrap().replay::<DeliverRequest>(&test.db).await;
            assert_eq!(found.is_ok(), is_same, "{body}");
        }
    })
    .await;
}

#[tokio::test]
async fn of_two_writes_with_one_key_one_fails() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let key = key("k", 1, "Create", 1).unwrap().unwrap();
        let (one, two) = tokio::join!(store(&test.db, &key, 1, 0), store(&test.db, &key, 2, 0));
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        assert!(one.err().or(two.err()).unwrap().is_unique());
        assert!(key.replay::<DeliverRequest>(&test.db).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn responses_are_kept_for_a_day() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let old = key("old", 1, "Create", 1).unwrap().unwrap();
        store(&test.db, &old, 1, 0).await.unwrap();
        store(&test.db, &key("b", 1, "Create", 1).unwrap().unwrap(), 1, RETENTION_US).await.unwrap();
        assert!(old.replay::<DeliverRequest>(&test.db).await.unwrap().is_some());
        store(&test.db, &key("c", 1, "Create", 1).unwrap().unwrap(), 1, RETENTION_US + 1).await.unwrap();
        assert!(old.replay::<DeliverRequest>(&test.db).await.unwrap().is_none());
    })
    .await;
}

fn key_of_secret(sealer: &Sealer, secret: &str) -> IdempotencyKey {
    let event = ferrite_proto::events::Event { event_id: secret.to_owned(), ..Default::default() };
    let mut request = Request::new(DeliverRequest { events: vec![event], ..Default::default() });
    request.metadata_mut().insert(IDEMPOTENCY_KEY, MetadataValue::from_static("k"));
    let redact = |content: &mut DeliverRequest, fingerprint: &dyn Fn(&str) -> String| {
        content.events[0].event_id = fingerprint(&content.events[0].event_id);
    };
    IdempotencyKey::of_redacted(&request, 1, "Create", sealer, redact).unwrap().unwrap()
}

#[tokio::test]
async fn another_secret_is_another_request_also_after_a_change_of_the_sealing_key() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let [old, both, new] = [(1, vec![]), (2, vec![[1; 32]]), (2, vec![])]
            .map(|(key, former)| Sealer::new(&[key; 32], &former, "x-svc"));
        store(&test.db, &key_of_secret(&old, "hunter2"), 99, 0).await.unwrap();
        for (sealer, secret, is_same) in
            [(&old, "hunter2", true), (&both, "hunter2", true), (&both, "hunter3", false), (&new, "hunter2", false)]
        {
            let found = key_of_secret(sealer, secret).replay::<DeliverRequest>(&test.db).await;
            assert_eq!(found.is_ok_and(|found| found.is_some()), is_same, "{secret}");
        }
    })
    .await;
}

#[test]
fn a_malformed_key_is_refused_and_a_missing_one_is_none() {
    assert!(IdempotencyKey::of(&Request::new(message(1)), 1, "Create").unwrap().is_none());
    for wrong in ["", "a\tb", &"x".repeat(256)] {
        assert!(matches!(key(wrong, 1, "Create", 1), Err(IdempotencyError::BadKey)), "{wrong:?}");
    }
    assert!(key(&"x".repeat(255), 1, "Create", 1).unwrap().is_some());
    let mut request = Request::new(message(1));
    let bytes = http::HeaderValue::from_bytes(b"\xff\xfe").unwrap();
    request.metadata_mut().as_mut().insert(IDEMPOTENCY_KEY, bytes);
    assert!(matches!(IdempotencyKey::of(&request, 1, "Create"), Err(IdempotencyError::BadKey)));
}

#[test]
fn a_failing_database_reports_no_field() {
    let status = Status::from(IdempotencyError::Store(DbError::Url));
    assert_eq!((status.code(), status.message()), (tonic::Code::Internal, "internal error"));
    assert!(ferrite_proto::error::violations(&status).is_empty());
}

#[test]
fn a_key_belongs_to_the_token_of_the_request() {
    use ferrite_proto::grant::{Grant, GrantUser};
    use ferrite_proto::repo::Identity;

    let of_token = |token_id| {
        let mut request = Request::new(message(1));
        request.metadata_mut().insert(IDEMPOTENCY_KEY, MetadataValue::from_static("k"));
        let identity = Some(Identity { user_id: 7, token_id, ..Identity::default() });
        request.extensions_mut().insert(Caller { identity, ..Caller::default() });
        IdempotencyKey::of(&request, 7, "Create").unwrap().unwrap()
    };
    assert_eq!(of_token(1), of_token(1));
    assert_ne!(of_token(1).id(), of_token(2).id());
    let grant: Grant = serde_json::from_value(serde_json::json!({
        "user": {"id": 7, "username": "ada", "full_name": "", "email": ""}, "repository": 1, "operation": "x", "permission": "write",
        "issues_enabled": true, "is_mirror": false, "store": "s", "epoch": 1,
    }))
    .unwrap();
    let of_grant = |token_id| {
        let user = grant.user.clone().map(|user| GrantUser { token_id, ..user });
        Caller { grant: Some(std::sync::Arc::new(Grant { user, ..grant.clone() })), ..Caller::default() }.token_id()
    };
    assert_eq!((of_grant(5), Caller::default().token_id()), (5, 0));
    assert_eq!(grant.user.map(|user| user.token_id), Some(0), "a grant from before the claim names no token");
}

#[tokio::test]
async fn of_a_large_response_the_subject_is_kept_and_a_repeat_gets_it_anew() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let event = |bytes| ferrite_proto::events::Event { event_id: "x".repeat(bytes), ..Default::default() };
        let response = |bytes| DeliverRequest { events: vec![event(bytes)], ..Default::default() };
        let large = MAX_STORED_RESPONSE_BYTES;
        for (name, bytes, subject) in [("fits", large - 64, 5), ("large", large, 5), ("alone", large, 0)] {
            let first = key(name, 1, "Create", 1).unwrap();
            let write = async {
                let mut tx = test.db.begin().await?;
                first.as_ref().unwrap().store_with_subject(&mut tx, &response(bytes), &subject, 0).await?;
                tx.commit().await?;
                Ok::<_, IdempotencyError>(response(bytes))
            };
            let rebuild = |_: i64| async { unreachable!("it was not done before") };
            assert_eq!(once_or_rebuild(&test.db, first.as_ref(), rebuild, write).await.unwrap(), response(bytes));
        }
        let repeat = async |name, body| {
            let again = key(name, 1, "Create", body).unwrap();
            let rebuild = async |subject: i64| Ok(message(subject));
            once_or_rebuild(&test.db, again.as_ref(), rebuild, async { unreachable!("it was done before") }).await
        };
        assert_eq!(repeat("fits", 1).await.unwrap(), response(large - 64));
        assert_eq!(repeat("large", 1).await.unwrap(), message(5));
        assert!(matches!(repeat("large", 2).await, Err(IdempotencyError::Reused)));
        // Like a response without a subject, and one that an older program has stored.
        assert!(matches!(repeat("alone", 1).await, Err(IdempotencyError::NotKept)));
        let sql = "SELECT CAST(MAX(OCTET_LENGTH(answer)) AS BIGINT) FROM idempotency";
        let (longest,): (i64,) = test.db.one(sql, &[]).await.unwrap();
        assert!(usize::try_from(longest).unwrap() <= MAX_STORED_RESPONSE_BYTES);
    })
    .await;
}

#[tokio::test]
async fn writes_of_two_replicas_do_not_wait_for_each_others_purge_on_postgres() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        if !test.db.pick(true, false) {
            return;
        }
        let key = |text| key(text, 1, "Create", 1).unwrap().unwrap();
        store(&test.db, &key("old"), 1, 0).await.unwrap();
        let mut tx = test.db.begin().await.unwrap();
        key("one").store(&mut tx, &message(2), 2 * RETENTION_US).await.unwrap();
        let two = key("two");
        let other = store(&test.db, &two, 3, 2 * RETENTION_US);
        tokio::time::timeout(std::time::Duration::from_secs(10), other).await.expect("the other write waits").unwrap();
        tx.commit().await.unwrap();
        assert!(!key("old").is_used(&test.db).await.unwrap());
        assert!(key("one").is_used(&test.db).await.unwrap() && two.is_used(&test.db).await.unwrap());
    })
    .await;
}
