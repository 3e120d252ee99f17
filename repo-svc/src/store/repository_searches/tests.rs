//! Compares the pages of searches with a plain scan, for each source.

use ferrite_db::Db;
use ferrite_db::args;

use super::*;
use crate::model::SearchText;
use crate::testing::{default_store, on_both};

const ADD_OWNER: &str = "INSERT INTO users (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, created_us) \
     VALUES ('user', 'ada', 'ada', '', '', '', $1, $2, 0) RETURNING id";
/// Every tenth name starts with `common`, one is `rarely-found`; every seventh repository is
/// private.
const ADD_MANY: &str = "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $2), \
     named AS (SELECT i, CASE WHEN i = 398 THEN 'rarely-found' WHEN i % 10 = 3 THEN 'common-' || (i * 37 % 100) || '-' || i \
     ELSE 'plain-' || i END AS name FROM numbers) \
     INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, is_mirror, \
     is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, open_issue_count, \
     issues_version, refs_number, created_us, updated_us) \
     SELECT $1, name, name, '', '', '', 'ready', i % 7 = 0, $3, $3, $3, 'main', i * 31 % 50, i % 9, 0, 1, 0, 0, 0, i, i * 17 % 400 \
     FROM named";
/// Gives some repositories unusual values, and characters that JSON escapes.
const VARY: &str = "UPDATE repositories SET description = $1, topics = $2, is_archived = $3, is_wiki_public = $3, mirror_error = $1, \
     mirror_interval_secs = 28800, size_bytes = 9007199254740993, parent_id = id - 1 WHERE id % 5 = 0";
const PLACE_ALL: &str =
    "INSERT INTO placements (repository_id, store, epoch) SELECT id, 'default', 1 FROM repositories";
const INDEX_ALL: &str = "INSERT INTO repositories_text (rowid, name_key, description_key) \
     SELECT id, name_key, description_key FROM repositories";
const CLEAR_INDEX: &str = "DELETE FROM repositories_text";
const HIDE_COMMON: &str = "UPDATE repositories SET is_private = $1 WHERE name_key LIKE 'common-%'";
const RENAME_PLAIN: &str = "UPDATE repositories SET name = 'newly-common' || id, name_key = 'newly-common' || id \
     WHERE name_key LIKE 'plain-%'";
/// Enough for sampling.
const REPOSITORIES: i64 = 400;

async fn filled(db: &Db) -> RepositoryTable {
    default_store(db).await;
    let mut tx = db.begin().await.unwrap();
    let (owner,): (i64,) = tx.one(ADD_OWNER, &args![false, true]).await.unwrap();
    tx.execute(ADD_MANY, &args![owner, REPOSITORIES, false]).await.unwrap();
    tx.execute(PLACE_ALL, &[]).await.unwrap();
    if tx.pick(false, true) {
        tx.execute(INDEX_ALL, &[]).await.unwrap();
    }
    tx.commit().await.unwrap();
    RepositoryTable::new(db.clone())
}

/// Returns the names on all pages, and for each page the rows counted past it and whether there are
/// more.
async fn pages(store: &RepositoryTable, search: &RepositorySearch, size: i32) -> (Vec<String>, Vec<(i64, bool)>) {
    let (mut names, mut counts) = (Vec::new(), Vec::new());
    for number in 1.. {
        let page = Page::nearest(number, size, size);
        let found = store.search(search, &Viewer::of(None), page).await.unwrap();
        if found.repositories.is_empty() {
            assert_eq!((found.total, found.is_partial), (names.len() as i64, false));
            break;
        }
        names.extend(found.repositories.into_iter().map(|row| row.name));
        counts.push((found.total - names.len() as i64, found.is_partial));
    }
    (names, counts)
}

