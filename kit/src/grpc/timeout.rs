use std::time::Duration;

use http::HeaderMap;

/// Deadline of an outgoing call whose `grpc-timeout` is absent or later.
pub(super) const CLIENT_DEADLINE: Duration = Duration::from_secs(30);

/// Returns the time that a client gives a call in `grpc-timeout`; [`Duration::MAX`] if the header is absent or malformed.
pub(crate) fn requested_timeout(headers: &HeaderMap) -> Duration {
    headers.get("grpc-timeout").and_then(|value| value.to_str().ok()).and_then(parse_timeout).unwrap_or(Duration::MAX)
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
