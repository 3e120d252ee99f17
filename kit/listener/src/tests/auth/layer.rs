use std::sync::Arc;
use std::time::Duration;

use crate::testing::{ROLE, TestEnv};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ferrite_core::Clock;
use ferrite_core::writer;
use ferrite_proto::error::{ServiceError, reason};
use ferrite_proto::grant::{MAX_GRANT_LIFETIME, Signer};
use ferrite_proto::metadata::{AUTHORIZATION, GRANT, SERVICE};
use ferrite_proto::operation::{CREATE_HOOK, CREATE_ISSUE, DELETE_ACCESS_TOKEN, DELETE_HOOK, LIST_ISSUES};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, Scope, ServiceRole};
use ferrite_rpc::auth::{AuthError, AuthLayer, Caller, TokenAuthority, TokenValidator};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::authority::{Authority, TOKEN, ada};

const NOW_US: i64 = 1_800_000_000_000_000;
const NOW: u64 = 1_800_000_000;

fn headers<const N: usize>(pairs: [(&'static str, &str); N]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    headers
}

async fn refusal(layer: &AuthLayer, headers: &HeaderMap) -> AuthError {
    layer.authenticate(headers).await.unwrap_err()
}

async fn with_authority() -> (TestEnv, Authority, AuthLayer) {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let (authority, channel) = Authority::serve(&env).await;
    let layer = env.layer(TokenValidator::new(None, Arc::new(channel), env.clock.clone()));
    (env, authority, layer)
}

#[tokio::test]
async fn a_request_without_credentials_is_refused() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    assert_eq!(refusal(&layer, &HeaderMap::new()).await, AuthError::CredentialsRequired);
    assert_eq!(refusal(&layer, &headers([("x-user", "1"), ("cookie", "a=b")])).await, AuthError::CredentialsRequired);
}

#[tokio::test]
async fn a_known_token_authenticates_its_user() {
    let (_env, _authority, layer) = with_authority().await;
    for value in [format!("Bearer {TOKEN}"), format!("token {TOKEN}"), format!("bEaReR   {TOKEN} ")] {
        let caller = layer.authenticate(&headers([(AUTHORIZATION, &value)])).await.unwrap();
        assert_eq!(caller.identity.as_ref(), Some(&ada()));
        assert_eq!(caller.require_service(), Err(AuthError::ServiceRequired));
        assert_eq!(caller.token.unwrap().expose(), TOKEN);
    }
}

#[tokio::test]
async fn an_unknown_token_is_refused_and_a_malformed_one_is_not_looked_up() {
    let (_env, authority, layer) = with_authority().await;
    let unknown = format!("Bearer {}", "f".repeat(40));
    assert_eq!(refusal(&layer, &headers([(AUTHORIZATION, &unknown)])).await, AuthError::BadCredentials);
    assert_eq!(authority.asked(), 1);
    for garbage in
        ["", "Bearer", "Bearer ", "Basic YTpi", TOKEN, "Bearer x", &format!("Bearer {}", TOKEN.to_uppercase())]
    {
        assert_eq!(refusal(&layer, &headers([(AUTHORIZATION, garbage)])).await, AuthError::BadCredentials, "{garbage}");
    }
    let mut bytes = HeaderMap::new();
    bytes.insert(AUTHORIZATION, HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap());
    assert_eq!(refusal(&layer, &bytes).await, AuthError::BadCredentials);
    assert_eq!(authority.asked(), 1);
}

#[tokio::test]
async fn two_values_of_one_header_are_refused() {
    let (env, _authority, layer) = with_authority().await;
    let bearer = format!("Bearer {TOKEN}");
    let grant = env.signer().sign(env.grant(1, LIST_ISSUES), NOW, MAX_GRANT_LIFETIME);
    let service = env.service_token();
    for (name, value) in [(AUTHORIZATION, bearer.as_str()), (GRANT, grant.as_str()), (SERVICE, &service)] {
        layer.authenticate(&headers([(name, value)])).await.unwrap();
        assert_eq!(
            refusal(&layer, &headers([(name, value), (name, value)])).await,
            AuthError::BadCredentials,
            "{name}"
        );
    }
}

#[tokio::test]
async fn one_invalid_credential_refuses_the_request() {
    let (env, _authority, layer) = with_authority().await;
    let (bearer, service) = (format!("Bearer {TOKEN}"), env.service_token());
    let all = headers([(AUTHORIZATION, &bearer), (SERVICE, &service), (GRANT, "x.y.z")]);
    assert_eq!(refusal(&layer, &all).await, AuthError::BadGrant);
    let bad_service = headers([(AUTHORIZATION, &bearer), (SERVICE, "x")]);
    assert_eq!(refusal(&layer, &bad_service).await, AuthError::BadCredentials);
}

#[tokio::test]
async fn a_grant_is_valid_until_it_expires_cached_or_not() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    let token = env.signer().sign(env.grant(42, CREATE_ISSUE), NOW, MAX_GRANT_LIFETIME);
    let request = headers([(GRANT, &token)]);
    for _ in 0..2 {
        let grant = layer.authenticate(&request).await.unwrap().grant.unwrap();
        assert_eq!((grant.repository, grant.operation.as_str()), (42, CREATE_ISSUE));
    }
    env.clock.advance(Duration::from_secs(59));
    layer.authenticate(&request).await.unwrap();
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(refusal(&layer, &request).await, AuthError::BadGrant);
    assert_eq!(refusal(&layer, &request).await, AuthError::BadGrant);
}

