//! Lists of SSH keys with forms to add and to remove them: those of an account, and those that open
//! one repository.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::components::{Listed, Pager, Time, filters, page_number};
use super::error::PageResult;
use super::form::{Fields, FormToken};
use super::visit::Visit;

const PAGE_SIZE: u64 = 50;
/// The action of a form that removes a key. All others add one.
const REMOVE: &str = "remove";

/// Whose keys a page lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOwner {
    Visitor,
    User,
    Repository,
}

#[derive(Clone, Debug, Deserialize)]
struct Key {
    id: i64,
    title: String,
    fingerprint: String,
    created_at: Time,
    token: Option<KeyToken>,
    /// `None` for a key of an account.
    read_only: Option<bool>,
}

/// The access token that limits a key.
#[derive(Clone, Debug, Deserialize)]
struct KeyToken {
    name: String,
}

/// A page of the list, and the forms.
#[derive(Template)]
#[template(path = "public_keys.html")]
pub(super) struct PublicKeys {
    owner: KeyOwner,
    token: FormToken,
    /// The path of the page, to which its forms are sent.
    path: String,
    keys: Vec<Key>,
    pager: Pager,
    typed: Fields,
    /// True if the form adds a read-only key; `None` for keys of an account.
    is_read_only: Option<bool>,
}

impl KeyOwner {
    fn intro(self) -> &'static str {
        match self {
            Self::Visitor => "With an SSH key you can clone and push over SSH.",
            Self::User => "With an SSH key the user can clone and push over SSH.",
            Self::Repository => {
                "With a deploy key a program can clone this repository over SSH, and push to it if you allow that."
            }
        }
    }

    fn none(self) -> &'static str {
        match self {
            Self::Visitor => "You have no SSH keys.",
            Self::User => "The user has no SSH keys.",
            Self::Repository => "There are no deploy keys.",
        }
    }

    /// The heading of the form.
    fn add(self) -> &'static str {
        match self {
            Self::Visitor | Self::User => "Add a key",
            Self::Repository => "Add a deploy key",
        }
    }

    /// The level of that heading.
    fn level(self) -> u8 {
        if self == Self::Visitor { 2 } else { 3 }
    }
}

impl PublicKeys {
    /// Reads the keys at a path of the API. `sent` is a form that was refused.
    pub(super) async fn read(visit: &Visit, owner: KeyOwner, api: &str, sent: Option<&Fields>) -> PageResult<Self> {
        let here = &visit.shell.here;
        let listed: Listed<Key> =
            visit.api.list(&format!("{api}?page={}&limit={PAGE_SIZE}", page_number(here))).await?;
        let typed = sent.filter(|fields| !is_removal(fields));
        let is_read_only = typed.is_none_or(|fields| fields.is_checked("read_only"));
        Ok(Self {
            owner,
            token: FormToken::of(visit),
            path: here.split('?').next().unwrap_or_default().to_owned(),
            pager: Pager::of(here, PAGE_SIZE, &listed),
            keys: listed.items,
            typed: typed.cloned().unwrap_or_default(),
            is_read_only: (owner == KeyOwner::Repository).then_some(is_read_only),
        })
    }
}

fn is_removal(fields: &Fields) -> bool {
    fields.text("action") == REMOVE
}

/// Adds the key of a form to those at a path of the API, or removes one.
pub(super) async fn change(visit: &Visit, owner: KeyOwner, api: &str, fields: &Fields) -> PageResult<Value> {
    if is_removal(fields) {
        let path = format!("{api}/{}", encode(fields.text("id").as_bytes()));
        return visit.api.change(Method::DELETE, &path, None).await;
    }
    let mut body = json!({"title": fields.text("title").trim(), "key": fields.text("key").trim()});
    if owner == KeyOwner::Repository {
        body["read_only"] = fields.is_checked("read_only").into();
    }
    visit.api.change(Method::POST, api, Some(body)).await
}
