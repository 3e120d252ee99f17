//! Compares lists with a model after many random writes.

use std::collections::BTreeSet;

use ferrite_core::page::Page;
use ferrite_proto::id::UserId;

use super::model::{ModelFilter, ModelIssue, Numbers};
use super::*;
use crate::model::words;
use crate::model::{Class, LabelOwner, MilestoneTitle};
use crate::store::{Condition, CounterChange, IssueFilter, Order, Sort};
use crate::testing::on_each_schema;

const WORDS: [&str; 8] = ["alpha", "alphabet", "beta", "crash", "crashes", "delta", "ähre", "2024"];
const NAMES: [&str; 3] = ["ann", "bob", "cy"];
const ISSUES: u64 = 260;
const CHANGES: u64 = 200;
const FILTERS: u64 = 250;

/// A repository with four labels, two of its organization, and three milestones, and a model of its
/// issues.
struct World {
    writer: IssueWriter,
    labels: Vec<i64>,
    shared_labels: Vec<i64>,
    milestones: Vec<i64>,
    issues: Vec<ModelIssue>,
    numbers: Numbers,
}

fn targets(mentions: &BTreeSet<String>) -> TextTargets {
    TextTargets { mentions: mentions.iter().cloned().collect(), issues: Vec::new() }
}

impl World {
    async fn new(db: &Db) -> Self {
        let writer = writer(db);
        let (mut labels, mut milestones) = (Vec::new(), Vec::new());
        let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
        for name in ["bug", "Feature"] {
            labels.push(write.add_label(&new_label(name)).await.unwrap().id);
        }
        for title in ["1.0", "2.0", "3.0"] {
            let title = MilestoneTitle::parse(title).unwrap();
            milestones.push(write.add_milestone(&title, &Default::default(), None).await.unwrap().id);
        }
        commit(write).await;
        let (owner, mut shared_labels) = (LabelOwner::Organization(ORGANIZATION), Vec::new());
        let mut write = writer.begin_labels(owner, CounterChange::default()).await.unwrap();
        for name in ["late", "rare"] {
            shared_labels.push(write.add_label(&new_label(name)).await.unwrap().id);
        }
        commit(write).await;
        // Issues of another repository, which must not show.
        for _ in 0..20 {
            let new = NewIssue { repository: RepositoryId(2), label_ids: shared_labels.clone(), ..issue("title", "") };
            open(&writer, &new).await;
        }
        labels.extend(&shared_labels);
        Self { writer, labels, shared_labels, milestones, issues: Vec::new(), numbers: Numbers::new(7) }
    }

    fn some_labels(&mut self) -> BTreeSet<i64> {
        let labels = self.labels.clone();
        labels
            .into_iter()
            .zip([3, 2, 6, 40])
            .filter(|(_, chances)| self.numbers.one_in(*chances))
            .map(|(id, _)| id)
            .collect()
    }

    fn some_words(&mut self) -> BTreeSet<String> {
        WORDS.into_iter().filter(|_| self.numbers.one_in(4)).map(str::to_owned).collect()
    }

    fn some_names(&mut self) -> BTreeSet<String> {
        NAMES.into_iter().filter(|_| self.numbers.one_in(5)).map(str::to_owned).collect()
    }

    fn milestone(&mut self) -> i64 {
        let place = usize::try_from(self.numbers.below(6)).unwrap();
        self.milestones.get(place).copied().unwrap_or_default()
    }

    /// Nobody, one user or two.
    fn assignees(&mut self) -> Vec<UserId> {
        let first = i64::try_from(self.numbers.below(4)).unwrap();
        let second = self.numbers.one_in(3).then_some(first % 3 + 1);
        if first == 0 { Vec::new() } else { std::iter::once(first).chain(second).map(UserId).collect() }
    }

