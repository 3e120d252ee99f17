//! Direct gRPC calls to the services.

use std::time::Duration;

use ferrite_core::Clock;
use ferrite_core::net::Address;
use ferrite_proto::{ServiceRole, metadata};
use ferrite_rpc::service_key::{ServiceKey, ServiceTokenSource};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::cluster::{Cluster, Role};

impl Cluster {
    pub(crate) async fn channel(&self, role: Role) -> Channel {
        let target = match self.address(role) {
            Address::Tcp(authority) => format!("http://{authority}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        };
        let endpoint = Endpoint::from_shared(target).unwrap().timeout(Duration::from_secs(20));
        endpoint.connect().await.unwrap()
    }

    /// A token that authenticates the role `from` to `to`, signed with the key of `from`.
    pub(crate) fn service_token(&self, from: ServiceRole, to: Role) -> String {
        let key = ServiceKey::read(&self.keys().join(format!("{from}.pem"))).unwrap();
        ServiceTokenSource::new(key, from, Clock::system()).token(to.service_role()).to_string()
    }
}

pub(crate) fn with_service<T>(message: T, service_token: &str) -> Request<T> {
    with(message, metadata::SERVICE, service_token)
}

pub(crate) fn with_token<T>(message: T, token: &str) -> Request<T> {
    with(message, "authorization", &format!("Bearer {token}"))
}

pub(crate) fn with_grant<T>(message: T, grant: &str) -> Request<T> {
    with(message, "ferrite-grant", grant)
}

fn with<T>(message: T, name: &'static str, value: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(name, value.parse().unwrap());
    request
}

/// Fails unless the call failed with this code.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>, code: Code) -> Status {
    let status = outcome.expect_err("the call succeeded");
    assert_eq!(status.code(), code, "{status:?}");
    status
}
