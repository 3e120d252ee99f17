//! Direct gRPC calls with only a token.

use ferrite_proto::{DESCRIPTORS, error};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MethodDescriptor, ReflectMessage, Value};
use repo_svc::access::{Capacity, OPERATIONS, Operation, Rule};
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::callers::{Caller, Credential};
use super::expected::{Expected, of_operation};
use super::fixture::{ABSENT_ID, Fixture, NO_TRACKER, Repo};
use super::{AT_ONCE, Question, Selection, questions};
use crate::harness::concurrent::for_each;
use crate::harness::{Cluster, Role};

const ABSENT: &str = "never-was";

#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(out, &item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(bytes::Buf::copy_to_bytes(input, bytes::Buf::remaining(input)).to_vec()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

pub(super) struct Services {
    pool: DescriptorPool,
    channels: Vec<(Role, Channel)>,
}

impl Services {
    pub(super) async fn of(cluster: &Cluster) -> Self {
        let mut channels = Vec::new();
        for role in &Role::ALL[..4] {
            channels.push((*role, cluster.channel(*role).await));
        }
        Self { pool: DescriptorPool::decode(DESCRIPTORS).unwrap(), channels }
    }

    fn method(&self, name: &str) -> MethodDescriptor {
        let (service, method) = name.split_once('/').unwrap();
        let service = self.pool.get_service_by_name(service).unwrap();
        service.methods().find(|candidate| candidate.name() == method).unwrap()
    }

    /// The roles that serve an operation.
    pub(super) fn roles(name: &str) -> &'static [Role] {
        match name.split('.').nth(1).unwrap_or_default() {
            "repo" => &[Role::Repo],
            "issue" => &[Role::Issue],
            "hook" => &[Role::Hook],
            "git" => &[Role::Git],
            "events" => &Role::ALL[..4],
            other => panic!("no service of {other}"),
        }
    }

    async fn call(&self, role: Role, name: &str, message: Vec<u8>, caller: &Caller) -> Result<Vec<u8>, Status> {
        let mut request = Request::new(message);
        if caller.credential != Credential::Nothing {
            let bearer = format!("Bearer {}", caller.user.token.as_deref().unwrap());
            request.metadata_mut().insert("authorization", bearer.parse().unwrap());
        }
        self.send(role, name, request).await
    }

    /// Sends any request to a role.
    pub(super) async fn send(&self, role: Role, name: &str, request: Request<Vec<u8>>) -> Result<Vec<u8>, Status> {
        let (_, channel) = self.channels.iter().find(|(known, _)| *known == role).unwrap();
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let path = format!("/{name}").parse().unwrap();
        if self.method(name).is_server_streaming() {
            // The stream starts once access is granted; it need not end.
            return client.server_streaming(request, path, Bytes).await.map(|_| Vec::new());
        }
        client.unary(request, path, Bytes).await.map(tonic::Response::into_inner)
    }

    /// A request that names only its target.
    fn message(&self, operation: &Operation, fixture: &Fixture, repo: Option<&Repo>, exists: bool) -> Vec<u8> {
        let tracker = repo.map_or(NO_TRACKER, |repo| repo.tracker);
        let of_tracker = |service: &str| operation.name.starts_with(&format!("ferrite.issue.v1.{service}Service/"));
        let mut message = DynamicMessage::new(self.method(operation.name).input());
        let fields: Vec<_> = message.descriptor().fields().collect();
        for field in fields {
            let organization = if exists { fixture.organization.as_str() } else { ABSENT };
            let value = match (field.name(), field.kind()) {
                ("repository", Kind::Message(kind)) => {
                    let mut reference = DynamicMessage::new(kind);
                    reference.set_field_by_name("id", Value::I64(repo.map_or(0, |repo| repo.id)));
                    Value::Message(reference)
                }
                ("owner", Kind::Message(kind)) => {
                    let mut owner = DynamicMessage::new(kind);
                    match operation.capacity {
                        Capacity::Own => {
                            owner.set_field_by_name("repository_id", Value::I64(repo.map_or(0, |repo| repo.id)));
                        }
                        Capacity::Organization => {
                            owner.set_field_by_name("organization", Value::String(organization.to_owned()));
                        }
                        Capacity::Administrator => owner.set_field_by_name("site", Value::Bool(true)),
                    }
                    Value::Message(owner)
                }
                ("repository_id", Kind::Int64) => Value::I64(repo.map_or(0, |repo| repo.id)),
                ("team_id", _) => Value::I64(if exists { fixture.owners_team } else { ABSENT_ID }),
                ("key_id", _) => Value::I64(ABSENT_ID),
                ("number", Kind::Int64) if of_tracker("Pull") || of_tracker("Review") => {
                    Value::I64(tracker.pull_number)
                }
                ("number" | "issue_number", Kind::Int64) => Value::I64(tracker.issue_number),
                ("review_id", _) => Value::I64(tracker.review_id),
                ("comment_id", _) if of_tracker("Review") => Value::I64(tracker.review_comment_id),
                ("comment_id", _) => Value::I64(tracker.comment_id),
                ("label_id", _) => Value::I64(tracker.label_id),
                ("label", Kind::String) => Value::String(tracker.label_id.to_string()),
                // In other messages it is the new value of an issue's field.
                ("milestone_id", _) if of_tracker("Milestone") => Value::I64(tracker.milestone_id),
                ("organization", _) => Value::String(organization.to_owned()),
                // The fork of an owner who has none is not found, like a repository that is hidden.
                ("owner", Kind::String) if operation.name.ends_with("/GetFork") => {
                    Value::String(repo.map_or_else(String::new, |repo| repo.owner_name.clone()))
                }
                // Without a name the list is the caller's own, which needs a scope.
                ("owner", Kind::String) if operation.name.ends_with("/ListRepositories") => {
                    Value::String(fixture.owner.name.clone())
                }
                ("owner", _) if operation.capacity == Capacity::Organization => Value::String(organization.to_owned()),
                // A key for another user is refused for a different reason.
                ("username", _) if operation.name.ends_with("PublicKey") => continue,
                ("username", _) if !operation.name.ends_with("/CreateOrganization") => Value::String(ABSENT.to_owned()),
                ("repository" | "target", Kind::String) => Value::String(ABSENT.to_owned()),
                // An invalid name, so that no fork is created.
                ("name", Kind::String) if operation.name.ends_with("/ForkRepository") => Value::String("-".to_owned()),
                ("as_administrator", _) => Value::Bool(operation.capacity == Capacity::Administrator),
                _ => continue,
            };
            message.set_field(&field, value);
        }
        message.encode_to_vec()
    }
}

