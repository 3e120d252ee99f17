//! The audit log: entries, which are written in the transaction of the change; filtered lists; and the deletion of old entries.

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
/// Entries that one transaction deletes, so that no writer waits long for it.
const MAX_PURGED_ROWS: i64 = 200;
/// Other replicas delete at the same time; rows that one has locked are left to it.
const PURGE_POSTGRES: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE time_us < $1 \
     ORDER BY time_us LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id";
const PURGE_SQLITE: &str = "DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE time_us < $1 \
     ORDER BY time_us LIMIT $2) RETURNING id";

/// The account that made a change, and the origin of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Id of the account; zero for the operator at the command line, and for what ended by itself.
    pub(crate) id: i64,
    /// Name of the account.
    pub(crate) name: String,
    /// Id of the token in the request; zero for a password or the command line.
    pub(crate) token_id: i64,
    /// Address of the client; empty if unknown.
    pub(crate) address: String,
    /// Id of the request in the logs; may be empty.
    pub(crate) request_id: String,
}

impl Actor {
    /// Returns the operator at the command line.
    pub(crate) fn operator() -> Self {
        Self { id: 0, name: String::new(), token_id: 0, address: String::new(), request_id: String::new() }
    }

    /// Returns nobody, for what ended by itself.
    pub(crate) fn nobody() -> Self {
        Self::operator()
    }
}

/// The object of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    kind: &'static str,
    id: i64,
    name: String,
}

impl Target {
    /// A user.
    pub(crate) fn user(id: UserId, name: &str) -> Self {
        Self { kind: "user", id: id.0, name: name.to_owned() }
    }

    /// An organization.
    pub(crate) fn organization(id: UserId, name: &str) -> Self {
        Self { kind: "organization", id: id.0, name: name.to_owned() }
    }

    /// A team, as `organization/team`.
    pub(crate) fn team(team: &Team) -> Self {
        Self::team_named(team.id(), &team.organization, &team.name)
    }

    /// A team of which only the id and the names are at hand.
    pub(crate) fn team_named(id: TeamId, organization: &str, name: &str) -> Self {
        Self { kind: "team", id: id.0, name: format!("{organization}/{name}") }
    }

    /// A git store.
    pub(crate) fn git_store(name: &StoreName) -> Self {
        Self { kind: "store", id: 0, name: name.as_str().to_owned() }
    }

    /// The site as a whole.
    pub(crate) fn site() -> Self {
        Self { kind: "site", id: 0, name: String::new() }
    }

    /// A repository of which only the id and `owner/name` are at hand.
    pub(crate) fn repository_named(id: RepositoryId, name: String) -> Self {
        Self { kind: "repository", id: id.0, name }
    }

