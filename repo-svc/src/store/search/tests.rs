//! Compares lists and searches with a plain scan, and counts their statements.

use std::collections::BTreeSet;

use ferrite_core::page::Page;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_proto::Scopes;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::Identity;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::access::Viewer;
use crate::model::{Description, FullName, RepoName, RepositorySearch, SearchText};
use crate::store::repository_searches::FoundRepositories;
use crate::store::{AccountTable, CreatedOnDisk, NewRepository, OwnerLimits, Repository, RepositoryTable};
use crate::testing::{default_store, on_both};

const NOW: i64 = 1_000_000;
const ADD_ACCOUNT: &str = "INSERT INTO users (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, \
     created_us) VALUES ($1, $2, $2, $3, $4, '', $5, $6, $7) RETURNING id";
const ADD_TEXT: &str = "INSERT INTO users_text (rowid, name_key, full_name_key) VALUES ($1, $2, $3)";
const ADD_MANY: &str = "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $2) \
     INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, is_mirror, \
     is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, open_issue_count, \
     issues_version, refs_number, created_us, updated_us) \
     SELECT $1, 'demo' || i, 'demo' || i, '', '', '', 'ready', $3, $4, $4, $4, 'main', 0, 0, 0, 1, 0, 0, 0, i, i FROM numbers";
const PLACE_ALL: &str = "INSERT INTO placements (repository_id, store, epoch) SELECT id, 'default', 1 FROM repositories \
     WHERE id NOT IN (SELECT repository_id FROM placements)";
const INDEX_ALL: &str = "INSERT INTO repositories_text (rowid, name_key, description_key) \
     SELECT id, name_key, description_key FROM repositories";

async fn account(db: &Db, kind: &str, name: &str, full_name: &str) -> UserId {
    let key = FullName::parse(full_name, "full_name").unwrap().key();
    let mut tx = db.begin().await.unwrap();
    let args = args![kind, name, full_name, key.as_str(), false, true, NOW];
    let (id,): (i64,) = tx.one(ADD_ACCOUNT, &args).await.unwrap();
    if tx.pick(false, true) {
        tx.execute(ADD_TEXT, &args![id, name, key]).await.unwrap();
    }
    tx.commit().await.unwrap();
    UserId(id)
}

fn viewer(user: UserId) -> Viewer {
    let scopes = Scopes::all().to_proto();
    Viewer::of(Some(&Identity { user_id: user.0, token_id: 1, scopes, ..Identity::default() }))
}

async fn repositories(db: &Db) -> RepositoryTable {
    default_store(db).await;
    RepositoryTable::new(db.clone())
}

fn wanted(name: &str, description: &str, is_private: bool) -> Option<NewRepository> {
    Some(NewRepository {
        // The first account of every test is a user.
        creator: UserId(1),
        name: RepoName::parse(name, "name").ok()?,
        description: Description::parse(description, "description").ok()?,
        is_private,
        default_branch: "main".into(),
        store: "default".into(),
    })
}

async fn ready(db: &Db, store: &RepositoryTable, owner: UserId, new: &NewRepository) -> Option<Repository> {
    let (id, _) = store.insert(owner, new, OwnerLimits::default(), NOW).await.unwrap()?;
    let mut tx = db.begin().await.unwrap();
    let finished = CreatedOnDisk { size_bytes: 0, is_empty: true };
    let made = store.finish(&mut tx, id, finished, &viewer(owner)).await.unwrap();
    tx.commit().await.unwrap();
    made
}

fn names(rows: Vec<Repository>) -> BTreeSet<String> {
    rows.into_iter().map(|row| row.name).collect()
}

/// Pseudo-random values, the same in every run.
struct Random(TestRunner);

impl Random {
    fn new() -> Self {
        Self(TestRunner::deterministic())
    }

    fn text(&mut self, pattern: &'static str) -> String {
        pattern.new_tree(&mut self.0).unwrap().current()
    }

    fn below(&mut self, end: usize) -> usize {
        (0..end.max(1)).new_tree(&mut self.0).unwrap().current()
    }

