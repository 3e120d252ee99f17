mod pull_peer;
mod service;

pub(crate) use ferrite_db::testing::{on_each_schema, on_each_url};
pub(crate) use ferrite_rpc::testing::{REPOSITORY, TestCaller, reason};
pub(crate) use pull_peer::{MISSING_FILE, PullPeer};
pub(crate) use service::Service;

/// A statement that adds a review to the only issue, of a user who can write.
pub(crate) fn review_row(user: i64, state: i64, commit_id: &str, submitted_us: i64) -> String {
    format!(
        "INSERT INTO reviews (repository_id, issue_id, user_id, team_id, team_name, state, body, commit_id, merge_base_id, \
         is_official, is_dismissed, comment_count, created_us, submitted_us, updated_us) SELECT repository_id, id, {user}, 0, '', \
         {state}, '', '{commit_id}', '', TRUE, FALSE, 0, {submitted_us}, {submitted_us}, {submitted_us} FROM issues"
    )
}