/// Signs claims with a shared secret, which no verifier of ours accepts.
fn signed_with_secret(claims: &str, secret: &[u8]) -> String {
    let text = format!("{}.{}", BASE64.encode(r#"{"alg":"HS256","typ":"JWT"}"#), BASE64.encode(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    format!("{text}.{}", BASE64.encode(ring::hmac::sign(&key, text.as_bytes())))
}

#[tokio::test]
async fn forged_grants_are_refused() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    let grant = || env.grant(1, CREATE_ISSUE);
    let other_pair = ed25519_dalek::SigningKey::from_bytes(&[8; 32]);
    let pem = ed25519_dalek::pkcs8::EncodePrivateKey::to_pkcs8_pem(&other_pair, Default::default()).unwrap();
    let mut claims = serde_json::to_value(grant()).unwrap();
    for (name, value) in [("iat", NOW), ("exp", NOW + 60)] {
        claims[name] = value.into();
    }
    claims["iss"] = "repo.ferrite".into();
    claims["aud"] = "ferrite".into();
    let hs256 = signed_with_secret(&claims.to_string(), env.public_pem.as_bytes());
    claims["exp"] = (NOW + 3600).into();
    let long = jsonwebtoken::encode(
        &jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA),
        &claims,
        &ferrite_proto::jwt::ed25519_private_key(env.private_pem.as_bytes()).unwrap(),
    )
    .unwrap();
    let good = env.signer().sign(grant(), NOW, MAX_GRANT_LIFETIME);
    let body = good.split('.').nth(1).unwrap();
    for (what, token) in [
        ("another key", Signer::from_pem(pem.as_bytes()).unwrap().sign(grant(), NOW, MAX_GRANT_LIFETIME)),
        ("no algorithm", format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}.")),
        ("the public key as a secret", hs256),
        ("an hour", long),
        ("expired", env.signer().sign(grant(), NOW - 60, MAX_GRANT_LIFETIME)),
        ("a service token", env.service_token().to_string()),
        ("a signature cut short", good[..good.len() - 1].to_owned()),
        ("nothing", String::new()),
    ] {
        assert_eq!(refusal(&layer, &headers([(GRANT, &token)])).await, AuthError::BadGrant, "{what}");
    }
}

