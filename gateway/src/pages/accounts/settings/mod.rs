//! Settings of the visitor's own account: a frame, and one file per page.

mod avatar;
mod emails;
mod password;
mod profile;
mod public_keys;
mod sessions;
mod tokens;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::routing::get;

use crate::http::caching::NO_STORE;
use crate::pages::error::{PageResult, render};
use crate::pages::layout::{Content, page, with_status};
use crate::pages::visit::{PagesState, Visit};

/// The pages of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Profile,
    Avatar,
    Password,
    Emails,
    PublicKeys,
    Tokens,
    Sessions,
}

#[derive(Template)]
#[template(path = "settings/frame.html")]
struct Frame {
    section: Section,
    error: String,
    main: String,
}

impl Content for Frame {
    fn title(&self) -> String {
        format!("{} · Settings", self.section.title())
    }
}

impl Section {
    const ALL: [Self; 7] =
        [Self::Profile, Self::Avatar, Self::Password, Self::Emails, Self::PublicKeys, Self::Tokens, Self::Sessions];

    fn title(self) -> &'static str {
        match self {
            Self::Profile => "Profile",
            Self::Avatar => "Picture",
            Self::Password => "Password",
            Self::Emails => "E-mail addresses",
            Self::PublicKeys => "SSH keys",
            Self::Tokens => "Access tokens",
            Self::Sessions => "Sessions",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Profile => "/user/settings",
            Self::Avatar => "/user/settings/avatar",
            Self::Password => "/user/settings/password",
            Self::Emails => "/user/settings/email",
            Self::PublicKeys => "/user/settings/keys",
            Self::Tokens => "/user/settings/applications",
            Self::Sessions => "/user/settings/sessions",
        }
    }

    /// Responds with a page of the settings, which nothing keeps.
    fn page(self, visit: &Visit, content: &impl Template, error: &str) -> PageResult {
        let frame = Frame { section: self, error: error.to_owned(), main: render(content)? };
        let status = if error.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        let mut response = with_status(status, page(&visit.shell, &frame));
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        Ok(response)
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new()
        .route(Section::Profile.path(), get(profile::show).post(profile::change))
        .route(Section::Password.path(), get(password::show).post(password::change))
        .route(Section::Avatar.path(), get(avatar::show).post(avatar::change))
        .route(Section::Emails.path(), get(emails::show).post(emails::change))
        .route(Section::PublicKeys.path(), get(public_keys::show).post(public_keys::change))
        .route(Section::Tokens.path(), get(tokens::show).post(tokens::change))
        .route(Section::Sessions.path(), get(sessions::show).post(sessions::end))
}