    async fn open(&mut self) {
        let (labels, words, mentions) = (self.some_labels(), self.some_words(), self.some_names());
        let author = 1 + i64::try_from(self.numbers.below(3)).unwrap();
        let (assignees, milestone) = (self.assignees(), self.milestone());
        let pull_request = self.numbers.one_in(5).then(|| crate::model::NewPullRequest {
            head_repository: REPOSITORY,
            head_branch: format!("topic-{}", self.issues.len()),
            base_branch: "main".to_owned(),
            head_id: "a".repeat(40),
            merge_base_id: "b".repeat(40),
        });
        let new = NewIssue {
            author: UserId(author),
            is_closed: self.numbers.one_in(3),
            assignees: assignees.clone(),
            milestone_id: milestone,
            label_ids: labels.iter().copied().collect(),
            pull_request,
            ..issue("title", &words.iter().map(|word| word.to_uppercase()).collect::<Vec<_>>().join(" - "))
        };
        let mut write = self.writer.begin_open(&new).await.unwrap();
        let full = write.open(&new, &targets(&mentions)).await.unwrap();
        commit(write).await;
        assert_eq!(full.labels.iter().map(|label| label.id).collect::<BTreeSet<_>>(), labels);
        assert_eq!(full.pull_request.is_some(), new.pull_request.is_some());
        self.issues.push(ModelIssue {
            number: full.issue.number,
            author,
            class: full.issue.class,
            assignees: assignees.iter().map(|user| user.0).collect(),
            milestone,
            labels,
            words: words.into_iter().chain(["title".to_owned()]).collect(),
            mentions,
            comments: 0,
            updated_us: full.issue.updated_us,
        });
    }

    /// Changes one issue in one of five ways.
    async fn change(&mut self) {
        let place = usize::try_from(self.numbers.below(self.issues.len().try_into().unwrap())).unwrap();
        let number = self.issues[place].number;
        match self.numbers.below(5) {
            0 => {
                let is_closed = self.numbers.one_in(2);
                change(&self.writer, number, IssueChange { is_closed: Some(is_closed), ..Default::default() }).await;
                self.issues[place].class.is_closed = is_closed;
            }
            1 => {
                let (users, milestone) = (self.assignees(), self.milestone());
                let assignees = users.iter().map(|user| user.0).collect();
                let fields =
                    IssueChange { assignees: Some(users), milestone_id: Some(milestone), ..Default::default() };
                change(&self.writer, number, fields).await;
                (self.issues[place].assignees, self.issues[place].milestone) = (assignees, milestone);
            }
            2 => self.relabel(place).await,
            3 => self.rewrite(place).await,
            _ => {
                let mut write =
                    self.writer.begin(REPOSITORY, CounterChange { comments: 1, ..Default::default() }).await.unwrap();
                let issue = write.issue(number).await.unwrap();
                let body = Body::parse_comment("text".to_owned()).unwrap();
                let names = self.issues[place].mentions.clone();
                write.add_comment(&issue, UserId(2), &body, &targets(&names)).await.unwrap();
                commit(write).await;
                self.issues[place].comments += 1;
            }
        }
        self.issues[place].updated_us = find(&self.writer, number).await.updated_us;
    }

    async fn relabel(&mut self, place: usize) {
        let ids = self.some_labels();
        let mut write = self.writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
        let issue = write.issue(self.issues[place].number).await.unwrap();
        let listed: Vec<_> = ids.iter().copied().collect();
        let change = label_change(LabelChange::Replace, &listed, &[]);
        let left = write.change_labels(&issue, change, UserId(2)).await.unwrap();
        commit(write).await;
        assert_eq!(left.iter().map(|label| label.id).collect::<BTreeSet<_>>(), ids);
        self.issues[place].labels = ids;
    }

    async fn rewrite(&mut self, place: usize) {
        let words = self.some_words();
        let mut write = self.writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
        let old = write.issue(self.issues[place].number).await.unwrap();
        let body = Body::parse(words.iter().cloned().collect::<Vec<_>>().join(" ")).unwrap();
        let is_same = body.as_str() == old.body;
        let fields = IssueChange { body: Some(body), ..Default::default() };
        write.change(old, fields, &TextTargets::default(), UserId(2)).await.unwrap();
        commit(write).await;
        let model = &mut self.issues[place];
        model.words = words.into_iter().chain(["title".to_owned()]).collect();
        if !is_same && model.comments == 0 {
            model.mentions.clear();
        }
    }

    fn condition(&mut self, values: &[i64]) -> Option<Condition<i64>> {
        match self.numbers.below(8) {
            0 | 1 => Some(Condition::Is(values[usize::try_from(self.numbers.below(values.len() as u64)).unwrap()])),
            2 => Some(Condition::None),
            3 => Some(Condition::Any),
            _ => None,
        }
    }

