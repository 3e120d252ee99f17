//! Branch protection rules and the users they allow.

use std::collections::BTreeSet;

use ferrite_db::{Db, DbError, Query, Tx, args};
use ferrite_proto::id::RepositoryId;
use git_store::types::{
    protection::{Pattern, RequiredChecks, Rule, Rules},
    required_reviews::RequiredReviews,
};

const LIST: &str = "SELECT p.id, p.pattern, p.allow_force, p.allow_delete, p.forbid_push, p.require_checks, p.required_contexts, \
     p.require_current_head, p.required_approvals, p.dismiss_stale_approvals, p.ignore_stale_approvals, p.block_on_rejection, \
     p.block_on_requests, p.created_us, p.updated_us, u.user_id, u.may_push, u.may_merge, u.may_approve FROM protections p \
     LEFT JOIN protection_users u ON u.protection_id = p.id WHERE p.repository_id = $1 ORDER BY p.id, u.user_id";
const SET: &str = "INSERT INTO protections \
     (repository_id, pattern, allow_force, allow_delete, forbid_push, require_checks, required_contexts, require_current_head, \
     required_approvals, dismiss_stale_approvals, ignore_stale_approvals, block_on_rejection, block_on_requests, \
     created_us, updated_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
     ON CONFLICT (repository_id, pattern) \
     DO UPDATE SET allow_force = excluded.allow_force, allow_delete = excluded.allow_delete, \
     forbid_push = excluded.forbid_push, require_checks = excluded.require_checks, \
     required_contexts = excluded.required_contexts, require_current_head = excluded.require_current_head, \
     required_approvals = excluded.required_approvals, dismiss_stale_approvals = excluded.dismiss_stale_approvals, \
     ignore_stale_approvals = excluded.ignore_stale_approvals, block_on_rejection = excluded.block_on_rejection, \
     block_on_requests = excluded.block_on_requests, updated_us = excluded.updated_us RETURNING id";
const INSERT_USERS: &str =
    "INSERT INTO protection_users (protection_id, user_id, may_push, may_merge, may_approve) VALUES ";
const CLEAR_USERS: &str = "DELETE FROM protection_users WHERE protection_id = $1";
const DELETE_USERS: &str = "DELETE FROM protection_users WHERE protection_id IN \
     (SELECT id FROM protections WHERE id = $1 AND repository_id = $2)";
const DELETE: &str = "DELETE FROM protections WHERE id = $1 AND repository_id = $2";
/// Does nothing if the new pattern has a rule.
const RENAME: &str = "UPDATE protections SET pattern = $3, updated_us = $4 WHERE id = $2 AND repository_id = $1 AND NOT EXISTS \
     (SELECT 1 FROM protections other WHERE other.repository_id = $1 AND other.pattern = $3)";
const DELETE_ALL_USERS: &str = "DELETE FROM protection_users WHERE protection_id IN \
     (SELECT id FROM protections WHERE repository_id = $1)";
const DELETE_ALL: &str = "DELETE FROM protections WHERE repository_id = $1";

#[derive(Clone, Debug)]
pub(crate) struct ProtectionTable {
    db: Db,
}

/// A rule joined with one of its users.
#[derive(sqlx_macros::FromRow)]
struct Row {
    id: i64,
    pattern: String,
    allow_force: bool,
    allow_delete: bool,
    forbid_push: bool,
    require_checks: bool,
    /// One per line.
    required_contexts: String,
    require_current_head: bool,
    required_approvals: i64,
    dismiss_stale_approvals: bool,
    ignore_stale_approvals: bool,
    block_on_rejection: bool,
    block_on_requests: bool,
    created_us: i64,
    /// Zero for a rule of an older version that was not changed since.
    updated_us: i64,
    user_id: Option<i64>,
    may_push: Option<bool>,
    may_merge: Option<bool>,
    may_approve: Option<bool>,
}

