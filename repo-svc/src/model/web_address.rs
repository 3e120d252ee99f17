use ferrite_core::text::is_control_or_direction;
use ferrite_proto::error::FieldViolation;

pub(super) const MAX_EXTERNAL_URL_BYTES: usize = 2_048;

pub(super) fn parse_external_url(text: &str, field: &str) -> Result<String, FieldViolation> {
    if text.len() > MAX_EXTERNAL_URL_BYTES {
        let message = format!("must have at most {MAX_EXTERNAL_URL_BYTES} bytes");
        return Err(FieldViolation::new(field, "too_long", message));
    }
    parse_web_address(text, field)
}

/// Accepts an absolute `http` or `https` URL, or an empty text.
pub(super) fn parse_web_address(text: &str, field: &str) -> Result<String, FieldViolation> {
    if text.is_empty() || is_web_address(text) {
        return Ok(text.to_owned());
    }
    Err(FieldViolation::new(field, "invalid", "must be an absolute http or https URL"))
}

/// Rejects credentials, and characters that must be escaped in HTML.
fn is_web_address(text: &str) -> bool {
    let is_forbidden = |char: char| {
        char.is_whitespace() || is_control_or_direction(char) || matches!(char, '<' | '>' | '"' | '\\' | '`')
    };
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    if text.chars().any(is_forbidden) || !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return false;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, "80"),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    // Credentials before the host would make a URL look like one of another host.
    is_port && !host.is_empty() && !host.contains('@') && (is_bracketed || !host.contains([':', '[', ']']))
}
