use std::time::Duration;

use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::{
    BeginAssetUploadRequest, CountDownloadsRequest, CreateReleaseAssetRequest, CreateReleaseRequest,
    DeleteReleaseAssetRequest, DeleteReleaseRequest, GetReleaseAssetRequest, GetReleaseRequest, ListReleasesRequest,
    Release, ReleaseAsset, RepositoryRef, UpdateReleaseAssetRequest, UpdateReleaseRequest,
};
use ferrite_rpc::grpc::Channel;
use futures_util::future::join_all;
use tonic::{Code, Request, Status};

use super::{by_id, refusal, refused};
use crate::background::FileSweeper;
use crate::testing::{Harness, StoreMode, with_token};

/// Concurrent writers.
const AT_ONCE: usize = 8;

fn client(harness: &Harness) -> ReleaseServiceClient<Channel> {
    ReleaseServiceClient::new(harness.service.clone())
}

pub(super) struct Fixture {
    pub(super) harness: Harness,
    pub(super) ada: String,
    ada_id: i64,
    token_id: i64,
    repository: i64,
}

impl Fixture {
    pub(super) async fn new(harness: Harness) -> Self {
        let ada = harness.signed_in("ada").await;
        let made = harness.create(&ada, "demo", false).await.unwrap();
        let ada_id = made.owner.unwrap().id;
        let (token_id,) = harness.db().await.one("SELECT MAX(id) FROM access_tokens", &[]).await.unwrap();
        Self { harness, ada, ada_id, token_id, repository: made.id }
    }

    pub(super) fn repository(&self) -> Option<RepositoryRef> {
        by_id(self.repository)
    }

    fn new_release(&self, tag_name: &str, is_draft: bool) -> CreateReleaseRequest {
        CreateReleaseRequest {
            repository: self.repository(),
            tag_name: tag_name.into(),
            is_draft,
            ..CreateReleaseRequest::default()
        }
    }

    pub(super) async fn create(&self, tag_name: &str, is_draft: bool) -> Result<Release, Status> {
        let request = with_token(self.new_release(tag_name, is_draft), &self.ada);
        Ok(client(&self.harness).create_release(request).await?.into_inner().release.unwrap())
    }

    async fn update(&self, change: UpdateReleaseRequest) -> Result<Release, Status> {
        let request = with_token(UpdateReleaseRequest { repository: self.repository(), ..change }, &self.ada);
        Ok(client(&self.harness).update_release(request).await?.into_inner().release.unwrap())
    }

    async fn get(&self, token: &str, by: By) -> Result<Release, Status> {
        let request = GetReleaseRequest { repository: self.repository(), by: Some(by) };
        Ok(client(&self.harness).get_release(with_token(request, token)).await?.into_inner().release.unwrap())
    }

    async fn tags(&self, token: &str) -> Vec<String> {
        let request =
            ListReleasesRequest { repository: self.repository(), page: 1, page_size: 50, ..Default::default() };
        let listed = client(&self.harness).list_releases(with_token(request, token)).await.unwrap().into_inner();
        assert_eq!(listed.total_count, i64::try_from(listed.releases.len()).unwrap());
        listed.releases.into_iter().map(|release| release.tag_name).collect()
    }

    async fn begin(&self, release_id: i64, name: &str, key: &str) -> Result<String, Status> {
        let begin = BeginAssetUploadRequest {
            repository_id: self.repository,
            release_id,
            name: name.into(),
            user_id: self.ada_id,
            token_id: self.token_id,
        };
        let response = client(&self.harness).begin_asset_upload(with_key(Request::new(begin), key)).await?;
        Ok(response.into_inner().file_id)
    }

    pub(super) async fn upload(&self, release_id: i64, name: &str, key: &str) -> Result<ReleaseAsset, Status> {
        let file_id = self.begin(release_id, name, key).await?;
        let request = CreateReleaseAssetRequest {
            repository: self.repository(),
            release_id,
            name: name.into(),
            file_id,
            size_bytes: 3,
            sha256: "a".repeat(64),
            content_type: String::new(),
        };
        let request = with_key(with_token(request, &self.ada), key);
        Ok(client(&self.harness).create_release_asset(request).await?.into_inner().asset.unwrap())
    }