    /// A repository, as `owner/name`.
    pub(crate) fn repository(row: &Repository) -> Self {
        Self { kind: "repository", id: row.id, name: format!("{}/{}", row.owner_name, row.name) }
    }
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// The kinds of changes. Their words are part of the API: never reused, never changed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// Returns the word in the log.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// Returns the words that match `text`: the equal one, and those of which it is the part before the dot.
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
    /// An account was created.
    UserCreate = "user.create";
    /// An account was changed; the details name the fields, never their values.
    UserUpdate = "user.update";
    /// An account was deleted.
    UserDelete = "user.delete";
    /// Limits of an account were set; the details name them.
    QuotaUpdate = "quota.update";
    /// An access token was created.
    TokenCreate = "token.create";
    /// An access token was revoked.
    TokenDelete = "token.delete";
    /// An e-mail address was added.
    EmailAdd = "email.add";
    /// An e-mail address was removed.
    EmailRemove = "email.remove";
    /// An administrator made an e-mail address a verified one of an account.
    EmailVerify = "email.verify";
    /// An administrator made a verified e-mail address an unverified one.
    EmailUnverify = "email.unverify";
    /// A public key was added to an account.
    KeyAdd = "key.add";
    /// A public key was removed from an account.
    KeyRemove = "key.remove";
    /// An organization was created.
    OrganizationCreate = "organization.create";
    /// An organization was changed; the details name the fields.
    OrganizationUpdate = "organization.update";
    /// An organization was deleted.
    OrganizationDelete = "organization.delete";
    /// A user became a member or an owner of an organization, changed from one to the
    /// other, or made its membership public or private.
    MemberSet = "member.set";
    /// A user was removed from an organization.
    MemberRemove = "member.remove";
    /// A team was created.
    TeamCreate = "team.create";
    /// A team was changed; the details name the fields.
    TeamUpdate = "team.update";
    /// A team was deleted.
    TeamDelete = "team.delete";
    /// A user was added to a team.
    TeamMemberAdd = "team_member.add";
    /// A user was removed from a team.
    TeamMemberRemove = "team_member.remove";
    /// A repository was added to a team.
    TeamRepositoryAdd = "team_repository.add";
    /// A repository was removed from a team.
    TeamRepositoryRemove = "team_repository.remove";
    /// A repository was created.
    RepositoryCreate = "repository.create";
    /// Settings of a repository were changed; the details name the fields.
    RepositoryUpdate = "repository.update";
    /// A repository was given to another owner; the details name both.
    RepositoryTransfer = "repository.transfer";
    /// A repository was deleted.
    RepositoryDelete = "repository.delete";
    /// A transfer was started that waits for the new owner.
    TransferStart = "transfer.start";
    /// A transfer that waited was withdrawn, or ended for the reason in the details.
    TransferCancel = "transfer.cancel";
    /// A transfer that waited was rejected by the new owner.
    TransferReject = "transfer.reject";
    /// A collaborator was added, or its permission changed.
    CollaboratorSet = "collaborator.set";
    /// A collaborator was removed.
    CollaboratorRemove = "collaborator.remove";
    /// A deploy key was added to a repository.
    DeployKeyAdd = "deploy_key.add";
    /// A deploy key was removed from a repository.
    DeployKeyRemove = "deploy_key.remove";
    /// A branch protection was created or replaced.
    ProtectionSet = "protection.set";
    /// A branch protection was removed.
    ProtectionRemove = "protection.remove";
    /// A git store was added; the details have its weight.
    StoreAdd = "store.add";
    /// The weight of a git store was set, which the details have.
    StoreUpdate = "store.update";
    /// A git store was removed.
    StoreRemove = "store.remove";
    /// A webhook was created.
    HookCreate = "hook.create";
    /// A webhook was changed.
    HookUpdate = "hook.update";
    /// A webhook was deleted.
    HookDelete = "hook.delete";
}

/// One change, as an entry of the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    /// The account that made the change.
    pub(crate) actor: &'a Actor,
    /// The kind of change.
    pub(crate) action: Action,
    /// The object of the change.
    pub(crate) target: Target,
    /// Further details; never a secret.
    pub(crate) details: &'a [(&'static str, String)],
}

/// Appends an entry to the audit log, in the transaction of the change.
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

/// Filter of a list of events; an event has to match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditFilter {
    /// Folded name of the actor.
    pub(crate) actor_key: Option<String>,
    /// Folded name of the target.
    pub(crate) target_key: Option<String>,
    /// The action, or the part of it before the dot.
    pub(crate) action: Option<String>,
    /// Earliest time, inclusive.
    pub(crate) since_us: Option<i64>,
    /// Latest time, exclusive.
    pub(crate) until_us: Option<i64>,
}

/// One event of the log.
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
    /// Returns the further details.
    pub(crate) fn details(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.details).unwrap_or_default()
    }
}

/// The table of the audit log, for reading. Entries are written by [`append`].
#[derive(Clone, Debug)]
pub(crate) struct AuditTable {
    db: Db,
}

impl AuditTable {
    /// Creates the table over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of the events that match the filter, newest first, and their total number.
    pub(crate) async fn list(&self, filter: &AuditFilter, page: Page) -> Result<(Vec<AuditRow>, i64), DbError> {
        let mut rows = filtered(LIST, filter);
        rows.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = filtered(COUNT, filter);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Deletes a batch of the events before `before_us`, oldest first. Returns their number, which is zero if none is left.
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
        // A prefix is expanded to the actions that have it, because the index finds equal words only.
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
