//! Versions of resources, and preconditions of writes.
//!
//! A read returns the version of its resource if the request asks for it. A write checks its
//! precondition inside its transaction, against the resource as the same read would return it. The
//! gateway translates `ETag` and `If-Match` to versions and preconditions.

use std::fmt;

use ferrite_proto::metadata;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use prost::Message;

use crate::headers::single_header;

const VERSION_BYTES: usize = 16;
const EXISTS: &str = "exists";
const ABSENT: &str = "absent";
const NEVER: &str = "never";
const VERSION_PREFIX: &str = "version=";
const NOT_VERSION_PREFIX: &str = "not-version=";
const SEPARATOR: &str = ",";

/// The version of a resource: a hash of the message that a read returns. Different contents have
/// different versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Returns the version of `resource`. Equal messages encode equally, because maps are sorted.
    #[must_use]
    pub fn of(resource: &impl Message) -> Self {
        Self(hex::encode(&blake3::hash(&resource.encode_to_vec()).as_bytes()[..VERSION_BYTES]))
    }

    /// Parses a version; `None` if malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 2 * VERSION_BYTES && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A condition on the current resource that a write requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It exists.
    Exists,
    /// It does not exist.
    Absent,
    /// It has one of these versions.
    Versions(Vec<Version>),
    /// It does not exist, or has none of these versions.
    NotVersions(Vec<Version>),
    /// Never true: the resource is known to have another version than the caller's.
    Never,
}

impl Precondition {
    /// Parses the value of [`metadata::PRECONDITION`]. A malformed one is never true.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            EXISTS => Self::Exists,
            ABSENT => Self::Absent,
            _ => {
                let versions = listed(text, VERSION_PREFIX).map(Self::Versions);
                versions.or_else(|| listed(text, NOT_VERSION_PREFIX).map(Self::NotVersions)).unwrap_or(Self::Never)
            }
        }
    }

    /// Whether the precondition holds for a resource; `None` means that it does not exist.
    #[must_use]
    pub fn is_true(&self, resource: Option<&impl Message>) -> bool {
        match self {
            Self::Exists => resource.is_some(),
            Self::Absent => resource.is_none(),
            Self::Versions(versions) => resource.is_some_and(|resource| versions.contains(&Version::of(resource))),
            Self::NotVersions(versions) => resource.is_none_or(|resource| !versions.contains(&Version::of(resource))),
            Self::Never => false,
        }
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists => f.write_str(EXISTS),
            Self::Absent => f.write_str(ABSENT),
            Self::Versions(versions) => write!(f, "{VERSION_PREFIX}{}", list(versions)),
            Self::NotVersions(versions) => write!(f, "{NOT_VERSION_PREFIX}{}", list(versions)),
            Self::Never => f.write_str(NEVER),
        }
    }
}

/// Returns the versions after `prefix`; `None` if the text has another prefix.
fn listed(text: &str, prefix: &str) -> Option<Vec<Version>> {
    text.strip_prefix(prefix)?.split(SEPARATOR).map(Version::parse).collect()
}

fn list(versions: &[Version]) -> String {
    versions.iter().map(|version| version.0.as_str()).collect::<Vec<_>>().join(SEPARATOR)
}

/// The precondition does not hold. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("precondition failed")]
pub struct PreconditionFailed;

/// Precondition and version in the metadata of a request and its response.
#[derive(Debug, Default)]
pub struct VersionExchange(Mutex<Exchange>);

#[derive(Debug, Default)]
struct Exchange {
    is_asked: bool,
    told: Option<Version>,
    precondition: Option<Precondition>,
    is_checked: bool,
}

impl VersionExchange {
    /// Reads the metadata of a request.
    pub fn begin(&self, headers: &HeaderMap) {
        let precondition = match single_header(headers, metadata::PRECONDITION) {
            Ok(value) => value.map(|value| value.to_str().map_or(Precondition::Never, Precondition::parse)),
            Err(_) => Some(Precondition::Never),
        };
        let is_asked = headers.contains_key(metadata::VERSION);
        *self.0.lock() = Exchange { is_asked, precondition, ..Exchange::default() };
    }

    /// Adds the version to the metadata of a response, if there is one.
    pub fn end(&self, headers: &mut HeaderMap) {
        let told = self.0.lock().told.take();
        if let Some(value) = told.and_then(|version| HeaderValue::try_from(version.0).ok()) {
            headers.insert(metadata::VERSION, value);
        }
    }

    /// Sets the version of the resource that a read returns, if the request asks for it.
    pub fn tell(&self, resource: &impl Message) {
        let mut exchange = self.0.lock();
        if exchange.is_asked {
            exchange.told = Some(Version::of(resource));
        }
    }

    /// Whether the request asks for the version of what it reads.
    pub fn is_asked(&self) -> bool {
        self.0.lock().is_asked
    }

    /// Whether the request has a precondition.
    pub fn is_conditional(&self) -> bool {
        self.0.lock().precondition.is_some()
    }

