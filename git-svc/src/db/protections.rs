//! Branch protection rules and the users they allow.

use ferrite_db::{Db, DbError, Query, Tx, args};
use ferrite_proto::id::RepositoryId;
use git_store::types::protection::{Pattern, RequiredChecks, Rule, Rules};

const LIST: &str = "SELECT p.id, p.pattern, p.allow_force, p.allow_delete, p.forbid_push, p.require_checks, p.required_contexts, \
     p.created_us, p.updated_us, u.user_id FROM protections p \
     LEFT JOIN protection_users u ON u.protection_id = p.id WHERE p.repository_id = $1 ORDER BY p.id, u.user_id";
const SET: &str = "INSERT INTO protections \
     (repository_id, pattern, allow_force, allow_delete, forbid_push, require_checks, required_contexts, created_us, updated_us) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (repository_id, pattern) \
     DO UPDATE SET allow_force = excluded.allow_force, allow_delete = excluded.allow_delete, \
     forbid_push = excluded.forbid_push, require_checks = excluded.require_checks, \
     required_contexts = excluded.required_contexts, updated_us = excluded.updated_us RETURNING id";
const CLEAR_USERS: &str = "DELETE FROM protection_users WHERE protection_id = $1";
const DELETE_USERS: &str = "DELETE FROM protection_users WHERE protection_id IN \
     (SELECT id FROM protections WHERE id = $1 AND repository_id = $2)";
const DELETE: &str = "DELETE FROM protections WHERE id = $1 AND repository_id = $2";
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
    created_us: i64,
    /// Zero for a rule of an older version that was not changed since.
    updated_us: i64,
    user_id: Option<i64>,
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
                rules.push(Rule {
                    id: row.id,
                    pattern: Pattern::stored(row.pattern),
                    allow_force: row.allow_force,
                    allow_delete: row.allow_delete,
                    forbids_push: row.forbid_push,
                    users: Vec::new(),
                    checks: RequiredChecks {
                        are_required: row.require_checks,
                        contexts: row.required_contexts.lines().map(str::to_owned).collect(),
                    },
                    created_us: row.created_us,
                    updated_us: row.updated_us.max(row.created_us),
                });
            }
            if let Some(rule) = rules.last_mut() {
                rule.users.extend(row.user_id);
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
            rule.created_us,
            rule.updated_us
        ];
        let (id,): (i64,) = tx.one(SET, &args).await?;
        tx.execute(CLEAR_USERS, &args![id]).await?;
        if !rule.users.is_empty() {
            let mut query = Query::new("INSERT INTO protection_users (protection_id, user_id) VALUES ");
            query.bind_rows(rule.users.iter().map(|user| args![id, *user]));
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
            let replaced = Rule { allow_force: true, created_us: 6, updated_us: 6, ..rule("main", &[3]) };
            assert_eq!(ProtectionTable::set(&mut tx, one, &replaced).await.unwrap(), main);
            tx.commit().await.unwrap();
            let rules = table.list(one).await.unwrap().into_vec();
            let seen: Vec<_> = rules.iter().map(|rule| (rule.id, rule.pattern.as_str(), &rule.users[..])).collect();
            assert_eq!(seen, [(star, "b*", &[][..]), (main, "main", &[3][..])]);
            assert!(rules[1].allow_force && rules[1].allow_delete);
            assert_eq!((rules[1].created_us, rules[1].updated_us), (5, 6));
            assert_eq!(rules[1].checks, replaced.checks);
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
