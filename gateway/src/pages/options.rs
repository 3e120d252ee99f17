//! What the operator chooses for the pages.

use clap::ValueEnum;

use super::branding::{FooterLinks, Logo, MAX_NAME_CHARS};
use super::pool::ExpensiveLimits;
use crate::http::body_limits::BodyLimits;

/// Where visitors without an account have to sign in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SignInScope {
    /// Nowhere.
    #[default]
    None,
    /// On expensive pages.
    Expensive,
    /// On all pages.
    Pages,
    /// On all pages, for the API and for git over HTTP.
    All,
}

/// The settings of the pages, with the content of their files.
#[derive(Clone, Debug)]
pub(crate) struct PageOptions {
    pub(crate) name: String,
    pub(crate) logo: Option<Logo>,
    pub(crate) footer: FooterLinks,
    /// The operator's `robots.txt`.
    pub(crate) robots: Option<String>,
    pub(crate) has_external_pictures: bool,
    pub(crate) sign_in: SignInScope,
    pub(crate) expensive: ExpensiveLimits,
}

/// The limits that pages share with the API.
pub(crate) struct PageLimits {
    pub(crate) bodies: BodyLimits,
    pub(crate) max_response_bytes: usize,
    /// Of a file of a release.
    pub(crate) max_asset_bytes: u64,
}

impl SignInScope {
    pub(super) fn is_for_expensive_pages(self) -> bool {
        self != Self::None
    }

    pub(super) fn is_for_all_pages(self) -> bool {
        matches!(self, Self::Pages | Self::All)
    }

    /// Whether reads over the API and git need an account, too.
    pub(crate) fn is_for_all_reads(self) -> bool {
        self == Self::All
    }
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            name: "Ferrite".to_owned(),
            logo: None,
            footer: FooterLinks::default(),
            robots: None,
            has_external_pictures: false,
            sign_in: SignInScope::default(),
            expensive: ExpensiveLimits::default(),
        }
    }
}

/// Parses the name of the site.
pub(crate) fn site_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    let is_plain = !name.chars().any(char::is_control);
    match (1..=MAX_NAME_CHARS).contains(&name.chars().count()) && is_plain {
        true => Ok(name.to_owned()),
        false => Err(format!("must have 1 to {MAX_NAME_CHARS} characters, and no control characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_scope_contains_the_narrower_ones() {
        for (scope, expected) in [
            (SignInScope::None, [false, false, false]),
            (SignInScope::Expensive, [true, false, false]),
            (SignInScope::Pages, [true, true, false]),
            (SignInScope::All, [true, true, true]),
        ] {
            let scopes = [scope.is_for_expensive_pages(), scope.is_for_all_pages(), scope.is_for_all_reads()];
            assert_eq!(scopes, expected, "{scope:?}");
        }
    }

    #[test]
    fn the_site_has_a_short_name() {
        assert_eq!(site_name(" Åda's git "), Ok("Åda's git".to_owned()));
        for wrong in ["", "  ", "a\nb", &"x".repeat(51)] {
            assert!(site_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
