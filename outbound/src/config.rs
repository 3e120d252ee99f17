use clap::Args;

use crate::allow::AllowList;
use crate::policy::Policy;

/// Settings of requests to URLs that users give.
#[derive(Args, Clone, Debug)]
pub struct OutboundArgs {
    /// Destinations of webhooks, imports and mirrors that are permitted although they are not public, separated by commas: networks
    /// (`10.0.0.0/8`), addresses (`127.0.0.1`) and host names, each with an optional `:port`.
    #[arg(long, env = "FERRITE_OUTBOUND_ALLOW", default_value = "")]
    pub outbound_allow: AllowList,
}

impl OutboundArgs {
    /// Returns the policy of these settings.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy::new(self.outbound_allow.clone())
    }
}
