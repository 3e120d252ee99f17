//! The credentials of a request. A receiver that repeats its request in the response must not bring
//! them into the delivery log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_core::Secret;
use ferrite_outbound::OutboundUrl;

const MASK: &[u8] = b"***";
/// Shorter texts are in many responses by chance.
const MIN_SECRET_BYTES: usize = 4;

/// Longest first.
#[derive(Debug, Default)]
pub(super) struct SentSecrets(Vec<Secret>);

impl SentSecrets {
    /// Returns the credentials that a request sends: the value of the header `Authorization`, or
    /// else those of the URL.
    pub(super) fn of(url: &OutboundUrl, authorization: Option<&Secret>) -> Self {
        let mut texts = Vec::new();
        if let Some(value) = authorization.map(Secret::expose) {
            texts.push(value.to_owned());
            texts.extend(value.split_once(' ').map(|(_, credentials)| credentials.to_owned()));
        }
        if let Ok((_, user, password)) = url.split_credentials()
            && !(user.is_empty() && password.is_empty())
        {
            texts.push(STANDARD.encode(format!("{user}:{password}")));
            texts.push(if password.is_empty() { user } else { password });
        }
        texts.retain(|text| text.len() >= MIN_SECRET_BYTES);
        texts.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        Self(texts.into_iter().map(Secret::new).collect())
    }

    /// Returns a part of a response with `***` in place of the credentials.
    pub(super) fn hide(&self, part: &[u8]) -> Vec<u8> {
        let (mut shown, mut rest) = (Vec::with_capacity(part.len()), part);
        while let Some((first, after)) = rest.split_first() {
            match self.0.iter().find_map(|secret| rest.strip_prefix(secret.expose().as_bytes())) {
                Some(after) => {
                    shown.extend_from_slice(MASK);
                    rest = after;
                }
                None => {
                    shown.push(*first);
                    rest = after;
                }
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use ferrite_outbound::Policy;

    use super::*;

    fn hidden(url: &str, authorization: Option<&str>, part: &str) -> String {
        let url = OutboundUrl::parse(url, &Policy::default()).unwrap();
        let value = authorization.map(Secret::new);
        String::from_utf8(SentSecrets::of(&url, value.as_ref()).hide(part.as_bytes())).unwrap()
    }

    #[test]
    fn credentials_are_hidden_with_and_without_their_scheme() {
        let url = "https://example.com/";
        for (value, part, expected) in [
            ("Bearer hunter2", r#"{"a":"Bearer hunter2","b":"hunter2"}"#, r#"{"a":"***","b":"***"}"#),
            ("hunter2", "hunter2hunter2 hunter", "****** hunter"),
            ("Bearer abc", "abc Bearer abc", "abc ***"),
        ] {
            assert_eq!(hidden(url, Some(value), part), expected);
        }
        // `Og==` is an empty user with an empty password.
        assert_eq!(hidden(url, None, "any Og== text"), "any Og== text");
    }

    #[test]
    fn credentials_of_the_url_are_hidden_as_sent_and_decoded() {
        let part = "Basic YWRhOmh1bnQ6ZXI= ada hunt:er";
        assert_eq!(hidden("https://ada:hunt%3Aer@example.com/", None, part), "Basic *** ada ***");
        assert_eq!(hidden("https://t0ken@example.com/", None, "Basic dDBrZW46 t0ken"), "Basic *** ***");
    }
}
