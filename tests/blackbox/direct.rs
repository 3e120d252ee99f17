//! Direct gRPC calls to the services, with tokens and with forged grants.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrite_proto::git::git_service_client::GitServiceClient;
use ferrite_proto::git::{ListBranchesRequest, storage_service_client::StorageServiceClient};
use ferrite_proto::grant::{Grant, Signer, Verifier};
use ferrite_proto::hook::hook_service_client::HookServiceClient;
use ferrite_proto::hook::{HookOwner, ListHooksRequest, hook_owner};
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::{CreateIssueRequest, ListIssuesRequest};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::{AuthenticateRequest, GetAuthenticatedUserRequest, RepositoryRef, ResolveAccessRequest};
use ferrite_proto::{ServiceRole, metadata, operation};
use serde_json::json;
use tokio_stream::StreamExt;
use tonic::{Code, Request};
use tonic_reflection::pb::v1 as reflection;

use crate::harness::grpc::{refused, with_grant, with_token};
use crate::harness::{Cluster, Role, User};

on_profiles! {
    both {
        services_describe_themselves
        a_token_is_enough_for_a_direct_call
        a_direct_call_without_a_token_is_unauthenticated
        a_direct_call_sees_no_more_than_its_token
        internal_calls_are_for_services
        forged_grants_are_refused
    }
}

/// Services with calls about a repository.
const INSIDE: [Role; 3] = [Role::Issue, Role::Hook, Role::Git];

pub(crate) async fn list(
    cluster: &Cluster,
    role: Role,
    repository_id: i64,
    proof: &Proof<'_>,
) -> Result<(), tonic::Status> {
    let channel = cluster.channel(role).await;
    match role {
        Role::Issue => {
            let message = ListIssuesRequest { repository_id, page: 1, page_size: 10, ..Default::default() };
            IssueServiceClient::new(channel).list_issues(proof.on(message)).await.map(drop)
        }
        Role::Hook => {
            let owner = HookOwner { owner: Some(hook_owner::Owner::RepositoryId(repository_id)) };
            let message = ListHooksRequest { owner: Some(owner), page: 1, page_size: 10 };
            HookServiceClient::new(channel).list_hooks(proof.on(message)).await.map(drop)
        }
        Role::Git => {
            let message = ListBranchesRequest { repository_id, page: 1, page_size: 10 };
            GitServiceClient::new(channel).list_branches(proof.on(message)).await.map(drop)
        }
        Role::Repo => AccountServiceClient::new(channel)
            .get_authenticated_user(proof.on(GetAuthenticatedUserRequest {}))
            .await
            .map(drop),
        Role::Gateway => panic!("the gateway serves no gRPC"),
    }
}

pub(crate) enum Proof<'a> {
    Nothing,
    Token(&'a str),
    Grant(&'a str),
}

impl Proof<'_> {
    fn on<T>(&self, message: T) -> Request<T> {
        match self {
            Self::Nothing => Request::new(message),
            Self::Token(token) => with_token(message, token),
            Self::Grant(grant) => with_grant(message, grant),
        }
    }
}

fn listing(role: Role) -> &'static str {
    match role {
        Role::Issue => operation::LIST_ISSUES,
        Role::Hook => operation::LIST_HOOKS,
        Role::Git => operation::LIST_BRANCHES,
        Role::Repo | Role::Gateway => panic!("no RPC of {role:?} needs a grant"),
    }
}

async fn grant_for(cluster: &Cluster, user: &User, repository_id: i64, operation: &str) -> String {
    let message = ResolveAccessRequest {
        repository: Some(RepositoryRef::by_id(repository_id)),
        operation: operation.to_owned(),
        ..ResolveAccessRequest::default()
    };
    let mut access = AccessServiceClient::new(cluster.channel(Role::Repo).await);
    let token = user.token.as_deref().unwrap();
    refused(access.resolve_access(with_token(message.clone(), token)).await, Code::PermissionDenied);
    // Called with the gateway's key: other roles get no grant.
    let mut request = with_token(message, token);
    let credential = cluster.service_token(ServiceRole::Gateway, Role::Repo);
    request.metadata_mut().insert(metadata::SERVICE, credential.parse().unwrap());
    access.resolve_access(request).await.unwrap().into_inner().grant
}

