use http::{HeaderMap, HeaderValue};

use super::error::Refusal;

/// The header in which git names the protocol version it would like.
pub(crate) const HEADER: &str = "git-protocol";
const MAX_BYTES: usize = 256;

/// One of git's two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Fetch and clone.
    UploadPack,
    /// Push.
    ReceivePack,
}

impl Service {
    /// The service that the query of `info/refs` asks for, taken literally: git never encodes or repeats it.
    ///
    /// # Errors
    /// [`Refusal::Dumb`] when none is named, [`Refusal::UnknownService`] for another or for two.
    pub(super) fn of_query(query: Option<&str>) -> Result<Self, Refusal> {
        let mut named = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("service="));
        match (named.next(), named.next()) {
            (None, _) => Err(Refusal::Dumb),
            (Some("git-upload-pack"), None) => Ok(Self::UploadPack),
            (Some("git-receive-pack"), None) => Ok(Self::ReceivePack),
            (Some(_), _) => Err(Refusal::UnknownService),
        }
    }

    /// The service's name in queries.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    /// Its last path part at git-svc.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::UploadPack => "upload-pack",
            Self::ReceivePack => "receive-pack",
        }
    }

    /// What a request to it must declare itself to be.
    pub(super) fn request_type(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-request",
            Self::ReceivePack => "application/x-git-receive-pack-request",
        }
    }

    /// What its answer is.
    pub(super) fn result_type(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-result",
            Self::ReceivePack => "application/x-git-receive-pack-result",
        }
    }

    /// What its list of refs is.
    pub(super) fn advertisement_type(self) -> &'static str {
        match self {
            Self::UploadPack => "application/x-git-upload-pack-advertisement",
            Self::ReceivePack => "application/x-git-receive-pack-advertisement",
        }
    }
}

/// The `Git-Protocol` header, if there is one that git-svc may put into git's environment.
///
/// # Errors
/// [`Refusal::BadProtocol`] for anything but a short list of keys, each with or without a value.
pub(super) fn git_protocol(headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
    let mut values = headers.get_all(HEADER).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if is_protocol(value.as_bytes()) => Ok(Some(value.clone())),
        (Some(_), _) => Err(Refusal::BadProtocol),
    }
}

/// Whether `value` is `key[=value]` parts joined by colons, of letters, digits, `.`, `_` and `-`.
pub(crate) fn is_protocol(value: &[u8]) -> bool {
    let is_word =
        |word: &[u8]| !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
    value.len() <= MAX_BYTES
        && value.split(|byte| *byte == b':').all(|part| {
            let mut halves = part.splitn(2, |byte| *byte == b'=');
            halves.next().is_some_and(is_word) && halves.next().is_none_or(is_word)
        })
}

/// Whether a request body declares the type that `service` takes. Parameters are tolerated.
///
/// # Errors
/// [`Refusal::ContentType`] when it does not.
pub(super) fn check_type(headers: &HeaderMap, service: Service) -> Result<(), Refusal> {
    let declared = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(service.request_type()) { Ok(()) } else { Err(Refusal::ContentType(service)) }
}

/// Whether a request body is gzip, which git-svc unpacks.
///
/// # Errors
/// [`Refusal::ContentEncoding`] for codings that git does not use.
pub(super) fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut values = headers.get_all(http::header::CONTENT_ENCODING).iter();
    let (first, second) = (values.next(), values.next());
    match first.map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase()).as_deref() {
        _ if second.is_some() => Err(Refusal::ContentEncoding),
        None | Some(b"" | b"identity") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(_) => Err(Refusal::ContentEncoding),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
    use proptest::prelude::*;

    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_service_is_named_once_and_literally() {
        assert!(matches!(Service::of_query(Some("service=git-upload-pack")), Ok(Service::UploadPack)));
        assert!(matches!(Service::of_query(Some("x=1&service=git-receive-pack&")), Ok(Service::ReceivePack)));
        for dumb in [None, Some(""), Some("x=1"), Some("services=git-upload-pack"), Some("Service=git-upload-pack")] {
            assert!(matches!(Service::of_query(dumb), Err(Refusal::Dumb)), "{dumb:?}");
        }
        for other in [
            "service=",
            "service=git-upload-archive",
            "service=upload-pack",
            "service=git-upload-pack%20",
            "service=git-upload-pack&service=git-receive-pack",
            "service=git-upload-pack&service=git-upload-pack",
        ] {
            assert!(matches!(Service::of_query(Some(other)), Err(Refusal::UnknownService)), "{other}");
        }
    }

    #[test]
    fn what_git_sends_as_protocol_is_accepted() {
        for value in ["version=0", "version=1", "version=2", "version=2:hash-algo=sha256", "version=2:experimental"] {
            assert!(git_protocol(&headers(HEADER, &[value])).is_ok_and(|protocol| protocol.is_some()), "{value}");
        }
        assert!(git_protocol(&HeaderMap::new()).is_ok_and(|protocol| protocol.is_none()));
        assert!(is_protocol("v".repeat(MAX_BYTES).as_bytes()));
    }

    #[test]
    fn protocol_junk_is_refused() {
        let long = "v".repeat(MAX_BYTES + 1);
        for value in
            ["", ":", "version=2:", "=2", "version=", "a=b=c", "version=2 ", "a;b", "$(x)", "a/b", "ü=1", &long]
        {
            assert!(!is_protocol(value.as_bytes()), "{value}");
        }
        assert!(matches!(git_protocol(&headers(HEADER, &["version=2", "version=2"])), Err(Refusal::BadProtocol)));
    }

    #[test]
    fn each_service_takes_its_own_type() {
        let of = |value| headers(CONTENT_TYPE.as_str(), &[value]);
        assert!(check_type(&of("application/x-git-upload-pack-request"), Service::UploadPack).is_ok());
        assert!(check_type(&of("Application/X-Git-Upload-Pack-Request; a=b"), Service::UploadPack).is_ok());
        assert!(check_type(&of("application/x-git-upload-pack-request"), Service::ReceivePack).is_err());
        assert!(check_type(&of("application/x-www-form-urlencoded"), Service::UploadPack).is_err());
        assert!(check_type(&HeaderMap::new(), Service::UploadPack).is_err());
    }

    #[test]
    fn only_gzip_is_a_coding() {
        let of = |values: &[&str]| is_gzip(&headers(CONTENT_ENCODING.as_str(), values));
        assert!(matches!(is_gzip(&HeaderMap::new()), Ok(false)));
        assert!(matches!(of(&["identity"]), Ok(false)));
        assert!(matches!(of(&["GZIP"]), Ok(true)));
        assert!(matches!(of(&["x-gzip"]), Ok(true)));
        for values in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["deflate"]] {
            assert!(matches!(of(values), Err(Refusal::ContentEncoding)), "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(value in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = is_protocol(&value);
        }

        #[test]
        fn what_is_accepted_is_short_and_plain(value in "[a-z0-9=:;. $/'\\\\-]{0,12}") {
            if is_protocol(value.as_bytes()) {
                prop_assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=:._-".contains(&byte)));
                prop_assert!(!value.starts_with(['=', ':']) && !value.ends_with(['=', ':']));
            }
        }

        #[test]
        fn lists_of_keys_are_accepted(keys in proptest::collection::vec("[a-z][a-z0-9-]{0,8}(=[a-z0-9.]{1,8})?", 1..8)) {
            prop_assert!(is_protocol(keys.join(":").as_bytes()));
        }

        #[test]
        fn any_query_names_a_service_or_is_refused(query in "\\PC{0,60}") {
            let _ = Service::of_query(Some(&query));
        }
    }
}
