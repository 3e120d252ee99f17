//! The walk over gRPC: direct calls with a token and nothing else.

use ferrite_proto::{DESCRIPTORS, error};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MethodDescriptor, ReflectMessage, Value};
use repo_svc::access::{Capacity, OPERATIONS, Operation, Rule};
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::expect::{Door, Verdict, of_rule, on_place};
use super::fixture::{Place, World};
use super::people::{Credential, Person};
use super::rest::doomed;
use crate::harness::{Cluster, Role};

const ABSENT: &str = "never-was";
const ABSENT_ID: i64 = 999_999_999;

/// Messages as they are on the wire.
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

/// The services of a running installation and their contracts.
struct Services {
    pool: DescriptorPool,
    channels: Vec<(Role, Channel)>,
}

impl Services {
    async fn of(cluster: &Cluster) -> Self {
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

    /// Who serves an operation.
    fn roles(name: &str) -> &'static [Role] {
        match name.split('.').nth(1).unwrap_or_default() {
            "repo" => &[Role::Repo],
            "issue" => &[Role::Issue],
            "hook" => &[Role::Hook],
            "git" => &[Role::Git],
            "events" => &Role::ALL[..4],
            other => panic!("whose is {other}?"),
        }
    }

    async fn call(&self, role: Role, name: &str, message: Vec<u8>, person: &Person) -> Result<Vec<u8>, Status> {
        let (_, channel) = self.channels.iter().find(|(known, _)| *known == role).unwrap();
        let mut request = Request::new(message);
        if person.credential != Credential::Nothing {
            let bearer = format!("Bearer {}", person.user.token.as_deref().unwrap());
            request.metadata_mut().insert("authorization", bearer.parse().unwrap());
        }
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let path = format!("/{name}").parse().unwrap();
        client.unary(request, path, Bytes).await.map(tonic::Response::into_inner)
    }

    /// A request about what there is, with nothing else in it.
    fn message(&self, operation: &Operation, world: &World, place: Option<&Place>, exists: bool) -> Vec<u8> {
        let mut message = DynamicMessage::new(self.method(operation.name).input());
        let fields: Vec<_> = message.descriptor().fields().collect();
        for field in fields {
            let organization = if exists { world.organization.as_str() } else { ABSENT };
            let value = match (field.name(), field.kind()) {
                ("repository", Kind::Message(kind)) => {
                    let mut reference = DynamicMessage::new(kind);
                    reference.set_field_by_name("id", Value::I64(place.map_or(0, |place| place.id)));
                    Value::Message(reference)
                }
                ("repository_id", Kind::Int64) => Value::I64(place.map_or(0, |place| place.id)),
                ("team_id", _) => Value::I64(if exists { world.owners_team } else { ABSENT_ID }),
                ("key_id", _) => Value::I64(ABSENT_ID),
                ("organization", _) => Value::String(organization.to_owned()),
                ("owner", _) if operation.capacity == Capacity::Organization => Value::String(organization.to_owned()),
                // A key for somebody else is another matter, and refused for another reason.
                ("username", _) if operation.name.ends_with("/CreatePublicKey") => continue,
                ("username", _) if !operation.name.ends_with("/CreateOrganization") => Value::String(ABSENT.to_owned()),
                ("repository" | "target", Kind::String) => Value::String(ABSENT.to_owned()),
                ("as_administrator", _) => Value::Bool(operation.capacity == Capacity::Administrator),
                _ => continue,
            };
            message.set_field(&field, value);
        }
        message.encode_to_vec()
    }
}

/// The reason for which something hidden is refused, where a rule hides anything.
fn hidden_reason(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::Organization(..) => Some("ORGANIZATION_NOT_FOUND"),
        Rule::Team(_) => Some("TEAM_NOT_FOUND"),
        Rule::Repository { .. } => Some("REPOSITORY_NOT_FOUND"),
        Rule::Service | Rule::Anyone | Rule::Password | Rule::User(_) | Rule::Administrator => None,
    }
}

#[track_caller]
fn check(outcome: &Result<Vec<u8>, Status>, verdict: Verdict, rule: Rule, what: &str) {
    let code = outcome.as_ref().map_or_else(Status::code, |_| Code::Ok);
    let reason = outcome.as_ref().err().and_then(error::reason).unwrap_or_default();
    let is_hidden = code == Code::NotFound && Some(reason.as_str()) == hidden_reason(rule);
    let is_right = match verdict {
        Verdict::Allowed => {
            let ours = matches!(code, Code::Ok | Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition);
            ours && !is_hidden && (code == Code::Ok || !reason.is_empty())
        }
        Verdict::Unauthenticated => code == Code::Unauthenticated,
        Verdict::Forbidden => code == Code::PermissionDenied,
        Verdict::Hidden => is_hidden,
    };
    assert!(is_right, "{what}: {verdict:?} expected, but {code:?} {reason} {:?}", outcome.as_ref().err());
}

pub(super) async fn every_rpc_answers_every_caller_by_the_table(cluster: &Cluster) {
    let world = World::make(cluster).await;
    let services = Services::of(cluster).await;
    for operation in OPERATIONS.iter().filter(|operation| !operation.name.starts_with("git/")) {
        for role in Services::roles(operation.name) {
            for person in &world.people {
                match operation.rule {
                    Rule::Repository { .. } => walk_places(&services, &world, operation, *role, person).await,
                    Rule::Organization(..) | Rule::Team(_) => {
                        walk_one(&services, &world, operation, *role, person, true).await;
                        walk_one(&services, &world, operation, *role, person, false).await;
                    }
                    _ => walk_one(&services, &world, operation, *role, person, true).await,
                }
            }
        }
    }
}

/// A direct call that shows nothing is refused, whatever it is for.
fn direct(person: &Person, verdict: Verdict) -> Verdict {
    if person.credential == Credential::Nothing { Verdict::Unauthenticated } else { verdict }
}

async fn walk_one(
    services: &Services,
    world: &World,
    operation: &Operation,
    role: Role,
    person: &Person,
    exists: bool,
) {
    let message = services.message(operation, world, None, exists);
    let outcome = services.call(role, operation.name, message, person).await;
    let what = format!("{} ({:?}) by {} (target there: {exists})", operation.name, operation.capacity, person.title);
    check(&outcome, direct(person, of_rule(operation.rule, person, exists)), operation.rule, &what);
}

async fn walk_places(services: &Services, world: &World, operation: &Operation, role: Role, person: &Person) {
    let Rule::Repository { unit, level, anonymous } = operation.rule else { return };
    for place in &world.places {
        let verdict = direct(person, on_place(unit, level, anonymous, person, place, Door::Api));
        let is_deletion = operation.name.ends_with("/DeleteRepository") && verdict == Verdict::Allowed;
        let place = if is_deletion { &doomed(world, place.owned, place.private == Some(true)).await } else { place };
        let message = services.message(operation, world, Some(place), true);
        let outcome = services.call(role, operation.name, message, person).await;
        let what = format!("{} by {} on {}/{}", operation.name, person.title, place.owner, place.name);
        check(&outcome, verdict, operation.rule, &what);
        if verdict == Verdict::Hidden {
            let never = Place { id: ABSENT_ID, ..place.clone() };
            let message = services.message(operation, world, Some(&never), true);
            let missing = services.call(role, operation.name, message, person).await.unwrap_err();
            let hidden = outcome.unwrap_err();
            assert_eq!(
                (missing.code(), missing.message(), missing.details()),
                (hidden.code(), hidden.message(), hidden.details()),
                "{what}"
            );
        }
    }
}