async fn services_describe_themselves(cluster: &Cluster) {
    for (role, service, call) in [
        (Role::Repo, "ferrite.repo.v1.AccountService", "GetAuthenticatedUser"),
        (Role::Issue, "ferrite.issue.v1.IssueService", "CreateIssue"),
        (Role::Issue, "ferrite.issue.v1.CommentService", "CreateComment"),
        (Role::Issue, "ferrite.issue.v1.LabelService", "ChangeIssueLabels"),
        (Role::Issue, "ferrite.issue.v1.MilestoneService", "CreateMilestone"),
        (Role::Hook, "ferrite.hook.v1.HookService", "CreateHook"),
        (Role::Git, "ferrite.git.v1.GitService", "PutContents"),
    ] {
        let mut client = reflection::server_reflection_client::ServerReflectionClient::new(cluster.channel(role).await);
        use reflection::server_reflection_request::MessageRequest;
        let ask =
            |question| reflection::ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let questions =
            [MessageRequest::ListServices(String::new()), MessageRequest::FileContainingSymbol(service.into())];
        let responses =
            client.server_reflection_info(tokio_stream::iter(questions.map(ask))).await.unwrap().into_inner();
        let responses: Vec<_> = responses.map(|response| response.unwrap().message_response.unwrap()).collect().await;
        use reflection::server_reflection_response::MessageResponse;
        let [MessageResponse::ListServicesResponse(services), MessageResponse::FileDescriptorResponse(files)] =
            &responses[..]
        else {
            panic!("{responses:?}");
        };
        assert!(services.service.iter().any(|found| found.name == service), "{services:?}");
        let file: prost_types::FileDescriptorProto =
            prost::Message::decode(&files.file_descriptor_proto[0][..]).unwrap();
        let calls: Vec<_> = file
            .service
            .iter()
            .flat_map(|service| &service.method)
            .map(prost_types::MethodDescriptorProto::name)
            .collect();
        assert!(calls.contains(&call), "{calls:?}");
    }
}

async fn a_token_is_enough_for_a_direct_call(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let token = ada.token.clone().unwrap();
    let repository_id =
        ada.new_repository("direct", json!({"auto_init": true, "private": true})).await["id"].as_i64().unwrap();
    let mut accounts = AccountServiceClient::new(cluster.channel(Role::Repo).await);
    let response = accounts.get_authenticated_user(with_token(GetAuthenticatedUserRequest {}, &token)).await.unwrap();
    assert_eq!(response.into_inner().user.unwrap().username, ada.name);
    let mut issues = IssueServiceClient::new(cluster.channel(Role::Issue).await);
    let message = CreateIssueRequest { repository_id, title: "By gRPC".into(), ..Default::default() };
    let issue = issues.create_issue(with_token(message, &token)).await.unwrap().into_inner().issue.unwrap();
    assert_eq!(ada.get(&ada.repo("direct", "/issues/1")).await.expect(200).json()["id"], issue.id);
    for role in INSIDE {
        list(cluster, role, repository_id, &Proof::Token(&token)).await.unwrap();
    }
}