#[tokio::test]
async fn a_service_token_proves_a_role_for_a_minute() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    let token_source = env.token_source();
    let token = token_source.token(ROLE);
    let caller = layer.authenticate(&headers([(SERVICE, &token)])).await.unwrap();
    assert_eq!(caller.require_service(), Ok(ServiceRole::Gateway));
    assert!(caller.is_gateway());
    assert_eq!(caller.identity, None);
    env.clock.advance(Duration::from_secs(31));
    assert_ne!(token_source.token(ROLE), token, "it is renewed long before");
    env.clock.advance(Duration::from_secs(300));
    assert_eq!(refusal(&layer, &headers([(SERVICE, &token)])).await, AuthError::BadCredentials);
    layer.authenticate(&headers([(SERVICE, &token_source.token(ROLE))])).await.unwrap();
}

#[tokio::test]
async fn a_service_token_of_another_installation_or_for_another_service_is_refused() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    let other = TestEnv::new(Clock::fixed(NOW_US));
    let grant = env.signer().sign(env.grant(1, CREATE_ISSUE), NOW, MAX_GRANT_LIFETIME);
    let elsewhere = env.token_source().token(ServiceRole::GitSvc).to_string();
    for token in [other.service_token().to_string(), elsewhere, grant, "a.b.c".into(), String::new()] {
        assert_eq!(refusal(&layer, &headers([(SERVICE, &token)])).await, AuthError::BadCredentials, "{token}");
    }
}

/// Returns the response to a request; 200 if it is admitted.
async fn response_to(layer: &AuthLayer, mut request: Request) -> Response {
    let admitted = layer.admit(&mut request).await;
    let is_public = request.uri().path().starts_with("/grpc.");
    assert_eq!(request.extensions().get::<Caller>().is_some(), admitted.is_ok() && !is_public);
    admitted.err().unwrap_or_default()
}

#[tokio::test]
async fn a_service_may_call_what_its_role_calls_and_nothing_else() {
    let env = TestEnv::new(Clock::system());
    let layer = env.layer(env.tokens());
    let call = async |role: ServiceRole, path: &str, kind: &str| {
        let token = env.keys.token_source(role, &env.clock).token(ROLE);
        let request = http::Request::post(path).header("content-type", kind).header(SERVICE, &*token);
        response_to(&layer, request.body(Body::empty()).unwrap()).await
    };
    let (grpc, delete) = ("application/grpc", "/ferrite.repo.v1.RepositoryService/DeleteRepository");
    for (role, path, is_admitted) in [
        (ServiceRole::Gateway, delete, true),
        (ServiceRole::IssueSvc, delete, false),
        (ServiceRole::HookSvc, delete, false),
        (ServiceRole::HookSvc, "/ferrite.repo.v1.AccessService/DescribeRepositories", true),
        (ServiceRole::GitSvc, "/ferrite.repo.v1.AccessService/CheckAccess", false),
        (ServiceRole::Gateway, "/ferrite.events.v1.EventSink/Deliver", false),
        (ServiceRole::GitSvc, "/ferrite.events.v1.EventSink/Deliver", true),
    ] {
        let response = call(role, path, grpc).await;
        let refusal = tonic::Status::from_header_map(response.headers()).and_then(|status| reason(&status));
        let expected = (!is_admitted).then(|| "SERVICE_NOT_PERMITTED".to_owned());
        assert_eq!(refusal, expected, "{role} {path}");
    }
    let body = call(ServiceRole::HookSvc, "/git/1/raw", "text/plain").await;
    assert_eq!(
        (body.status().as_u16(), body.headers()["ferrite-reason"].to_str().unwrap()),
        (403, "SERVICE_NOT_PERMITTED")
    );
    assert_eq!(call(ServiceRole::Gateway, "/git/1/raw", "text/plain").await.status(), 200);
}

