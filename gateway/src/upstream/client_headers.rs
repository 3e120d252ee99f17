//! The client for whom the gateway calls another service.

use ferrite_proto::metadata;
use http::{HeaderMap, HeaderValue};

use super::clients::CALL_DEADLINE;

/// The id of a client's request, and the address under which the client is counted: every call that the gateway makes for it has them.
#[derive(Clone, Debug)]
pub(crate) struct ClientHeaders {
    request_id: Option<HeaderValue>,
    address: Option<HeaderValue>,
}

impl ClientHeaders {
    /// Returns those of a client over HTTP, which the middleware has set in the headers of its request.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self { request_id: headers.get(metadata::REQUEST_ID).cloned(), address: headers.get(metadata::CLIENT).cloned() }
    }

    /// Returns those of a client over SSH.
    pub(crate) fn new(request_id: &str, address: Option<HeaderValue>) -> Self {
        Self { request_id: HeaderValue::from_str(request_id).ok(), address }
    }

    /// Adds them to the headers, or the metadata, of a call.
    pub(crate) fn insert_into(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.request_id {
            headers.insert(metadata::REQUEST_ID, id.clone());
        }
        if let Some(address) = &self.address {
            headers.insert(metadata::CLIENT, address.clone());
        }
    }

    /// Makes a call to a service for the client.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(CALL_DEADLINE);
        self.insert_into(request.metadata_mut().as_mut());
        request
    }
}
