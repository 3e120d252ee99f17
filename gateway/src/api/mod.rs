//! REST v1: one file per resource, each with its own routes.
//!
//! Order of the files: resources (`admin` uses `keys`, `orgs`, `repos` and `teams`) → `hook_owner` → `access`, `git_response`,
//! `tracker` → `call`, `response_layer` → `state`. Uses `auth`, `dto`, `upstream` and `http`.

mod access;
mod accounts;
mod admin;
mod archive;
mod audit;
mod avatars;
mod branches;
mod call;
mod collaborators;
mod comments;
mod commits;
mod contents;
mod deliveries;
mod deploy_keys;
mod emails;
mod events;
mod follows;
mod forks;
mod git_data;
mod git_response;
mod hook_owner;
mod hooks;
mod imports;
mod issue_tracker;
mod issues;
mod keys;
mod labels;
mod markdown;
mod members;
mod milestones;
mod mirrors;
mod orgs;
mod protections;
mod quotas;
mod raw;
mod release_assets;
mod release_downloads;
mod releases;
mod repo_settings;
mod repos;
mod response_layer;
mod starred;
mod state;
mod stores;
mod subscriptions;
mod teams;
mod tokens;
mod topics;
mod tracker;
mod transfers;
mod wiki_settings;

use axum::Router;

pub use self::issues::ASSIGNEE_WORDS;
pub(crate) use self::response_layer::respond;
pub(crate) use self::state::{ApiParts, ApiState};
use crate::http::routes::Route;

macro_rules! groups {
    ($($group:ident)+) => {
        /// Returns the routes that [`router`] serves.
        pub(crate) fn routes() -> Vec<Route> {
            [$($group::routes()),+].concat()
        }

        /// Returns the router of the API.
        pub(crate) fn router() -> Router<ApiState> {
            Router::new()$(.merge($group::router()))+
        }
    };
}

groups! {
    accounts admin archive audit avatars branches collaborators comments commits contents deliveries deploy_keys emails events follows forks git_data hooks
    imports issue_tracker issues keys labels markdown members milestones mirrors orgs protections quotas raw repo_settings repos starred stores subscriptions teams tokens topics wiki_settings
    transfers releases release_assets release_downloads
}

#[cfg(test)]
mod tests;