    /// Returns a random filter and its search words.
    fn filter(&mut self) -> (IssueFilter, Vec<String>) {
        let classes: Vec<Class> = match self.numbers.below(4) {
            0 => vec![0],
            1 => vec![1],
            2 => vec![0, 1],
            _ => vec![0, 1, 2, 3],
        }
        .into_iter()
        .map(Class::from_number)
        .collect();
        let labels = self.labels.clone();
        let labels: Vec<i64> = labels.into_iter().filter(|_| self.numbers.one_in(6)).collect();
        let (shared_label_ids, label_ids) = labels.into_iter().partition(|id| self.shared_labels.contains(id));
        let assignee = self.condition(&[1, 2, 3, 9]);
        let milestones = self.milestones.clone();
        let milestone = self.condition(&milestones);
        let creator = self.numbers.one_in(5).then(|| UserId(1 + i64::try_from(self.numbers.below(3)).unwrap()));
        let mentioned =
            self.numbers.one_in(8).then(|| NAMES[usize::try_from(self.numbers.below(3)).unwrap()].to_owned());
        let query = match self.numbers.below(10) {
            0 => "Crash",
            1 => "alpha beta",
            2 => "ÄHRE, 20",
            3 => "nothing",
            _ => "",
        };
        let words = words::query_words(query);
        let place = usize::try_from(self.numbers.below(self.issues.len() as u64)).unwrap();
        let since_us = self.numbers.one_in(6).then(|| self.issues[place].updated_us);
        let db = self.writer.store.db();
        let expression = (!words.is_empty())
            .then(|| db.pick(words::ts_query(REPOSITORY, &words), words::fts5_query(REPOSITORY, &words)));
        let assignee = assignee.map(|condition| match condition {
            Condition::Is(id) => Condition::Is(UserId(id)),
            Condition::None => Condition::None,
            Condition::Any => Condition::Any,
        });
        (
            IssueFilter {
                base_branch: None,
                classes,
                label_ids,
                shared_label_ids,
                assignee,
                creator,
                milestone,
                mentioned,
                words: expression,
                since_us,
            },
            words,
        )
    }

    /// Compares all pages of a list with the model.
    async fn compare(&mut self) -> usize {
        let (filter, words) = self.filter();
        let sort = [Sort::Number, Sort::Number, Sort::Updated, Sort::Comments];
        let sort = sort[usize::try_from(self.numbers.below(4)).unwrap()];
        let order = Order { sort, is_ascending: self.numbers.one_in(2) };
        let model = ModelFilter { filter: &filter, words: &words };
        let (expected, has_more) = model.list(&self.issues, order);
        let size = 1 + i32::try_from(self.numbers.below(40)).unwrap();
        let mut found = Vec::new();
        for number in 1.. {
            let page = Page::parse(number, size, 50).unwrap();
            let response = self.writer.store.list(REPOSITORY, &filter, order, page).await.unwrap();
            let counted = model.counted(order, page);
            let total = i64::try_from(expected.len().min(counted)).unwrap();
            let is_partial = has_more || expected.len() > counted;
            assert_eq!(
                (response.total, response.is_partial),
                (total, is_partial),
                "{filter:?} {order:?} {size} {number}"
            );
            if response.issues.is_empty() {
                break;
            }
            found.extend(response.issues.into_iter().map(|full| full.issue.number));
        }
        assert_eq!(found, expected, "{filter:?} {order:?} {size}");
        found.len()
    }
}

#[tokio::test]
async fn every_list_has_what_matches_in_order_and_counts_it() {
    on_each_schema(&crate::migrations(), |db| async move {
        let mut world = World::new(&db).await;
        for _ in 0..ISSUES {
            world.open().await;
        }
        for _ in 0..CHANGES {
            world.change().await;
        }
        let mut found = 0;
        for _ in 0..FILTERS {
            found += world.compare().await;
        }
        assert!(found > 1000, "the filters match too little: {found}");
    })
    .await;
}

#[tokio::test]
async fn the_newest_and_the_last_page_take_as_many_statements_in_a_long_list_as_in_a_short_one() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let mut counts = Vec::new();
        for issues in [20, 200] {
            for _ in 0..issues {
                open(&writer, &issue("t", "")).await;
            }
            let filter = IssueFilter { classes: vec![Class::from_number(0)], ..Default::default() };
            let order = Order { sort: Sort::Number, is_ascending: false };
            let before = db.statements();
            let first = writer.store.list(REPOSITORY, &filter, order, Page::parse(1, 10, 50).unwrap()).await.unwrap();
            let last = i32::try_from(first.total / 10).unwrap();
            let last = writer.store.list(REPOSITORY, &filter, order, Page::parse(last, 10, 50).unwrap()).await.unwrap();
            assert_eq!((first.issues.len(), last.issues.len(), last.issues[9].issue.number), (10, 10, 1));
            counts.push(db.statements() - before);
        }
        assert_eq!(counts[0], counts[1]);
    })
    .await;
}
