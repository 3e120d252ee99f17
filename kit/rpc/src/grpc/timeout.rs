use std::time::Duration;

use http::Request;
use tonic::IntoRequest;

/// Methods that copy a repository, which can take minutes.
const LONG_METHODS: &[&str] =
    &["/ferrite.repo.v1.RepositoryService/ForkRepository", "/ferrite.git.v1.StorageService/CreateRepository"];
/// Maximum deadline of the [`LONG_METHODS`].
const LONG_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Returns the deadline of a call: its `grpc-timeout`, or `usual` if the header is absent,
/// malformed or later. For [`LONG_METHODS`] the header may be later, up to [`LONG_DEADLINE`].
pub fn call_deadline<B>(request: &Request<B>, usual: Duration) -> Duration {
    let header = request.headers().get("grpc-timeout").and_then(|value| value.to_str().ok());
    match header.and_then(parse_timeout) {
        Some(requested) if LONG_METHODS.contains(&request.uri().path()) => requested.min(LONG_DEADLINE),
        Some(requested) => requested.min(usual),
        None => usual,
    }
}

/// Sets the timeout of a request, given as request or message.
#[must_use]
pub fn with_timeout<T>(request: impl IntoRequest<T>, timeout: Duration) -> tonic::Request<T> {
    let mut request = request.into_request();
    request.set_timeout(timeout);
    request
}

/// Parses a `grpc-timeout`: at most eight digits and a unit (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_calls_that_copy_a_repository_may_ask_for_more_time() {
        let usual = Duration::from_secs(30);
        let deadline = |path: &str, header: &str| {
            let request = Request::post(path).header("grpc-timeout", header).body(()).unwrap();
            call_deadline(&request, usual).as_secs()
        };
        for path in LONG_METHODS {
            assert_eq!([deadline(path, "5S"), deadline(path, "9M"), deadline(path, "9H")], [5, 540, 900]);
            assert_eq!(deadline(path, "x"), 30);
            assert_eq!(call_deadline(&Request::post(*path).body(()).unwrap(), usual), usual);
        }
        let other = "/ferrite.repo.v1.RepositoryService/CreateRepository";
        assert_eq!([deadline(other, "5S"), deadline(other, "9M"), deadline(other, "")], [5, 30, 30]);
    }

    #[test]
    fn timeouts_of_the_protocol_are_parsed() {
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "m", "999999999S", "-1S", "1x", "1é", "é", "+1S", " 1S"] {
            assert_eq!(parse_timeout(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn the_parser_accepts_any_text_without_panic(text in ".*") {
            parse_timeout(&text);
        }

        #[test]
        fn every_number_of_eight_digits_is_parsed(count in 0_u64..=99_999_999) {
            prop_assert_eq!(parse_timeout(&format!("{count}S")), Some(Duration::from_secs(count)));
            prop_assert_eq!(parse_timeout(&format!("{count}M")), Some(Duration::from_secs(count * 60)));
            prop_assert_eq!(parse_timeout(&format!("{count}n")), Some(Duration::from_nanos(count)));
        }
    }
}
