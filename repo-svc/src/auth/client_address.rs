use ferrite_proto::metadata;
use ferrite_rpc::auth::Caller;
use tonic::Request;

/// Limit for the text form of an address, well above that of any IPv6 network.
const MAX_ADDRESS_BYTES: usize = 64;

/// The address (or network) of the client behind a request; empty if unknown. Failed sign-ins are counted by it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientAddress(String);

impl ClientAddress {
    /// Reads the address from the request's metadata, but only if the gateway of this installation sent the request. All other
    /// callers could forge it, so they get the empty address and share one counter.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        Self(Caller::of(request).gateway_text(request.metadata(), metadata::CLIENT, MAX_ADDRESS_BYTES))
    }

    /// Returns the address or network as text; empty if unknown.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
