//! Comments on issues.

use ferrite_proto::issue;
use serde::Serialize;

use super::convert::{MissingField, Time};
use super::user::{Accounts, User};
use crate::LongTexts;
use crate::links::RepositoryLinks;

crate::shape! {
    /// A comment on an issue or pull request.
    #[derive(Clone, Debug, Serialize)]
    pub struct Comment {
        id: i64,
        html_url: String,
        user: User,
        body: String,
        /// True if `body` is cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        created_at: Time,
        updated_at: Time,
    }
}

impl Comment {
    /// Converts a comment.
    ///
    /// # Errors
    /// If a time is missing.
    pub fn new(comment: issue::Comment, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            id: comment.id,
            html_url: urls.comment_html(comment.issue_number, comment.is_pull_request, comment.id),
            user: accounts.by_id(comment.user_id, urls.site()),
            body: comment.body,
            truncated: comment.is_truncated,
            created_at: Time::new(comment.create_time, "create_time")?,
            updated_at: Time::new(comment.update_time, "update_time")?,
        })
    }
}

impl LongTexts for Comment {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
    }
}