    /// The tags of the releases in events to hook-svc.
    async fn told(&self, count: usize) -> Vec<String> {
        loop {
            let facts = self.harness.events().into_iter().filter_map(|event| event.fact);
            let told: Vec<_> = facts
                .filter_map(|fact| match fact {
                    Fact::ReleasePublished(published) => Some(published.release.unwrap().tag_name),
                    _ => None,
                })
                .collect();
            if told.len() >= count {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_begins_with_the_limits_of_its_user() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "3"]).await;
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let made = harness.create(&root, "demo", false).await.unwrap();
        let fixture = Fixture { harness, ada: root, ada_id: made.owner.unwrap().id, token_id: 0, repository: made.id };
        let release = fixture.create("v1", true).await.unwrap();
        for number in 0..5 {
            fixture.begin(release.id, &format!("file-{number}"), "").await.unwrap();
        }
        // Creating Bob's token counts as a write.
        let bob = fixture.harness.user("bob", false).await.id.0;
        fixture.harness.token("bob", "test").await;
        let of_bob = Fixture { ada_id: bob, ..fixture };
        for number in 5..7 {
            of_bob.begin(release.id, &format!("file-{number}"), "").await.unwrap();
        }
        let outcome = of_bob.begin(release.id, "file-7", "").await;
        assert_eq!(refusal(outcome), refused(Code::ResourceExhausted, "WRITE_LIMIT_REACHED"));
    })
    .await;
}