    /// Returns a substring of one to six characters of one of the texts.
    fn part(&mut self, texts: &[String]) -> String {
        let chars: Vec<char> = texts[self.below(texts.len())].chars().collect();
        let begin = self.below(chars.len());
        let length = 1 + self.below(6);
        chars.iter().skip(begin).take(length).collect()
    }
}

/// Texts with characters that are special to one of the databases or have unusual case folding.
const SPECIAL_TEXTS: &str = "[a-dA-D %_!\"'*(){}^:+\\\\~äÄßẞΣσςİıé日本語\u{1f980}.-]{0,24}";

#[tokio::test]
async fn a_search_finds_exactly_what_a_scan_finds() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (account(&db, "user", "ada", "").await, account(&db, "user", "bob", "").await);
        let mut random = Random::new();
        let mut made = Vec::new();
        for number in 0..80 {
            let (name, description) = (random.text("[a-dA-D0-1._-]{1,12}"), random.text(SPECIAL_TEXTS));
            let Some(new) = wanted(&name, &description, number % 5 == 0) else { continue };
            made.extend(ready(&db, &store, if number % 2 == 0 { ada } else { bob }, &new).await);
        }
        assert!(made.len() > 40);
        for gone in made.drain(..10) {
            let mut tx = db.begin().await.unwrap();
            assert!(store.delete(&mut tx, gone.id()).await.unwrap());
            tx.commit().await.unwrap();
        }
        let texts: Vec<_> = made.iter().flat_map(|row| [row.name.clone(), row.description.clone()]).collect();
        let (mut found_any, mut indexed) = (0, 0);
        for _ in 0..400 {
            let part = random.part(&texts);
            let text = SearchText::parse(&part, "q").unwrap();
            assert_eq!(text.owner_key, None);
            let expected: BTreeSet<_> = made
                .iter()
                .filter(|row| !row.is_private || row.owner_id == ada.0)
                .filter(|row| {
                    let keys = [row.name.to_lowercase(), row.description.to_lowercase()];
                    text.part.as_ref().is_none_or(|part| keys.iter().any(|key| key.contains(part.as_str())))
                })
                .map(|row| row.name.clone())
                .collect();
            let page = Page::nearest(1, 1000, 1000);
            let search = RepositorySearch { text: text.clone(), ..RepositorySearch::default() };
            let found = store.search(&search, &viewer(ada), page).await.unwrap();
            let got = (names(found.repositories), found.total, found.is_partial);
            assert_eq!(got, (expected.clone(), expected.len() as i64, false), "{part:?}");
            found_any += usize::from(!expected.is_empty());
            indexed += usize::from(text.is_indexed());
        }
        assert!(found_any > 200 && indexed > 100, "{found_any} {indexed}");
    })
    .await;
}