#[tokio::test]
async fn pages_from_each_source_are_those_of_a_scan() {
    on_both(async |db: Db| {
        let store = filled(&db).await;
        for (sort, column) in [
            (RepositorySort::Id, "id"),
            (RepositorySort::Name, db.pick("name_key COLLATE \"C\"", "name_key")),
            (RepositorySort::Updated, "updated_us"),
            (RepositorySort::Size, "size_bytes"),
            (RepositorySort::Stars, "star_count"),
        ] {
            for (is_descending, direction) in [(false, ""), (true, " DESC")] {
                for text in ["", "-3", "common-", "common-1", "rarely-found", "nowhere"] {
                    let like = format!("%{text}%");
                    let sql = format!(
                        "SELECT name FROM repositories WHERE name_key LIKE $1 AND NOT is_private ORDER BY {column}{direction}, id{direction}"
                    );
                    let expected: Vec<(String,)> =
                        db.all(&sql, &args![like.as_str()]).await.unwrap();
                    let expected: Vec<_> = expected.into_iter().map(|(name,)| name).collect();
                    let text = SearchText::parse(text, "q").unwrap();
                    let search = RepositorySearch { text, sort, is_descending, ..RepositorySearch::default() };
                    let (names, counts) = pages(&store, &search, 20).await;
                    assert_eq!(names, expected, "{sql} {like}");
                    for (ahead, is_partial) in counts {
                        assert!(!is_partial || (1..=MAX_ROWS_COUNTED_AHEAD).contains(&ahead), "{sql} {like} {ahead}");
                    }
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_first_rows_are_read_for_a_common_part_only() {
    on_both(async |db: Db| {
        let store = filled(&db).await;
        let find = async |text: &str, size: i32, is_archived: Option<bool>| {
            let text = SearchText::parse(text, "q").unwrap();
            let search =
                RepositorySearch { text, sort: RepositorySort::Stars, is_archived, ..RepositorySearch::default() };
            let before = db.statements();
            let found = store.search(&search, &Viewer::of(None), Page::nearest(1, size, size)).await.unwrap();
            (found.repositories.len(), found.total, found.is_partial, db.statements() - before)
        };
        // The first search also counts the repositories and takes a sample.
        assert_eq!(find("warm", 1, None).await, (0, 0, false, 3));
        assert_eq!(find("common-", 5, None).await, (5, 5, true, 1));
        assert_eq!(find("rarely-found", 5, None).await, (1, 1, false, 1));
        // Too few of the first rows match to fill a page.
        assert_eq!(find("common-", 50, None).await, (35, 35, false, 1));
        // The sample does not know that a filter excludes everything.
        assert_eq!(find("common-", 5, Some(true)).await, (0, 0, false, 2));
    })
    .await;
}

#[tokio::test]
async fn an_old_sample_changes_no_result() {
    on_both(async |db: Db| {
        let store = filled(&db).await;
        let find = async |text: &str| {
            let text = SearchText::parse(text, "q").unwrap();
            let search = RepositorySearch { text, sort: RepositorySort::Stars, ..RepositorySearch::default() };
            let found = store.search(&search, &Viewer::of(None), Page::nearest(1, 5, 5)).await.unwrap();
            found.repositories.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(find("common-").await.len(), 5);
        assert_eq!(find("newly-common").await, Vec::<String>::new());
        // The sample contains repositories that are hidden now, and lacks new ones.
        db.execute(HIDE_COMMON, &args![true]).await.unwrap();
        db.execute(RENAME_PLAIN, &[]).await.unwrap();
        if db.pick(false, true) {
            db.execute(CLEAR_INDEX, &[]).await.unwrap();
            db.execute(INDEX_ALL, &[]).await.unwrap();
        }
        assert_eq!(find("common-").await, Vec::<String>::new());
        assert_eq!(find("newly-common").await.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn a_page_has_the_rows_that_are_found_one_by_one() {
    on_both(async |db: Db| {
        let store = filled(&db).await;
        let text = "\"quoted\" \\ \u{1}\u{7f}\n\u{2028} é 日本 🦀";
        db.execute(VARY, &args![text, "a,b", true]).await.unwrap();
        let found =
            store.search(&RepositorySearch::default(), &Viewer::of(None), Page::nearest(1, 50, 50)).await.unwrap();
        let ids: Vec<i64> = found.repositories.iter().map(|row| row.id).collect();
        assert_eq!(found.repositories, store.find_many(&ids, &Viewer::of(None)).await.unwrap());
        assert!(found.repositories.iter().any(|row| row.description == text && row.parent_id.is_some()));
    })
    .await;
}