/// The reason of an error that hides something, if the rule hides anything.
fn hidden_reason(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::Organization(..) => Some("ORGANIZATION_NOT_FOUND"),
        Rule::Team(_) => Some("TEAM_NOT_FOUND"),
        Rule::Repository { .. } => Some("REPOSITORY_NOT_FOUND"),
        Rule::Service | Rule::Public | Rule::Anyone | Rule::Password | Rule::User(_) | Rule::Administrator => None,
    }
}

#[track_caller]
fn check(outcome: &Result<Vec<u8>, Status>, expected: Expected, rule: Rule, what: &str) {
    let code = outcome.as_ref().map_or_else(Status::code, |_| Code::Ok);
    let reason = outcome.as_ref().err().and_then(error::reason).unwrap_or_default();
    let is_hidden = code == Code::NotFound && Some(reason.as_str()) == hidden_reason(rule);
    // A merge also needs a permit of issue-svc, which is looked at after the table.
    let lacks_permit = reason == "BAD_PERMIT";
    let is_right = match expected {
        Expected::Allowed => {
            let ours = matches!(code, Code::Ok | Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition);
            (ours || lacks_permit) && !is_hidden && (code == Code::Ok || !reason.is_empty())
        }
        Expected::Unauthenticated => code == Code::Unauthenticated,
        Expected::Forbidden => code == Code::PermissionDenied && !lacks_permit,
        Expected::Hidden => is_hidden,
    };
    assert!(is_right, "{what}: {expected:?} expected, but {code:?} {reason} {:?}", outcome.as_ref().err());
}

pub(super) async fn every_rpc_responds_to_every_caller_by_the_table(cluster: &Cluster) {
    let (fixture, selection) = (Fixture::of(cluster).await, Selection::of_rpc_and_git(cluster.profile));
    let services = Services::of(cluster).await;
    for operation in OPERATIONS.iter().filter(|operation| operation.name.starts_with("ferrite.")) {
        for role in Services::roles(operation.name) {
            let call = Call { fixture: &fixture, services: &services, operation, role: *role };
            let targets = match operation.rule {
                Rule::Repository { .. } => {
                    let questions = questions(&fixture, selection, operation);
                    for_each(AT_ONCE, questions, async |question| call.about_repo(question).await).await;
                    continue;
                }
                Rule::Organization(..) | Rule::Team(_) => &[true, false][..],
                _ => &[true],
            };
            for_each(AT_ONCE, selection.callers(&fixture), async |caller| {
                for exists in targets {
                    call.about(caller, *exists).await;
                }
            })
            .await;
        }
    }
}

/// Expectation for a direct call. Without a credential all are refused.
fn direct(caller: &Caller, expected: Expected) -> Expected {
    if caller.credential == Credential::Nothing { Expected::Unauthenticated } else { expected }
}

struct Call<'a> {
    fixture: &'a Fixture,
    services: &'a Services,
    operation: &'static Operation,
    role: Role,
}

impl Call<'_> {
    async fn send(&self, caller: &Caller, repo: Option<&Repo>, exists: bool) -> Result<Vec<u8>, Status> {
        let message = self.services.message(self.operation, self.fixture, repo, exists);
        self.services.call(self.role, self.operation.name, message, caller).await
    }

    async fn about(&self, caller: &Caller, exists: bool) {
        let operation = self.operation;
        let outcome = self.send(caller, None, exists).await;
        let what =
            format!("{} ({:?}) by {} (target exists: {exists})", operation.name, operation.capacity, caller.title);
        check(&outcome, direct(caller, of_operation(operation, caller, exists)), operation.rule, &what);
    }

    async fn about_repo(&self, question: Question<'_>) {
        let Question { caller, repo, is_compared, .. } = question;
        let expected = direct(caller, question.expected);
        let is_deletion = self.operation.name.ends_with("/DeleteRepository") && expected == Expected::Allowed;
        let repo = if is_deletion { &self.fixture.disposable(repo).await } else { repo };
        // An allowed deletion names a missing item, so that the fixture stays complete.
        let is_spared = self.operation.name.contains("/Delete") && expected == Expected::Allowed;
        let repo = if is_spared { &Repo { tracker: NO_TRACKER, ..repo.clone() } } else { repo };
        let outcome = self.send(caller, Some(repo), true).await;
        let what = format!("{} by {} on {}/{}", self.operation.name, caller.title, repo.owner_name, repo.name);
        check(&outcome, expected, self.operation.rule, &what);
        if is_compared && expected == Expected::Hidden {
            let never = Repo { id: ABSENT_ID, ..repo.clone() };
            let missing = self.send(caller, Some(&never), true).await.unwrap_err();
            let hidden = outcome.unwrap_err();
            assert_eq!(
                (missing.code(), missing.message(), missing.details()),
                (hidden.code(), hidden.message(), hidden.details()),
                "{what}"
            );
        }
    }
}
