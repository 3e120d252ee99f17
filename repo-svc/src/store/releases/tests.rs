//! Releases and their files, on both databases.

use std::collections::BTreeSet;

use ferrite_db::Db;

use super::*;
use crate::model::{AssetName, Description, NewAsset, RepoName};
use crate::store::release_assets::{Asset, AssetKey};
use crate::store::{NewRepository, OwnerLimits, RepositoryTable};
use crate::testing::{default_store, on_both};

const NOW: i64 = 1_000_000;
const DAY_US: i64 = 24 * 3600 * 1_000_000;
const ADD_USER: &str = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
     VALUES ('user', $1, $1, 'The author', '', $2, $3, $4) RETURNING id";

struct Fixture {
    db: Db,
    store: ReleaseTable,
    author: UserId,
    repository: RepositoryId,
}

impl Fixture {
    async fn new(db: Db) -> Self {
        let repositories = RepositoryTable::new(db.clone());
        default_store(&db).await;
        let mut authors = Vec::new();
        for name in ["ada", "bob"] {
            let mut tx = db.begin().await.unwrap();
            let (id,): (i64,) = tx.one(ADD_USER, &args![name, false, true, NOW]).await.unwrap();
            tx.commit().await.unwrap();
            authors.push(UserId(id));
        }
        let new = NewRepository {
            creator: authors[0],
            name: RepoName::parse("demo", "name").unwrap(),
            description: Description::parse("", "description").unwrap(),
            is_private: false,
            default_branch: "main".into(),
            store: "default".into(),
        };
        let (repository, _) =
            repositories.insert(authors[0], &new, OwnerLimits::default(), NOW).await.unwrap().unwrap();
        db.execute("UPDATE repositories SET state = 'ready'", &[]).await.unwrap();
        Self { store: ReleaseTable::new(db.clone()), db, author: authors[1], repository }
    }

    async fn add(&self, fields: &ReleaseFields, now_us: i64) -> Result<Release, RepoError> {
        let mut tx = self.db.begin().await.unwrap();
        let release = self.store.insert(&mut tx, self.repository, fields, self.author, now_us).await?;
        tx.commit().await.unwrap();
        Ok(release)
    }

    async fn update(&self, before: &Release, fields: &ReleaseFields) -> Result<Release, RepoError> {
        let mut tx = self.db.begin().await.unwrap();
        let release = self.store.update(&mut tx, before, fields, NOW + 9).await?;
        tx.commit().await.unwrap();
        Ok(release)
    }

    /// Whether `v1` is claimed, by its name and by its release, and whether `v2` and `v3` are.
    async fn claimed(&self, tx: &mut Tx, id: i64, now_us: i64) -> Vec<bool> {
        let mut claimed = Vec::new();
        for (id, name) in [(None, Some("v1")), (Some(id), None), (None, Some("v2")), (None, Some("v3"))] {
            claimed.push(self.store.is_claimed(tx, self.repository, id, name, now_us).await.unwrap());
        }
        claimed
    }

    async fn tags(&self, with_drafts: bool, page: Page) -> (Vec<String>, i64) {
        self.found(ReleaseFilter { with_drafts, ..ReleaseFilter::default() }, page).await
    }

    async fn found(&self, filter: ReleaseFilter, page: Page) -> (Vec<String>, i64) {
        let (releases, total) = self.store.list(self.repository, filter, page).await.unwrap();
        (releases.into_iter().map(|release| release.tag_name).collect(), total)
    }

    /// The number of published releases that the repository shows.
    async fn published(&self) -> i64 {
        let sql = "SELECT release_count FROM repositories WHERE id = $1";
        self.db.one::<(i64,)>(sql, &args![self.repository]).await.unwrap().0
    }

    async fn latest(&self) -> Option<String> {
        self.store.find(self.repository, &ReleaseKey::Latest).await.unwrap().map(|release| release.tag_name)
    }

