//! Reviews of pull requests, requests for them, and comments on lines.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use ferrite_proto::issue::{self, ReviewState};

use super::text::Body;

/// As many bytes as the paths of most systems have.
const MAX_PATH_BYTES: usize = 4096;
const MAX_LINE_COUNT: i32 = 1000;

/// A review, or a request for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Review {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) issue: IssueId,
    /// The number of the pull request.
    pub(crate) number: i64,
    /// Zero for a request to a team.
    pub(crate) user: UserId,
    /// Zero for a user.
    pub(crate) team_id: i64,
    /// The name of the team when it was asked.
    pub(crate) team_name: String,
    pub(crate) state: ReviewState,
    pub(crate) body: String,
    /// Whether `body` was cut, for a list.
    pub(crate) is_truncated: bool,
    /// The commit that was reviewed, and the merge base then.
    pub(crate) commit_id: String,
    pub(crate) merge_base_id: String,
    /// The head of the pull request now.
    pub(crate) head_id: String,
    pub(crate) is_official: bool,
    pub(crate) is_dismissed: bool,
    pub(crate) comment_count: i64,
    pub(crate) created_us: i64,
    /// Zero for pending ones and for requests.
    pub(crate) submitted_us: i64,
    pub(crate) updated_us: i64,
}

impl Review {
    pub(crate) fn is_pending(&self) -> bool {
        self.state == ReviewState::Pending
    }

    /// Whether it approves or rejects the pull request, dismissed or not.
    pub(crate) fn is_verdict(&self) -> bool {
        is_verdict(self.state)
    }
}

/// Whether reviews in this state approve or reject.
pub(crate) fn is_verdict(state: ReviewState) -> bool {
    matches!(state, ReviewState::Approved | ReviewState::ChangesRequested)
}

/// A comment on lines, which belongs to a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewComment {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) issue: IssueId,
    /// The number of the pull request.
    pub(crate) number: i64,
    pub(crate) review_id: i64,
    pub(crate) author: UserId,
    pub(crate) body: String,
    /// Whether `body` was cut, for a list.
    pub(crate) is_truncated: bool,
    pub(crate) path: String,
    pub(crate) is_old_side: bool,
    /// The last line, from 1.
    pub(crate) line: i64,
    pub(crate) line_count: i64,
    pub(crate) commit_id: String,
    /// The commit whose file has the lines.
    pub(crate) line_commit_id: String,
    pub(crate) diff_hunk: String,
    /// Zero if it is not resolved.
    pub(crate) resolver: UserId,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
}

/// A comment on lines to add to a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewReviewComment {
    pub(crate) path: String,
    pub(crate) is_old_side: bool,
    /// The last line, from 1.
    pub(crate) line: i32,
    pub(crate) line_count: i32,
    pub(crate) body: Body,
    /// The part of the diff that shows the lines.
    pub(crate) diff_hunk: String,
}

impl NewReviewComment {
    /// Checks the comment at a place of a list, without a look at the file.
    pub(crate) fn parse(place: usize, new: issue::NewReviewComment) -> Result<Self, Vec<FieldViolation>> {
        let field = |name| format!("comments[{place}].{name}");
        let line_count = new.line_count.max(1);
        let path = match is_path(&new.path) {
            true => None,
            false if new.path.is_empty() => Some(FieldViolation::new(field("path"), "required", "must not be empty")),
            false => Some(FieldViolation::new(field("path"), "invalid", "must be the path of a file")),
        };
        let position = field(position_field(new.is_old_side));
        let line = match new.line {
            1.. => None,
            // Without a position, the comment is on neither side.
            0 if !new.is_old_side => {
                Some(FieldViolation::new(position, "required", "`new_position` or `old_position` is required"))
            }
            _ => Some(FieldViolation::new(position, "invalid", "must be the number of a line, from 1")),
        };
        let count = (new.line_count < 0 || line_count > MAX_LINE_COUNT || line_count > new.line.max(1)).then(|| {
            let message = "must be at most 1,000, and not more than there are lines up to the position";
            FieldViolation::new(field("line_count"), "invalid", message)
        });
        let body =
            Body::parse_comment(new.body).map_err(|violation| FieldViolation { field: field("body"), ..violation });
        match (body, path, line, count) {
            (Ok(body), None, None, None) => Ok(Self {
                path: new.path,
                is_old_side: new.is_old_side,
                line: new.line,
                line_count,
                body,
                diff_hunk: String::new(),
            }),
            (body, path, line, count) => Err([path, line, count, body.err()].into_iter().flatten().collect()),
        }
    }
}

/// Returns the name of the field with the position of a comment.
pub(crate) fn position_field(is_old_side: bool) -> &'static str {
    if is_old_side { "old_position" } else { "new_position" }
}

fn is_path(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES && !path.contains('\0') && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(path: &str, line: i32, line_count: i32) -> issue::NewReviewComment {
        issue::NewReviewComment { path: path.to_owned(), is_old_side: false, line, line_count, body: "text".to_owned() }
    }

    fn fields(new: issue::NewReviewComment) -> Vec<String> {
        NewReviewComment::parse(3, new).unwrap_err().into_iter().map(|violation| violation.field).collect()
    }

    #[test]
    fn a_comment_is_on_lines_of_a_file() {
        let parsed = NewReviewComment::parse(0, new("src/a b.rs", 5, 0)).unwrap();
        assert_eq!((parsed.line, parsed.line_count), (5, 1));
        assert!(NewReviewComment::parse(0, new("a", 1000, 1000)).is_ok());
        for path in ["", "/a", "a/", "a//b", "../a", "./a", "a\0", &"x".repeat(4097)] {
            assert_eq!(fields(new(path, 1, 1)), ["comments[3].path"], "{path}");
        }
        assert_eq!(fields(new("a", 0, 1)), ["comments[3].new_position"]);
        let without_position = NewReviewComment::parse(3, new("a", 0, 1)).unwrap_err().remove(0);
        assert!(without_position.code == "required" && without_position.message.contains("`old_position`"));
        for (line, count) in [(2, 3), (2000, 1001), (5, -1)] {
            assert_eq!(fields(new("a", line, count)), ["comments[3].line_count"], "{line} {count}");
        }
        let blank = issue::NewReviewComment { body: " ".to_owned(), is_old_side: true, ..new("a", -1, 1) };
        assert_eq!(fields(blank), ["comments[3].old_position", "comments[3].body"]);
    }
}