#[tokio::test]
async fn a_refusal_has_the_protocol_of_the_request() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    let call = async |path: &str, kind: &str| {
        let request = http::Request::post(path).header("content-type", kind);
        response_to(&layer, request.body(Body::empty()).unwrap()).await
    };
    let grpc = call("/ferrite.repo.v1.X/Y", "application/grpc").await;
    assert_eq!(grpc.status(), 200);
    let status = tonic::Status::from_header_map(grpc.headers()).unwrap();
    assert_eq!(
        (status.code(), reason(&status).as_deref()),
        (tonic::Code::Unauthenticated, Some("CREDENTIALS_REQUIRED"))
    );
    let http = call("/git/1/upload-pack", "application/x-git").await;
    assert_eq!(
        (http.status().as_u16(), &http.headers()["ferrite-reason"]),
        (401, &HeaderValue::from_static("CREDENTIALS_REQUIRED"))
    );
    for open in ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"] {
        let response = call(open, "application/grpc").await;
        assert!(response.status() == 200 && response.headers().is_empty(), "{open}");
    }
}

#[tokio::test]
async fn the_caller_names_the_called_operation() {
    let env = TestEnv::new(Clock::fixed(NOW_US));
    let layer = env.layer(env.tokens());
    for (uri, expected) in [
        (format!("/{LIST_ISSUES}"), LIST_ISSUES),
        (format!("http://issue-svc/{LIST_ISSUES}?x=y"), LIST_ISSUES),
        ("/git/1/raw?path=a".to_owned(), "git/1/raw"),
    ] {
        let request = http::Request::post(uri).header(SERVICE, &*env.service_token());
        let mut request = request.body(Body::empty()).unwrap();
        layer.admit(&mut request).await.unwrap();
        assert_eq!(request.extensions().get::<Caller>().unwrap().operation, expected);
    }
}

#[tokio::test]
async fn what_takes_access_away_is_not_refused_for_the_number_of_writes() {
    let (env, _authority, layer) = with_authority().await;
    let (bearer, service) = (format!("Bearer {TOKEN}"), env.service_token());
    for (operation, is_done_at_the_limit) in [
        (DELETE_HOOK, true),
        // The account's password is in the message: the layer knows no user.
        (DELETE_ACCESS_TOKEN, true),
        (CREATE_HOOK, false),
        (CREATE_ISSUE, false),
    ] {
        let request = http::Request::post(format!("/{operation}"));
        let request = match operation {
            DELETE_ACCESS_TOKEN => request.header(SERVICE, &*service),
            _ => request.header(AUTHORIZATION, &bearer),
        };
        let mut request = request.body(Body::empty()).unwrap();
        let is_counted = writer::serve(async {
            layer.admit(&mut request).await.unwrap();
            writer::Scope::current().unwrap().is_counted()
        });
        assert_eq!(is_counted.await, is_done_at_the_limit, "{operation}");
    }
}

#[tokio::test]
async fn an_expired_identity_is_refused() {
    struct ExpiresAt(i64);
    #[async_trait::async_trait]
    impl TokenAuthority for ExpiresAt {
        async fn authenticate(&self, _: &str) -> Result<Option<Identity>, AuthError> {
            Ok(Some(Identity { expire_us: self.0, ..ada() }))
        }
    }
    for (expire_us, is_valid) in [(0, true), (NOW_US + 1, true), (NOW_US, false), (1, false), (-1, false)] {
        let tokens = TokenValidator::new(None, Arc::new(ExpiresAt(expire_us)), Clock::fixed(NOW_US));
        assert_eq!(tokens.validate(TOKEN).await.is_ok(), is_valid, "{expire_us}");
    }
}

#[test]
fn every_refusal_has_a_reason_of_its_own() {
    let all = [
        AuthError::CredentialsRequired,
        AuthError::BadCredentials,
        AuthError::BadGrant,
        AuthError::RepositoryNotFound,
        AuthError::PermissionRequired { needed: Permission::Write },
        AuthError::InsufficientScope { scope: Scope::RepoWrite },
        AuthError::AdminRequired,
        AuthError::ServiceRequired,
        AuthError::ServiceNotPermitted { role: ServiceRole::HookSvc },
        AuthError::Unavailable,
    ];
    let reasons: std::collections::HashSet<_> = all.iter().map(ServiceError::reason).collect();
    assert_eq!(reasons.len(), all.len());
    assert_eq!(AuthError::InsufficientScope { scope: Scope::RepoWrite }.to_string(), "token lacks scope `repo:write`");
}
