//! REST v1: one file per resource of the contract, each with its own routes.

mod access;
mod accounts;
mod admin;
mod archive;
mod audit;
mod branches;
mod collaborators;
mod commits;
mod contents;
mod deploy_keys;
mod emails;
mod follows;
mod git_data;
mod hooks;
mod issues;
mod keys;
mod members;
mod operation;
mod orgs;
mod protections;
mod raw;
mod repos;
mod teams;
mod tokens;

use axum::Router;

use crate::http::routes::Route;
use crate::state::Gateway;

macro_rules! groups {
    ($($group:ident)+) => {
        /// Returns the routes that [`router`] serves.
        pub(crate) fn routes() -> Vec<Route> {
            [$($group::routes()),+].concat()
        }

        /// The operations of the API.
        pub(crate) fn router() -> Router<Gateway> {
            Router::new()$(.merge($group::router()))+
        }
    };
}

groups! {
    accounts admin archive audit branches collaborators commits contents deploy_keys emails follows git_data hooks issues keys
    members orgs protections raw repos teams tokens
}

#[cfg(test)]
mod tests;
