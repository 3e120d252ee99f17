//! Finds and removes the texts of issues and comments in facts.
//!
//! Titles are not covered: the timeline of an issue shows its old titles anyway.

use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{CommentAction, Event, IssueUpdated};

/// The issue or comment that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An issue or pull request, by id.
    Issue(i64),
    Comment(i64),
}

/// Returns the subject whose earlier text is outdated after this fact.
pub(crate) fn outdated_by(fact: &Fact) -> Option<Subject> {
    match fact {
        Fact::IssueUpdated(IssueUpdated { issue: Some(issue), old_body: Some(_), .. }) => {
            Some(Subject::Issue(issue.id))
        }
        Fact::CommentChanged(changed) if matches!(changed.action(), CommentAction::Edited | CommentAction::Deleted) => {
            changed.comment.as_ref().map(|comment| Subject::Comment(comment.id))
        }
        _ => None,
    }
}

/// Removes the text of a deleted comment from the fact that reports the deletion.
pub(crate) fn remove_deleted_text(fact: &mut Event) {
    if let Some(Fact::CommentChanged(changed)) = &mut fact.fact
        && changed.action() == CommentAction::Deleted
    {
        changed.old_body = None;
        changed.comment.iter_mut().for_each(|comment| comment.body.clear());
    }
}

/// Returns the ids of the issue and the comment whose texts the fact contains.
pub(crate) fn subjects(fact: &Event) -> (Option<i64>, Option<i64>) {
    match &fact.fact {
        Some(Fact::IssueUpdated(updated)) => {
            let has_before = has_text(updated.old_body.as_ref());
            (updated.issue.as_ref().filter(|issue| has_before || !issue.body.is_empty()).map(|issue| issue.id), None)
        }
        Some(Fact::CommentChanged(changed)) => {
            let has_before = has_text(changed.old_body.as_ref());
            let comment = changed.comment.as_ref().filter(|comment| has_before || !comment.body.is_empty());
            let issue = changed.issue.as_ref().filter(|issue| !issue.body.is_empty());
            (issue.map(|issue| issue.id), comment.map(|comment| comment.id))
        }
        _ => (None, None),
    }
}

fn has_text(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

impl Subject {
    /// Removes the subject's text from a fact, both the current and the replaced one.
    pub(crate) fn remove_from(self, fact: &mut Event) {
        match (self, &mut fact.fact) {
            (Self::Issue(_), Some(Fact::IssueUpdated(updated))) => {
                updated.issue.iter_mut().for_each(|issue| issue.body.clear());
                updated.old_body.iter_mut().for_each(String::clear);
            }
            (Self::Issue(_), Some(Fact::CommentChanged(changed))) => {
                changed.issue.iter_mut().for_each(|issue| issue.body.clear());
            }
            (Self::Comment(_), Some(Fact::CommentChanged(changed))) => {
                changed.comment.iter_mut().for_each(|comment| comment.body.clear());
                changed.old_body.iter_mut().for_each(String::clear);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::CommentChanged;
    use ferrite_proto::issue::{Comment, Issue};

    use super::*;

    fn issue(body: &str) -> Option<Issue> {
        Some(Issue { id: 3, body: body.to_owned(), ..Issue::default() })
    }

    fn comment(action: CommentAction, old_body: Option<&str>) -> Event {
        let comment = Some(Comment { id: 4, body: "now".to_owned(), ..Comment::default() });
        let old_body = old_body.map(str::to_owned);
        let fact =
            CommentChanged { action: action.into(), issue: issue("of the issue"), comment, user_id: 7, old_body };
        Event { fact: Some(Fact::CommentChanged(fact)), ..Event::default() }
    }

    fn edited(old_title: Option<&str>, old_body: Option<&str>) -> Event {
        let [old_title, old_body] = [old_title, old_body].map(|text| text.map(str::to_owned));
        let fact = IssueUpdated { issue: issue("now"), old_title, old_body, ..IssueUpdated::default() };
        Event { fact: Some(Fact::IssueUpdated(fact)), ..Event::default() }
    }

    #[test]
    fn edits_and_deletions_make_earlier_texts_outdated() {
        let outdated = |event: Event| outdated_by(&event.fact.unwrap());
        assert_eq!(outdated(comment(CommentAction::Created, None)), None);
        assert_eq!(outdated(comment(CommentAction::Edited, Some("old"))), Some(Subject::Comment(4)));
        assert_eq!(outdated(comment(CommentAction::Deleted, None)), Some(Subject::Comment(4)));
        assert_eq!(outdated(edited(Some("title"), None)), None);
        assert_eq!(outdated(edited(None, Some("old"))), Some(Subject::Issue(3)));
    }

    #[test]
    fn a_fact_names_whose_texts_it_has_until_they_are_taken_out() {
        let mut event = comment(CommentAction::Edited, Some("old"));
        assert_eq!(subjects(&event), (Some(3), Some(4)));
        Subject::Issue(3).remove_from(&mut event);
        assert_eq!(subjects(&event), (None, Some(4)));
        Subject::Comment(4).remove_from(&mut event);
        let Some(Fact::CommentChanged(changed)) = event.fact else { panic!("another fact") };
        let texts = (changed.issue.unwrap().body, changed.comment.unwrap().body, changed.old_body);
        assert_eq!(texts, (String::new(), String::new(), Some(String::new())));
    }

    #[test]
    fn the_text_of_a_deleted_comment_is_not_received() {
        let mut event = comment(CommentAction::Deleted, None);
        remove_deleted_text(&mut event);
        assert_eq!(subjects(&event), (Some(3), None));
        let mut event = comment(CommentAction::Created, None);
        remove_deleted_text(&mut event);
        assert_eq!(subjects(&event), (Some(3), Some(4)));
    }
}
