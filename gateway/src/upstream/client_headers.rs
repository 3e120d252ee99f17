use ferrite_proto::metadata;
use http::{HeaderMap, HeaderValue};

use super::clients::CALL_DEADLINE;

/// The request id and the address under which a client is counted. Every call on its behalf carries
/// them.
#[derive(Clone, Debug)]
pub(crate) struct ClientHeaders {
    request_id: Option<HeaderValue>,
    address: Option<HeaderValue>,
}

impl ClientHeaders {
    /// Reads them from the headers of an HTTP request, where the middleware has set them.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self { request_id: headers.get(metadata::REQUEST_ID).cloned(), address: headers.get(metadata::CLIENT).cloned() }
    }

    /// For a client over SSH.
    pub(crate) fn new(request_id: &str, address: Option<HeaderValue>) -> Self {
        Self { request_id: HeaderValue::from_str(request_id).ok(), address }
    }

    pub(crate) fn insert_into(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.request_id {
            headers.insert(metadata::REQUEST_ID, id.clone());
        }
        if let Some(address) = &self.address {
            headers.insert(metadata::CLIENT, address.clone());
        }
    }

    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(CALL_DEADLINE);
        self.insert_into(request.metadata_mut().as_mut());
        request
    }
}
