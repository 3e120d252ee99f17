use ferrite_core::headers::single_header;
use ferrite_proto::git_transport::{GIT_PROTOCOL_HEADER, GitProtocol, GitService};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::error::GitHttpError;

/// Returns the service in the query of `info/refs`. The comparison is exact: git neither encodes
/// nor repeats it.
///
/// # Errors
/// [`GitHttpError::DumbProtocol`] without a service, [`GitHttpError::UnknownService`] for two
/// services or one not offered over HTTP.
pub(super) fn service_of_query(query: Option<&str>) -> Result<GitService, GitHttpError> {
    let mut names = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("service="));
    let (Some(name), second) = (names.next(), names.next()) else { return Err(GitHttpError::DumbProtocol) };
    match GitService::parse(name.as_bytes()) {
        Some(service @ (GitService::UploadPack | GitService::ReceivePack)) if second.is_none() => Ok(service),
        Some(GitService::UploadPack | GitService::ReceivePack | GitService::UploadArchive) | None => {
            Err(GitHttpError::UnknownService)
        }
    }
}

pub(super) fn request_type(service: GitService) -> &'static str {
    match service {
        GitService::UploadPack => "application/x-git-upload-pack-request",
        GitService::ReceivePack => "application/x-git-receive-pack-request",
        GitService::UploadArchive => "application/x-git-upload-archive-request",
    }
}

pub(super) fn result_type(service: GitService) -> &'static str {
    match service {
        GitService::UploadPack => "application/x-git-upload-pack-result",
        GitService::ReceivePack => "application/x-git-receive-pack-result",
        GitService::UploadArchive => "application/x-git-upload-archive-result",
    }
}

pub(super) fn advertisement_type(service: GitService) -> &'static str {
    match service {
        GitService::UploadPack => "application/x-git-upload-pack-advertisement",
        GitService::ReceivePack => "application/x-git-receive-pack-advertisement",
        GitService::UploadArchive => "application/x-git-upload-archive-advertisement",
    }
}

pub(super) fn git_protocol(headers: &HeaderMap) -> Result<Option<GitProtocol>, GitHttpError> {
    let value = single_header(headers, GIT_PROTOCOL_HEADER).map_err(|_| GitHttpError::InvalidProtocol)?;
    value.map(|value| GitProtocol::parse(value.as_bytes()).ok_or(GitHttpError::InvalidProtocol)).transpose()
}

/// Checks the content type of a request body, without its parameters.
pub(super) fn check_type(headers: &HeaderMap, service: GitService) -> Result<(), GitHttpError> {
    let declared = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default().trim();
    let expected = request_type(service);
    if essence.eq_ignore_ascii_case(expected) { Ok(()) } else { Err(GitHttpError::ContentType(expected)) }
}

/// Whether a request body is gzip, which git-svc decompresses. Git uses no other encodings.
pub(super) fn is_gzip(headers: &HeaderMap) -> Result<bool, GitHttpError> {
    let value = single_header(headers, CONTENT_ENCODING).map_err(|_| GitHttpError::ContentEncoding)?;
    match value.map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase()).as_deref() {
        None | Some(b"" | b"identity") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(_) => Err(GitHttpError::ContentEncoding),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
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
        assert_eq!(service_of_query(Some("service=git-upload-pack")), Ok(GitService::UploadPack));
        assert_eq!(service_of_query(Some("x=1&service=git-receive-pack&")), Ok(GitService::ReceivePack));
        for dumb in [None, Some(""), Some("x=1"), Some("services=git-upload-pack"), Some("Service=git-upload-pack")] {
            assert_eq!(service_of_query(dumb), Err(GitHttpError::DumbProtocol), "{dumb:?}");
        }
        for other in [
            "service=",
            "service=git-upload-archive",
            "service=upload-pack",
            "service=git-upload-pack%20",
            "service=git-upload-pack&service=git-receive-pack",
            "service=git-upload-pack&service=git-upload-pack",
        ] {
            assert_eq!(service_of_query(Some(other)), Err(GitHttpError::UnknownService), "{other}");
        }
    }

    #[test]
    fn a_protocol_header_is_checked_and_may_come_once() {
        let version_2 = headers(GIT_PROTOCOL_HEADER, &["version=2"]);
        assert_eq!(git_protocol(&version_2), Ok(Some(GitProtocol::version_2())));
        assert_eq!(git_protocol(&HeaderMap::new()), Ok(None));
        for values in [&["version=2", "version=2"][..], &["version=2;rm"], &[""]] {
            let refused = git_protocol(&headers(GIT_PROTOCOL_HEADER, values));
            assert_eq!(refused, Err(GitHttpError::InvalidProtocol), "{values:?}");
        }
    }

    #[test]
    fn each_service_takes_its_own_type() {
        let of = |value| headers(CONTENT_TYPE.as_str(), &[value]);
        assert!(check_type(&of("application/x-git-upload-pack-request"), GitService::UploadPack).is_ok());
        assert!(check_type(&of("Application/X-Git-Upload-Pack-Request; a=b"), GitService::UploadPack).is_ok());
        assert!(check_type(&of("application/x-git-upload-pack-request"), GitService::ReceivePack).is_err());
        assert!(check_type(&of("application/x-www-form-urlencoded"), GitService::UploadPack).is_err());
        assert!(check_type(&HeaderMap::new(), GitService::UploadPack).is_err());
    }

    #[test]
    fn only_gzip_is_an_encoding() {
        let of = |values: &[&str]| is_gzip(&headers(CONTENT_ENCODING.as_str(), values));
        assert_eq!(is_gzip(&HeaderMap::new()), Ok(false));
        assert_eq!(of(&["identity"]), Ok(false));
        assert_eq!(of(&["GZIP"]), Ok(true));
        assert_eq!(of(&["x-gzip"]), Ok(true));
        for values in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["deflate"]] {
            assert_eq!(of(values), Err(GitHttpError::ContentEncoding), "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn any_query_names_a_service_or_is_refused(query in "\\PC{0,60}") {
            let _ = service_of_query(Some(&query));
        }
    }
}
