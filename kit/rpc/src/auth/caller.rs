use std::sync::Arc;

use ferrite_core::Secret;
use ferrite_core::{writer, writer::Writer};
use ferrite_proto::ServiceRole;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::UserId;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::operation::{is_write, takes_access_away};
use ferrite_proto::repo::Identity;
use tonic::metadata::MetadataMap;

use super::error::AuthError;

/// The authenticated sender of a request, which [`AuthLayer`](super::AuthLayer) adds to the
/// extensions of the request.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Role of the calling process, if there is a service token. The process may call for a user or
    /// for itself.
    pub service: Option<ServiceRole>,
    /// Owner of the access token, if any.
    pub identity: Option<Identity>,
    /// The access token, used to ask repo-svc for a grant.
    pub token: Option<Secret>,
    /// The grant, if any.
    pub grant: Option<Arc<Grant>>,
    /// The called operation: the request path without the leading slash. For an RPC this is its
    /// full method name.
    pub operation: String,
}

impl Caller {
    /// Returns the caller of a request; one without credentials if the request did not pass the
    /// layer.
    #[must_use]
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// Sets the account that the current request writes for: that of the grant, or else of the
    /// token. A read has none, and operations that take access away are exempt from the limit.
    pub(super) fn set_writer(&self) {
        if takes_access_away(&self.operation) {
            writer::never_refuse();
        }
        match (&self.grant, &self.identity) {
            (Some(grant), _) => self.set_writer_of(grant),
            (None, Some(identity)) if is_write(&self.operation) => {
                writer::set_writer(Writer { account: UserId(identity.user_id), rate_percent: None });
            }
            (None, _) => {}
        }
    }

    /// Like [`Caller::set_writer`], for a grant that was issued for this request.
    pub(super) fn set_writer_of(&self, grant: &Grant) {
        if is_write(&self.operation)
            && let Some(writer) = Writer::of_grant(grant)
        {
            writer::set_writer(writer);
        }
    }

    /// Returns a metadata text that only the gateway may set, such as its client's address. Empty
    /// for other callers, and if longer than `max_bytes`.
    #[must_use]
    pub fn gateway_text(&self, request: &MetadataMap, name: &'static str, max_bytes: usize) -> String {
        let value = request.get(name).filter(|_| self.is_gateway()).and_then(|value| value.to_str().ok());
        value.filter(|value| value.len() <= max_bytes).unwrap_or_default().to_owned()
    }

    /// Returns a request to repo-svc with the caller's access token. Fails with
    /// [`AuthError::CredentialsRequired`] if there is no token, and with
    /// [`AuthError::BadCredentials`] if the token is not a valid header value.
    pub(super) fn request<T>(&self, message: T) -> Result<tonic::Request<T>, AuthError> {
        let token = self.token.as_ref().ok_or(AuthError::CredentialsRequired)?;
        let bearer = format!("Bearer {}", token.expose()).parse().map_err(|_| AuthError::BadCredentials)?;
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert(AUTHORIZATION, bearer);
        Ok(request)
    }

    /// Returns the id of the access token, from the token itself or from the grant. Zero if there
    /// is none.
    #[must_use]
    pub fn token_id(&self) -> i64 {
        let of_grant = || self.grant.as_ref().and_then(|grant| grant.user.as_ref()).map_or(0, |user| user.token_id);
        self.identity.as_ref().map_or_else(of_grant, |identity| identity.token_id)
    }

    /// Returns the role of the calling process.
    ///
    /// # Errors
    /// [`AuthError::ServiceRequired`] if the request has no service token.
    pub fn require_service(&self) -> Result<ServiceRole, AuthError> {
        self.service.ok_or(AuthError::ServiceRequired)
    }

    /// Whether the gateway sent the request: the only process that knows client addresses and
    /// request ids.
    #[must_use]
    pub fn is_gateway(&self) -> bool {
        self.service == Some(ServiceRole::Gateway)
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::metadata::CLIENT;

    use super::*;

    #[test]
    fn texts_of_the_gateway_are_ignored_from_other_callers_and_above_their_length() {
        let mut request = MetadataMap::new();
        request.insert(CLIENT, "192.0.2.1".parse().unwrap());
        let text =
            |service, max_bytes| Caller { service, ..Caller::default() }.gateway_text(&request, CLIENT, max_bytes);
        assert_eq!(text(Some(ServiceRole::Gateway), 9), "192.0.2.1");
        assert_eq!(text(Some(ServiceRole::Gateway), 8), "");
        for other in [None, Some(ServiceRole::HookSvc), Some(ServiceRole::RepoSvc)] {
            assert_eq!(text(other, 9), "", "{other:?}");
        }
        let gateway = Caller { service: Some(ServiceRole::Gateway), ..Caller::default() };
        assert_eq!(gateway.gateway_text(&MetadataMap::new(), CLIENT, 9), "");
    }

    #[test]
    fn a_request_has_the_token_of_its_caller() {
        let caller = |token| Caller { token, ..Caller::default() };
        let request = caller(Some(Secret::new("abc"))).request(7).unwrap();
        assert_eq!(request.metadata().get(AUTHORIZATION).unwrap(), "Bearer abc");
        assert!(matches!(caller(None).request(7), Err(AuthError::CredentialsRequired)));
        assert!(matches!(caller(Some(Secret::new("a\nb"))).request(7), Err(AuthError::BadCredentials)));
    }
}
