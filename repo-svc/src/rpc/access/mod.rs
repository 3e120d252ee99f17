//! Who is calling, and may they: for Ferrite's own processes.

mod authenticate;
mod check_access;
mod resolve_access;

use ferrite_proto::repo::access_service_server::AccessService;
use ferrite_proto::repo::{
    AuthenticateRequest, AuthenticateResponse, CheckAccessRequest, CheckAccessResponse, ResolveAccessRequest,
    ResolveAccessResponse,
};

use super::service;

service!(AccessService {
    authenticate(AuthenticateRequest) -> AuthenticateResponse;
    check_access(CheckAccessRequest) -> CheckAccessResponse;
    resolve_access(ResolveAccessRequest) -> ResolveAccessResponse;
});
