//! Assignees of issues. The first is a column of the issue. The others are in a text beside it, to
//! be read with the issue, and in rows of `issue_assignees`, to list the issues of a user.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::UserId;

use super::IssueTable;
use crate::model::Issue;

/// Returns all assignees of a row. Without a first there are no others.
pub(super) fn of_row(first: i64, others: &str) -> Vec<UserId> {
    let others = others.split(' ').filter_map(|id| id.parse().ok());
    let all = std::iter::once(first).chain(others).map(UserId);
    if first == 0 { Vec::new() } else { all.collect() }
}

/// Returns the columns of assignees: the first, zero for none, and the others.
pub(super) fn to_row(assignees: &[UserId]) -> (i64, String) {
    let others: Vec<_> = assignees.iter().skip(1).map(|user| user.0.to_string()).collect();
    (assignees.first().map_or(0, |user| user.0), others.join(" "))
}

impl IssueTable {
    /// Adds the rows of an issue's assignees after the first.
    pub(super) async fn add_other_assignees(&self, tx: &mut Tx, issue: &Issue) -> Result<(), DbError> {
        if issue.assignees.len() <= 1 {
            return Ok(());
        }
        let mut query =
            Query::new("INSERT INTO issue_assignees (issue_id, user_id, repository_id, class, number) VALUES ");
        query.bind_rows(
            issue
                .assignees
                .iter()
                .skip(1)
                .map(|user| args![issue.id, *user, issue.repository, issue.class.number(), issue.number]),
        );
        tx.execute(query.sql(), query.args()).await.map(|_| ())
    }

    /// Replaces the rows of an issue's assignees after the first, if they changed.
    pub(crate) async fn replace_other_assignees(&self, tx: &mut Tx, old: &Issue, new: &Issue) -> Result<(), DbError> {
        let others = |issue: &Issue| issue.assignees.iter().skip(1).copied().collect::<Vec<_>>();
        let (before, after) = (others(old), others(new));
        if before == after && (after.is_empty() || old.class == new.class) {
            return Ok(());
        }
        tx.execute("DELETE FROM issue_assignees WHERE issue_id = $1", &args![new.id]).await?;
        self.add_other_assignees(tx, new).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_order_of_assignees() {
        for ids in [&[][..], &[7], &[7, 3, 12]] {
            let assignees: Vec<_> = ids.iter().copied().map(UserId).collect();
            let (first, others) = to_row(&assignees);
            assert_eq!(of_row(first, &others), assignees);
        }
        assert_eq!(to_row(&[UserId(7), UserId(3), UserId(12)]), (7, "3 12".to_owned()));
    }
}
