//! Reactions to issues, pull requests and comments.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::{IssueId, UserId};

const CONTENTS: [&str; 8] = ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"];

/// What reactions are to, as a request names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReactionSubject {
    /// The number of an issue or pull request.
    Issue(i64),
    /// The id of a comment.
    Comment(i64),
}

/// What reactions are to, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReactionTarget {
    pub(crate) issue: IssueId,
    /// Zero for the issue itself.
    pub(crate) comment_id: i64,
    /// Whether the issue is a pull request.
    pub(crate) is_pull_request: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reaction {
    pub(crate) user: UserId,
    pub(crate) content: String,
    pub(crate) created_us: i64,
}

/// One of the known contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReactionContent(&'static str);

impl ReactionContent {
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        match CONTENTS.iter().find(|content| **content == text) {
            Some(content) => Ok(Self(content)),
            None => {
                let names = CONTENTS.map(|content| format!("`{content}`"));
                let message = format!("must be one of {}", names.join(", "));
                Err(FieldViolation::new("content", "unknown", message))
            }
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_known_and_others_name_them() {
        for content in CONTENTS {
            assert_eq!(ReactionContent::parse(content).unwrap().as_str(), content);
        }
        for other in ["", "+2", "Heart", " eyes", "\u{1f44d}"] {
            let violation = ReactionContent::parse(other).unwrap_err();
            assert_eq!(violation.field, "content", "{other}");
            assert!(CONTENTS.iter().all(|content| violation.message.contains(content)), "{other}");
        }
    }
}
