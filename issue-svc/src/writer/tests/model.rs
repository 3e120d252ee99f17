//! A model in memory that predicts the lists of a repository.

use std::collections::BTreeSet;

use ferrite_core::page::Page;
use ferrite_proto::id::UserId;

use crate::model::Class;
use crate::store::{Condition, IssueFilter, MAX_ROWS_COUNTED_AHEAD, MAX_UNCOUNTED_ROWS, Order, Sort};

/// Pseudorandom numbers, the same in every run.
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub(super) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// The fields of an issue that filters use.
#[derive(Clone, Debug)]
pub(super) struct ModelIssue {
    pub(super) number: i64,
    pub(super) author: i64,
    pub(super) class: Class,
    pub(super) assignees: BTreeSet<i64>,
    pub(super) milestone: i64,
    pub(super) labels: BTreeSet<i64>,
    pub(super) words: BTreeSet<String>,
    pub(super) mentions: BTreeSet<String>,
    pub(super) comments: i64,
    pub(super) updated_us: i64,
}

fn meets_one(condition: Option<&Condition<UserId>>, values: &BTreeSet<i64>) -> bool {
    match condition {
        None => true,
        Some(Condition::Is(wanted)) => values.contains(&wanted.0),
        Some(Condition::None) => values.is_empty(),
        Some(Condition::Any) => !values.is_empty(),
    }
}

fn meets<T: PartialEq>(condition: Option<&Condition<T>>, value: &T, none: &T) -> bool {
    match condition {
        None => true,
        Some(Condition::Is(wanted)) => value == wanted,
        Some(Condition::None) => value == none,
        Some(Condition::Any) => value != none,
    }
}

/// A filter with its search words.
pub(super) struct ModelFilter<'a> {
    pub(super) filter: &'a IssueFilter,
    pub(super) words: &'a [String],
}

impl ModelFilter<'_> {
    fn matches(&self, issue: &ModelIssue) -> bool {
        let filter = self.filter;
        let has_word = |word: &String| issue.words.iter().any(|other| other.starts_with(word.as_str()));
        filter.classes.contains(&issue.class)
            && filter.label_ids.iter().chain(&filter.shared_label_ids).all(|id| issue.labels.contains(id))
            && meets_one(filter.assignee.as_ref(), &issue.assignees)
            && filter.creator.is_none_or(|user| user.0 == issue.author)
            && meets(filter.milestone.as_ref(), &issue.milestone, &0)
            && filter.mentioned.as_ref().is_none_or(|name| issue.mentions.contains(name))
            && self.words.iter().all(has_word)
            && filter.since_us.is_none_or(|since| issue.updated_us >= since)
    }

    fn is_counted(&self) -> bool {
        let filter = self.filter;
        let any = filter.assignee == Some(Condition::Any) || filter.milestone == Some(Condition::Any);
        let lists = filter.label_ids.len()
            + filter.shared_label_ids.len()
            + usize::from(filter.assignee.is_some())
            + usize::from(filter.creator.is_some())
            + usize::from(filter.milestone.is_some());
        lists <= 1 && !any && filter.mentioned.is_none() && filter.words.is_none() && filter.since_us.is_none()
    }

    /// Returns how many issues are counted for a page.
    pub(super) fn counted(&self, order: Order, page: Page) -> usize {
        let ahead = page.offset() + page.size() + MAX_ROWS_COUNTED_AHEAD;
        match order.sort {
            _ if self.is_counted() => usize::MAX,
            Sort::Number => usize::try_from(ahead.min(MAX_UNCOUNTED_ROWS)).unwrap(),
            Sort::Updated | Sort::Comments => usize::try_from(MAX_UNCOUNTED_ROWS).unwrap(),
        }
    }

    /// Returns the numbers of all issues in the list, in order, and whether the list was cut.
    pub(super) fn list(&self, issues: &[ModelIssue], order: Order) -> (Vec<i64>, bool) {
        let mut found: Vec<_> = issues.iter().filter(|issue| self.matches(issue)).collect();
        found.sort_by_key(|issue| issue.number);
        if order.sort != Sort::Number || !order.is_ascending {
            found.reverse();
        }
        let limit = usize::try_from(MAX_UNCOUNTED_ROWS).unwrap();
        let is_partial = !self.is_counted() && found.len() > limit;
        if is_partial {
            found.truncate(limit);
        }
        let key = |issue: &&ModelIssue| match order.sort {
            Sort::Number => (0, issue.number),
            Sort::Updated => (issue.updated_us, issue.number),
            Sort::Comments => (issue.comments, issue.number),
        };
        found.sort_by_key(key);
        if !order.is_ascending {
            found.reverse();
        }
        (found.into_iter().map(|issue| issue.number).collect(), is_partial)
    }
}
