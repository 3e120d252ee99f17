//! Finds and removes the texts of issues, comments and reviews in facts.
//!
//! Titles are not covered: the timeline of an issue shows its old titles anyway.

use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{CommentAction, Event, IssueUpdated};
use ferrite_proto::issue::Issue;

/// What a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An issue or pull request, by id.
    Issue(i64),
    Comment(i64),
    Review(i64),
}

/// The ids of those whose texts a fact contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) issue_id: Option<i64>,
    pub(crate) comment_id: Option<i64>,
    pub(crate) review_id: Option<i64>,
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
        Fact::PullReviewed(reviewed) if reviewed.is_deleted => {
            reviewed.review.as_ref().map(|review| Subject::Review(review.id))
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

/// Returns whose texts the fact contains.
pub(crate) fn texts(fact: &Event) -> Texts {
    let issue_id = |issue: Option<&Issue>, has_before: bool| {
        issue.filter(|issue| has_before || !issue.body.is_empty()).map(|issue| issue.id)
    };
    match &fact.fact {
        Some(Fact::IssueUpdated(updated)) => {
            let has_before = has_text(updated.old_body.as_ref());
            Texts { issue_id: issue_id(updated.issue.as_ref(), has_before), ..Texts::default() }
        }
        Some(Fact::CommentChanged(changed)) => {
            let has_before = has_text(changed.old_body.as_ref());
            let comment = changed.comment.as_ref().filter(|comment| has_before || !comment.body.is_empty());
            let comment_id = comment.map(|comment| comment.id);
            Texts { issue_id: issue_id(changed.issue.as_ref(), false), comment_id, ..Texts::default() }
        }
        Some(Fact::PullReviewed(reviewed)) => {
            let review = reviewed.review.as_ref().filter(|review| !review.body.is_empty());
            let review_id = review.map(|review| review.id);
            Texts { issue_id: issue_id(reviewed.pull.as_ref(), false), review_id, ..Texts::default() }
        }
        _ => Texts::default(),
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
            (Self::Issue(_), Some(Fact::PullReviewed(reviewed))) => {
                reviewed.pull.iter_mut().for_each(|pull| pull.body.clear());
            }
            (Self::Review(_), Some(Fact::PullReviewed(reviewed))) => {
                reviewed.review.iter_mut().for_each(|review| review.body.clear());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{CommentChanged, PullReviewed};
    use ferrite_proto::issue::{Comment, Review};

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

    fn reviewed(body: &str, is_deleted: bool) -> Event {
        let review = Some(Review { id: 5, body: body.to_owned(), ..Review::default() });
        let fact = PullReviewed { pull: issue("of the pull request"), review, is_deleted };
        Event { fact: Some(Fact::PullReviewed(fact)), ..Event::default() }
    }

    /// The ids of the issue, the comment and the review.
    fn ids(event: &Event) -> [Option<i64>; 3] {
        let Texts { issue_id, comment_id, review_id } = texts(event);
        [issue_id, comment_id, review_id]
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
        assert_eq!(outdated(reviewed("text", false)), None);
        assert_eq!(outdated(reviewed("", true)), Some(Subject::Review(5)));
    }

    #[test]
    fn a_fact_names_whose_texts_it_has_until_they_are_taken_out() {
        let mut event = comment(CommentAction::Edited, Some("old"));
        assert_eq!(ids(&event), [Some(3), Some(4), None]);
        Subject::Issue(3).remove_from(&mut event);
        assert_eq!(ids(&event), [None, Some(4), None]);
        Subject::Comment(4).remove_from(&mut event);
        let Some(Fact::CommentChanged(changed)) = event.fact else { panic!("another fact") };
        let texts = (changed.issue.unwrap().body, changed.comment.unwrap().body, changed.old_body);
        assert_eq!(texts, (String::new(), String::new(), Some(String::new())));

        let mut event = reviewed("text", false);
        assert_eq!(ids(&event), [Some(3), None, Some(5)]);
        Subject::Issue(3).remove_from(&mut event);
        assert_eq!(ids(&event), [None, None, Some(5)]);
        Subject::Review(5).remove_from(&mut event);
        assert_eq!(ids(&event), [None; 3]);
        assert_eq!(ids(&reviewed("", false)), [Some(3), None, None]);
    }

    #[test]
    fn the_text_of_a_deleted_comment_is_not_received() {
        let mut event = comment(CommentAction::Deleted, None);
        remove_deleted_text(&mut event);
        assert_eq!(ids(&event), [Some(3), None, None]);
        let mut event = comment(CommentAction::Created, None);
        remove_deleted_text(&mut event);
        assert_eq!(ids(&event), [Some(3), Some(4), None]);
    }
}