impl Row {
    /// Returns the rule, without its users.
    fn rule(&self) -> Rule {
        Rule {
            id: self.id,
            pattern: Pattern::stored(self.pattern.clone()),
            allow_force: self.allow_force,
            allow_delete: self.allow_delete,
            forbids_push: self.forbid_push,
            users: Vec::new(),
            checks: RequiredChecks {
                are_required: self.require_checks,
                contexts: self.required_contexts.lines().map(str::to_owned).collect(),
            },
            mergers: Vec::new(),
            requires_current_head: self.require_current_head,
            reviews: RequiredReviews {
                approvals: u8::try_from(self.required_approvals).unwrap_or(u8::MAX),
                approvers: Vec::new(),
                dismisses_stale: self.dismiss_stale_approvals,
                ignores_stale: self.ignore_stale_approvals,
                blocks_on_rejection: self.block_on_rejection,
                blocks_on_requests: self.block_on_requests,
            },
            created_us: self.created_us,
            updated_us: self.updated_us.max(self.created_us),
        }
    }
}

impl ProtectionTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) async fn list(&self, repository: RepositoryId) -> Result<Rules, DbError> {
        let rows: Vec<Row> = self.db.lookup_all(LIST, &args![repository]).await?;
        let mut rules: Vec<Rule> = Vec::new();
        for row in rows {
            let is_next = rules.last().is_none_or(|rule| rule.id != row.id);
            if is_next {
                rules.push(row.rule());
            }
            if let Some(rule) = rules.last_mut() {
                rule.users.extend(row.user_id.filter(|_| row.may_push == Some(true)));
                rule.mergers.extend(row.user_id.filter(|_| row.may_merge == Some(true)));
                rule.reviews.approvers.extend(row.user_id.filter(|_| row.may_approve == Some(true)));
            }
        }
        Ok(Rules::new(rules))
    }

    /// Creates a rule, or replaces the one with the same pattern and keeps its id. Returns the id
    /// and ignores `rule.id`.
    pub(crate) async fn set(tx: &mut Tx, repository: RepositoryId, rule: &Rule) -> Result<i64, DbError> {
        let args = args![
            repository,
            rule.pattern.as_str(),
            rule.allow_force,
            rule.allow_delete,
            rule.forbids_push,
            rule.checks.are_required,
            rule.checks.contexts.join("\n"),
            rule.requires_current_head,
            i64::from(rule.reviews.approvals),
            rule.reviews.dismisses_stale,
            rule.reviews.ignores_stale,
            rule.reviews.blocks_on_rejection,
            rule.reviews.blocks_on_requests,
            rule.created_us,
            rule.updated_us
        ];
        let (id,): (i64,) = tx.one(SET, &args).await?;
        tx.execute(CLEAR_USERS, &args![id]).await?;
        let (pushers, mergers, approvers) = (&rule.users, &rule.mergers, &rule.reviews.approvers);
        let users: BTreeSet<_> = pushers.iter().chain(mergers).chain(approvers).collect();
        if !users.is_empty() {
            let mut query = Query::new(INSERT_USERS);
            let row =
                |user: &i64| args![id, *user, pushers.contains(user), mergers.contains(user), approvers.contains(user)];
            query.bind_rows(users.into_iter().map(row));
            tx.execute(query.sql(), query.args()).await?;
        }
        Ok(id)
    }

    /// Deletes a rule. Returns whether it existed.
    pub(crate) async fn delete(tx: &mut Tx, repository: RepositoryId, id: i64) -> Result<bool, DbError> {
        tx.execute(DELETE_USERS, &args![id, repository]).await?;
        let count = tx.execute(DELETE, &args![id, repository]).await?;
        Ok(count > 0)
    }

    /// Gives a rule another pattern. Returns `false` if it is gone, or if the pattern has a rule.
    pub(crate) async fn rename(
        tx: &mut Tx,
        repository: RepositoryId,
        id: i64,
        pattern: &Pattern,
        now_us: i64,
    ) -> Result<bool, DbError> {
        let count = tx.execute(RENAME, &args![repository, id, pattern.as_str(), now_us]).await?;
        Ok(count > 0)
    }

    pub(crate) async fn delete_all(tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
        tx.execute(DELETE_ALL_USERS, &args![repository]).await?;
        tx.execute(DELETE_ALL, &args![repository]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each;

    fn rule(pattern: &str, users: &[i64]) -> Rule {
        let pattern = Pattern::parse(pattern).unwrap();
        Rule {
            id: 0,
            pattern,
            allow_force: false,
            allow_delete: true,
            forbids_push: false,
            users: users.to_vec(),
            checks: RequiredChecks { are_required: true, contexts: vec!["a".to_owned(), "b c".to_owned()] },
            mergers: vec![8, 9],
            requires_current_head: true,
            reviews: RequiredReviews {
                approvals: 50,
                approvers: vec![7, 9],
                dismisses_stale: true,
                ignores_stale: false,
                blocks_on_rejection: true,
                blocks_on_requests: false,
            },
            created_us: 5,
            updated_us: 5,
        }
    }

    #[tokio::test]
    async fn rules_are_replaced_by_pattern_and_gone_with_their_repository() {
        on_each(async |db| {
            let (table, one, two) = (ProtectionTable::new(db.clone()), RepositoryId(1), RepositoryId(2));
            let mut tx = db.begin().await.unwrap();
            let main = ProtectionTable::set(&mut tx, one, &rule("main", &[7, 8])).await.unwrap();
            let star = ProtectionTable::set(&mut tx, one, &rule("b*", &[])).await.unwrap();
            let other = ProtectionTable::set(&mut tx, two, &rule("main", &[9])).await.unwrap();
            let reviews = RequiredReviews {
                approvals: 1,
                approvers: vec![3],
                dismisses_stale: false,
                ignores_stale: true,
                blocks_on_rejection: false,
                blocks_on_requests: true,
            };
            let replaced = Rule { allow_force: true, reviews, created_us: 6, updated_us: 6, ..rule("main", &[3]) };
            assert_eq!(ProtectionTable::set(&mut tx, one, &replaced).await.unwrap(), main);
            tx.commit().await.unwrap();
            let rules = table.list(one).await.unwrap().into_vec();
            let seen: Vec<_> = rules.iter().map(|rule| (rule.id, rule.pattern.as_str(), &rule.users[..])).collect();
            assert_eq!(seen, [(star, "b*", &[][..]), (main, "main", &[3][..])]);
            assert!(rules[1].allow_force && rules[1].allow_delete);
            assert_eq!(rules[1], Rule { id: main, created_us: 5, ..replaced });
            let mut tx = db.begin().await.unwrap();
            let pattern = |text: &str| Pattern::parse(text).unwrap();
            for (id, to, is_renamed) in [(main, "b*", false), (other, "trunk", false), (main, "trunk", true)] {
                assert_eq!(
                    ProtectionTable::rename(&mut tx, one, id, &pattern(to), 7).await.unwrap(),
                    is_renamed,
                    "{to}"
                );
            }
            tx.commit().await.unwrap();
            let renamed = table.list(one).await.unwrap().into_vec();
            let trunk = Rule { pattern: pattern("trunk"), updated_us: 7, ..rules[1].clone() };
            assert_eq!(renamed, [rules[0].clone(), trunk]);
            let mut tx = db.begin().await.unwrap();
            assert!(!ProtectionTable::delete(&mut tx, one, other).await.unwrap());
            assert!(
                ProtectionTable::delete(&mut tx, one, main).await.unwrap()
                    && !ProtectionTable::delete(&mut tx, one, main).await.unwrap()
            );
            ProtectionTable::delete_all(&mut tx, one).await.unwrap();
            tx.commit().await.unwrap();
            assert!(table.list(one).await.unwrap().is_empty());
            assert_eq!(table.list(two).await.unwrap().into_vec()[0].users, [9]);
        })
        .await;
    }
}
