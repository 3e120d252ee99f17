//! Tests of versions in responses and of writes with a version as precondition.

use ferrite_core::Secret;
use ferrite_proto::Permission;
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::label_service_client::LabelServiceClient;
use ferrite_proto::issue::milestone_service_client::MilestoneServiceClient;
use ferrite_proto::issue::{
    ChangeIssueLabelsRequest, CreateIssueRequest, CreateLabelRequest, CreateMilestoneRequest, DeleteLabelRequest,
    GetIssueRequest, GetLabelRequest, GetMilestoneRequest, LabelChange, ListIssueLabelsRequest, UpdateIssueRequest,
    UpdateLabelRequest, UpdateMilestoneRequest,
};
use ferrite_proto::metadata::{PRECONDITION, VERSION};
use ferrite_proto::operation::{
    CHANGE_ISSUE_LABELS, CREATE_LABEL, CREATE_MILESTONE, DELETE_LABEL, GET_ISSUE, GET_LABEL, GET_MILESTONE,
    LIST_ISSUE_LABELS, UPDATE_ISSUE, UPDATE_LABEL, UPDATE_MILESTONE,
};
use tonic::{Code, Request, Response, Status};

use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

fn ada() -> TestCaller {
    TestCaller::user(7, Permission::Admin)
}

/// Returns a request that asks for a version in the response.
fn asking<T>(operation: &str, message: T) -> Request<T> {
    let mut request = ada().request(operation, message);
    request.metadata_mut().insert(VERSION, "?".parse().unwrap());
    request
}

fn requiring<T>(operation: &str, precondition: &str, message: T) -> Request<T> {
    let mut request = ada().request(operation, message);
    request.metadata_mut().insert(PRECONDITION, precondition.parse().unwrap());
    request
}

/// Returns a precondition with the version in a response.
fn told<T>(response: &Response<T>) -> String {
    format!("version={}", response.metadata().get(VERSION).expect("the version").to_str().unwrap())
}

fn is_refused<T>(outcome: Result<T, Status>) -> bool {
    outcome.is_err_and(|status| (status.code(), reason(&status).as_str()) == (Code::Aborted, "PRECONDITION_FAILED"))
}

async fn new_label(service: &Service) -> i64 {
    let (name, color) = ("bug".to_owned(), "#e11d21".to_owned());
    let new = CreateLabelRequest { repository_id: REPOSITORY, name, color, ..Default::default() };
    let made = LabelServiceClient::new(service.channel.clone()).create_label(ada().request(CREATE_LABEL, new)).await;
    made.unwrap().into_inner().label.unwrap().id
}

async fn start(url: &Secret) -> (Service, LabelServiceClient<ferrite_rpc::grpc::Channel>) {
    let service = Service::start(url).await;
    let labels = LabelServiceClient::new(service.channel.clone());
    (service, labels)
}