async fn a_direct_call_without_a_token_is_unauthenticated(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repository_id = ada.new_repository("open", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    for role in &Role::ALL[..4] {
        refused(list(cluster, *role, repository_id, &Proof::Nothing).await, Code::Unauthenticated);
        refused(list(cluster, *role, repository_id, &Proof::Token("")).await, Code::Unauthenticated);
        refused(list(cluster, *role, repository_id, &Proof::Token(&"0".repeat(40))).await, Code::Unauthenticated);
    }
}

async fn a_direct_call_sees_no_more_than_its_token(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let hidden =
        ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await["id"].as_i64().unwrap();
    let open = ada.new_repository("open", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let proof = Proof::Token(outsider.token.as_deref().unwrap());
    for role in INSIDE {
        let of_hidden = refused(list(cluster, role, hidden, &proof).await, Code::NotFound);
        let of_missing = refused(list(cluster, role, 987_654_321, &proof).await, Code::NotFound);
        assert_eq!(of_hidden.message(), of_missing.message());
    }
    refused(list(cluster, Role::Hook, open, &proof).await, Code::PermissionDenied);
    list(cluster, Role::Issue, open, &proof).await.unwrap();
    list(cluster, Role::Git, open, &proof).await.unwrap();
}

async fn internal_calls_are_for_services(cluster: &Cluster) {
    let admin = cluster.admin().await;
    let token = admin.token.as_deref().unwrap();
    let mut access = AccessServiceClient::new(cluster.channel(Role::Repo).await);
    let question = AuthenticateRequest { token: token.to_owned() };
    refused(access.authenticate(with_token(question, token)).await, Code::PermissionDenied);
    let mut storage = StorageServiceClient::new(cluster.channel(Role::Git).await);
    let deletion = ferrite_proto::git::DeleteRepositoryRequest { repository_id: 1 };
    refused(storage.delete_repository(with_token(deletion, token)).await, Code::PermissionDenied);
    for role in &Role::ALL[..4] {
        let channel = cluster.channel(*role).await;
        let mut sink = ferrite_proto::events::event_sink_client::EventSinkClient::new(channel);
        let nothing = ferrite_proto::events::DeliverRequest::default();
        refused(sink.deliver(with_token(nothing, token)).await, Code::PermissionDenied);
    }
}

async fn forged_grants_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let here = ada.new_repository("here", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let there = ada.new_repository("there", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let ours = Signer::from_pem(&std::fs::read(cluster.keys().join("grant.pem")).unwrap()).unwrap();
    let public = std::fs::read(cluster.keys().join("grant.pub.pem")).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let minute = Duration::from_secs(60);
    for role in INSIDE {
        let good = grant_for(cluster, &ada, here, listing(role)).await;
        let (grant, _) = Verifier::from_pem(&public).unwrap().verify(&good).unwrap();
        let grant = Grant::clone(&grant);
        let another = INSIDE.into_iter().find(|other| *other != role).unwrap();
        let forged = [
            ("of another repository", grant_for(cluster, &ada, there, listing(role)).await),
            ("of another operation", grant_for(cluster, &ada, here, listing(another)).await),
            ("of a push", grant_for(cluster, &ada, here, operation::RECEIVE_PACK).await),
            ("expired", ours.sign(grant.clone(), now - 120, minute)),
            ("signed by another key", other_signer().sign(grant.clone(), now, minute)),
            ("without a signature", good.rsplit_once('.').unwrap().0.to_owned() + "."),
            ("nonsense", "nonsense".to_owned()),
            ("empty", String::new()),
        ];
        list(cluster, role, here, &Proof::Grant(&good)).await.unwrap();
        list(cluster, role, here, &Proof::Grant(&ours.sign(grant.clone(), now, minute))).await.unwrap();
        for (what, forged) in &forged {
            let outcome = list(cluster, role, here, &Proof::Grant(forged)).await;
            assert_eq!(
                outcome.as_ref().map_err(tonic::Status::code),
                Err(Code::Unauthenticated),
                "{role:?}, {what}: {outcome:?}"
            );
        }
        if role == Role::Git {
            let elsewhere = ours.sign(Grant { store: "elsewhere".into(), ..grant }, now, minute);
            refused(list(cluster, Role::Git, here, &Proof::Grant(&elsewhere)).await, Code::FailedPrecondition);
        }
    }
}

fn other_signer() -> Signer {
    use ed25519_dalek::pkcs8::EncodePrivateKey;
    use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    Signer::from_pem(key.to_pkcs8_pem(LineEnding::LF).unwrap().as_bytes()).unwrap()
}
