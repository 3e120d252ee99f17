//! A dataset with many repositories, inserted by SQL because a million requests would take hours.

use ferrite_benches::Failure;
use ferrite_core::Secret;
use ferrite_db::args;
use ferrite_db::{Db, Value};

use crate::server;

/// Accounts that own the other repositories.
const OWNERS: i64 = 1_000;
/// Numbers of repositories that the user owns, can access through a team, and collaborates on. They
/// come first.
const OWNED: i64 = 400;
const BY_TEAM: i64 = 300;
const COLLABORATING: i64 = 300;
/// All repositories of the user.
pub(crate) const OWN: i64 = OWNED + BY_TEAM + COLLABORATING;
/// Repositories per statement.
const BATCH_SIZE: i64 = 50_000;
/// Factors that scatter the numbers of repositories.
const PRIMES: [i64; 5] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];

/// A name has two of these words. Each is in about every hundredth name.
const WORDS: &str = "amber anchor apex arrow atlas aurora badger basil beacon birch blaze bolt bramble breeze bridge bronze brook \
     cactus canyon cargo cedar chalk cinder cipher citrus clover cobalt comet copper coral cosmos cotton crane crater crimson \
     crystal cypress dahlia delta desert diamond dingo dolphin dragon drift dune eagle ebony echo eclipse ember emerald falcon fern \
     ferret flint forest fossil fox frost galaxy garnet gecko geyser ginger glacier granite gravel grove harbor hazel heron hickory \
     hollow honey horizon hornet iceberg indigo iris island ivory jackal jade jaguar jasper jungle juniper kelp kernel kestrel kiwi \
     koala lagoon lantern lava lemon leopard lichen lily lotus lunar lynx magnet mango maple marble marlin meadow mercury meteor mint \
     mirage monsoon moss nebula nectar nickel nimbus oasis obsidian ocean olive onyx opal orbit orchid osprey otter oyster panther \
     papaya pebble pepper phoenix pine planet plasma plume pollen poppy prairie prism puffin pulsar quartz quasar quill radar raven \
     reef ridge river robin rocket ruby saffron sage salmon sapphire saturn scarlet shadow sierra silver sparrow spruce summit sunset \
     swift talon tango thistle thunder tiger timber topaz torrent tulip tundra turtle velvet violet viper walnut willow winter wolf \
     zenith zephyr zinc zodiac";
/// Words of descriptions, for "A HOW WHAT for FOR".
const HOW: &str =
    "fast small simple modern portable tiny friendly minimal robust typed async embedded secure parallel lazy";
const WHAT: &str =
    "library tool server client parser compiler framework toolkit driver wrapper plugin engine daemon shell proxy";
const FOR: &str =
    "json yaml graphs images logs metrics queues caches maps audio video tests builds patches email payments";
/// Words that are only in names.
const COMMON: [&str; 6] = ["falcon", "walnut", "pebble", "saffron", "juniper", "glacier"];
/// Pairs of characters that are in a few words.
const SHORT: [&str; 4] = ["zo", "yx", "wi", "kw"];

const MAKE_WORDS: &str = "CREATE TABLE bench_words (kind BIGINT, n BIGINT, word TEXT, PRIMARY KEY (kind, n))";
const ADD_WORD: &str = "INSERT INTO bench_words (kind, n, word) VALUES ($1, $2, $3)";
const DROP_WORDS: &str = "DROP TABLE bench_words";
const ADD_OWNERS: &str = "WITH RECURSIVE numbers (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < $1) \
     INSERT INTO users (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, created_us) \
     SELECT 'user', 'member' || i, 'member' || i, '', '', '', $2, $3, 0 FROM numbers ORDER BY i";
const ADD_ORGANIZATION: &str = "INSERT INTO users (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, \
     created_us) VALUES ('organization', 'guild', 'guild', '', '', '', $1, $2, 0) RETURNING id";
const FIRST_OWNER: &str = "SELECT MIN(id) FROM users WHERE name LIKE 'member%'";
const INDEX_USERS: &str = "INSERT INTO users_text (rowid, name_key, full_name_key) \
     SELECT id, name_key, full_name_key FROM users WHERE name LIKE 'member%'";