#[tokio::test]
async fn a_search_for_users_finds_exactly_what_a_scan_finds() {
    on_both(async |db: Db| {
        let mut random = Random::new();
        let mut texts = Vec::new();
        for number in 0..60 {
            let full_name = random.text(SPECIAL_TEXTS);
            account(&db, "user", &format!("user{number}"), &full_name).await;
            texts.push(full_name);
        }
        account(&db, "organization", "user-group", "").await;
        let store = AccountTable::new(db.clone());
        let page = Page::nearest(1, 100, 100);
        for _ in 0..200 {
            let part = random.part(&texts);
            let Some(text) = SearchText::parse_name(&part, "q").unwrap() else { continue };
            let is_found = |key: &str| text.part.as_ref().is_none_or(|part| key.contains(part.as_str()));
            let expected: Vec<_> = (0..texts.len())
                .filter(|&number| is_found(&format!("user{number}")) || is_found(&texts[number].to_lowercase()))
                .map(|number| format!("user{number}"))
                .collect();
            let (users, total) = store.search(&text, page).await.unwrap();
            let users: Vec<_> = users.into_iter().map(|user| user.username).collect();
            assert_eq!((users, total), (expected.clone(), expected.len() as i64), "{part:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn deleted_and_unfinished_repositories_leave_the_index() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = account(&db, "user", "ada", "").await;
        let deleted = ready(&db, &store, ada, &wanted("deleted", "", false).unwrap()).await.unwrap();
        ready(&db, &store, ada, &wanted("kept", "", false).unwrap()).await.unwrap();
        let mut half = Vec::new();
        for name in ["abandoned", "aside"] {
            half.push(
                store
                    .insert(ada, &wanted(name, "", false).unwrap(), OwnerLimits::default(), NOW)
                    .await
                    .unwrap()
                    .unwrap()
                    .0,
            );
        }
        store.delete_unfinished(half[0]).await.unwrap();
        store.release_name(half[1]).await.unwrap();
        store.delete_unfinished(half[1]).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        store.delete(&mut tx, deleted.id()).await.unwrap();
        tx.commit().await.unwrap();
        if db.pick(true, false) {
            return;
        }
        for (part, count) in [("ept", 1), ("ele", 0), ("ban", 0), ("asi", 0)] {
            let sql = "SELECT COUNT(*) FROM repositories_text WHERE repositories_text MATCH $1";
            assert_eq!(db.one::<(i64,)>(sql, &args![part]).await.unwrap(), (count,), "{part}");
        }
    })
    .await;
}

async fn team(db: &Db, organization: UserId, level: i64, member: UserId) -> i64 {
    let sql = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
         VALUES ($1, $2, $2, '', $3, $4) RETURNING id";
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(sql, &args![organization, format!("team{level}"), level, NOW]).await.unwrap();
    let sql = "INSERT INTO team_members (team_id, user_id, created_us) VALUES ($1, $2, $3)";
    tx.execute(sql, &args![id, member, NOW]).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn give(db: &Db, team: i64, repository: &Repository) {
    let sql = "INSERT INTO team_repositories (team_id, repository_id, created_us) VALUES ($1, $2, $3)";
    db.execute(sql, &args![team, repository.id, NOW]).await.unwrap();
}

#[tokio::test]
async fn teams_list_their_repositories_and_owners_all() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (bob, eve) = (account(&db, "user", "bob", "").await, account(&db, "user", "eve", "").await);
        let guild = account(&db, "organization", "guild", "").await;
        let other = account(&db, "organization", "other", "").await;
        let held = ready(&db, &store, guild, &wanted("held", "", true).unwrap()).await.unwrap();
        ready(&db, &store, guild, &wanted("hidden", "", true).unwrap()).await.unwrap();
        ready(&db, &store, guild, &wanted("open", "", false).unwrap()).await.unwrap();
        let foreign = ready(&db, &store, other, &wanted("foreign", "", true).unwrap()).await.unwrap();
        let writers = team(&db, guild, 2, bob).await;
        give(&db, writers, &held).await;
        // An invalid row: a team only holds repositories of its own organization.
        give(&db, writers, &foreign).await;
        team(&db, guild, 4, eve).await;

        let page = Page::nearest(1, 100, 100);
        let list = async |owner: Option<UserId>, user: UserId| {
            let (rows, total) = store.list(owner, &viewer(user), page).await.unwrap();
            assert_eq!(rows.len() as i64, total);
            for row in &rows {
                assert!(row.level(&viewer(user)) > ferrite_proto::Permission::None, "{}", row.name);
            }
            names(rows).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(list(None, bob).await, "held");
        assert_eq!(list(None, eve).await, "held hidden open");
        assert_eq!(list(Some(guild), bob).await, "held open");
        assert_eq!(list(Some(guild), eve).await, "held hidden open");
        assert_eq!(list(Some(other), bob).await, "");
        let text = SearchText::parse("h", "q").unwrap();
        let search = RepositorySearch { text, ..RepositorySearch::default() };
        let found = store.search(&search, &viewer(bob), page).await.unwrap();
        assert_eq!(names(found.repositories), BTreeSet::from(["held".to_owned()]));
    })
    .await;
}

#[tokio::test]
async fn a_page_of_a_thousand_costs_as_many_statements_as_one_of_ten() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (account(&db, "user", "ada", "").await, account(&db, "user", "bob", "").await);
        let guild = account(&db, "organization", "guild", "").await;
        let mut tx = db.begin().await.unwrap();
        for (owner, count, is_private) in [(ada, 1000, false), (bob, 1000, true), (guild, 1000, true)] {
            tx.execute(ADD_MANY, &args![owner, count, is_private, true]).await.unwrap();
        }
        tx.execute(PLACE_ALL, &[]).await.unwrap();
        if tx.pick(false, true) {
            tx.execute(INDEX_ALL, &[]).await.unwrap();
        }
        tx.commit().await.unwrap();
        let writers = team(&db, guild, 2, ada).await;
        for sql in [
            "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
             SELECT id, $1, 'write', created_us FROM repositories WHERE owner_id = $2",
            "INSERT INTO team_repositories (team_id, repository_id, created_us) \
             SELECT $1, id, created_us FROM repositories WHERE owner_id = $2",
        ] {
            let (holder, owner) = if sql.contains("team") { (writers, guild) } else { (ada.0, bob) };
            assert_eq!(db.execute(sql, &args![holder, owner]).await.unwrap(), 1000);
        }
        let text = SearchText::parse("demo", "q").unwrap();
        let any = RepositorySearch { text: text.clone(), ..RepositorySearch::default() };
        // The first search also counts the repositories.
        store.search(&any, &viewer(ada), Page::nearest(1, 1, 1)).await.unwrap();
        for (owner, total) in [(None, 3000), (Some(ada), 1000), (Some(bob), 1000), (Some(guild), 1000)] {
            let mut statements = Vec::new();
            let search =
                RepositorySearch { text: text.clone(), owner, is_exclusive: true, ..RepositorySearch::default() };
            for size in [10, 1000] {
                let (page, viewer) = (Page::nearest(1, size, 1000), viewer(ada));
                let before = db.statements();
                let (rows, all) = store.list(owner, &viewer, page).await.unwrap();
                let listed = db.statements() - before;
                assert_eq!((rows.len() as i64, all), (page.size(), total));
                assert!(rows.windows(2).all(|two| two[0].updated_us >= two[1].updated_us));
                let before = db.statements();
                let found = store.search(&search, &viewer, page).await.unwrap();
                statements.push((listed, db.statements() - before));
                // Repositories of one owner are always counted.
                let counted = if owner.is_none() { found.total.min(total) } else { total };
                let rows = found.repositories;
                assert_eq!((rows.len() as i64, found.total, found.is_partial), (page.size(), counted, owner.is_none()));
                assert!(rows.windows(2).all(|two| two[0].id < two[1].id));
            }
            assert_eq!(statements[0], statements[1], "{owner:?}");
            assert!(statements[0].0 <= 2 && statements[0].1 == 1, "{statements:?}");
            let behind = store.search(&search, &viewer(ada), Page::nearest(5, 1000, 1000)).await.unwrap();
            assert_eq!(behind, FoundRepositories { repositories: vec![], total, is_partial: false });
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_is_read_again_for_another_viewer_and_after_a_change() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (account(&db, "user", "ada", "").await, account(&db, "user", "bob", "").await);
        for (name, is_private) in [("demo-open", false), ("demo-hidden", true)] {
            ready(&db, &store, ada, &wanted(name, "", is_private).unwrap()).await.unwrap();
        }
        let search = RepositorySearch { text: SearchText::parse("demo", "q").unwrap(), ..RepositorySearch::default() };
        let find = async |user| {
            let before = db.statements();
            let found = store.search(&search, &viewer(user), Page::nearest(1, 50, 50)).await.unwrap();
            assert_eq!(found.repositories.len() as i64, found.total);
            (found.total, db.statements() - before)
        };
        // The first search also counts the repositories.
        find(UserId(0)).await;
        assert_eq!((find(ada).await, find(bob).await), ((2, 1), (1, 1)));
        let repeated = db.pick(1, 0);
        assert_eq!((find(ada).await, find(bob).await), ((2, repeated), (1, repeated)));
        ready(&db, &store, ada, &wanted("demo-new", "", false).unwrap()).await.unwrap();
        assert_eq!((find(ada).await, find(bob).await), ((3, 1), (2, 1)));
    })
    .await;
}