    async fn upload(&self, release: &Release, name: &str, file: char) -> Result<Asset, RepoError> {
        let name = AssetName::parse(name).unwrap();
        let file_id = file.to_string().repeat(32);
        self.store.reserve_file(release, (&name, false), &file_id, NOW).await?;
        self.claim(release, &name, &file_id, NOW).await
    }

    async fn claim(&self, release: &Release, name: &AssetName, file_id: &str, now_us: i64) -> Result<Asset, RepoError> {
        let new = NewAsset {
            name: name.clone(),
            file_id: file_id.to_owned(),
            size_bytes: 3,
            sha256: "0".repeat(64),
            content_type: "text/plain".into(),
        };
        let mut tx = self.db.begin().await.unwrap();
        let asset = self.store.insert_asset(&mut tx, release, &new, self.author, now_us).await;
        // A dropped transaction ends a little later. Until then PostgreSQL skips the file when it
        // takes those that are due.
        let ended = if asset.is_ok() { tx.commit().await } else { tx.rollback().await };
        ended.unwrap();
        asset
    }

    async fn due(&self, now_us: i64) -> Vec<char> {
        let mut files = self.store.take_due_files(now_us).await.unwrap();
        files.sort();
        files.iter().map(|file| file.file_id.chars().next().unwrap()).collect()
    }
}

fn release(tag_name: &str) -> ReleaseFields {
    ReleaseFields { tag_name: tag_name.into(), target: "main".into(), title: "One".into(), ..ReleaseFields::default() }
}

fn page(size: i32) -> Page {
    Page::nearest(1, size, 1_000)
}

#[track_caller]
fn assert_field<T: std::fmt::Debug>(outcome: Result<T, RepoError>, field: &str, code: &str) {
    let Err(RepoError::Invalid(violations)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((violations[0].field.as_str(), violations[0].code), (field, code));
}

#[tokio::test]
async fn drafts_are_listed_on_request_and_are_never_the_latest() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        assert_eq!((fixture.tags(true, page(10)).await, fixture.latest().await), ((vec![], 0), None));
        let first = fixture.add(&release("v1"), NOW).await.unwrap();
        assert_eq!((first.published_us, first.author_name.as_deref()), (NOW, Some("bob")));
        let draft = fixture.add(&ReleaseFields { is_draft: true, ..release("v3") }, NOW + 2).await.unwrap();
        assert_eq!(draft.published_us, 0);
        fixture.add(&ReleaseFields { is_prerelease: true, ..release("v2-rc") }, NOW + 3).await.unwrap();
        assert_eq!(fixture.tags(true, page(10)).await, (vec!["v2-rc".into(), "v3".into(), "v1".into()], 3));
        assert_eq!(fixture.tags(false, page(10)).await, (vec!["v2-rc".into(), "v1".into()], 2));
        assert_eq!(fixture.tags(false, page(1)).await, (vec!["v2-rc".into()], 2));
        for (with_drafts, is_draft, is_prerelease, expected) in [
            (true, Some(true), None, &["v3"][..]),
            (true, Some(false), None, &["v2-rc", "v1"]),
            (false, Some(true), None, &[]),
            (true, None, Some(true), &["v2-rc"]),
            (true, None, Some(false), &["v3", "v1"]),
            (false, Some(false), Some(false), &["v1"]),
            (true, Some(true), Some(true), &[]),
        ] {
            let filter = ReleaseFilter { with_drafts, is_draft, is_prerelease };
            let expected: Vec<_> = expected.iter().map(|tag| (*tag).to_owned()).collect();
            let count = expected.len() as i64;
            assert_eq!(fixture.found(filter, page(10)).await, (expected, count), "{filter:?}");
        }
        assert_eq!(fixture.published().await, 2);
        assert_eq!(fixture.latest().await.as_deref(), Some("v1"));
        let fields = ReleaseFields { is_draft: false, body: "x".into(), ..draft.fields() };
        let published = fixture.update(&draft, &fields).await.unwrap();
        assert_eq!((published.published_us, published.fields()), (NOW + 9, fields));
        assert_eq!(fixture.published().await, 3);
        assert_eq!(fixture.latest().await.as_deref(), Some("v3"));
        let by_tag = fixture.store.find(fixture.repository, &ReleaseKey::Tag("v3".into())).await.unwrap();
        assert_eq!(by_tag, Some(published.clone()));
        let hidden = fixture.update(&published, &ReleaseFields { is_draft: true, ..published.fields() }).await.unwrap();
        assert_eq!(fixture.published().await, 2);
        for (release, left) in [(&hidden, 2), (&first, 1)] {
            let mut tx = fixture.db.begin().await.unwrap();
            fixture.store.delete(&mut tx, release).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(fixture.published().await, left);
        }
        let elsewhere = fixture.store.find(RepositoryId(999), &ReleaseKey::Id(first.id)).await.unwrap();
        assert_eq!(elsewhere, None);
    })
    .await;
}

