//! Searches over the issues of all repositories. They read windows of issues by id, newest first,
//! so that a filter that matches nothing reads no more than its windows.

use ferrite_db::{DbError, Query};
use ferrite_proto::id::{RepositoryId, UserId};

use super::IssueTable;
use super::issue_parts;
use super::issues::FullIssueRow;
use crate::model::{Class, FullIssue};

/// Issues per window.
#[cfg(not(test))]
pub(crate) const WINDOW_ROWS: i64 = 1000;
#[cfg(test)]
pub(crate) const WINDOW_ROWS: i64 = 4;

/// An issue must match all of these.
#[derive(Clone, Debug)]
pub(crate) struct SearchFilter {
    /// At least one.
    pub(crate) classes: Vec<Class>,
    pub(crate) user: UserId,
    /// The key of the user's name, if the user must be mentioned.
    pub(crate) mentioned: Option<String>,
    /// Whether the user must have opened the issue.
    pub(crate) is_created: bool,
    pub(crate) is_assigned: bool,
    /// A part of the title, ignoring case; empty for all.
    pub(crate) title: String,
    /// Keys of names of labels, one of which the issue must have; empty for all.
    pub(crate) label_keys: Vec<String>,
    /// Titles of milestones, one of which the issue must have; empty for all.
    pub(crate) milestones: Vec<String>,
    pub(crate) since_us: Option<i64>,
    pub(crate) before_us: Option<i64>,
}

/// An issue that a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundIssue {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) is_pull_request: bool,
}

impl IssueTable {
    /// Returns the ids of the newest issues below an id, at most [`WINDOW_ROWS`], in descending
    /// order: of the user if the filter says so, else of all.
    pub(crate) async fn search_window(&self, filter: &SearchFilter, below: i64) -> Result<Vec<i64>, DbError> {
        let mut query = Query::new("SELECT id FROM (");
        if filter.is_assigned {
            let first = "SELECT id FROM issues WHERE assignee_id <> 0 AND assignee_id = ";
            let other = "SELECT issue_id AS id FROM issue_assignees WHERE user_id = ";
            let parts = filter.classes.iter().flat_map(|class| [(class, first, "id"), (class, other, "issue_id")]);
            for (place, (class, select, id)) in parts.enumerate() {
                query.push(if place == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
                query.push(select).bind(filter.user).push(" AND class = ").bind(class.number());
                query.push(" AND ").push(id).push(" < ").bind(below);
                query.push(" ORDER BY ").push(id).push(" DESC LIMIT ").bind(WINDOW_ROWS).push(") AS part");
            }
        } else {
            query.push("SELECT id FROM issues WHERE id < ").bind(below);
            if filter.is_created {
                query.push(" AND user_id = ").bind(filter.user);
            }
            query.push(" ORDER BY id DESC LIMIT ").bind(WINDOW_ROWS);
        }
        query.push(") AS ids ORDER BY id DESC LIMIT ").bind(WINDOW_ROWS);
        let rows: Vec<(i64,)> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Returns those of a window that match, in descending order.
    pub(crate) async fn search_matches(
        &self,
        filter: &SearchFilter,
        window: &[i64],
    ) -> Result<Vec<FoundIssue>, DbError> {
        let mut query =
            Query::new("SELECT issues.id, issues.repository_id, issues.class FROM issues WHERE issues.id IN ");
        query.bind_list(window.iter().copied());
        query.push(" AND +issues.class IN ").bind_list(filter.classes.iter().map(|class| class.number()));
        if filter.is_created {
            query.push(" AND +issues.user_id = ").bind(filter.user);
        }
        if let Some(name) = &filter.mentioned {
            query.push(
                " AND EXISTS (SELECT 1 FROM mentions WHERE mentions.issue_id = issues.id AND mentions.name_key = ",
            );
            query.bind(name.as_str()).push(")");
        }
        if !filter.title.is_empty() {
            query.push(" AND LOWER(issues.title) LIKE ").bind(pattern(&filter.title)).push(" ESCAPE '!'");
        }
        if !filter.label_keys.is_empty() {
            query.push(" AND EXISTS (SELECT 1 FROM issue_labels JOIN labels ON labels.id = issue_labels.label_id");
            query.push(" WHERE issue_labels.issue_id = issues.id AND labels.name_key IN ");
            query.bind_list(filter.label_keys.iter().map(String::as_str)).push(")");
        }
        if !filter.milestones.is_empty() {
            query.push(" AND EXISTS (SELECT 1 FROM milestones WHERE milestones.id = issues.milestone_id");
            query.push(" AND milestones.title IN ").bind_list(filter.milestones.iter().map(String::as_str)).push(")");
        }
        if let Some(since_us) = filter.since_us {
            query.push(" AND issues.updated_us >= ").bind(since_us);
        }
        if let Some(before_us) = filter.before_us {
            query.push(" AND issues.updated_us <= ").bind(before_us);
        }
        query.push(" ORDER BY issues.id DESC");
        let rows: Vec<(i64, i64, i64)> = self.db.all(query.sql(), query.args()).await?;
        let found = |(id, repository, class)| FoundIssue {
            id,
            repository: RepositoryId(repository),
            is_pull_request: Class::from_number(class).is_pull_request,
        };
        Ok(rows.into_iter().map(found).collect())
    }

    /// Returns the issues with these ids, newest first.
    pub(crate) async fn issues_by_id(&self, ids: &[i64]) -> Result<Vec<FullIssue>, DbError> {
        let mut query = self.select_listed();
        query.push(issue_parts::FROM).push(" WHERE issues.id IN ").bind_list(ids.iter().copied());
        query.push(" ORDER BY issues.id DESC");
        let rows: Vec<FullIssueRow> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(FullIssue::from).collect())
    }
}

/// Returns the LIKE pattern of texts that contain `part`, with `!` as its escape character.
fn pattern(part: &str) -> String {
    let mut pattern = String::from("%");
    for letter in part.to_lowercase().chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_its_text_literally() {
        assert_eq!(pattern("50%_A!"), "%50!%!_a!!%");
    }
}
