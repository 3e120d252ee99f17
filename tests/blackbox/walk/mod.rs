//! The permission walk: every operation by every route and every RPC, for every kind of caller, on what is public, private, an
//! organization's, deleted or was never there; each answer is held to the permission table.
//!
//! What the table means for a caller is worked out here a second time, in a few lines of its own ([`expect`]), so that a mistake in
//! the service's reading of the table shows.

mod expect;
mod fixture;
mod people;
mod rest;
mod rpc;

use std::collections::BTreeSet;

use repo_svc::access::OPERATIONS;

on_both_profiles! {
    every_route_answers_every_caller_by_the_table
    every_rpc_answers_every_caller_by_the_table
    git_over_http_answers_every_caller_by_the_table
    a_password_opens_the_tokens_of_its_owner_and_nothing_else
}

use rest::{
    a_password_opens_the_tokens_of_its_owner_and_nothing_else, every_route_answers_every_caller_by_the_table,
    git_over_http_answers_every_caller_by_the_table,
};
use rpc::every_rpc_answers_every_caller_by_the_table;

/// Routes that do nothing but show what is written: the table has no line for them.
const OPEN_ROUTES: [(&str, &str); 1] = [("GET", "/docs/api")];

/// A route with its parameters and a slash at its end taken out.
fn shape(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    if path.len() > 1 { path.trim_end_matches('/').to_owned() } else { path }
}

#[test]
fn the_table_has_every_route_of_the_gateway_and_no_other() {
    let routes: BTreeSet<_> =
        gateway::routes().into_iter().map(|(method, path)| (method.to_owned(), shape(path))).collect();
    let table = OPERATIONS.iter().flat_map(|operation| operation.routes).chain(&OPEN_ROUTES);
    let table: BTreeSet<_> = table.map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    let missing: Vec<_> = routes.difference(&table).collect();
    let stale: Vec<_> = table.difference(&routes).collect();
    assert!(missing.is_empty() && stale.is_empty(), "not in the table: {missing:?}; no route: {stale:?}");
}
