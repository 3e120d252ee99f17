//! The permission table, tested by requests: every operation by every route and RPC, for every kind
//! of caller, on public, private, organization, deleted and missing targets. Each response is
//! compared with the table.
//!
//! [`expected`] implements the table a second time, in a few lines, so that mistakes in the
//! service's implementation show.
//!
//! repo-svc decides in the same way on both profiles and for both interfaces. So one profile gets
//! all REST requests and a sample of the RPCs, and the other one the reverse: every caller requests
//! every operation, and every operation runs on both databases.

mod callers;
mod expected;
mod fixture;
mod rest;
mod rpc;
mod services;

use std::collections::HashSet;

use ferrite_proto::{Permission, operation};
use repo_svc::access::{Capacity, OPERATIONS, Operation, Rule};

use self::callers::Caller;
use self::expected::{Expected, Interface, on_repo};
use self::fixture::{Fixture, Owner, Repo};
use crate::harness::Profile;

on_profiles! {
    both {
        every_route_responds_to_every_caller_by_the_table
        every_rpc_responds_to_every_caller_by_the_table
        git_over_http_responds_to_every_caller_by_the_table
        every_rpc_is_refused_to_services_that_do_not_call_it
    }
    production {
        a_password_gives_access_to_the_tokens_of_its_owner_alone
    }
}

use rest::{
    a_password_gives_access_to_the_tokens_of_its_owner_alone, every_route_responds_to_every_caller_by_the_table,
    git_over_http_responds_to_every_caller_by_the_table,
};
use rpc::every_rpc_responds_to_every_caller_by_the_table;
use services::every_rpc_is_refused_to_services_that_do_not_call_it;

const AT_ONCE: usize = 8;

/// Paths of the documentation, which are not in the table.
const OPEN_PATHS: [&str; 8] = [
    "/docs/api",
    "/docs/api/guide",
    "/docs/api/api.css",
    "/docs/api/api.js",
    "/docs/api/swagger-ui-5.35.0/swagger-ui-bundle.js",
    "/docs/api/swagger-ui-5.35.0/swagger-ui.css",
    "/docs/api/swagger-ui-5.35.0/LICENSE.txt",
    "/api/v1/openapi.json",
];

/// Operations without a route: those that the gateway calls for others, signing in, a stream whose route lists
/// pages, lines of a diff, which only programs and pages read, its text, whose route is that of the
/// commit, one that is a field of a repository's settings, the bytes of a file whose route creates
/// the entry of the file, the repositories of heads, what git knows about pull requests that others
/// list, the reviews that count for a merge, the permit for one, the mark of one that was made by hand
/// and the schedule of one for later, whose route merges, and where the lines of comments are.
const WITHOUT_ROUTE: [&str; 15] = [
    "ferrite.repo.v1.AccountService/GetUsers",
    operation::CREATE_SESSION,
    "ferrite.hook.v1.FeedService/WatchEvents",
    operation::GET_DIFF,
    operation::DIFF,
    operation::UPDATE_MIRROR,
    operation::UPLOAD_ASSET,
    operation::GET_FORK,
    operation::GET_REPOSITORIES,
    operation::DESCRIBE_PULLS,
    operation::GET_MERGE_REVIEWS,
    operation::PERMIT_MERGE,
    operation::MARK_MERGED,
    operation::SCHEDULE_MERGE,
    operation::FOLLOW_LINES,
];

/// A route without its parameters and a trailing slash.
fn shape(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
    let path = parts.collect::<Vec<_>>().join("/");
    if path.len() > 1 { path.trim_end_matches('/').to_owned() } else { path }
}

/// Whether a route performs an operation in the operation's capacity.
fn carries_out(route: &gateway::Route, operation: &Operation) -> bool {
    let capacity = match route.capacity {
        gateway::Capacity::Own => Capacity::Own,
        gateway::Capacity::Organization => Capacity::Organization,
        gateway::Capacity::Administrator => Capacity::Administrator,
    };
    route.operation == operation.name && capacity == operation.capacity
}

/// Routes of an operation below `/api/v1`: method and path, with `{}` for each variable part.
fn routes(operation: &Operation) -> Vec<(&'static str, String)> {
    let routes = gateway::operations().into_iter().filter(|route| carries_out(route, operation));
    let routes = routes.map(|route| (route.method, shape(route.path)));
    let mut routes: Vec<_> = routes.filter(|(_, path)| path.starts_with("/api/v1")).collect();
    routes.dedup();
    routes
}

#[test]
fn every_route_of_the_gateway_names_an_operation_of_the_table() {
    for route in gateway::operations() {
        assert!(OPERATIONS.iter().any(|operation| carries_out(&route, operation)), "not in the table: {route:?}");
    }
    let others = gateway::routes().into_iter().filter(|(method, path)| {
        !gateway::operations().iter().any(|route| (route.method, route.path) == (*method, *path))
    });
    assert_eq!(others.collect::<Vec<_>>(), OPEN_PATHS.map(|path| ("GET", path)));
}

#[test]
fn every_operation_but_those_of_services_has_a_route() {
    for operation in OPERATIONS.iter().filter(|operation| operation.rule != Rule::Service) {
        let is_routed = gateway::operations().iter().any(|route| carries_out(route, operation));
        assert_eq!(is_routed, !WITHOUT_ROUTE.contains(&operation.name), "{}", operation.name);
    }
}

