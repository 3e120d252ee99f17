//! Versions of resources in calls: what a service returns and checks for the current request, and
//! what a client's call carries.

use std::sync::{Arc, OnceLock};

use ferrite_core::version::{Precondition, PreconditionFailed, Version};
use ferrite_core::writer::Scope;
use ferrite_proto::metadata;
use http::{HeaderMap, HeaderValue, Request};
use prost::Message;

/// Metadata value that asks for the version.
const ASK: HeaderValue = HeaderValue::from_static("?");

/// Reads the metadata of the current request: whether it asks for the version, and its
/// precondition.
pub fn begin(headers: &HeaderMap) {
    if let Some(scope) = Scope::current() {
        scope.versions().begin(headers);
    }
}

/// Adds the version to the metadata of the current request's response, if there is one.
pub fn end(headers: &mut HeaderMap) {
    if let Some(scope) = Scope::current() {
        scope.versions().end(headers);
    }
}

/// Sets the version of the resource that the current request reads, if it asks for it.
pub fn tell(resource: &impl Message) {
    if let Some(scope) = Scope::current() {
        scope.versions().tell(resource);
    }
}

/// Whether the current request asks for a version. If not, callers can skip what only the version
/// needs.
#[must_use]
pub fn is_asked() -> bool {
    Scope::current().is_some_and(|scope| scope.versions().is_asked())
}

/// Whether the current request has a precondition. If not, the resource need not be read to check
/// it.
#[must_use]
pub fn is_conditional() -> bool {
    Scope::current().is_some_and(|scope| scope.versions().is_conditional())
}

/// Checks the precondition of the current request, if any, against the current resource; `None`
/// means that it does not exist. The caller must hold the lock that it writes under.
///
/// # Errors
/// [`PreconditionFailed`] if it does not hold.
pub fn require(resource: Option<&impl Message>) -> Result<(), PreconditionFailed> {
    Scope::current().map_or(Ok(()), |scope| scope.versions().require(resource))
}

/// Checks that the precondition of the current request, if any, was checked.
///
/// # Errors
/// [`PreconditionFailed`] if it was not.
pub fn require_checked() -> Result<(), PreconditionFailed> {
    Scope::current().map_or(Ok(()), |scope| scope.versions().require_checked())
}

/// An extension of a request for one operation: asks for the version of what it reads, or sets the
/// precondition of what it writes. Requests for other operations ignore it.
#[derive(Clone, Debug)]
pub struct VersionedCall(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    operation: &'static str,
    precondition: Option<Precondition>,
    told: OnceLock<Version>,
}

impl VersionedCall {
    /// Asks for the version of the resource that `operation` reads.
    #[must_use]
    pub fn asking(operation: &'static str) -> Self {
        Self(Arc::new(Inner { operation, precondition: None, told: OnceLock::new() }))
    }

    /// Sets the precondition of a write by `operation`.
    #[must_use]
    pub fn requiring(operation: &'static str, precondition: Precondition) -> Self {
        Self(Arc::new(Inner { operation, precondition: Some(precondition), told: OnceLock::new() }))
    }

    /// Returns the version in the response, once there is one.
    #[must_use]
    pub fn told(&self) -> Option<Version> {
        self.0.told.get().cloned()
    }

    /// Takes the extension of a request, and adds it to the metadata if the request is for its
    /// operation.
    pub(crate) fn send<B>(request: &mut Request<B>) -> Option<Self> {
        let call = request.extensions_mut().remove::<Self>()?;
        if request.uri().path().trim_start_matches('/') != call.0.operation {
            return None;
        }
        match &call.0.precondition {
            None => drop(request.headers_mut().insert(metadata::VERSION, ASK)),
            Some(precondition) => {
                let value = HeaderValue::try_from(precondition.to_string()).expect("its text is printable");
                request.headers_mut().insert(metadata::PRECONDITION, value);
            }
        }
        Some(call)
    }

    pub(crate) fn receive(&self, headers: &HeaderMap) {
        let text = headers.get(metadata::VERSION).and_then(|value| value.to_str().ok());
        if let Some(version) = text.and_then(Version::parse) {
            // A call has one response.
            let _ = self.0.told.set(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::writer::serve;
    use ferrite_proto::issue::Label;
    use ferrite_proto::operation::{GET_LABEL, UPDATE_LABEL};

    use super::*;

    fn label(name: &str) -> Label {
        Label { id: 5, name: name.to_owned(), ..Label::default() }
    }

    fn sent(versioned: &VersionedCall, operation: &str) -> HeaderMap {
        let mut request = Request::post(format!("/{operation}")).extension(versioned.clone()).body(()).unwrap();
        let is_sent = VersionedCall::send(&mut request).is_some();
        assert_eq!(is_sent, !request.headers().is_empty());
        request.into_parts().0.headers
    }

    #[tokio::test]
    async fn a_read_tells_its_client_the_version_that_a_write_requires() {
        let asking = VersionedCall::asking(GET_LABEL);
        let request = sent(&asking, GET_LABEL);
        let mut response = HeaderMap::new();
        serve(async {
            begin(&request);
            assert!(is_asked());
            tell(&label("bug"));
            end(&mut response);
        })
        .await;
        asking.receive(&response);
        let told = asking.told().expect("the version");
        let request = sent(&VersionedCall::requiring(UPDATE_LABEL, Precondition::Versions(vec![told])), UPDATE_LABEL);
        serve(async {
            begin(&request);
            assert!(is_conditional());
            assert_eq!(require_checked(), Err(PreconditionFailed));
            assert_eq!(require(Some(&label("fault"))), Err(PreconditionFailed));
            assert_eq!(require(Some(&label("bug"))), Ok(()));
            assert_eq!(require_checked(), Ok(()));
        })
        .await;
    }

    #[test]
    fn a_call_of_another_operation_carries_nothing() {
        for versioned in [VersionedCall::asking(GET_LABEL), VersionedCall::requiring(GET_LABEL, Precondition::Exists)] {
            assert!(sent(&versioned, UPDATE_LABEL).is_empty());
        }
    }

    #[test]
    fn a_response_without_a_version_tells_none() {
        let asking = VersionedCall::asking(GET_LABEL);
        asking.receive(&HeaderMap::new());
        asking.receive(&HeaderMap::from_iter([(http::HeaderName::from_static(metadata::VERSION), ASK)]));
        assert_eq!(asking.told(), None);
    }

    #[test]
    fn work_outside_of_a_request_has_no_precondition() {
        tell(&label("bug"));
        assert!(!is_asked() && !is_conditional());
        assert_eq!((require(None::<&Label>), require_checked()), (Ok(()), Ok(())));
    }
}
