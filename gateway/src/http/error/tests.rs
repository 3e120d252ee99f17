use ferrite_proto::error::{Kind, ServiceError, to_status};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("text of the service")]
struct TestError(Kind, &'static str);

impl ServiceError for TestError {
    fn classify(&self) -> (Kind, &'static str) {
        (self.0, self.1)
    }

    fn domain(&self) -> &'static str {
        "test"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        match self.0 {
            Kind::InvalidArgument => vec![FieldViolation::new("name", "too_long", "at most 100 characters")],
            _ => Vec::new(),
        }
    }

    fn details(&self) -> Vec<(&'static str, String)> {
        if self.1 == "BRANCH_RENAMED" { vec![("branch", "new".to_owned())] } else { Vec::new() }
    }

    fn retry_after(&self) -> Option<Duration> {
        matches!(self.classify(), (Kind::RateLimited, _) | (Kind::Aborted, "INTERRUPTED"))
            .then(|| Duration::from_millis(2_500))
    }
}

fn of(kind: Kind, reason: &'static str) -> ApiError {
    to_status(&TestError(kind, reason)).into()
}

#[test]
fn every_kind_of_failure_has_its_http_status() {
    let table = [
        (Kind::InvalidArgument, 422),
        (Kind::NotFound, 404),
        (Kind::AlreadyExists, 422),
        (Kind::PermissionDenied, 403),
        (Kind::Unauthenticated, 401),
        (Kind::Aborted, 409),
        (Kind::FailedPrecondition, 422),
        (Kind::RateLimited, 429),
        (Kind::TooLarge, 413),
        (Kind::Overloaded, 503),
        (Kind::Internal, 500),
    ];
    for (kind, status) in table {
        let error = of(kind, "SOME_REASON");
        assert_eq!(error.status.as_u16(), status, "{kind:?}");
        let expected = if kind == Kind::Internal { "internal error" } else { "text of the service" };
        assert_eq!(error.message, expected);
    }
}

#[test]
fn field_errors_above_the_limit_are_left_out() {
    let one = FieldError { field: "x".into(), code: "type".into(), message: "must be a string".into() };
    assert_eq!(ApiError::invalid(vec![one; 5_000]).errors.len(), MAX_FIELD_ERRORS);
}

#[test]
fn every_code_without_our_details_becomes_a_bare_503_413_or_500() {
    for number in 1..=16 {
        let code = Code::from_i32(number);
        let error = ApiError::from(Status::new(code, "text of the transport"));
        let expected = match code {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => 503,
            // tonic's code for an oversized message.
            Code::OutOfRange => 413,
            _ => 500,
        };
        assert_eq!(error.status.as_u16(), expected, "{code:?}");
        assert!(!error.message.contains("transport"));
    }
}

#[test]
fn some_reasons_have_a_status_of_their_own() {
    assert_eq!(of(Kind::FailedPrecondition, "MIRROR_READ_ONLY").status.as_u16(), 403);
    assert_eq!(of(Kind::FailedPrecondition, "WRONG_STORE").status.as_u16(), 503);
    assert_eq!(of(Kind::FailedPrecondition, "ALREADY_MERGED").status.as_u16(), 405);
    assert_eq!(of(Kind::FailedPrecondition, "MERGE_CONFLICT").status.as_u16(), 409);
    assert_eq!(of(Kind::Aborted, "STALE_BLOB").status.as_u16(), 409);
    assert_eq!(of(Kind::Aborted, "PRECONDITION_FAILED").status.as_u16(), 412);
    assert_eq!(of(Kind::Unauthenticated, "BAD_GRANT").status.as_u16(), 500);
    assert_eq!(of(Kind::NotFound, "REPOSITORY_NOT_FOUND").message, REPOSITORY_NOT_FOUND);
}

#[test]
fn a_renamed_branch_is_not_found_but_has_a_present_name() {
    let error = of(Kind::NotFound, "BRANCH_RENAMED");
    assert_eq!((error.status.as_u16(), error.reason.as_deref()), (404, Some("BRANCH_NOT_FOUND")));
    assert_eq!(error.moved_to(), Some(&PresentName::Branch("new".to_owned())));
}

#[test]
fn field_errors_and_retry_after_reach_the_client() {
    let error = of(Kind::InvalidArgument, "BAD");
    let field = FieldError { field: "name".into(), code: "too_long".into(), message: "at most 100 characters".into() };
    assert_eq!(error.errors, [field]);
    for (kind, reason) in [(Kind::RateLimited, "TOO_MANY_ATTEMPTS"), (Kind::Aborted, "INTERRUPTED")] {
        assert_eq!(of(kind, reason).into_response().headers()[RETRY_AFTER], "3", "{reason}");
    }
    assert!(!of(Kind::Aborted, "STALE_BLOB").into_response().headers().contains_key(RETRY_AFTER));
}

#[test]
fn every_401_and_no_other_error_has_a_challenge() {
    let challenge = |error: ApiError| error.into_response().headers().get(WWW_AUTHENTICATE).cloned();
    let refusals = || {
        [ApiError::credentials_required(), ApiError::bad_credentials(), of(Kind::Unauthenticated, "BAD_CREDENTIALS")]
    };
    for refusal in refusals() {
        assert_eq!(challenge(refusal), Some(TOKEN_CHALLENGE));
    }
    for refusal in refusals() {
        assert_eq!(challenge(refusal.asking_for_password()), Some(PASSWORD_CHALLENGE));
    }
    assert_eq!(challenge(of(Kind::RateLimited, "TOO_MANY_ATTEMPTS").asking_for_password()), None);
}

#[tokio::test]
async fn an_error_is_an_object_with_message_and_url() {
    let links = Links::new("http://git.example.com", "h:22");
    let response = render(ApiError::bad_request("a <b> & c").asking_for_password().into_response(), &links);
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json; charset=UTF-8");
    let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
    let expected = r#"{"message":"a \u003cb\u003e \u0026 c","url":"http://git.example.com/docs/api"}"#;
    assert_eq!(body, expected);
}

#[test]
fn an_error_has_the_reason_of_the_service() {
    let reason = |error: ApiError| error.reason.map(Cow::into_owned);
    assert_eq!(reason(of(Kind::PermissionDenied, "BRANCH_PROTECTED")).as_deref(), Some("BRANCH_PROTECTED"));
    for hidden in [of(Kind::NotFound, "REPOSITORY_NOT_FOUND"), of(Kind::NotFound, "REPOSITORY_MOVED")] {
        assert_eq!(reason(hidden), reason(ApiError::repository_not_found()));
    }
    // Neither a fault of the installation nor a wrong field has one.
    for (kind, name) in
        [(Kind::Internal, "INTERNAL"), (Kind::Unauthenticated, "BAD_GRANT"), (Kind::InvalidArgument, "INVALID_REQUEST")]
    {
        assert_eq!(reason(of(kind, name)), None, "{name}");
    }
}
