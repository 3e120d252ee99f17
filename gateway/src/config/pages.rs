//! Settings of the web pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ferrite_core::config::{seconds_within, within};
use ferrite_core::startup::StartError;

use crate::pages::branding::{FooterLinks, Logo};
use crate::pages::options::{PageOptions, SignInScope, site_name};
use crate::pages::pool::ExpensiveLimits;
use crate::pages::robots;

/// Web pages.
#[derive(Args, Clone, Debug)]
pub struct PageArgs {
    /// Name of the site on web pages.
    #[arg(long, env = "FERRITE_GATEWAY_SITE_NAME", value_name = "NAME", default_value = "Ferrite", value_parser = site_name)]
    pub site_name: String,

    /// Logo on web pages, a PNG or SVG file of at most 256 KiB, read at start.
    #[arg(long, env = "FERRITE_GATEWAY_LOGO_FILE")]
    pub logo_file: Option<PathBuf>,

    /// Links at the end of web pages, `LABEL=URL`, comma-separated, at most 10.
    #[arg(
        long,
        env = "FERRITE_GATEWAY_FOOTER_LINKS",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    pub footer_links: FooterLinks,

    /// File to serve as `/robots.txt`, read at start; by default one that allows cheap pages.
    #[arg(long, env = "FERRITE_GATEWAY_ROBOTS_FILE")]
    pub robots_file: Option<PathBuf>,

    /// Show pictures of other sites in Markdown on web pages, over https only.
    #[arg(long, env = "FERRITE_GATEWAY_EXTERNAL_PICTURES")]
    pub external_pictures: bool,

    /// What needs an account: `none`, `expensive` pages, all `pages`, or `all` with API and git.
    #[arg(
        long,
        env = "FERRITE_GATEWAY_REQUIRE_SIGN_IN",
        value_name = "SCOPE",
        default_value = "none",
        hide_possible_values = true
    )]
    pub require_sign_in: SignInScope,

    /// Concurrent expensive pages, such as diffs; half for visitors without an account.
    #[arg(long, env = "FERRITE_GATEWAY_EXPENSIVE_PAGES", default_value_t = 8, value_parser = within::<u16>(2..=1024))]
    pub expensive_pages: u16,

    /// Waiting expensive pages; half for visitors without an account.
    #[arg(long, env = "FERRITE_GATEWAY_EXPENSIVE_PAGES_WAITING", default_value_t = 64, value_parser = within::<u16>(0..=4096))]
    pub expensive_pages_waiting: u16,

    /// Time to make an expensive page, in seconds.
    #[arg(long = "expensive-page-seconds", env = "FERRITE_GATEWAY_EXPENSIVE_PAGE_SECONDS", default_value = "30", value_parser = seconds_within(1..=600))]
    pub expensive_page: Duration,
}

impl PageArgs {
    /// Reads the files that the settings name.
    pub(crate) fn options(&self) -> Result<PageOptions, StartError> {
        let named = |setting| move |error| StartError::Other(error).of(setting);
        let logo = self.logo_file.as_deref().map(Logo::load).transpose();
        let robots = self.robots_file.as_deref().map(robots::load).transpose();
        Ok(PageOptions {
            name: self.site_name.clone(),
            logo: logo.map_err(named("FERRITE_GATEWAY_LOGO_FILE"))?,
            footer: self.footer_links.clone(),
            robots: robots.map_err(named("FERRITE_GATEWAY_ROBOTS_FILE"))?,
            has_external_pictures: self.external_pictures,
            sign_in: self.require_sign_in,
            expensive: ExpensiveLimits {
                running: self.expensive_pages.into(),
                waiting: self.expensive_pages_waiting.into(),
                work: self.expensive_page,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        pages: PageArgs,
    }

    fn parse(more: &[&str]) -> Result<PageArgs, clap::Error> {
        Settings::try_parse_from(["test"].iter().chain(more)).map(|settings| settings.pages)
    }

    #[test]
    fn without_settings_the_options_are_the_usual_ones() {
        let (options, usual) = (parse(&[]).unwrap().options().unwrap(), PageOptions::default());
        assert_eq!((options.name, options.footer, options.sign_in), (usual.name, usual.footer, usual.sign_in));
        let limits = |limits: ExpensiveLimits| (limits.running, limits.waiting, limits.work);
        assert_eq!(limits(options.expensive), limits(usual.expensive));
        assert!(options.logo.is_none() && options.robots.is_none() && !options.has_external_pictures);
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_reason() {
        for (word, reason) in [
            ("--site-name= ", "must have 1 to 50 characters"),
            ("--footer-links=Imprint", "must be LABEL=URL"),
            ("--require-sign-in=some", "none, expensive, pages, all"),
            ("--expensive-pages=1", "must be 2 to 1,024"),
        ] {
            let error = parse(&[word]).unwrap_err().to_string();
            let name = word.split('=').next().unwrap();
            assert!(error.contains(reason) && error.contains(name), "{error}");
        }
        for (word, setting) in [
            ("--logo-file=/nonexistent/logo.png", "FERRITE_GATEWAY_LOGO_FILE: `/nonexistent/logo.png`"),
            ("--robots-file=/nonexistent/robots.txt", "FERRITE_GATEWAY_ROBOTS_FILE: `/nonexistent/robots.txt`"),
        ] {
            let error = parse(&[word]).unwrap().options().unwrap_err().to_string();
            assert!(error.starts_with(setting), "{error}");
        }
    }
}
