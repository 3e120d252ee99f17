//! Attacks on the pages. Each test fails if the check that it attacks is taken away.

mod caches;
mod closed;
mod deliveries;
mod foreign_forms;
mod headers;
mod html;
mod markup;
mod private_names;
mod public_url;
mod redirects;
mod routes;
mod sessions;
mod sign_in_limits;
mod stage;
mod texts;

use reqwest::header::COOKIE;
use reqwest::{Method, RequestBuilder};

use crate::harness::User;

/// A request of a browser in which a user is signed in, if any.
fn request(user: &User, method: Method, path: &str) -> RequestBuilder {
    let request = user.raw(method, path);
    match &user.token {
        Some(token) => request.header(COOKIE, format!("ferrite_session={token}")),
        None => request,
    }
}
