//! The settings of a wiki. Its pages are in a separate repository on the store.

use ferrite_proto::repo::UpdateWikiRequest;

use super::changed_fields;
use super::web_address::parse_external_url;
use crate::error::RepoError;

const URL_FIELD: &str = "external_wiki_url";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WikiSettings {
    pub(crate) is_enabled: bool,
    /// True if everybody can read the wiki of a private repository.
    pub(crate) is_public: bool,
    pub(crate) is_external: bool,
    /// The address of the external wiki, may be empty.
    pub(crate) url: String,
}

impl WikiSettings {
    /// Returns the request fields that differ in `after`.
    pub(crate) fn changed_fields(&self, after: &Self) -> Vec<&'static str> {
        changed_fields([
            ("enable_wiki", self.is_enabled != after.is_enabled),
            ("allow_public_wiki", self.is_public != after.is_public),
            ("enable_external_wiki", self.is_external != after.is_external),
            (URL_FIELD, self.url != after.url),
        ])
    }

    /// Returns whether the change only makes a public wiki private.
    pub(crate) fn loses_only_readers(&self, after: &Self) -> bool {
        self.is_public && *after == Self { is_public: false, ..self.clone() }
    }
}

/// `None` keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WikiChange {
    is_enabled: Option<bool>,
    is_public: Option<bool>,
    is_external: Option<bool>,
    url: Option<String>,
}

impl WikiChange {
    pub(crate) fn check(request: &UpdateWikiRequest) -> Result<Self, RepoError> {
        let url = request.external_wiki_url.as_deref().map(|url| parse_external_url(url, URL_FIELD));
        Ok(Self {
            is_enabled: request.enable_wiki,
            is_public: request.allow_public_wiki,
            is_external: request.enable_external_wiki,
            url: url.transpose()?,
        })
    }

    /// Returns the settings after the change. Fails if an external wiki has no address.
    pub(crate) fn apply(&self, before: &WikiSettings) -> Result<WikiSettings, RepoError> {
        let after = WikiSettings {
            is_enabled: self.is_enabled.unwrap_or(before.is_enabled),
            is_public: self.is_public.unwrap_or(before.is_public),
            is_external: self.is_external.unwrap_or(before.is_external),
            url: self.url.as_ref().unwrap_or(&before.url).clone(),
        };
        if after.is_external && after.url.is_empty() {
            return Err(RepoError::field(URL_FIELD, "required", "is required for an external wiki"));
        }
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use super::super::web_address::MAX_EXTERNAL_URL_BYTES;
    use super::*;

    fn before() -> WikiSettings {
        WikiSettings { is_enabled: true, is_public: false, is_external: false, url: String::new() }
    }

    fn code(refused: RepoError) -> &'static str {
        let RepoError::Invalid(violations) = refused else { panic!("{refused:?}") };
        let [violation] = violations.as_slice() else { panic!("{violations:?}") };
        assert_eq!(violation.field, URL_FIELD);
        violation.code
    }

    fn with_url(url: &str) -> Result<WikiChange, RepoError> {
        WikiChange::check(&UpdateWikiRequest { external_wiki_url: Some(url.to_owned()), ..Default::default() })
    }

    #[test]
    fn addresses_are_absolute_and_not_too_long() {
        for good in ["", "http://a", "https://wiki.example.com/ada?x=1#y"] {
            assert_eq!(with_url(good).unwrap().url.as_deref(), Some(good));
        }
        for bad in
            ["wiki.example.com", "//a", "ftp://a", "javascript:alert(1)", "http://a b", "http://ada:x@a", "http://a\0"]
        {
            assert_eq!(code(with_url(bad).unwrap_err()), "invalid", "{bad:?}");
        }
        let long = format!("http://{}", "a".repeat(MAX_EXTERNAL_URL_BYTES - 7));
        assert!(with_url(&long).is_ok());
        assert_eq!(code(with_url(&format!("{long}a")).unwrap_err()), "too_long");
    }

    #[test]
    fn a_wiki_loses_only_readers_if_nothing_else_changes() {
        let public = WikiSettings { is_public: true, ..before() };
        assert!(public.loses_only_readers(&before()));
        let disabled = WikiSettings { is_enabled: false, ..before() };
        for (old, new) in
            [(before(), before()), (public.clone(), public.clone()), (before(), public.clone()), (public, disabled)]
        {
            assert!(!old.loses_only_readers(&new), "{old:?} {new:?}");
        }
    }

    #[test]
    fn an_external_wiki_has_its_address_whichever_request_brings_it() {
        let on = WikiChange { is_external: Some(true), ..WikiChange::default() };
        assert_eq!(code(on.apply(&before()).unwrap_err()), "required");
        let set = with_url("http://a").unwrap().apply(&before()).unwrap();
        assert_eq!(before().changed_fields(&set), [URL_FIELD]);
        let external = on.apply(&set).unwrap();
        assert_eq!(set.changed_fields(&external), ["enable_external_wiki"]);
        assert_eq!(code(with_url("").unwrap().apply(&external).unwrap_err()), "required");
        assert_eq!(WikiChange::default().apply(&external).unwrap(), external);
    }
}
