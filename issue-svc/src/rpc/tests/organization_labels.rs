//! Tests of labels of organizations over a real socket: who manages them, and what events do.

use ferrite_events::event;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, OrganizationDeleted, RepositoryAction, RepositoryUpdated};
use ferrite_proto::grant::Subject;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{
    CreateOrganizationLabelRequest, DeleteOrganizationLabelRequest, GetOrganizationLabelRequest, Label,
    ListLabelsRequest, ListOrganizationLabelsRequest, UpdateOrganizationLabelRequest,
};
use ferrite_proto::operation::{
    CREATE_ORGANIZATION_LABEL, DELETE_ORGANIZATION_LABEL, GET_ORGANIZATION_LABEL, LIST_LABELS,
    LIST_ORGANIZATION_LABELS, UPDATE_ORGANIZATION_LABEL,
};
use ferrite_proto::repo;
use ferrite_rpc::grpc::Channel;

use super::*;

const ACME: i64 = 5;
const BETA: i64 = 6;

fn client(service: &Service) -> LabelServiceClient<Channel> {
    LabelServiceClient::new(service.channel.clone())
}

/// A caller with a grant on an organization.
fn of(organization: i64) -> TestCaller {
    ada().of_subject(Subject::Organization { id: organization, name: name_of(organization) })
}

fn name_of(organization: i64) -> String {
    if organization == ACME { "acme".to_owned() } else { "beta".to_owned() }
}

fn new(organization: i64, name: &str) -> CreateOrganizationLabelRequest {
    let (name, color) = (name.to_owned(), "#00aabb".to_owned());
    CreateOrganizationLabelRequest { organization: name_of(organization), name, color, description: "Ours".into() }
}

async fn create(service: &Service, organization: i64, name: &str) -> Result<Label, Status> {
    let request = of(organization).request(CREATE_ORGANIZATION_LABEL, new(organization, name));
    Ok(client(service).create_organization_label(request).await?.into_inner().label.unwrap())
}

async fn list(service: &Service, organization: i64) -> Vec<String> {
    let request = ListOrganizationLabelsRequest { organization: name_of(organization), page: 1, page_size: 50 };
    let request = of(organization).request(LIST_ORGANIZATION_LABELS, request);
    let response = client(service).list_organization_labels(request).await.unwrap().into_inner();
    assert_eq!(usize::try_from(response.total_count), Ok(response.labels.len()));
    response.labels.into_iter().map(|label| label.name).collect()
}

#[tokio::test]
async fn labels_of_an_organization_are_made_read_changed_and_deleted() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let made = create(&service, ACME, "Bug").await.unwrap();
        assert_eq!((made.repository_id, made.organization_id, made.color.as_str()), (0, ACME, "00aabb"));
        assert_eq!(made.description, "Ours");
        create(&service, BETA, "bug").await.unwrap();
        create(&service, ACME, "docs").await.unwrap();
        assert_eq!(reason(&create(&service, ACME, "BUG").await.unwrap_err()), "LABEL_ALREADY_EXISTS");
        assert_eq!(violations(&create(&service, ACME, " ").await.unwrap_err())[0].0, "name");
        assert_eq!(
            (list(&service, ACME).await, list(&service, BETA).await.len()),
            (vec!["Bug".into(), "docs".into()], 1)
        );

        let get = async |label: &str| {
            let request = GetOrganizationLabelRequest { organization: name_of(ACME), label: label.to_owned() };
            let request = of(ACME).request(GET_ORGANIZATION_LABEL, request);
            client(&service).get_organization_label(request).await.map(|response| response.into_inner().label.unwrap())
        };
        for label in [made.id.to_string().as_str(), "bUG"] {
            assert_eq!(get(label).await.unwrap(), made, "{label}");
        }
        let update = async |name: &str| {
            let (organization, name) = (name_of(ACME), Some(name.to_owned()));
            let description = Some(String::new());
            let request =
                UpdateOrganizationLabelRequest { organization, label_id: made.id, name, color: None, description };
            let request = of(ACME).request(UPDATE_ORGANIZATION_LABEL, request);
            client(&service).update_organization_label(request).await.map(drop)
        };
        assert_eq!(reason(&update("DOCS").await.unwrap_err()), "LABEL_ALREADY_EXISTS");
        update("fault").await.unwrap();
        assert_eq!(get("fault").await.unwrap().description, "");
        assert_eq!(reason(&get("bug").await.unwrap_err()), "LABEL_NOT_FOUND");
        let delete = async |organization: i64| {
            let request = DeleteOrganizationLabelRequest { organization: name_of(organization), label_id: made.id };
            let request = of(organization).request(DELETE_ORGANIZATION_LABEL, request);
            client(&service).delete_organization_label(request).await.map(drop)
        };
        assert_eq!(reason(&delete(BETA).await.unwrap_err()), "LABEL_NOT_FOUND");
        delete(ACME).await.unwrap();
        assert_eq!(list(&service, ACME).await, ["docs"]);
        service.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_grant_opens_the_labels_of_its_organization_alone_and_a_key_adds_one_label() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        for caller in [of(BETA), ada(), of(ACME).granted(LIST_ORGANIZATION_LABELS), of(ACME).with_other_key()] {
            let request = caller.request(CREATE_ORGANIZATION_LABEL, new(ACME, "bug"));
            let refused = client(&service).create_organization_label(request).await.unwrap_err();
            assert_eq!((refused.code(), reason(&refused).as_str()), (Code::Unauthenticated, "BAD_GRANT"));
        }
        let send = async || {
            let request = of(ACME).with_key("k1").request(CREATE_ORGANIZATION_LABEL, new(ACME, "bug"));
            client(&service).create_organization_label(request).await.unwrap().into_inner()
        };
        assert_eq!(send().await, send().await);
        service.db().execute("UPDATE issue_counters SET label_count = 1000", &[]).await.unwrap();
        let full = create(&service, ACME, "more").await.unwrap_err();
        assert_eq!((reason(&full).as_str(), full.message().contains("an organization")), ("TOO_MANY_LABELS", true));
        service.stop().await;
    })
    .await;
}

