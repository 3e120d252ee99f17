//! The fields of an issue's form: those of its author, and those of writers.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::view::{Choice, Issue, Milestone, end_of_day};
use crate::pages::components::parameter;
use crate::pages::error::PageResult;
use crate::pages::form::Fields;
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::{Account, Label};

/// Labels, milestones and assignees to choose from; others keep what they are.
const MAX_CHOICES: u32 = 200;

/// What is in the fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) title: String,
    pub(super) body: String,
    /// Ids, in text.
    labels: Vec<String>,
    milestone: String,
    assignees: Vec<String>,
    pub(super) due_date: String,
}

/// What writers can choose.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    pub(super) labels: Vec<Choice>,
    pub(super) milestones: Vec<Choice>,
    pub(super) assignees: Vec<Choice>,
}

impl Draft {
    /// The fields of a new issue, as a link can prefill them.
    pub(super) fn of_query(here: &str) -> Self {
        let text = |name| parameter(here, name).unwrap_or_default();
        Self { title: text("title"), body: text("body"), milestone: text("milestone"), ..Self::default() }
    }

    pub(super) fn of_issue(issue: &Issue) -> Self {
        Self {
            title: issue.title.clone(),
            body: issue.body.clone(),
            labels: issue.labels.iter().map(|label| label.id.to_string()).collect(),
            milestone: issue.milestone.as_ref().map(|milestone| milestone.id.to_string()).unwrap_or_default(),
            assignees: issue.assignees.iter().map(|assignee| assignee.login.clone()).collect(),
            due_date: issue.due_date.map(|due| due.date().to_string()).unwrap_or_default(),
        }
    }

    pub(super) fn of_fields(fields: &Fields) -> Self {
        let all = |name| fields.all(name).map(str::to_owned).collect();
        Self {
            title: fields.text("title").to_owned(),
            body: fields.text("body").to_owned(),
            labels: all("labels"),
            // Zero is none.
            milestone: Some(fields.text("milestone")).filter(|id| *id != "0").unwrap_or_default().to_owned(),
            assignees: all("assignees"),
            due_date: fields.text("due_date").to_owned(),
        }
    }

    pub(super) fn label_ids(&self) -> Vec<i64> {
        self.labels.iter().filter_map(|id| id.parse().ok()).collect()
    }

    /// The body of a request for a new issue.
    pub(super) fn new_issue(&self, is_writer: bool) -> Value {
        let mut body = self.texts();
        if is_writer {
            body.extend(self.properties());
            body.insert("labels".to_owned(), json!(self.label_ids()));
            body.insert("due_date".to_owned(), json!(end_of_day(&self.due_date)));
        }
        Value::Object(body)
    }

    /// The body of a request that changes an issue, without its labels. `old` is what it was.
    pub(super) fn changed_issue(&self, old: &Self, is_writer: bool) -> Value {
        let mut body = self.texts();
        if is_writer {
            body.extend(self.properties());
            // The form has only the day: the time of day stays with it.
            if self.due_date.trim().is_empty() {
                body.insert("unset_due_date".to_owned(), json!(true));
            } else if self.due_date != old.due_date {
                body.insert("due_date".to_owned(), json!(end_of_day(&self.due_date)));
            }
        }
        Value::Object(body)
    }

    fn texts(&self) -> Map<String, Value> {
        Map::from_iter([("title".to_owned(), json!(self.title)), ("body".to_owned(), json!(self.body))])
    }

    fn properties(&self) -> [(String, Value); 2] {
        let milestone = self.milestone.parse::<i64>().unwrap_or_default();
        [("milestone".to_owned(), json!(milestone)), ("assignees".to_owned(), json!(self.assignees))]
    }
}

impl Choices {
    /// Reads what can be chosen in a repository. `issue` has what is chosen already, perhaps beyond
    /// the lists.
    pub(super) async fn read(at: &RepositoryVisit, draft: &Draft, issue: Option<&Issue>) -> PageResult<Self> {
        let (api, repository) = (&at.visit.api, at.repository.api());
        let (labels, milestones, assignees) = (
            format!("{repository}/labels?limit={MAX_CHOICES}"),
            format!("{repository}/milestones?state=open&limit={MAX_CHOICES}"),
            format!("{repository}/assignees?limit={MAX_CHOICES}"),
        );
        let (labels, milestones, assignees) = tokio::try_join!(
            api.list::<Label>(&labels),
            api.list::<Milestone>(&milestones),
            api.list::<Account>(&assignees)
        )?;
        let milestone = std::slice::from_ref(&draft.milestone);
        let label = |label: &Label| Choice::new(&label.id.to_string(), &label.name, &draft.labels);
        let choose = |found: &Milestone| Choice::new(&found.id.to_string(), &found.title, milestone);
        let assignee = |account: &Account| Choice::new(&account.login, &account.login, &draft.assignees);
        let mut choices = Self {
            labels: Choice::with_others(labels.items.iter().map(label).collect(), &draft.labels),
            milestones: Choice::with_others(milestones.items.iter().map(choose).collect(), milestone),
            assignees: Choice::with_others(assignees.items.iter().map(assignee).collect(), &draft.assignees),
        };
        if let Some(issue) = issue {
            choices.name(issue);
        }
        Ok(choices)
    }

    /// Names what the issue has but the lists do not.
    fn name(&mut self, issue: &Issue) {
        let labels: HashMap<_, _> = issue.labels.iter().map(|label| (label.id.to_string(), &label.name)).collect();
        for choice in &mut self.labels {
            if let Some(name) = labels.get(&choice.value) {
                choice.text.clone_from(name);
            }
        }
        if let Some(milestone) = &issue.milestone {
            let id = milestone.id.to_string();
            for choice in self.milestones.iter_mut().filter(|choice| choice.value == id) {
                choice.text.clone_from(&milestone.title);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writers_send_what_others_may_not_set() {
        let draft = Draft {
            title: "x".to_owned(),
            labels: vec!["5".to_owned(), "y".to_owned()],
            milestone: "2".to_owned(),
            assignees: vec!["bob".to_owned()],
            due_date: "2026-03-01".to_owned(),
            ..Draft::default()
        };
        assert_eq!(draft.new_issue(false), json!({"title": "x", "body": ""}));
        let properties = json!({"title": "x", "body": "", "milestone": 2, "assignees": ["bob"]});
        let with = |more: Value| {
            let mut all = properties.clone();
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let due = "2026-03-01T23:59:59Z";
        assert_eq!(draft.new_issue(true), with(json!({"labels": [5], "due_date": due})));
        let old = |due_date: &str| Draft { due_date: due_date.to_owned(), ..Draft::default() };
        assert_eq!(draft.changed_issue(&old("2026-02-01"), true), with(json!({"due_date": due})));
        assert_eq!(draft.changed_issue(&old("2026-03-01"), true), properties, "the time of day stays");
        let without = Draft { due_date: String::new(), ..draft };
        assert_eq!(without.changed_issue(&old("2026-03-01"), true), with(json!({"unset_due_date": true})));
    }

    #[test]
    fn a_link_prefills_a_new_issue() {
        let draft = Draft::of_query("/a/b/issues/new?title=It%20crashes&body=a%0Ab");
        assert_eq!((draft.title.as_str(), draft.body.as_str()), ("It crashes", "a\nb"));
    }
}
