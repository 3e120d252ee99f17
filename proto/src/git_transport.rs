//! Names of git's services and the value of `Git-Protocol`, for the gateway and git-svc.

use crate::operation::{RECEIVE_PACK, UPLOAD_PACK};

/// The HTTP header in which a git client asks for a protocol version (gitprotocol-http(5)).
pub const GIT_PROTOCOL_HEADER: &str = "git-protocol";

/// Maximum length of a `Git-Protocol` value. git itself sends less than 40 bytes.
pub const MAX_GIT_PROTOCOL_BYTES: usize = 256;

/// A git program that serves a remote client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitService {
    /// Fetch and clone.
    UploadPack,
    /// Push.
    ReceivePack,
    /// `git archive --remote`, over SSH only.
    UploadArchive,
}

impl GitService {
    /// Returns the service called `name` (`git-upload-pack` and so on), compared byte by byte.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"git-upload-pack" => Some(Self::UploadPack),
            b"git-receive-pack" => Some(Self::ReceivePack),
            b"git-upload-archive" => Some(Self::UploadArchive),
            _ => None,
        }
    }

    /// Returns the full name, as in queries and SSH commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
            Self::UploadArchive => "git-upload-archive",
        }
    }

    /// Returns the name without `git-`, as in URLs.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        match self {
            Self::UploadPack => "upload-pack",
            Self::ReceivePack => "receive-pack",
            Self::UploadArchive => "upload-archive",
        }
    }

    /// Returns the operation that a grant for this service has. An archive needs read access, like
    /// a fetch.
    #[must_use]
    pub fn operation(self) -> &'static str {
        match self {
            Self::UploadPack | Self::UploadArchive => UPLOAD_PACK,
            Self::ReceivePack => RECEIVE_PACK,
        }
    }
}

/// A checked `Git-Protocol` value: `key[=value]` parts separated by colons, such as `version=2`.
///
/// Keys and values consist of ASCII letters, digits, `.`, `_` and `-`, so a value is safe in the
/// environment variable `GIT_PROTOCOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitProtocol(String);

impl GitProtocol {
    /// Returns `version=2`.
    #[must_use]
    pub fn version_2() -> Self {
        Self("version=2".to_owned())
    }

    /// Checks a value; `None` if it is empty, longer than [`MAX_GIT_PROTOCOL_BYTES`], or malformed.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let is_word = |word: &[u8]| {
            !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
        };
        let is_part = |part: &[u8]| {
            let mut halves = part.splitn(2, |byte| *byte == b'=');
            halves.next().is_some_and(is_word) && halves.next().is_none_or(is_word)
        };
        if value.len() > MAX_GIT_PROTOCOL_BYTES || !value.split(|byte| *byte == b':').all(is_part) {
            return None;
        }
        // Cannot fail: the check above only admits ASCII.
        String::from_utf8(value.to_vec()).ok().map(Self)
    }

    /// Returns the value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_service_has_one_name() {
        for service in [GitService::UploadPack, GitService::ReceivePack, GitService::UploadArchive] {
            assert_eq!(GitService::parse(service.name().as_bytes()), Some(service));
            assert_eq!(service.name().strip_prefix("git-"), Some(service.short_name()));
        }
        for other in ["", "upload-pack", "git-upload-pack ", "Git-Upload-Pack", "git-upload-pack%20"] {
            assert_eq!(GitService::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn values_that_git_sends_are_accepted() {
        for value in ["version=0", "version=1", "version=2", "version=2:hash-algo=sha256", "version=2:experimental"] {
            assert_eq!(GitProtocol::parse(value.as_bytes()).as_ref().map(GitProtocol::as_str), Some(value));
        }
        assert_eq!(GitProtocol::parse(b"version=2"), Some(GitProtocol::version_2()));
        assert!(GitProtocol::parse("v".repeat(MAX_GIT_PROTOCOL_BYTES).as_bytes()).is_some());
    }

    #[test]
    fn other_values_are_refused() {
        let long = "v".repeat(MAX_GIT_PROTOCOL_BYTES + 1);
        for value in
            ["", ":", "version=2:", "=2", "version=", "a=b=c", "version=2 ", "a;b", "$(x)", "a/b", "ü=1", &long]
        {
            assert_eq!(GitProtocol::parse(value.as_bytes()), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(value in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = GitProtocol::parse(&value);
        }

        #[test]
        fn accepted_values_are_plain(value in "[a-z0-9=:;. $/'\\\\-]{0,12}") {
            if GitProtocol::parse(value.as_bytes()).is_some() {
                prop_assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=:._-".contains(&byte)));
                prop_assert!(!value.starts_with(['=', ':']) && !value.ends_with(['=', ':']));
            }
        }

        #[test]
        fn lists_of_keys_are_accepted(keys in proptest::collection::vec("[a-z][a-z0-9-]{0,8}(=[a-z0-9.]{1,8})?", 1..8)) {
            prop_assert!(GitProtocol::parse(keys.join(":").as_bytes()).is_some());
        }
    }
}