fn with_key<T>(mut request: Request<T>, key: &str) -> Request<T> {
    if !key.is_empty() {
        request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    }
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_has_its_tag_before_it_is_seen_and_is_told_once() {
    on_each_url(async |url| {
        let fixture = Fixture::new(Harness::start_on(url).await).await;
        let harness = &fixture.harness;
        for (mode, code) in [(StoreMode::Refuses, Code::InvalidArgument), (StoreMode::Down, Code::Unavailable)] {
            harness.set_store(mode);
            let status = fixture.create("v1", false).await.unwrap_err();
            assert_eq!(status.code(), code);
            let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(fields.iter().any(|field| field == "target_commitish"), mode == StoreMode::Refuses);
        }
        assert_eq!(fixture.tags(&fixture.ada).await, Vec::<String>::new());
        // Nobody knows whether the store that was down will create the tag. As if that were long ago:
        harness.db().await.execute("UPDATE tag_claims SET claimed_us = 1", &[]).await.unwrap();
        // A draft needs no tag.
        let draft = fixture.create("v2", true).await.unwrap();
        assert!(draft.is_draft && draft.publish_time.is_none() && draft.target == "main");
        harness.set_store(StoreMode::Works);
        let first = fixture.create("v1", false).await.unwrap();
        assert!(first.publish_time.is_some() && first.author.unwrap().username == "ada");
        let tag = harness.tags().pop().unwrap();
        assert_eq!((tag.tag_name.as_str(), tag.target.as_str(), tag.user_id), ("v1", "main", fixture.ada_id));
        let (id, edit) = (draft.id, UpdateReleaseRequest::default());
        fixture.update(UpdateReleaseRequest { release_id: id, body: Some("x".into()), ..edit.clone() }).await.unwrap();
        assert_eq!(harness.tags().len(), 1);
        let publish = UpdateReleaseRequest { release_id: id, is_draft: Some(false), ..edit };
        for _ in 0..2 {
            let published = fixture.update(publish.clone()).await.unwrap();
            assert_eq!((published.body.as_str(), published.is_draft), ("x", false));
        }
        assert_eq!(harness.tags().len(), 2);
        let status = fixture.create("v2", false).await.unwrap_err();
        assert_eq!(violations(&status)[0].0, "tag_name");
        assert_eq!(fixture.told(2).await, ["v1", "v2"]);
    })
    .await;
}

/// The tag of the one that succeeds is made, at its target, and no other.
fn one_has_its_tag(fixture: &Fixture, outcomes: Vec<Result<Release, Status>>) {
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), refused.len()), (1, AT_ONCE - 1), "{refused:?}");
    for outcome in refused {
        assert_eq!(violations(&outcome.unwrap_err())[0].0, "tag_name");
    }
    let made: Vec<_> = fixture.harness.tags().into_iter().map(|tag| (tag.tag_name, tag.target)).collect();
    let published = done.into_iter().map(|release| release.unwrap());
    assert_eq!(published.map(|release| (release.tag_name, release.target)).collect::<Vec<_>>(), made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_new_releases_of_one_tag_at_once_one_makes_it() {
    on_each_url(async |url| {
        let fixture = Fixture::new(Harness::start_on(url).await).await;
        let create = |number: usize| {
            let release = CreateReleaseRequest { target: format!("t-{number}"), ..fixture.new_release("v1", false) };
            let (mut client, request) = (client(&fixture.harness), with_token(release, &fixture.ada));
            async move { client.create_release(request).await.map(|made| made.into_inner().release.unwrap()) }
        };
        let outcomes = join_all((0..AT_ONCE).map(create)).await;
        one_has_its_tag(&fixture, outcomes);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_drafts_published_with_one_tag_at_once_one_makes_it() {
    on_each_url(async |url| {
        let fixture = Fixture::new(Harness::start_on(url).await).await;
        let mut drafts = Vec::new();
        for number in 0..AT_ONCE {
            drafts.push(fixture.create(&format!("draft-{number}"), true).await.unwrap().id);
        }
        let publish = |release_id: i64| {
            fixture.update(UpdateReleaseRequest {
                release_id,
                tag_name: Some("v1".into()),
                target: Some(format!("t-{release_id}")),
                is_draft: Some(false),
                ..UpdateReleaseRequest::default()
            })
        };
        let outcomes = join_all(drafts.into_iter().map(publish)).await;
        one_has_its_tag(&fixture, outcomes);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_the_tag_name_of_a_release_while_its_tag_is_made() {
    on_each_url(async |url| {
        let fixture = Fixture::new(Harness::start_on(url).await).await;
        let (harness, other) = (&fixture.harness, fixture.create("v0", true).await.unwrap().id);
        harness.set_store(StoreMode::Waits);
        let others = async {
            while harness.tags().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let rename = UpdateReleaseRequest { release_id: other, tag_name: Some("v1".into()), ..Default::default() };
            let (draft, public, renamed) =
                (fixture.create("v1", true), fixture.create("v1", false), fixture.update(rename));
            tokio::pin!(draft, public, renamed);
            let pause = Duration::from_millis(300);
            assert!(tokio::time::timeout(pause, &mut draft).await.is_err());
            assert!(tokio::time::timeout(pause, &mut public).await.is_err());
            assert!(tokio::time::timeout(pause, &mut renamed).await.is_err());
            // Other names are free.
            fixture.create("v2", true).await.unwrap();
            harness.set_store(StoreMode::Works);
            [draft.await, public.await, renamed.await]
        };
        let (first, others) = tokio::join!(fixture.create("v1", false), others);
        first.unwrap();
        for outcome in others {
            assert_eq!(violations(&outcome.unwrap_err())[0].0, "tag_name");
        }
        assert_eq!(harness.tags().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn drafts_do_not_exist_for_readers() {
    let fixture = Fixture::new(Harness::start().await).await;
    let bob = fixture.harness.signed_in("bob").await;
    let draft = fixture.create("v2", true).await.unwrap();
    fixture.create("v1", false).await.unwrap();
    let asset = fixture.upload(draft.id, "a.txt", "").await.unwrap();
    assert_eq!(fixture.tags(&fixture.ada).await, ["v1", "v2"]);
    let missing = || refused(Code::NotFound, "RELEASE_NOT_FOUND");
    for token in [bob.as_str(), ""] {
        assert_eq!(fixture.tags(token).await, ["v1"]);
        for by in [By::ReleaseId(draft.id), By::TagName("v2".into()), By::ReleaseId(999), By::TagName("\0".into())] {
            assert_eq!(refusal(fixture.get(token, by).await), missing());
        }
        assert_eq!(fixture.get(token, By::IsLatest(true)).await.unwrap().tag_name, "v1");
        for (asset_id, tag_name) in [(asset.id, ""), (0, "v2")] {
            let request = GetReleaseAssetRequest {
                repository: fixture.repository(),
                release_id: draft.id,
                asset_id,
                tag_name: tag_name.into(),
                name: "a.txt".into(),
            };
            let found = client(&fixture.harness).get_release_asset(with_token(request, token)).await;
            assert_eq!(refusal(found), missing());
        }
    }
    let author = fixture.get("", By::IsLatest(true)).await.unwrap().author.unwrap();
    assert_eq!((author.username.as_str(), author.email.as_str()), ("ada", ""));
    let request = with_token(fixture.new_release("v3", false), &bob);
    let forbidden = client(&fixture.harness).create_release(request).await;
    assert_eq!(refusal(forbidden), refused(Code::PermissionDenied, "PERMISSION_REQUIRED"));
}

#[tokio::test]
async fn a_repeated_request_has_no_second_effect() {
    let fixture = Fixture::new(Harness::start().await).await;
    let request = || with_key(with_token(fixture.new_release("v1", false), &fixture.ada), "k1");
    let first = client(&fixture.harness).create_release(request()).await.unwrap().into_inner();
    assert_eq!(client(&fixture.harness).create_release(request()).await.unwrap().into_inner(), first);
    let id = first.release.unwrap().id;
    let asset = fixture.upload(id, "a.txt", "k2").await.unwrap();
    assert_eq!(fixture.upload(id, "a.txt", "k2").await.unwrap(), asset);
    let status = fixture.upload(id, "a.txt", "k3").await.unwrap_err();
    assert_eq!(violations(&status)[0].0, "name");
    let remove = || {
        let request = DeleteReleaseRequest { repository: fixture.repository(), release_id: id, ..Default::default() };
        with_key(with_token(request, &fixture.ada), "k4")
    };
    for _ in 0..2 {
        client(&fixture.harness).delete_release(remove()).await.unwrap();
    }
    let deleted = fixture.harness.take_deleted_files();
    assert_eq!(deleted.len(), 2, "the bytes of the repeated upload, and those of the release: {deleted:?}");
    assert_eq!(deleted.last(), Some(&asset.file_id));
    assert_eq!(fixture.tags(&fixture.ada).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_release_is_deleted_by_its_tag() {
    on_each_url(async |url| {
        let fixture = Fixture::new(Harness::start_on(url).await).await;
        fixture.create("v1/rc", false).await.unwrap();
        fixture.create("v2", false).await.unwrap();
        let bob = fixture.harness.signed_in("bob").await;
        let remove = async |token: &str, tag_name: &str| {
            let tag_name = tag_name.to_owned();
            let request = DeleteReleaseRequest { repository: fixture.repository(), release_id: 0, tag_name };
            client(&fixture.harness).delete_release(with_token(request, token)).await
        };
        assert_eq!(refusal(remove(&bob, "v1/rc").await), refused(Code::PermissionDenied, "PERMISSION_REQUIRED"));
        remove(&fixture.ada, "v1/rc").await.unwrap();
        for absent in ["v1/rc", "", "v", "\0"] {
            let outcome = refusal(remove(&fixture.ada, absent).await);
            assert_eq!(outcome, refused(Code::NotFound, "RELEASE_NOT_FOUND"), "{absent:?}");
        }
        assert_eq!(fixture.tags(&fixture.ada).await, ["v2"]);
    })
    .await;
}

#[tokio::test]
async fn files_without_a_release_leave_the_store() {
    let fixture = Fixture::new(Harness::start().await).await;
    let (harness, id) = (&fixture.harness, fixture.create("v1", false).await.unwrap().id);
    let (kept, removed) = (fixture.upload(id, "a", "").await.unwrap(), fixture.upload(id, "b", "").await.unwrap());
    let abandoned = fixture.begin(id, "c", "").await.unwrap();
    let state = harness.state().await;
    let sweeper = FileSweeper::new(
        state.releases.clone(),
        state.stores.table().clone(),
        state.storage.clone(),
        state.clock.clone(),
    );
    // The store is down while a file is removed: the sweeper removes its bytes later.
    harness.set_store(StoreMode::Down);
    let request = DeleteReleaseAssetRequest { repository: fixture.repository(), release_id: id, asset_id: removed.id };
    client(harness).delete_release_asset(with_token(request, &fixture.ada)).await.unwrap();
    assert!(sweeper.sweep().await.is_err());
    harness.set_store(StoreMode::Works);
    sweeper.sweep().await.unwrap();
    assert_eq!(harness.take_deleted_files(), [removed.file_id]);
    state.db.execute("UPDATE unclaimed_files SET due_us = 1", &[]).await.unwrap();
    for _ in 0..2 {
        sweeper.sweep().await.unwrap();
    }
    assert_eq!(harness.take_deleted_files(), [abandoned]);
    let rename = UpdateReleaseAssetRequest {
        repository: fixture.repository(),
        release_id: id,
        asset_id: kept.id,
        name: Some("renamed".into()),
    };
    let renamed = client(harness).update_release_asset(with_token(rename, &fixture.ada)).await.unwrap().into_inner();
    assert_eq!(renamed.asset.unwrap().name, "renamed");
}

#[tokio::test]
async fn users_neither_reserve_files_nor_count_downloads() {
    let fixture = Fixture::new(Harness::start().await).await;
    let mut direct = ReleaseServiceClient::new(fixture.harness.unauthenticated.clone());
    let begun = direct.begin_asset_upload(with_token(BeginAssetUploadRequest::default(), &fixture.ada)).await;
    assert_eq!(refusal(begun), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
    let counted = direct.count_downloads(with_token(CountDownloadsRequest::default(), &fixture.ada)).await;
    assert_eq!(refusal(counted), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
}