#[tokio::test]
async fn a_label_is_changed_and_deleted_only_in_the_version_that_was_read() {
    on_each_url(|url| async move {
        let (service, mut client) = start(&url).await;
        let label_id = new_label(&service).await;
        let get = || asking(GET_LABEL, GetLabelRequest { repository_id: REPOSITORY, label: label_id.to_string() });
        let change = |precondition: &str, name: &str| {
            let message = UpdateLabelRequest {
                repository_id: REPOSITORY,
                label_id,
                name: Some(name.to_owned()),
                ..UpdateLabelRequest::default()
            };
            requiring(UPDATE_LABEL, precondition, message)
        };
        let first = told(&client.get_label(get()).await.unwrap());
        client.update_label(change(&first, "fault")).await.unwrap();
        assert!(is_refused(client.update_label(change(&first, "third")).await));
        let second = client.get_label(get()).await.unwrap();
        assert_eq!(second.get_ref().label.as_ref().unwrap().name, "fault");
        assert_ne!(told(&second), first);
        let delete = |precondition: &str| {
            requiring(DELETE_LABEL, precondition, DeleteLabelRequest { repository_id: REPOSITORY, label_id })
        };
        for refused in [first.as_str(), "absent", "never", "malformed"] {
            assert!(is_refused(client.delete_label(delete(refused)).await), "{refused}");
        }
        client.delete_label(delete(&told(&second))).await.unwrap();
        let gone = client.delete_label(delete("exists")).await.unwrap_err();
        assert_eq!(reason(&gone), "LABEL_NOT_FOUND");
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_issue_has_another_version_when_anything_in_it_changes() {
    on_each_url(|url| async move {
        let (service, mut labels) = start(&url).await;
        let label = new_label(&service).await;
        let mut milestones = MilestoneServiceClient::new(service.channel.clone());
        let new = CreateMilestoneRequest {
            repository_id: REPOSITORY,
            title: "One".to_owned(),
            ..CreateMilestoneRequest::default()
        };
        let made = milestones.create_milestone(ada().request(CREATE_MILESTONE, new)).await.unwrap();
        let milestone_id = made.into_inner().milestone.unwrap().id;
        let new = CreateIssueRequest {
            repository_id: REPOSITORY,
            title: "Title".to_owned(),
            milestone_id,
            ..CreateIssueRequest::default()
        };
        service.create(&ada(), new).await.unwrap();
        let mut issues = IssueServiceClient::new(service.channel.clone());
        let get = || asking(GET_ISSUE, GetIssueRequest { repository_id: REPOSITORY, number: 1 });
        let change = |precondition: &str| {
            let message = UpdateIssueRequest {
                repository_id: REPOSITORY,
                number: 1,
                title: Some("Other".to_owned()),
                ..UpdateIssueRequest::default()
            };
            requiring(UPDATE_ISSUE, precondition, message)
        };
        let first = told(&issues.get_issue(get()).await.unwrap());
        let message = ListIssueLabelsRequest { repository_id: REPOSITORY, issue_number: 1 };
        let none = told(&labels.list_issue_labels(asking(LIST_ISSUE_LABELS, message)).await.unwrap());
        let replace = || ChangeIssueLabelsRequest {
            repository_id: REPOSITORY,
            issue_number: 1,
            change: LabelChange::Replace.into(),
            label_ids: vec![label],
            ..ChangeIssueLabelsRequest::default()
        };
        labels.change_issue_labels(requiring(CHANGE_ISSUE_LABELS, &none, replace())).await.unwrap();
        assert!(is_refused(labels.change_issue_labels(requiring(CHANGE_ISSUE_LABELS, &none, replace())).await));
        assert!(is_refused(issues.update_issue(change(&first)).await), "a label");

        let second = told(&issues.get_issue(get()).await.unwrap());
        let get_milestone = GetMilestoneRequest { repository_id: REPOSITORY, milestone_id, ..Default::default() };
        let of_milestone = told(&milestones.get_milestone(asking(GET_MILESTONE, get_milestone)).await.unwrap());
        let rename = || UpdateMilestoneRequest {
            repository_id: REPOSITORY,
            milestone_id,
            title: Some("Two".to_owned()),
            ..UpdateMilestoneRequest::default()
        };
        milestones.update_milestone(requiring(UPDATE_MILESTONE, &of_milestone, rename())).await.unwrap();
        assert!(is_refused(milestones.update_milestone(requiring(UPDATE_MILESTONE, &of_milestone, rename())).await));
        assert!(is_refused(issues.update_issue(change(&second)).await), "a milestone");

        let third = told(&issues.get_issue(get()).await.unwrap());
        issues.update_issue(change(&third)).await.unwrap();
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_write_that_knows_no_preconditions_is_not_done_with_one() {
    on_each_url(|url| async move {
        let (service, mut client) = start(&url).await;
        let (name, color) = ("bug".to_owned(), "#e11d21".to_owned());
        let new = CreateLabelRequest { repository_id: REPOSITORY, name, color, ..Default::default() };
        assert!(is_refused(client.create_label(requiring(CREATE_LABEL, "exists", new)).await));
        assert_eq!(super::count(&service, "labels").await, 0);
        service.stop().await;
    })
    .await;
}