#[derive(Clone, Copy)]
enum Selection {
    /// Every caller on every repository, but callers with one scope only on these two (owner,
    /// whether it is private).
    All([(Owner, bool); 2]),
    /// A caller of each role on a private repository of a user and a public one of the
    /// organization.
    Sample,
}

impl Selection {
    fn of_rest(profile: Profile) -> Self {
        match profile {
            Profile::Production => Self::All([(Owner::User, true), (Owner::User, false)]),
            Profile::Embedded => Self::Sample,
        }
    }

    fn of_rpc_and_git(profile: Profile) -> Self {
        match profile {
            Profile::Embedded => Self::All([(Owner::User, true), (Owner::Organization, true)]),
            Profile::Production => Self::Sample,
        }
    }

    fn callers(self, fixture: &Fixture) -> Vec<&Caller> {
        const SAMPLE: [&str; 8] = [
            "anonymous",
            "unknown token",
            "outsider",
            "collaborator with read",
            "member of no team",
            "owner",
            "owner with a token for repo:read",
            "administrator of the site",
        ];
        match self {
            Self::All(_) => fixture.callers.iter().collect(),
            Self::Sample => {
                let find = |title: &&str| fixture.callers.iter().find(|caller| caller.title == **title);
                SAMPLE.iter().map(|title| find(title).unwrap_or_else(|| panic!("no caller {title}"))).collect()
            }
        }
    }

    fn repos<'a>(self, fixture: &'a Fixture, caller: &Caller) -> Vec<&'a Repo> {
        let wanted = match self {
            Self::All(of_one_scope) if caller.has_one_scope => of_one_scope,
            Self::All(_) => return fixture.repos.iter().collect(),
            Self::Sample => [(Owner::User, true), (Owner::Organization, false)],
        };
        let is_wanted = |repo: &&Repo| repo.private.is_some_and(|private| wanted.contains(&(repo.owner, private)));
        fixture.repos.iter().filter(is_wanted).collect()
    }
}

/// A caller's request about a repository.
#[derive(Clone, Copy)]
struct Question<'a> {
    caller: &'a Caller,
    repo: &'a Repo,
    expected: Expected,
    /// Whether to compare the response with that for a missing repository: once per kind of caller,
    /// for a private and for a deleted repository. The text of a 404 that hides something is always
    /// compared.
    is_compared: bool,
}

/// The level that issue-svc requires from a caller who did not post the changed item. The table
/// requires less, for posters. No item of the fixture is by a caller.
fn level_on_others(operation: &Operation) -> Permission {
    match operation.name {
        operation::UPDATE_ISSUE
        | operation::UPDATE_PULL
        | operation::REQUEST_REVIEWS
        | operation::REMOVE_REVIEW_REQUESTS
        | operation::RESOLVE_REVIEW_COMMENT
        | operation::UNRESOLVE_REVIEW_COMMENT => Permission::Write,
        operation::UPDATE_COMMENT
        | operation::DELETE_COMMENT
        | operation::DELETE_REVIEW
        | operation::UPDATE_REVIEW_COMMENT
        | operation::DELETE_REVIEW_COMMENT => Permission::Admin,
        _ => Permission::None,
    }
}

/// Callers with all rights, for archived repositories: they may do what changes nothing there.
fn archived_questions<'a>(fixture: &'a Fixture, operation: &Operation) -> Vec<Question<'a>> {
    const TITLES: [&str; 2] = ["owner", "administrator of the site"];
    let expected = if operation.changes_content { Expected::Forbidden } else { Expected::Allowed };
    let callers = fixture.callers.iter().filter(|caller| TITLES.contains(&caller.title.as_str()));
    let question =
        |caller| fixture.archived.iter().map(move |repo| Question { caller, repo, expected, is_compared: false });
    callers.flat_map(question).collect()
}

/// Whether the token lacks a scope beside that of the part of the repository.
fn lacks_further_scope(operation: &Operation, caller: &Caller) -> bool {
    operation.further_scope.is_some_and(|scope| !caller.scopes.contain(scope))
}

/// Expectation for an operation on a repository.
fn expected_on(operation: &Operation, caller: &Caller, repo: &Repo) -> Expected {
    let Rule::Repository { unit, level, anonymous } = operation.rule else { panic!("{:?}", operation.rule) };
    let level = level.max(level_on_others(operation));
    match on_repo(unit, level, anonymous, caller, repo, Interface::Api) {
        Expected::Unauthenticated => Expected::Unauthenticated,
        // What is open to everybody needs no scope. Otherwise only those who see the repository learn
        // which scope is missing.
        Expected::Allowed if anonymous && repo.private == Some(false) => Expected::Allowed,
        Expected::Hidden if anonymous => Expected::Hidden,
        // Of other operations a further scope is a fact about the token alone, so it is checked first.
        _ if lacks_further_scope(operation, caller) => Expected::Forbidden,
        expected => expected,
    }
}

/// All callers for an operation on a repository.
fn questions<'a>(fixture: &'a Fixture, selection: Selection, operation: &Operation) -> Vec<Question<'a>> {
    let (mut questions, mut compared) = (archived_questions(fixture, operation), HashSet::new());
    for caller in selection.callers(fixture) {
        for repo in selection.repos(fixture, caller) {
            let expected = expected_on(operation, caller, repo);
            let is_compared = expected == Expected::Hidden && compared.insert((caller.kind(), repo.private.is_some()));
            questions.push(Question { caller, repo, expected, is_compared });
        }
    }
    questions
}
