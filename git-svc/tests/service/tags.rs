//! Tags read, created and deleted through the API.

use ferrite_proto::{
    git::{AddTagRequest, DeleteTagRequest, GetTagRequest, ListTagsRequest, Tag},
    grant::{ByteQuota, Grant, GrantLimits},
    metadata::IDEMPOTENCY_KEY,
    operation,
};
use tonic::{Code, Status};

use crate::{
    conditional::{asking, is_refused, requiring, told},
    harness::{Service, reason, with_token},
};

fn tag(id: i64, name: &str, target: &str, message: &str) -> AddTagRequest {
    AddTagRequest { repository_id: id, tag_name: name.into(), target: target.into(), message: message.into() }
}

fn named(id: i64, name: &str) -> GetTagRequest {
    GetTagRequest { repository_id: id, name: name.into() }
}

fn deletion(id: i64, name: &str) -> DeleteTagRequest {
    DeleteTagRequest { repository_id: id, name: name.into() }
}

async fn add(service: &Service, request: AddTagRequest) -> Result<Tag, Status> {
    let id = request.repository_id;
    Ok(service.tags().add_tag(service.with_grant(id, request)).await?.into_inner().tag.unwrap())
}

async fn get(service: &Service, id: i64, name: &str) -> Result<Tag, Status> {
    Ok(service.tags().get_tag(service.with_grant(id, named(id, name))).await?.into_inner().tag.unwrap())
}

#[track_caller]
fn check<T: std::fmt::Debug>(refused: Result<T, Status>, code: Code, expected: &str) {
    let status = refused.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{status:?}");
}

#[tokio::test]
async fn a_tag_is_light_or_annotated_and_is_read_as_it_was_made() {
    let service = Service::start().await;
    let id = service.create().await;
    check(add(&service, tag(id, "v0", "", "")).await, Code::NotFound, "REVISION_NOT_FOUND");
    let first = service.put(id, "a", b"1").await;
    service.put(id, "a", b"2").await;
    let light = add(&service, tag(id, "light/one", &first, " \n")).await.unwrap();
    assert_eq!((light.commit.as_ref().unwrap().id.as_str(), light.tag_id.as_str()), (first.as_str(), ""));
    let annotated = add(&service, tag(id, "v1", "light/one", "First\n\nMore")).await.unwrap();
    assert_eq!(
        (&annotated.message[..], annotated.commit.as_ref().unwrap().id.as_str()),
        (&b"First\n\nMore\n"[..], first.as_str())
    );
    for made in [&light, &annotated] {
        let name = String::from_utf8(made.name.clone()).unwrap();
        assert_eq!(get(&service, id, &name).await.unwrap(), *made);
    }
    let list = ListTagsRequest { repository_id: id, page: 1, page_size: 10 };
    let listed = service.data().list_tags(service.with_grant(id, list)).await.unwrap().into_inner();
    assert_eq!(listed.tags, [light, annotated.clone()]);
    {
        let repo = service.on_disk(id);
        let object = repo.find_tag(git2::Oid::from_str(&annotated.tag_id).unwrap()).unwrap();
        let tagger = object.tagger().unwrap();
        assert_eq!((tagger.name().unwrap(), tagger.email().unwrap()), ("Ada Lovelace", "ada@example.com"));
        assert_eq!((object.name().unwrap(), object.target_id().to_string()), ("v1", first));
    }
    let updates = service.updates(id, 4).await;
    assert_eq!(
        (updates[3].updates[0].name.as_slice(), &updates[3].updates[0].new_id),
        (&b"refs/tags/v1"[..], &annotated.tag_id)
    );

    check(add(&service, tag(id, "v1", "", "")).await, Code::AlreadyExists, "TAG_EXISTS");
    check(add(&service, tag(id, "v2", "none", "")).await, Code::NotFound, "REVISION_NOT_FOUND");
    for (name, message, field) in
        [("", "", "tag_name"), ("-x", "", "tag_name"), ("light", "", "tag_name"), ("v2", "a\0b", "message")]
    {
        let status = add(&service, tag(id, name, "", message)).await.unwrap_err();
        assert_eq!(ferrite_proto::error::violations(&status)[0].0, field, "{name}");
    }
    for name in ["none", "light", "", "a..b"] {
        check(get(&service, id, name).await, Code::NotFound, "TAG_NOT_FOUND");
    }
    service.updates(id, 4).await;
}

#[tokio::test]
async fn a_tag_is_deleted_once_and_only_in_the_version_that_was_read() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    add(&service, tag(id, "v1", "", "One")).await.unwrap();
    let version = told(&service.tags().get_tag(asking(&service, id, named(id, "v1"))).await.unwrap()).unwrap();
    let delete = async |precondition: &str| {
        service.tags().delete_tag(requiring(&service, id, precondition, deletion(id, "v1"))).await
    };
    assert!(is_refused(delete("never").await) && is_refused(delete("absent").await));
    let keyed = || {
        let mut request = requiring(&service, id, &version, deletion(id, "v1"));
        request.metadata_mut().insert(IDEMPOTENCY_KEY, "once".parse().unwrap());
        request
    };
    service.tags().delete_tag(keyed()).await.unwrap();
    service.tags().delete_tag(keyed()).await.unwrap();
    check(delete("exists").await, Code::NotFound, "TAG_NOT_FOUND");
    check(get(&service, id, "v1").await, Code::NotFound, "TAG_NOT_FOUND");
    service.updates(id, 3).await;
}

#[tokio::test]
async fn a_new_tag_is_repeated_by_its_key_and_its_message_counts_for_the_quota() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    // Too long to be stored with the key.
    let message = "m".repeat(5000);
    let keyed = || {
        let mut request = service.with_grant(id, tag(id, "v1", "", &message));
        request.metadata_mut().insert(IDEMPOTENCY_KEY, "once".parse().unwrap());
        request
    };
    let made = service.tags().add_tag(keyed()).await.unwrap().into_inner();
    assert_eq!(service.tags().add_tag(keyed()).await.unwrap().into_inner(), made);
    let limits = GrantLimits { bytes: Some(ByteQuota { used: 50, limit: 60 }), ..GrantLimits::default() };
    let token = service.sign(Grant { limits, ..service.grant(id, operation::ADD_TAG) });
    let full = service.tags().add_tag(with_token(tag(id, "v2", "", "A message"), &token)).await;
    check(full, Code::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED");
    service.tags().add_tag(with_token(tag(id, "v2", "", ""), &token)).await.unwrap();
    let mirror = service.sign(Grant { is_mirror: true, ..service.grant(id, operation::ADD_TAG) });
    let refused = service.tags().add_tag(with_token(tag(id, "v3", "", ""), &mirror)).await;
    check(refused, Code::FailedPrecondition, "MIRROR_READ_ONLY");
}
