//! Names of operations and statuses as metric labels. Every set of names is bounded: RPC methods,
//! route templates, standard HTTP methods, and status codes.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use http::{Method, StatusCode};
use parking_lot::RwLock;
use prost::Message;
use tonic::Code;

/// Status of a call that ended without one because a side disconnected.
pub(super) const CANCELLED: Code = Code::Cancelled;
/// Label of requests that match no route.
pub(super) const UNMATCHED: &str = "unmatched";

/// Returns the full name of the RPC at `path`, if it exists.
pub(super) fn rpc_method(path: &str) -> Option<&'static str> {
    static METHODS: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let mut all = methods(ferrite_proto::DESCRIPTORS);
        all.extend(methods(tonic_health::pb::FILE_DESCRIPTOR_SET));
        all
    });
    METHODS.get(path.trim_start_matches('/')).map(String::as_str)
}

/// Returns the full names of all methods in a serialized `FileDescriptorSet`.
fn methods(descriptors: &[u8]) -> HashSet<String> {
    let set = prost_types::FileDescriptorSet::decode(descriptors).unwrap_or_default();
    let mut methods = HashSet::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                methods.insert(format!("{}.{}/{}", file.package(), service.name(), method.name()));
            }
        }
    }
    methods
}

/// Returns `METHOD /route/{template}`. The names are leaked: their number is bounded by routes and
/// methods.
pub(super) fn http_operation(method: &Method, route: &str) -> &'static str {
    static NAMES: LazyLock<RwLock<HashMap<&'static str, HashMap<String, &'static str>>>> =
        LazyLock::new(RwLock::default);
    let method = method_name(method);
    let known = NAMES.read().get(method).and_then(|names| names.get(route).copied());
    if let Some(name) = known {
        return name;
    }
    let mut names = NAMES.write();
    let name = || -> &'static str { Box::leak(format!("{method} {route}").into_boxed_str()) };
    names.entry(method).or_default().entry(route.to_owned()).or_insert_with(name)
}

/// Returns the name of a standard method, or one name for all others, which clients can invent.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

pub(super) fn http_status(status: StatusCode) -> &'static str {
    static DIGITS: LazyLock<Vec<String>> = LazyLock::new(|| (100..1000).map(|code: u16| code.to_string()).collect());
    let index = usize::from(status.as_u16()).checked_sub(100);
    index.and_then(|index| DIGITS.get(index)).map_or("", String::as_str)
}

/// Returns the name of a gRPC status as in the specification.
pub(super) fn grpc_status(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

pub(super) fn is_fault(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_names_of_the_contracts_only() {
        let call = "ferrite.repo.v1.RepositoryService/GetRepository";
        assert_eq!(rpc_method(&format!("/{call}")), Some(call));
        assert_eq!(rpc_method("/grpc.health.v1.Health/Check"), Some("grpc.health.v1.Health/Check"));
        for unknown in ["/ferrite.repo.v1.RepositoryService/X", "/x", "/git/1/raw", ""] {
            assert_eq!(rpc_method(unknown), None, "{unknown}");
        }
        assert!(methods(b"\xff").is_empty());
    }

    #[test]
    fn a_route_has_one_name_for_each_method_of_the_standard() {
        assert_eq!(http_operation(&Method::GET, "/repos/{owner}"), "GET /repos/{owner}");
        assert_eq!(http_operation(&Method::PUT, "/repos/{owner}"), "PUT /repos/{owner}");
        let one = http_operation(&Method::from_bytes(b"BREW").unwrap(), "/pot");
        let two = http_operation(&Method::from_bytes(b"STIR").unwrap(), "/pot");
        assert_eq!((one, std::ptr::eq(one, two)), ("OTHER /pot", true));
        assert_eq!(http_status(StatusCode::IM_A_TEAPOT), "418");
        assert_eq!(http_status(StatusCode::from_u16(999).unwrap()), "999");
    }
}
