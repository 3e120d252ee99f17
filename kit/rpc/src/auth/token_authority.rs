use async_trait::async_trait;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{AuthenticateRequest, Identity};
use tonic::Code;

use super::error::AuthError;
use crate::grpc::Channel;

/// The authority on access tokens: repo-svc, called in its own process or over gRPC.
#[async_trait]
pub trait TokenAuthority: Send + Sync + 'static {
    /// Returns the identity of a token; `None` if the token is not valid.
    ///
    /// # Errors
    /// [`AuthError::Unavailable`] when repo-svc cannot be reached or fails.
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError>;
}

#[async_trait]
impl TokenAuthority for Channel {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        let request = AuthenticateRequest { token: token.to_owned() };
        match AccessServiceClient::new(self.clone()).authenticate(request).await {
            Ok(response) => Ok(response.into_inner().identity),
            Err(status) if status.code() == Code::Unauthenticated => Ok(None),
            Err(status) => {
                tracing::warn!(code = ?status.code(), "cannot ask repo-svc about a token");
                Err(AuthError::Unavailable)
            }
        }
    }
}
