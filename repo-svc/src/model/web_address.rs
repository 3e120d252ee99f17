use ferrite_kit::text::is_control_or_direction;

/// Returns whether a text is an absolute `http` or `https` URL without credentials, and without characters that have to be escaped in
/// HTML.
pub(super) fn is_web_address(text: &str) -> bool {
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
    // Credentials before the host are refused, because they make a URL look like that of another host.
    is_port && !host.is_empty() && !host.contains('@') && (is_bracketed || !host.contains([':', '[', ']']))
}
