//! The settings that every role has, and the steps of its start that depend only on them.

use clap::Args;
use ferrite_core::Lifecycle;
use ferrite_core::config::{PlaintextAddress, ServeArgs, TelemetryArgs};
use ferrite_core::net::Address;
use ferrite_core::startup::ServiceFuture;

use crate::credentials::CredentialArgs;

/// Settings that every role has.
#[derive(Args, Clone, Debug)]
pub struct ProcessArgs {
    /// Listeners and serving.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Logs, metrics and traces.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// Keys by which the processes of this installation authenticate each other.
    #[command(flatten)]
    pub trust: CredentialArgs,
}

impl ProcessArgs {
    /// Checks that neither gRPC, from and to `peers`, nor Redis leaves this machine without TLS.
    ///
    /// # Errors
    /// If it does and the settings do not allow it.
    pub fn check_addresses<'a>(&'a self, peers: impl IntoIterator<Item = &'a Address>) -> Result<(), PlaintextAddress> {
        self.trust.check_addresses(self.serve.listen.iter().chain(peers))
    }

    /// Waits for the end of `database`, then until Redis is usable, if it is used.
    pub fn wait_for_servers(&self, database: ServiceFuture, life: &Lifecycle) -> ServiceFuture {
        let redis = self.trust.wait_for_redis(life);
        Box::pin(async move {
            database.await?;
            redis.await
        })
    }
}
