//! Sorted and filtered searches, topics, and wikis.

use ferrite_proto::repo::{RepositoryMode, RepositorySort};

use super::*;
use crate::model::{Topic, Topics, WikiSettings};
use crate::store::repository_searches::FoundRepositories;

async fn set(db: &Db, id: RepositoryId, sql: &'static str) {
    assert_eq!(db.execute(&format!("UPDATE repositories SET {sql} WHERE id = $1"), &args![id]).await.unwrap(), 1);
}

async fn set_topics(db: &Db, store: &RepositoryTable, id: RepositoryId, texts: &[&str]) {
    let topics = Topics::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap();
    let mut tx = db.begin().await.unwrap();
    store.lock_topics(&mut tx, id).await.unwrap().unwrap();
    store.set_topics(&mut tx, id, &topics, NOW + 5).await.unwrap();
    tx.commit().await.unwrap();
}

async fn found(store: &RepositoryTable, search: RepositorySearch) -> String {
    let FoundRepositories { repositories: rows, total, is_partial } =
        store.search(&search, &Viewer::of(None), all()).await.unwrap();
    assert_eq!((rows.len() as i64, false), (total, is_partial));
    // Pages have the same order.
    let mut paged = Vec::new();
    for number in 1..=3 {
        paged.extend(store.search(&search, &Viewer::of(None), Page::nearest(number, 3, 3)).await.unwrap().repositories);
    }
    assert_eq!(paged, rows.iter().take(9).cloned().collect::<Vec<_>>());
    rows.into_iter().map(|row| row.name).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_search_has_the_order_that_it_asks_for() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        for (name, values) in [
            ("b-x", "size_bytes = 30, star_count = 2, fork_count = 0, updated_us = 5"),
            ("b_x", "size_bytes = 10, star_count = 0, fork_count = 3, updated_us = 9"),
            ("B1", "size_bytes = 20, star_count = 2, fork_count = 1, updated_us = 7"),
            ("a.z", "size_bytes = 20, star_count = 9, fork_count = 0, updated_us = 1"),
        ] {
            let id = ready(&db, &store, &ada, &new(name, "some text", false), NOW).await.id();
            set(&db, id, values).await;
        }
        ready(&db, &store, &ada, &new("aa-hidden", "some text", true), NOW).await;
        let text = |part: &str| SearchText::parse(part, "q").unwrap();
        for (sort, ascending) in [
            (RepositorySort::Unspecified, "b-x b_x B1 a.z"),
            (RepositorySort::Id, "b-x b_x B1 a.z"),
            (RepositorySort::Created, "b-x b_x B1 a.z"),
            (RepositorySort::Name, "a.z b-x B1 b_x"),
            (RepositorySort::Updated, "a.z b-x B1 b_x"),
            (RepositorySort::Size, "b_x B1 a.z b-x"),
            (RepositorySort::Stars, "b_x b-x B1 a.z"),
            (RepositorySort::Forks, "b-x a.z B1 b_x"),
        ] {
            // All repositories, those found by an index, and those found by a scan.
            for part in ["", "some", "om"] {
                let search = RepositorySearch { text: text(part), sort, ..RepositorySearch::default() };
                assert_eq!(found(&store, search.clone()).await, ascending, "{sort:?} {part}");
                let descending: Vec<_> = ascending.split(' ').rev().collect();
                let search = RepositorySearch { is_descending: true, ..search };
                assert_eq!(found(&store, search).await, descending.join(" "), "{sort:?} {part}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_search_finds_kinds_and_topics() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let mut ids = Vec::new();
        for name in ["source", "fork", "mirror", "mirrored-fork", "archived"] {
            ids.push(ready(&db, &store, &ada, &new(name, "", false), NOW).await.id());
        }
        let hidden = ready(&db, &store, &ada, &new("hidden", "", true), NOW).await.id();
        for id in [ids[1], ids[3]] {
            let sql = "UPDATE repositories SET parent_id = $2 WHERE id = $1";
            db.execute(sql, &args![id, ids[0]]).await.unwrap();
        }
        for id in [ids[2], ids[3]] {
            db.execute("UPDATE repositories SET is_mirror = $2 WHERE id = $1", &args![id, true]).await.unwrap();
        }
        db.execute("UPDATE repositories SET is_archived = $2 WHERE id = $1", &args![ids[4], true]).await.unwrap();
        for (mode, expected) in [
            (RepositoryMode::Unspecified, "source fork mirror mirrored-fork archived"),
            (RepositoryMode::Source, "source archived"),
            (RepositoryMode::Fork, "fork mirrored-fork"),
            (RepositoryMode::Mirror, "mirror mirrored-fork"),
        ] {
            let search = RepositorySearch { mode, ..RepositorySearch::default() };
            assert_eq!(found(&store, search).await, expected, "{mode:?}");
        }
        for (is_archived, expected) in [(true, "archived"), (false, "source fork mirror mirrored-fork")] {
            let search = RepositorySearch { is_archived: Some(is_archived), ..RepositorySearch::default() };
            assert_eq!(found(&store, search).await, expected);
        }
        set_topics(&db, &store, ids[0], &["web", "rust"]).await;
        set_topics(&db, &store, ids[1], &["rust", "rust-lang"]).await;
        set_topics(&db, &store, hidden, &["rust"]).await;
        let row = store.find(&RepositoryKey::Id(ids[0]), &viewer(&ada)).await.unwrap().unwrap();
        assert_eq!((row.topics.as_str(), row.updated_us), ("web,rust", NOW + 5));
        let by_topic = async |topic: &str, part: &str| {
            let (topic, text) = (Some(Topic::parse(topic, "t").unwrap()), SearchText::parse(part, "q").unwrap());
            found(&store, RepositorySearch { topic, text, ..RepositorySearch::default() }).await
        };
        assert_eq!(by_topic("rust", "").await, "source fork");
        assert_eq!(by_topic("rust", "fork").await, "fork");
        assert_eq!(by_topic("rust-lang", "").await, "fork");
        assert_eq!(by_topic("rus", "").await, "");
        set_topics(&db, &store, ids[0], &[]).await;
        assert_eq!(by_topic("web", "").await, "");
        let mut tx = db.begin().await.unwrap();
        store.delete(&mut tx, ids[1]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(by_topic("rust", "").await, "");
    })
    .await;
}

#[tokio::test]
async fn a_search_finds_by_roles_stars_and_visibility() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        for (name, is_private) in [("open", false), ("closed", true)] {
            ready(&db, &store, &ada, &new(name, "", is_private), NOW).await;
        }
        let mut ids = Vec::new();
        for (name, is_private) in [("shared", true), ("starred", false), ("hidden", true)] {
            ids.push(ready(&db, &store, &bob, &new(name, "", is_private), NOW).await.id());
        }
        collaborate(&db, ids[0], &ada, "read").await;
        for id in &ids[1..] {
            let sql = "INSERT INTO stars (user_id, repository_id, created_us) VALUES ($1, $2, $3)";
            db.execute(sql, &args![ada.id, *id, NOW]).await.unwrap();
        }
        let found = async |viewer: &Viewer, search: RepositorySearch| {
            let found = store.search(&search, viewer, all()).await.unwrap();
            assert_eq!((found.repositories.len() as i64, false), (found.total, found.is_partial));
            found.repositories.into_iter().map(|row| row.name).collect::<Vec<_>>().join(" ")
        };
        let (of_ada, of_bob, anonymous) = (viewer(&ada), viewer(&bob), Viewer::of(None));
        let any = RepositorySearch::default;
        let collaborative = || RepositorySearch { mode: RepositoryMode::Collaborative, ..any() };
        let by = |owner: &User| RepositorySearch { owner: Some(owner.id), ..any() };
        let starred = || RepositorySearch { starred_by: Some(ada.id), ..any() };
        for (viewer, search, expected) in [
            (&of_ada, by(&ada), "open closed shared"),
            (&of_ada, RepositorySearch { is_exclusive: true, ..by(&ada) }, "open closed"),
            (&of_ada, by(&bob), "shared starred"),
            (&of_bob, by(&ada), "open"),
            (&anonymous, by(&ada), "open"),
            (&of_ada, collaborative(), "shared"),
            (&of_ada, RepositorySearch { owner: Some(ada.id), ..collaborative() }, "shared"),
            (&of_ada, RepositorySearch { owner: Some(bob.id), ..collaborative() }, "shared"),
            (&of_ada, RepositorySearch { owner: Some(ada.id), is_exclusive: true, ..collaborative() }, ""),
            (&of_bob, collaborative(), ""),
            (&anonymous, collaborative(), ""),
            (&of_ada, starred(), "starred"),
            (&of_bob, starred(), "starred hidden"),
            (&of_ada, RepositorySearch { starred_by: Some(bob.id), ..any() }, ""),
            (&of_ada, RepositorySearch { is_private: Some(true), ..any() }, "closed shared"),
            (&of_ada, RepositorySearch { is_private: Some(false), ..any() }, "open starred"),
            (&of_ada, RepositorySearch { excludes_private: true, ..any() }, "open starred"),
            (&of_ada, RepositorySearch { is_private: Some(true), excludes_private: true, ..any() }, ""),
        ] {
            assert_eq!(found(viewer, search.clone()).await, expected, "{search:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_wiki_has_an_id_that_no_repository_gets() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let one = ready(&db, &store, &ada, &new("one", "", false), NOW).await;
        assert_eq!(store.find_wiki(one.id()).await.unwrap(), None);
        let wiki = store.register_wiki(one.id(), NOW).await.unwrap().unwrap();
        assert!(wiki.id > one.id && !wiki.is_made, "{wiki:?}");
        let two = ready(&db, &store, &ada, &new("two", "", false), NOW).await;
        assert!(two.id > wiki.id, "{} {}", two.id, wiki.id);
        store.set_wiki_made(one.id()).await.unwrap();
        let again = store.register_wiki(one.id(), NOW).await.unwrap().unwrap();
        assert_eq!((again.id, again.is_made), (wiki.id, true));
        let other = store.register_wiki(two.id(), NOW).await.unwrap().unwrap();
        assert!(other.id > two.id);
        let mut tx = db.begin().await.unwrap();
        assert_eq!(store.wiki_id(&mut tx, one.id()).await.unwrap(), Some(wiki.id));
        assert!(store.delete(&mut tx, one.id()).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(store.find_wiki(one.id()).await.unwrap(), None);
        assert_eq!(store.register_wiki(one.id(), NOW).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn settings_of_a_wiki_are_kept() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let one = ready(&db, &store, &ada, &new("one", "", true), NOW).await;
        let mut tx = db.begin().await.unwrap();
        let before = store.lock_wiki_settings(&mut tx, one.id()).await.unwrap().unwrap();
        assert_eq!(before, WikiSettings { is_enabled: true, is_public: false, is_external: false, url: String::new() });
        let after = WikiSettings { is_enabled: false, is_public: true, is_external: true, url: "http://a".into() };
        store.set_wiki_settings(&mut tx, one.id(), &after, NOW + 5).await.unwrap();
        assert_eq!(store.lock_wiki_settings(&mut tx, one.id()).await.unwrap(), Some(after));
        tx.commit().await.unwrap();
        let row = store.find(&RepositoryKey::Id(one.id()), &viewer(&ada)).await.unwrap().unwrap();
        assert_eq!((row.has_wiki(), row.external_wiki_url.as_str(), row.updated_us), (false, "http://a", NOW + 5));
    })
    .await;
}
