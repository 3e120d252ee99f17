mod facts;
mod lists;
mod model;
mod organization_labels;
mod search;
mod writes;

use ferrite_core::Clock;
use ferrite_db::Db;
use ferrite_events::{Relay, Subscribers};
use ferrite_proto::id::{OrganizationId, RepositoryId, UserId};
use ferrite_proto::issue::LabelChange;

use super::{IssueLabelChange, IssueWriter, TextTargets, Write};
use crate::model::{
    Body, Color, FullIssue, Issue, IssueChange, LabelDescription, LabelName, NewIssue, NewLabel, Title,
};
use crate::store::IssueTable;

const REPOSITORY: RepositoryId = RepositoryId(1);
const ORGANIZATION: OrganizationId = OrganizationId(4);

fn writer(db: &Db) -> IssueWriter {
    let clock = Clock::system();
    let relay = Relay::new(db.clone(), clock.clone(), Subscribers::new());
    IssueWriter { store: IssueTable::new(db.clone()), relay, clock }
}

fn issue(title: &str, body: &str) -> NewIssue {
    NewIssue {
        repository: REPOSITORY,
        organization: Some(ORGANIZATION),
        author: UserId(3),
        title: Title::parse(title).unwrap(),
        body: Body::parse(body.to_owned()).unwrap(),
        is_closed: false,
        assignees: Vec::new(),
        milestone_id: 0,
        due_us: None,
        label_ids: Vec::new(),
        pull_request: None,
    }
}

fn new_label(name: &str) -> NewLabel {
    NewLabel {
        name: LabelName::parse(name).unwrap(),
        color: Color::parse("#00ff00").unwrap(),
        description: LabelDescription::parse(&format!("About {name}")).unwrap(),
    }
}

fn label_change(kind: LabelChange, ids: &[i64], names: &[&str]) -> IssueLabelChange {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    IssueLabelChange { kind, ids: ids.iter().copied().collect(), names, organization: Some(ORGANIZATION) }
}

/// Commits without waiting for a delivery: there are no subscribers.
async fn commit(write: Write<'_>) {
    write.tx.commit().await.unwrap();
}

async fn open(writer: &IssueWriter, new: &NewIssue) -> FullIssue {
    let mut write = writer.begin_open(new).await.unwrap();
    let issue = write.open(new, &TextTargets::default()).await.unwrap();
    commit(write).await;
    issue
}

async fn change(writer: &IssueWriter, number: i64, change: IssueChange) -> FullIssue {
    let mut write = writer.begin(REPOSITORY, super::CounterChange::default()).await.unwrap();
    let old = write.issue(number).await.unwrap();
    let issue = write.change(old, change, &TextTargets::default(), UserId(3)).await.unwrap();
    commit(write).await;
    issue
}

async fn find(writer: &IssueWriter, number: i64) -> Issue {
    let store = &writer.store;
    store.find(store.reader(), REPOSITORY, number).await.unwrap().unwrap()
}
