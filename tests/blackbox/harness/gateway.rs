//! Additional gateways of an installation with different settings, so that the test of a setting
//! needs no new installation.

use std::time::{Duration, Instant};

use ferrite_core::net::Address;

use super::cluster::{Cluster, PROCESS_TIMEOUT, Role, http_get};
use super::process::Process;

pub(crate) struct Gateway {
    pub(crate) host: String,
    pub(crate) url: String,
    _process: Process,
}

impl Gateway {
    /// Starts a gateway of a production installation on another loopback address, and waits until
    /// it is ready.
    pub(crate) fn start(cluster: &Cluster, host: &str, scheme: &str, settings: &[(&str, &str)]) -> Self {
        let url = format!("{scheme}://{host}:{}", Role::Gateway.port());
        let mut command = cluster.role_command(Role::Gateway, host, &url);
        command.envs(settings.iter().copied());
        let process = tokio::task::block_in_place(|| Process::start(&mut command, cluster.log()));
        let admin = Address::Tcp(format!("{host}:{}", Role::Gateway.port() + 2000));
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        let is_ready = || http_get(&admin, "/readyz").is_some_and(|response| response.starts_with("HTTP/1.1 200"));
        while !tokio::task::block_in_place(is_ready) {
            assert!(
                Instant::now() < deadline,
                "the gateway does not become ready:\n{}",
                cluster.log().all().join("\n")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { host: host.to_owned(), url, _process: process }
    }

    pub(crate) fn http(&self) -> String {
        format!("{}:{}", self.host, Role::Gateway.port())
    }

    pub(crate) fn ssh(&self) -> String {
        format!("{}:2222", self.host)
    }
}