#[tokio::test]
async fn a_tag_has_one_release() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let first = fixture.add(&release("v1"), NOW).await.unwrap();
        let second = fixture.add(&ReleaseFields { is_draft: true, ..release("v2") }, NOW).await.unwrap();
        assert_field(fixture.add(&release("v1"), NOW).await, "tag_name", "taken");
        assert_field(fixture.add(&release("v2"), NOW).await, "tag_name", "taken");
        assert_field(fixture.update(&second, &release("v1")).await, "tag_name", "taken");
        assert_field(fixture.store.check_tag_is_free(fixture.repository, "v1").await, "tag_name", "taken");
        fixture.store.check_tag_is_free(fixture.repository, "V1").await.unwrap();
        let mut tx = fixture.db.begin().await.unwrap();
        let repository = fixture.repository;
        for other in [Some(second.id), None] {
            let free = fixture.store.check_tag_is_free_for(&mut tx, repository, other, "v1").await;
            assert_field(free, "tag_name", "taken");
        }
        fixture.store.check_tag_is_free_for(&mut tx, repository, Some(first.id), "v1").await.unwrap();
        tx.rollback().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_claim_holds_until_it_ends_or_is_old() {
    const MINUTE_US: i64 = 60 * 1_000_000;
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let (store, repository) = (&fixture.store, fixture.repository);
        let made = fixture.add(&ReleaseFields { is_draft: true, ..release("v1") }, NOW).await.unwrap();
        let mut tx = fixture.db.begin().await.unwrap();
        let names = || BTreeSet::from(["v1".to_owned(), "v2".to_owned()]);
        let (held, free) = ([true, true, true, false], [false; 4]);
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW).await, free);
        let first = store.claim(&mut tx, repository, names(), NOW).await.unwrap();
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW + MINUTE_US - 1).await, held);
        assert!(!store.is_claimed(&mut tx, RepositoryId(999), Some(made.id), Some("v1"), NOW).await.unwrap());
        assert!(first.tag_deadline_us() < NOW + MINUTE_US);
        tx.commit().await.unwrap();
        let mut in_use = Vec::new();
        for (name, now_us) in [("v1", NOW + MINUTE_US), ("v2", NOW), ("v2", NOW + MINUTE_US), ("v3", NOW)] {
            in_use.push(store.is_tag_in_use(repository, name, now_us).await.unwrap());
        }
        assert_eq!(in_use, [true, true, false, false], "a release, a claim, an old claim, nothing");
        assert!(!store.is_tag_in_use(RepositoryId(999), "v1", NOW).await.unwrap());
        let mut tx = fixture.db.begin().await.unwrap();
        // The claimant has crashed.
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW + MINUTE_US).await, free);
        // Its clock was far ahead, or a bit.
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW - MINUTE_US - 1).await, free);
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW - MINUTE_US).await, held);
        let second = store.claim(&mut tx, repository, names(), NOW + MINUTE_US).await.unwrap();
        assert!(!store.end_claim(&mut tx, &first).await.unwrap());
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW + MINUTE_US).await, held);
        assert!(store.end_claim(&mut tx, &second).await.unwrap());
        assert_eq!(fixture.claimed(&mut tx, made.id, NOW + MINUTE_US).await, free);
        // A claim of which one name was taken over is lost.
        let third = store.claim(&mut tx, repository, names(), NOW).await.unwrap();
        store.claim(&mut tx, repository, BTreeSet::from(["v2".to_owned()]), NOW + 1).await.unwrap();
        assert!(!store.end_claim(&mut tx, &third).await.unwrap());
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn long_notes_are_cut_so_that_their_page_fits() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        fixture.add(&release("short"), NOW).await.unwrap();
        for number in 0..17 {
            let body = "€".repeat(300 << 10);
            fixture.add(&ReleaseFields { body, ..release(&format!("v{number}")) }, NOW).await.unwrap();
        }
        let with_drafts = ReleaseFilter { with_drafts: true, ..ReleaseFilter::default() };
        // 64 KiB each, or 1 MiB together; a character has three bytes.
        for (size, bytes) in [(16, (64 << 10) / 3 * 3), (32, (32 << 10) / 3 * 3)] {
            let (listed, total) = fixture.store.list(fixture.repository, with_drafts, page(size)).await.unwrap();
            assert!(listed[..16].iter().all(|release| release.body.len() == bytes && release.is_truncated));
            assert_eq!(total, 18);
        }
        let (listed, _) = fixture.store.list(fixture.repository, with_drafts, page(32)).await.unwrap();
        assert_eq!((listed.len(), listed[17].is_truncated), (18, false));
    })
    .await;
}

