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

use repo_svc::access::{Capacity, OPERATIONS, Operation};

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

/// Returns whether a route carries out an operation in the operation's capacity.
fn carries_out(route: &gateway::Route, operation: &Operation) -> bool {
    let capacity = match route.capacity {
        gateway::Capacity::Own => Capacity::Own,
        gateway::Capacity::Organization => Capacity::Organization,
        gateway::Capacity::Administrator => Capacity::Administrator,
    };
    route.operation == operation.name && capacity == operation.capacity
}

/// Returns the routes of an operation below the API: method and path, with `{}` for each part that varies.
fn routes(operation: &Operation) -> BTreeSet<(&'static str, String)> {
    let routes = gateway::operations().into_iter().filter(|route| carries_out(route, operation));
    let routes = routes.map(|route| (route.method, shape(route.path)));
    routes.filter(|(_, path)| path.starts_with("/api/v1")).collect()
}

#[test]
fn every_route_of_the_gateway_names_an_operation_of_the_table() {
    for route in gateway::operations() {
        assert!(OPERATIONS.iter().any(|operation| carries_out(&route, operation)), "not in the table: {route:?}");
    }
    let with_operation = gateway::operations().len();
    let others: Vec<_> = gateway::routes().into_iter().skip(with_operation).collect();
    assert_eq!(others, OPEN_ROUTES);
}
