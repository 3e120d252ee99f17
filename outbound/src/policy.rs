//! Decides which addresses are permitted.

use std::net::IpAddr;

use clap::Args;

use crate::address::{AddressClass, classify, embedded_ipv4};
use crate::allow::AllowList;
use crate::host::Host;

/// Settings for requests to URLs from users.
#[derive(Args, Clone, Debug)]
pub struct OutboundArgs {
    /// Private hosts that webhooks, imports and mirrors may reach, such as `10.0.0.0/8,host:8080`.
    #[arg(long, env = "FERRITE_OUTBOUND_ALLOW", value_name = "LIST", default_value = "", hide_default_value = true)]
    pub outbound_allow: AllowList,
}

impl OutboundArgs {
    /// Returns the policy for these settings.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy::new(self.outbound_allow.clone())
    }
}

/// Where requests may go: public addresses, and those of an [`AllowList`], empty by default.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    allowed: AllowList,
}

impl Policy {
    /// Permits public addresses and `allowed`.
    #[must_use]
    pub fn new(allowed: AllowList) -> Self {
        Self { allowed }
    }

    /// Checks an address of `host` for connections to `port`.
    ///
    /// A listed host name permits all its addresses. A listed IPv6 network that embeds IPv4 (a
    /// NAT64 prefix) permits the public IPv4 addresses in it; others must also be listed in IPv4
    /// form.
    ///
    /// # Errors
    /// The class of an address that is neither public nor listed.
    pub fn check(&self, host: &Host, address: IpAddr, port: u16) -> Result<(), AddressClass> {
        let Some(class) = classify(address) else { return Ok(()) };
        let is_permitted = match host {
            Host::Name(name) if self.allowed.names(name, port) => true,
            _ => self.is_listed(address, port),
        };
        if is_permitted { Ok(()) } else { Err(class) }
    }

    fn is_listed(&self, address: IpAddr, port: u16) -> bool {
        let embedded = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => embedded_ipv4(address).map(IpAddr::V4),
        };
        let is_reachable = |inner: IpAddr| classify(inner).is_none() || self.allowed.contains(inner, port);
        self.allowed.contains(address, port) && embedded.is_none_or(is_reachable)
    }
}