fn transferred(owner: i64, seconds: i64) -> Event {
    let owner = Some(repo::User { id: owner, ..repo::User::default() });
    let repository = Some(repo::Repository { id: REPOSITORY, owner, ..repo::Repository::default() });
    let action = RepositoryAction::Transferred.into();
    let fact = RepositoryUpdated { action, repository, ..RepositoryUpdated::default() };
    event(RepositoryId(REPOSITORY), seconds * 1_000_000, Fact::RepositoryUpdated(fact))
}

#[tokio::test]
async fn a_repository_that_leaves_its_organization_loses_the_labels_and_they_do_not_come_back() {
    on_each_url(|url| async move {
        let service = Service::start(&url).await;
        let in_acme = ada().of_organization(ACME);
        let (name, color) = ("own".to_owned(), "#00aabb".to_owned());
        let own = CreateLabelRequest { repository_id: REPOSITORY, name, color, ..Default::default() };
        let own = client(&service).create_label(in_acme.request(CREATE_LABEL, own)).await.unwrap();
        let own = own.into_inner().label.unwrap();
        let shared = create(&service, ACME, "shared").await.unwrap();
        let issue = CreateIssueRequest {
            repository_id: REPOSITORY,
            title: "t".into(),
            label_ids: vec![own.id, shared.id],
            ..Default::default()
        };
        let issue = service.create(&in_acme, issue).await.unwrap();
        assert_eq!(issue.labels, [own.clone(), shared.clone()]);
        let listed = ListLabelsRequest { repository_id: REPOSITORY, page: 1, page_size: 10 };
        let listed = client(&service).list_labels(in_acme.request(LIST_LABELS, listed)).await.unwrap();
        assert_eq!(listed.into_inner().labels, std::slice::from_ref(&own), "listed apart");
        let found = async |caller: &TestCaller, label: &str| {
            let labels = vec![label.to_owned()];
            let request =
                ListIssuesRequest { repository_id: REPOSITORY, labels, page: 1, page_size: 1, ..Default::default() };
            service.list(caller, request).await.unwrap().total_count
        };
        assert_eq!((found(&in_acme, "Shared").await, found(&ada(), "shared").await), (1, 0));

        service.deliver(vec![transferred(7, 1000)]).await.unwrap();
        let labels = async || service.get(&ada(), REPOSITORY, 1).await.unwrap().labels;
        assert_eq!(labels().await, std::slice::from_ref(&own));
        assert_eq!(found(&in_acme, "shared").await, 0);
        let change = ChangeIssueLabelsRequest {
            repository_id: REPOSITORY,
            issue_number: 1,
            change: LabelChange::Add.into(),
            label_names: vec!["shared".into()],
            ..Default::default()
        };
        let put = async || {
            let request = in_acme.request(CHANGE_ISSUE_LABELS, change.clone());
            client(&service).change_issue_labels(request).await
        };
        assert_eq!(violations(&put().await.unwrap_err())[0].0, "labels");
        service.deliver(vec![transferred(ACME, 2000)]).await.unwrap();
        assert_eq!(labels().await, std::slice::from_ref(&own));
        assert_eq!(put().await.unwrap().into_inner().labels, [own.clone(), shared]);

        let deleted = OrganizationDeleted { organization_id: ACME, user_id: 7 };
        let deleted = event(RepositoryId(0), 1, Fact::OrganizationDeleted(deleted));
        service.deliver(vec![deleted]).await.unwrap();
        assert_eq!(labels().await, [own]);
        assert!(list(&service, ACME).await.is_empty());
        assert_eq!(reason(&create(&service, ACME, "late").await.unwrap_err()), "ORGANIZATION_NOT_FOUND");
        service.stop().await;
    })
    .await;
}