const ADD_REPOSITORIES: &str = "WITH RECURSIVE numbers (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < $2), \
     mixed AS (SELECT i, i * $3 % 4294967296 / 4096 AS a, i * $4 % 4294967296 / 4096 AS b, i * $5 % 4294967296 / 4096 AS c, \
     i * $6 % 4294967296 / 4096 AS d, i * $7 % 4294967296 / 4096 AS e FROM numbers), \
     texts AS (SELECT m.i, m.e, n.word || '-' || o.word || '-' || m.i AS name, \
     'A ' || h.word || ' ' || w.word || ' for ' || f.word AS description FROM mixed m \
     JOIN bench_words n ON n.kind = 0 AND n.n = m.a % $8 JOIN bench_words o ON o.kind = 0 AND o.n = m.b % $8 \
     JOIN bench_words h ON h.kind = 1 AND h.n = m.c % $9 JOIN bench_words w ON w.kind = 2 AND w.n = m.d % $10 \
     JOIN bench_words f ON f.kind = 3 AND f.n = m.e % $11) \
     INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, is_mirror, \
     is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, open_issue_count, \
     issues_version, refs_number, created_us, updated_us) \
     SELECT CASE WHEN i <= $12 THEN $13 WHEN i <= $14 THEN $15 ELSE $16 + i % $17 END, name, name, description, \
     LOWER(description), '', 'ready', i % 100 = 7, $18, $18, $19, 'main', 0, 0, 0, 1, 0, 0, 0, i, e FROM texts ORDER BY i";
const PLACE: &str = "INSERT INTO placements (repository_id, store, epoch) SELECT id, 'default', 1 FROM repositories";
const INDEX: &str = "INSERT INTO repositories_text (rowid, name_key, description_key) \
     SELECT id, name_key, description_key FROM repositories";
/// Merges segments of SQLite's index, as repo-svc does by itself within minutes.
const PREPARE_MERGES: &str = "INSERT INTO repositories_text (repositories_text, rank) VALUES ('usermerge', 2)";
const MERGE: &str = "INSERT INTO repositories_text (repositories_text, rank) VALUES ('merge', 500)";
const CHANGES: &str = "SELECT total_changes()";
const COLLABORATE: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
     SELECT id, $1, 'write', 0 FROM repositories WHERE id > (SELECT MIN(id) FROM repositories) + $2 - 1 ORDER BY id LIMIT $3";
const ADD_TEAM: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
     VALUES ($1, 'writers', 'writers', '', 2, 0) RETURNING id";
const JOIN: &str = "INSERT INTO team_members (team_id, user_id, created_us) VALUES ($1, $2, 0)";
const GIVE: &str = "INSERT INTO team_repositories (team_id, repository_id, created_us) \
     SELECT $1, id, 0 FROM repositories WHERE owner_id = $2";
const NAMES: &str = "SELECT name FROM repositories WHERE id > (SELECT MIN(id) FROM repositories) + $1 - 1 AND NOT is_private \
     ORDER BY id LIMIT 1";

const CHANGE: &str = "UPDATE users SET created_us = created_us + 1 WHERE id = $1";

#[derive(Debug)]
pub(crate) struct Dataset {
    db: Db,
    user: i64,
    rare: Vec<String>,
}

impl Dataset {
    /// Fills a new database of repo-svc, for an existing user.
    pub(crate) async fn fill(url: &Secret, user: i64, size: i64) -> Result<Self, Failure> {
        let db = Db::open(url, 2).await?;
        let indexes = server::set_indexes_aside(url).await?;
        let lengths = add_words(&db).await?;
        let (organization, first) = add_accounts(&db).await?;
        let mut begin = 1;
        while begin <= size {
            let [a, b, c, d, e] = PRIMES;
            let [names, how, what, purpose] = lengths;
            let end = (begin + BATCH_SIZE - 1).min(size);
            let args = args![
                begin,
                end,
                a,
                b,
                c,
                d,
                e,
                names,
                how,
                what,
                purpose,
                OWNED,
                user,
                OWNED + BY_TEAM,
                organization,
                first,
                OWNERS,
                false,
                true
            ];
            unchecked(&db, ADD_REPOSITORIES, &args).await?;
            begin = end + 1;
        }
        unchecked(&db, PLACE, &[]).await?;
        share(&db, user, organization).await?;
        db.execute(DROP_WORDS, &[]).await?;
        let mut rare = Vec::new();
        for number in 0..100 {
            let (name,): (String,) = db.one(NAMES, &args![OWN + number * (size - OWN - 100) / 100]).await?;
            rare.push(name);
        }
        if db.pick(false, true) {
            db.execute(INDEX_USERS, &[]).await?;
            db.execute(INDEX, &[]).await?;
            merge(&db).await?;
        } else {
            server::restore(url, indexes).await?;
        }
        Ok(Self { db, user, rare })
    }

