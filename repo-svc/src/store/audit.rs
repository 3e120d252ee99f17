//! The audit log: append entries in the transaction of the change, list them, and purge old ones.

use std::collections::BTreeMap;

use ferrite_core::net::StoreName;
use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, TeamId, UserId};

use super::repositories::Repository;
use super::teams::Team;

const APPEND: &str = "INSERT INTO audit_log (time_us, actor_id, actor, actor_key, token_id, action, target_kind, target_id, target, \
     target_key, details, address, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const LIST: &str = "SELECT id, time_us, actor_id, actor, token_id, action, target_kind, target_id, target, details, address, \
     request_id";
const COUNT: &str = "SELECT COUNT(*)";
/// Deleted per transaction, so that no writer waits long.
const MAX_PURGED_ROWS: i64 = 200;
/// Skips rows that another replica is deleting.
const PURGE_POSTGRES: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE time_us < $1 \
     ORDER BY time_us LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id";
const PURGE_SQLITE: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE time_us < $1 \
     ORDER BY time_us LIMIT $2) RETURNING id";

/// The author of a change, with token and address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Zero for the operator at the command line and for automatic changes.
    pub(crate) id: i64,
    pub(crate) name: String,
    /// Zero for a password or the command line.
    pub(crate) token_id: i64,
    /// Address of the client; empty if unknown.
    pub(crate) address: String,
    /// May be empty.
    pub(crate) request_id: String,
}

impl Actor {
    pub(crate) fn operator() -> Self {
        Self { id: 0, name: String::new(), token_id: 0, address: String::new(), request_id: String::new() }
    }

    /// For changes that happen automatically.
    pub(crate) fn nobody() -> Self {
        Self::operator()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    kind: &'static str,
    id: i64,
    name: String,
}

impl Target {
    pub(crate) fn user(id: UserId, name: &str) -> Self {
        Self { kind: "user", id: id.0, name: name.to_owned() }
    }

    pub(crate) fn organization(id: UserId, name: &str) -> Self {
        Self { kind: "organization", id: id.0, name: name.to_owned() }
    }

    /// Named `organization/team`.
    pub(crate) fn team(team: &Team) -> Self {
        Self::team_named(team.id(), &team.organization, &team.name)
    }

    /// For callers without the [`Team`].
    pub(crate) fn team_named(id: TeamId, organization: &str, name: &str) -> Self {
        Self { kind: "team", id: id.0, name: format!("{organization}/{name}") }
    }

    pub(crate) fn git_store(name: &StoreName) -> Self {
        Self { kind: "store", id: 0, name: name.as_str().to_owned() }
    }

    pub(crate) fn site() -> Self {
        Self { kind: "site", id: 0, name: String::new() }
    }

    /// For callers without the [`Repository`]. `name` is `owner/name`.
    pub(crate) fn repository_named(id: RepositoryId, name: String) -> Self {
        Self { kind: "repository", id: id.0, name }
    }

    /// Named `owner/name`.
    pub(crate) fn repository(row: &Repository) -> Self {
        Self { kind: "repository", id: row.id, name: format!("{}/{}", row.owner_name, row.name) }
    }
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// The kinds of changes. The words are part of the API: never reuse or change one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            #[cfg(test)]
            const WORDS: &[&str] = &[$($word),*];

            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// Returns the words that equal `text` or have it before the dot.
            pub(crate) fn matching(text: &str) -> impl Iterator<Item = &'static str> {
                let is_match = move |word: &&str| {
                    *word == text || word.split_once('.').is_some_and(|(thing, _)| thing == text)
                };
                [$($word),*].into_iter().filter(is_match)
            }
        }
    };
}

actions! {
    UserCreate = "user.create";
    /// The details name the changed fields, never their values.
    UserUpdate = "user.update";
    UserDelete = "user.delete";
    /// The details name the changed limits.
    QuotaUpdate = "quota.update";
    TokenCreate = "token.create";
    TokenDelete = "token.delete";
    /// A sign-in to the web pages.
    SessionCreate = "session.create";
    /// By its user: a sign-out, or the end of another session.
    SessionDelete = "session.delete";
    EmailAdd = "email.add";
    EmailRemove = "email.remove";
    /// By an administrator.
    EmailVerify = "email.verify";
    /// By an administrator.
    EmailUnverify = "email.unverify";
    KeyAdd = "key.add";
    KeyRemove = "key.remove";
    OrganizationCreate = "organization.create";
    /// The details name the changed fields.
    OrganizationUpdate = "organization.update";
    OrganizationDelete = "organization.delete";
    /// A user joined, became an owner or a plain member, or made the membership public or private.
    MemberSet = "member.set";
    MemberRemove = "member.remove";
    TeamCreate = "team.create";
    /// The details name the changed fields.
    TeamUpdate = "team.update";
    TeamDelete = "team.delete";
    TeamMemberAdd = "team_member.add";
    TeamMemberRemove = "team_member.remove";
    TeamRepositoryAdd = "team_repository.add";
    TeamRepositoryRemove = "team_repository.remove";
    RepositoryCreate = "repository.create";
    /// The details name the changed fields.
    RepositoryUpdate = "repository.update";
    /// The details name both owners.
    RepositoryTransfer = "repository.transfer";
    RepositoryDelete = "repository.delete";
    /// A transfer was started and is pending.
    TransferStart = "transfer.start";
    /// A pending transfer was withdrawn, or ended for the reason in the details.
    TransferCancel = "transfer.cancel";
    /// The new owner rejected a pending transfer.
    TransferReject = "transfer.reject";
    CollaboratorSet = "collaborator.set";
    CollaboratorRemove = "collaborator.remove";
    DeployKeyAdd = "deploy_key.add";
    DeployKeyRemove = "deploy_key.remove";
    /// Created or replaced.
    ProtectionSet = "protection.set";
    ProtectionRemove = "protection.remove";
    /// The details contain the weight.
    StoreAdd = "store.add";
    /// The details contain the weight.
    StoreUpdate = "store.update";
    StoreRemove = "store.remove";
    HookCreate = "hook.create";
    HookUpdate = "hook.update";
    HookDelete = "hook.delete";
}