#[tokio::test]
async fn the_author_of_a_deleted_account_is_absent() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let made = fixture.add(&release("v1"), NOW).await.unwrap();
        fixture.upload(&made, "a", 'a').await.unwrap();
        fixture.db.execute("DELETE FROM users WHERE id = $1", &args![fixture.author]).await.unwrap();
        let found = fixture.store.find(fixture.repository, &ReleaseKey::Id(made.id)).await.unwrap().unwrap();
        assert_eq!((found.author_id, found.author_name), (None, None));
        assert_eq!(fixture.store.assets([made.id]).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn names_of_files_are_unique_in_their_release() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let (one, two) =
            (fixture.add(&release("v1"), NOW).await.unwrap(), fixture.add(&release("v2"), NOW).await.unwrap());
        let first = fixture.upload(&one, "a.txt", 'a').await.unwrap();
        fixture.upload(&two, "a.txt", 'b').await.unwrap();
        assert_field(fixture.upload(&one, "a.txt", 'c').await, "name", "taken");
        // Of two concurrent uploads with one name, the one that finishes second fails and its file
        // stays reserved.
        let name = AssetName::parse("a.txt").unwrap();
        fixture.store.reserve_file(&one, (&name, true), &"d".repeat(32), NOW).await.unwrap();
        assert_field(fixture.claim(&one, &name, &"d".repeat(32), NOW).await, "name", "taken");
        assert_eq!(fixture.due(NOW + 2 * DAY_US).await, ['d']);
        let second = fixture.upload(&one, "b.txt", 'e').await.unwrap();
        let mut tx = fixture.db.begin().await.unwrap();
        assert_field(fixture.store.rename_asset(&mut tx, second.id, &name).await, "name", "taken");
        drop(tx);
        assert_eq!(fixture.store.assets([one.id, two.id]).await.unwrap().len(), 3);
        let found = fixture.store.find_asset(&one, &AssetKey::Name("a.txt".into())).await.unwrap();
        assert_eq!(found.as_ref(), Some(&first));
        assert_eq!(fixture.store.find_asset(&two, &AssetKey::Id(first.id)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_release_has_at_most_a_hundred_files() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let made = fixture.add(&release("v1"), NOW).await.unwrap();
        for number in 0..100 {
            let (name, file_id) = (AssetName::parse(&format!("{number}")).unwrap(), format!("{number:032x}"));
            fixture.store.reserve_file(&made, (&name, false), &file_id, NOW).await.unwrap();
            fixture.claim(&made, &name, &file_id, NOW).await.unwrap();
        }
        let refused = fixture.upload(&made, "more", 'f').await;
        assert!(matches!(refused, Err(RepoError::AssetLimit { limit: 100 })), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn a_file_belongs_to_its_release_or_is_due_and_never_both() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let made = fixture.add(&release("v1"), NOW).await.unwrap();
        let name = |name: &str| AssetName::parse(name).unwrap();
        let (a, b) = ("a".repeat(32), "b".repeat(32));
        fixture.store.reserve_file(&made, (&name("a"), false), &a, NOW).await.unwrap();
        fixture.store.reserve_file(&made, (&name("b"), false), &b, NOW).await.unwrap();
        assert!(fixture.due(NOW + DAY_US - 1).await.is_empty());
        fixture.claim(&made, &name("a"), &a, NOW).await.unwrap();
        // No release gets a file that was never reserved, is already used, or is due for removal.
        for (file_id, now_us) in [(&"c".repeat(32), NOW), (&a, NOW), (&b, NOW + DAY_US)] {
            let refused = fixture.claim(&made, &name("x"), file_id, now_us).await;
            assert!(matches!(refused, Err(RepoError::Interrupted)), "{refused:?}");
        }
        assert_eq!(fixture.due(NOW + DAY_US).await, ['b']);
        assert!(fixture.claim(&made, &name("b"), &b, NOW).await.is_err(), "its bytes may be gone");
        assert_eq!(fixture.due(NOW).await, ['b'], "until it is forgotten");
        fixture.store.forget_files(&[b]).await.unwrap();
        assert!(fixture.due(NOW + 9 * DAY_US).await.is_empty());
        let mut tx = fixture.db.begin().await.unwrap();
        assert_eq!(fixture.store.delete(&mut tx, &made).await.unwrap(), [a]);
        tx.commit().await.unwrap();
        assert_eq!(fixture.due(NOW).await, ['a']);
        assert_eq!(fixture.store.assets([made.id]).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn downloads_add_up() {
    on_both(async |db: Db| {
        let fixture = Fixture::new(db).await;
        let made = fixture.add(&release("v1"), NOW).await.unwrap();
        let asset = fixture.upload(&made, "a", 'a').await.unwrap();
        for _ in 0..2 {
            let counts = [(asset.id, 3), (999_999, 1)];
            let mut left = counts.as_slice();
            while !left.is_empty() {
                left = &left[fixture.store.add_downloads(left).await.unwrap()..];
            }
        }
        assert_eq!(fixture.store.assets([made.id]).await.unwrap()[0].download_count, 6);
    })
    .await;
}

#[tokio::test]
async fn files_that_another_replica_takes_are_left_to_it_on_postgres() {
    on_both(async |db: Db| {
        if !db.pick(true, false) {
            return;
        }
        let fixture = Fixture::new(db).await;
        for file in ["a", "b"] {
            let row = args![file.repeat(32), fixture.repository, NOW];
            let insert = "INSERT INTO unclaimed_files (file_id, repository_id, due_us) VALUES ($1, $2, $3)";
            fixture.db.execute(insert, &row).await.unwrap();
        }
        let mut other = fixture.db.begin().await.unwrap();
        let lock = "SELECT due_us FROM unclaimed_files WHERE file_id = $1 FOR UPDATE";
        let locked: Vec<(i64,)> = other.all(lock, &args!["a".repeat(32)]).await.unwrap();
        assert_eq!(locked, [(NOW,)]);
        assert_eq!(fixture.due(NOW).await, ['b']);
        other.commit().await.unwrap();
        assert_eq!(fixture.due(NOW).await, ['a', 'b']);
    })
    .await;
}