    /// Checks the request's precondition, if any, against the current resource; `None` means that
    /// it does not exist.
    ///
    /// # Errors
    /// [`PreconditionFailed`] if it does not hold.
    pub fn require(&self, resource: Option<&impl Message>) -> Result<(), PreconditionFailed> {
        let mut exchange = self.0.lock();
        exchange.is_checked = true;
        match &exchange.precondition {
            Some(precondition) if !precondition.is_true(resource) => Err(PreconditionFailed),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that the request's precondition, if any, was checked.
    ///
    /// # Errors
    /// [`PreconditionFailed`] if it was not.
    pub fn require_checked(&self) -> Result<(), PreconditionFailed> {
        let exchange = self.0.lock();
        if exchange.precondition.is_some() && !exchange.is_checked { Err(PreconditionFailed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::issue::Label;

    use super::*;

    fn label(name: &str) -> Label {
        Label { id: 5, name: name.to_owned(), ..Label::default() }
    }

    fn exchange(headers: &[(&'static str, &str)]) -> VersionExchange {
        let exchange = VersionExchange::default();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        exchange.begin(&map);
        exchange
    }

    fn told(exchange: &VersionExchange) -> Option<String> {
        let mut headers = HeaderMap::new();
        exchange.end(&mut headers);
        headers.get(metadata::VERSION).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn equal_resources_have_one_version_and_different_ones_have_two() {
        let version = Version::of(&label("bug"));
        assert_eq!(Version::of(&label("bug")), version);
        assert_ne!(Version::of(&label("bug ")), version);
        assert_eq!(Version::parse(&version.to_string()), Some(version));
    }

    #[test]
    fn a_text_that_is_no_version_is_refused() {
        let version = Version::of(&label("bug")).to_string();
        for wrong in ["", "*", &version[1..], &format!("{version}0"), &version.replace(|_: char| true, "G")] {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_precondition_is_read_as_it_is_written() {
        let (bug, fault) = (Version::of(&label("bug")), Version::of(&label("fault")));
        let (one, two) = (vec![bug.clone()], vec![bug, fault]);
        for precondition in [
            Precondition::Exists,
            Precondition::Absent,
            Precondition::Never,
            Precondition::Versions(one.clone()),
            Precondition::Versions(two.clone()),
            Precondition::NotVersions(one),
            Precondition::NotVersions(two),
        ] {
            assert_eq!(Precondition::parse(&precondition.to_string()), precondition);
        }
        let of_none = Precondition::Versions(Vec::new()).to_string();
        let unfinished = format!("version={},", Version::of(&label("bug")));
        for malformed in ["", "*", "version=x", "not-version=", "not-version=x", "Exists", &of_none, &unfinished] {
            assert_eq!(Precondition::parse(malformed), Precondition::Never, "{malformed}");
        }
    }

    #[test]
    fn a_precondition_is_true_of_what_it_names_alone() {
        let (bug, other) = (label("bug"), label("fault"));
        let of_bug = Precondition::Versions(vec![Version::of(&bug)]);
        let both = vec![Version::of(&other), Version::of(&bug)];
        let not_bug = Precondition::NotVersions(vec![Version::of(&bug)]);
        let resources = [Some(&bug), Some(&other), None];
        for (precondition, expected) in [
            (Precondition::Exists, [true, true, false]),
            (Precondition::Absent, [false, false, true]),
            (of_bug, [true, false, false]),
            (Precondition::Versions(both.clone()), [true, true, false]),
            (not_bug, [false, true, true]),
            (Precondition::NotVersions(both), [false, false, true]),
            (Precondition::Never, [false, false, false]),
        ] {
            assert_eq!(resources.map(|resource| precondition.is_true(resource)), expected, "{precondition}");
        }
    }

    #[test]
    fn a_version_is_told_only_to_those_who_ask() {
        let silent = exchange(&[]);
        silent.tell(&label("bug"));
        assert_eq!((silent.is_asked(), told(&silent)), (false, None));
        let asked = exchange(&[(metadata::VERSION, "?")]);
        assert_eq!((asked.is_asked(), told(&asked)), (true, None));
        asked.tell(&label("bug"));
        assert_eq!(told(&asked), Some(Version::of(&label("bug")).to_string()));
    }

    #[test]
    fn a_precondition_that_was_never_checked_is_not_true() {
        let none = exchange(&[]);
        assert!(!none.is_conditional());
        assert_eq!((none.require_checked(), none.require(None::<&Label>)), (Ok(()), Ok(())));
        let exists = exchange(&[(metadata::PRECONDITION, "exists")]);
        assert!(exists.is_conditional());
        assert_eq!(exists.require_checked(), Err(PreconditionFailed));
        assert_eq!(exists.require(None::<&Label>), Err(PreconditionFailed));
        assert_eq!(exists.require(Some(&label("bug"))), Ok(()));
        assert_eq!(exists.require_checked(), Ok(()));
    }

    #[test]
    fn two_preconditions_at_once_are_never_true() {
        let both = exchange(&[(metadata::PRECONDITION, "exists"), (metadata::PRECONDITION, "exists")]);
        assert_eq!(both.require(Some(&label("bug"))), Err(PreconditionFailed));
    }
}