#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) action: Action,
    pub(crate) target: Target,
    /// Never contains a secret.
    pub(crate) details: &'a [(&'static str, String)],
}

/// Appends an entry in the transaction of the change.
pub(crate) async fn append(tx: &mut Tx, entry: Entry<'_>, now_us: i64) -> Result<(), DbError> {
    let details: BTreeMap<_, _> = entry.details.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let details = serde_json::to_string(&details).expect("a map of strings is JSON");
    let Entry { actor, action, target, .. } = entry;
    let args = args![
        now_us,
        actor.id,
        actor.name.as_str(),
        actor.name.to_lowercase(),
        actor.token_id,
        action.as_str(),
        target.kind,
        target.id,
        target.name.as_str(),
        target.name.to_lowercase(),
        details,
        actor.address.as_str(),
        actor.request_id.as_str(),
    ];
    tx.execute(APPEND, &args).await.map(|_| ())
}

/// A filter for events. Events must match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditFilter {
    pub(crate) actor_key: Option<String>,
    pub(crate) target_key: Option<String>,
    /// An action, or the part before its dot.
    pub(crate) action: Option<String>,
    /// Inclusive.
    pub(crate) since_us: Option<i64>,
    /// Exclusive.
    pub(crate) until_us: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct AuditRow {
    pub(crate) id: i64,
    pub(crate) time_us: i64,
    pub(crate) actor_id: i64,
    pub(crate) actor: String,
    pub(crate) token_id: i64,
    pub(crate) action: String,
    pub(crate) target_kind: String,
    pub(crate) target_id: i64,
    pub(crate) target: String,
    details: String,
    pub(crate) address: String,
    pub(crate) request_id: String,
}

impl AuditRow {
    pub(crate) fn details(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.details).unwrap_or_default()
    }
}

/// Reads the audit log. [`append`] writes it.
#[derive(Clone, Debug)]
pub(crate) struct AuditTable {
    db: Db,
}

impl AuditTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of matching events, newest first, and the total.
    pub(crate) async fn list(&self, filter: &AuditFilter, page: Page) -> Result<(Vec<AuditRow>, i64), DbError> {
        let mut rows = filtered(LIST, filter);
        rows.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = filtered(COUNT, filter);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Deletes a batch of the events before `before_us`, oldest first. Returns the number deleted.
    pub(crate) async fn purge(&self, before_us: i64) -> Result<usize, DbError> {
        let args = args![before_us, MAX_PURGED_ROWS];
        let sql = self.db.pick(PURGE_POSTGRES, PURGE_SQLITE);
        let deleted: Vec<(i64,)> = self.db.all_relaxed(&[(sql, args.len())], &args).await?;
        Ok(deleted.len())
    }
}

fn filtered(start: &'static str, filter: &AuditFilter) -> Query {
    let mut query = Query::new(start);
    query.push(" FROM audit_log WHERE 1 = 1");
    if let Some(key) = &filter.actor_key {
        query.push(" AND actor_key = ").bind(key);
    }
    if let Some(key) = &filter.target_key {
        query.push(" AND target_key = ").bind(key);
    }
    if let Some(action) = &filter.action {
        // Expand a prefix to its actions: the index only finds equal words.
        query.push(" AND action IN ").bind_list(Action::matching(action));
    }
    if let Some(since) = filter.since_us {
        query.push(" AND time_us >= ").bind(since);
    }
    if let Some(until) = filter.until_us {
        query.push(" AND time_us < ").bind(until);
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_action() {
        let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
        for (kind, verb) in Action::WORDS.iter().filter_map(|word| word.split_once('.')) {
            match kinds.last_mut() {
                Some((last, verbs)) if *last == kind => verbs.push(verb),
                _ => kinds.push((kind, vec![verb])),
            }
        }
        let shown = kinds.iter().map(|(kind, verbs)| match verbs.as_slice() {
            [verb] => format!("`{kind}.{verb}`"),
            verbs => format!("`{kind}.{{{}}}`", verbs.join(",")),
        });
        let line = format!("Actions are {}.", shown.collect::<Vec<_>>().join(", "));
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/access.md");
        let page = std::fs::read_to_string(page).unwrap().replace('\n', " ");
        assert!(page.contains(&line), "docs/access.md has no: {line}");
    }
}
