//! Direct gRPC calls with another service's key: every RPC, with the token of every role.

use ferrite_proto::callers::callers;
use ferrite_proto::{ServiceRole, error};
use repo_svc::access::OPERATIONS;
use tonic::Code;

use super::AT_ONCE;
use super::rpc::Services;
use crate::harness::concurrent::for_each;
use crate::harness::grpc::with_service;
use crate::harness::{Cluster, Role};

/// Only refusals are tested: allowed calls would be carried out.
pub(super) async fn every_rpc_is_refused_to_services_that_do_not_call_it(cluster: &Cluster) {
    let services = Services::of(cluster).await;
    let names = OPERATIONS.iter().map(|operation| operation.name).filter(|name| name.starts_with("ferrite."));
    let mut calls: Vec<(&str, Role, ServiceRole)> = names
        .flat_map(|name| Services::roles(name).iter().map(move |callee| (name, *callee)))
        .flat_map(|(name, callee)| ServiceRole::ALL.map(|caller| (name, callee, caller)))
        .filter(|(name, callee, caller)| !callers(name, callee.service_role()).contains(caller))
        .collect();
    calls.sort_by_key(|(name, callee, caller)| (*name, callee.service_role(), *caller));
    calls.dedup();
    let is_of_gateway = |call: &&(&str, Role, ServiceRole)| call.2 == ServiceRole::Gateway;
    assert!(calls.len() > 500 && calls.iter().filter(is_of_gateway).count() > 10, "{}", calls.len());
    eprintln!("{} pairs of RPC and caller, all refused", calls.len());
    for_each(AT_ONCE, calls, async |(name, callee, caller)| {
        let proof = cluster.service_token(caller, callee);
        let status = services.send(callee, name, with_service(Vec::new(), &proof)).await.unwrap_err();
        let what = format!("{name} of {callee:?} by {caller}");
        assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status:?}");
        assert_eq!(error::reason(&status).as_deref(), Some("SERVICE_NOT_PERMITTED"), "{what}");
    })
    .await;
}
