use super::*;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failure {
    kind: Kind,
    message: String,
    violations: Vec<FieldViolation>,
    retry_after: Option<Duration>,
}

impl Failure {
    fn of(kind: Kind) -> Self {
        Self { kind, message: "secret cause".into(), violations: Vec::new(), retry_after: None }
    }
}

impl ServiceError for Failure {
    fn classify(&self) -> (Kind, &'static str) {
        (self.kind, "A_REASON")
    }

    fn domain(&self) -> &'static str {
        "test"
    }

    fn violations(&self) -> Vec<FieldViolation> {
        self.violations.clone()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// Returns the expected code of each kind. A new kind is a compile error until it is added here.
fn expected_code(kind: Kind) -> Code {
    match kind {
        Kind::InvalidArgument => Code::InvalidArgument,
        Kind::NotFound => Code::NotFound,
        Kind::AlreadyExists => Code::AlreadyExists,
        Kind::PermissionDenied => Code::PermissionDenied,
        Kind::Unauthenticated => Code::Unauthenticated,
        Kind::Aborted => Code::Aborted,
        Kind::FailedPrecondition => Code::FailedPrecondition,
        Kind::RateLimited => Code::ResourceExhausted,
        Kind::TooLarge => Code::OutOfRange,
        Kind::Overloaded => Code::Unavailable,
        Kind::Internal => Code::Internal,
    }
}

const KINDS: [Kind; 11] = [
    Kind::InvalidArgument,
    Kind::NotFound,
    Kind::AlreadyExists,
    Kind::PermissionDenied,
    Kind::Unauthenticated,
    Kind::Aborted,
    Kind::FailedPrecondition,
    Kind::RateLimited,
    Kind::TooLarge,
    Kind::Overloaded,
    Kind::Internal,
];

#[test]
fn every_kind_has_a_code_of_its_own() {
    let mut codes: Vec<i32> = KINDS.iter().map(|kind| kind.code() as i32).collect();
    for kind in KINDS {
        assert_eq!(kind.code(), expected_code(kind), "{kind:?}");
    }
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), KINDS.len());
}

#[test]
fn a_status_carries_the_reason_and_the_message() {
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Internal) {
        let status = to_status(&Failure::of(kind));
        assert_eq!((status.code(), status.message()), (kind.code(), "secret cause"));
        assert_eq!(reason(&status).as_deref(), Some("A_REASON"));
        assert_eq!(status.get_details_error_info().unwrap().domain, "test.ferrite");
    }
}

#[test]
fn an_internal_failure_names_neither_its_cause_nor_fields() {
    let mut failure = Failure::of(Kind::Internal);
    failure.violations.push(FieldViolation::new("name", "invalid", "secret cause"));
    let status = to_status(&failure);
    assert_eq!(status.message(), "internal error");
    assert!(!String::from_utf8_lossy(status.details()).contains("secret"));
    assert_eq!(violations(&status), Vec::new());
}

#[test]
fn violations_are_read_back_from_the_headers_of_a_status() {
    let mut failure = Failure::of(Kind::InvalidArgument);
    failure.violations = vec![
        FieldViolation::new("name", "required", "name is required"),
        FieldViolation::new("config.url", "invalid", "url: not absolute: `x`"),
    ];
    let status = to_status(&failure);
    let back = Status::from_header_map(&headers(&status)).unwrap();
    assert_eq!(
        violations(&back),
        vec![
            ("name".into(), "required".into(), "name is required".into()),
            ("config.url".into(), "invalid".into(), "url: not absolute: `x`".into()),
        ]
    );
}

#[test]
fn retry_after_is_read_back_from_the_headers_of_a_status() {
    let mut failure = Failure::of(Kind::RateLimited);
    failure.retry_after = Some(Duration::from_secs(7));
    let back = Status::from_header_map(&headers(&to_status(&failure))).unwrap();
    assert_eq!(back.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_secs(7)));
}

#[test]
fn a_status_fits_into_headers_whatever_the_client_sent() {
    let mut failure = Failure::of(Kind::InvalidArgument);
    failure.message = "ü".repeat(1_000_000);
    failure.violations =
        (0..1000).map(|_| FieldViolation::new("é".repeat(70_000), "invalid", "ß".repeat(70_000))).collect();
    let size: usize =
        headers(&to_status(&failure)).iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    assert!(size < 16 * 1024, "{size}");
}

#[test]
fn a_foreign_status_has_no_reason() {
    assert_eq!(reason(&Status::unavailable("connection refused")), None);
    let mut details = ErrorDetails::new();
    details.set_error_info("X", "elsewhere.example", std::collections::HashMap::new());
    assert_eq!(reason(&Status::with_error_details(Code::NotFound, "x", details)), None);
}

fn headers(status: &Status) -> tonic::codegen::http::HeaderMap {
    let mut headers = tonic::codegen::http::HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    headers
}