    /// Changes a row to invalidate results that are cached until the next change.
    pub(crate) async fn change(&self) -> Result<(), Failure> {
        self.db.execute(CHANGE, &args![self.user]).await?;
        Ok(())
    }

    pub(crate) async fn close(self) {
        self.db.close().await;
    }

    pub(crate) fn rare(&self, number: u32) -> String {
        self.rare[number as usize % self.rare.len()].clone()
    }

    /// Part of about every hundredth name.
    pub(crate) fn common(&self, number: u32) -> String {
        COMMON[number as usize % COMMON.len()].to_owned()
    }

    /// Part of two characters.
    pub(crate) fn short(&self, number: u32) -> String {
        SHORT[number as usize % SHORT.len()].to_owned()
    }

    /// Part of a few user names.
    pub(crate) fn user(&self, number: u32) -> String {
        format!("ber{}", number % 90 + 10)
    }
}

/// Runs a statement, on PostgreSQL without foreign key checks, which take as long as the rest.
async fn unchecked(db: &Db, sql: &str, args: &[Value]) -> Result<(), Failure> {
    let mut tx = db.begin().await?;
    if tx.pick(true, false) {
        tx.execute("SET LOCAL session_replication_role = replica", &[]).await?;
    }
    tx.execute(sql, args).await?;
    Ok(tx.commit().await?)
}

/// Merges segments of SQLite's index until no two have one size. A merge without effect changes one
/// row.
async fn merge(db: &Db) -> Result<(), Failure> {
    db.execute(PREPARE_MERGES, &[]).await?;
    loop {
        let mut tx = db.begin_relaxed().await?;
        let (before,): (i64,) = tx.one(CHANGES, &[]).await?;
        tx.execute(MERGE, &[]).await?;
        let (after,): (i64,) = tx.one(CHANGES, &[]).await?;
        tx.commit().await?;
        if after - before < 2 {
            return Ok(());
        }
    }
}

/// Adds the words and returns the number of each kind.
async fn add_words(db: &Db) -> Result<[i64; 4], Failure> {
    let mut lengths = [0; 4];
    let mut tx = db.begin().await?;
    tx.execute(MAKE_WORDS, &[]).await?;
    for (kind, (words, length)) in (0_i64..).zip([WORDS, HOW, WHAT, FOR].into_iter().zip(&mut lengths)) {
        for word in words.split(' ') {
            tx.execute(ADD_WORD, &args![kind, *length, word]).await?;
            *length += 1;
        }
    }
    tx.commit().await?;
    Ok(lengths)
}

/// Adds the owners and the organization, and returns the ids of the organization and of the first
/// owner.
async fn add_accounts(db: &Db) -> Result<(i64, i64), Failure> {
    let mut tx = db.begin().await?;
    let (organization,): (i64,) = tx.one(ADD_ORGANIZATION, &args![false, true]).await?;
    tx.execute(ADD_OWNERS, &args![OWNERS, false, true]).await?;
    let (first,): (i64,) = tx.one(FIRST_OWNER, &[]).await?;
    tx.commit().await?;
    Ok((organization, first))
}

/// Gives the user access to repositories of others.
async fn share(db: &Db, user: i64, organization: i64) -> Result<(), Failure> {
    let mut tx = db.begin().await?;
    tx.execute(COLLABORATE, &args![user, OWNED + BY_TEAM, COLLABORATING]).await?;
    let (team,): (i64,) = tx.one(ADD_TEAM, &args![organization]).await?;
    tx.execute(JOIN, &args![team, user]).await?;
    tx.execute(GIVE, &args![team, organization]).await?;
    tx.commit().await?;
    Ok(())
}
