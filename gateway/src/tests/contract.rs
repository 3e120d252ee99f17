//! The operations of the API contract, each with a route.

use std::collections::BTreeSet;

use crate::routes;

/// Methods and paths below `/api/v1`. `{}` stands for a parameter, at the end possibly for several
/// segments.
const OPERATIONS: &[(&str, &[&str])] = &[
    ("/admin/orgs/{}/teams", &["POST"]),
    ("/admin/teams/{}/members", &["GET"]),
    ("/admin/teams/{}/members/{}", &["PUT", "DELETE"]),
    ("/admin/teams/{}/repos/{}", &["PUT", "DELETE"]),
    ("/admin/users", &["POST"]),
    ("/admin/users/{}", &["PATCH", "DELETE"]),
    ("/admin/users/{}/keys", &["POST"]),
    ("/admin/users/{}/orgs", &["POST"]),
    ("/admin/users/{}/repos", &["POST"]),
    ("/issues", &["GET"]),
    ("/markdown", &["POST"]),
    ("/markdown/raw", &["POST"]),
    ("/org/{}/repos", &["POST"]),
    ("/orgs/{}", &["GET", "PATCH"]),
    ("/orgs/{}/members", &["GET"]),
    ("/orgs/{}/memberships/{}", &["PUT"]),
    ("/orgs/{}/repos", &["GET", "POST"]),
    ("/orgs/{}/teams", &["GET"]),
    ("/repos/migrate", &["POST"]),
    ("/repos/search", &["GET"]),
    ("/repos/{}/{}", &["GET", "DELETE"]),
    ("/repos/{}/{}/archive/{}", &["GET"]),
    ("/repos/{}/{}/branches", &["GET"]),
    ("/repos/{}/{}/branches/{}", &["GET"]),
    ("/repos/{}/{}/collaborators", &["GET"]),
    ("/repos/{}/{}/collaborators/{}", &["GET", "PUT", "DELETE"]),
    ("/repos/{}/{}/commits", &["GET"]),
    ("/repos/{}/{}/commits/{}", &["GET"]),
    ("/repos/{}/{}/contents", &["GET"]),
    ("/repos/{}/{}/contents/{}", &["GET", "PUT"]),
    ("/repos/{}/{}/forks", &["GET"]),
    ("/repos/{}/{}/git/blobs/{}", &["GET"]),
    ("/repos/{}/{}/git/trees/{}", &["GET"]),
    ("/repos/{}/{}/hooks", &["GET", "POST"]),
    ("/repos/{}/{}/hooks/{}", &["PATCH", "DELETE"]),
    ("/repos/{}/{}/issue-tracker", &["PATCH"]),
    ("/repos/{}/{}/issues", &["GET", "POST"]),
    ("/repos/{}/{}/issues/comments", &["GET"]),
    ("/repos/{}/{}/issues/{}", &["GET", "PATCH"]),
    ("/repos/{}/{}/issues/{}/comments", &["GET", "POST"]),
    ("/repos/{}/{}/issues/{}/comments/{}", &["PATCH", "DELETE"]),
    ("/repos/{}/{}/issues/{}/labels", &["GET", "POST", "PUT", "DELETE"]),
    ("/repos/{}/{}/issues/{}/labels/{}", &["DELETE"]),
    ("/repos/{}/{}/keys", &["GET", "POST"]),
    ("/repos/{}/{}/keys/{}", &["GET", "DELETE"]),
    ("/repos/{}/{}/labels", &["GET", "POST"]),
    ("/repos/{}/{}/labels/{}", &["GET", "PATCH", "DELETE"]),
    ("/repos/{}/{}/milestones", &["GET", "POST"]),
    ("/repos/{}/{}/milestones/{}", &["GET", "PATCH", "DELETE"]),
    ("/repos/{}/{}/mirror-sync", &["POST"]),
    ("/repos/{}/{}/raw/{}", &["GET"]),
    ("/repos/{}/{}/releases", &["GET"]),
    ("/repos/{}/{}/tags", &["GET"]),
    ("/repos/{}/{}/wiki", &["PATCH"]),
    ("/teams/{}/members", &["GET"]),
    ("/user", &["GET"]),
    ("/user/emails", &["GET", "POST", "DELETE"]),
    ("/user/followers", &["GET"]),
    ("/user/following", &["GET"]),
    ("/user/following/{}", &["GET", "PUT", "DELETE"]),
    ("/user/issues", &["GET"]),
    ("/user/keys", &["GET", "POST"]),
    ("/user/keys/{}", &["GET", "DELETE"]),
    ("/user/orgs", &["GET", "POST"]),
    ("/user/repos", &["GET", "POST"]),
    ("/users/search", &["GET"]),
    ("/users/{}", &["GET"]),
    ("/users/{}/followers", &["GET"]),
    ("/users/{}/following", &["GET"]),
    ("/users/{}/following/{}", &["GET"]),
    ("/users/{}/keys", &["GET"]),
    ("/users/{}/orgs", &["GET"]),
    ("/users/{}/repos", &["GET"]),
    ("/users/{}/tokens", &["GET", "POST"]),
];

/// Returns the path template of a route with `{}` for each parameter.
fn shape(path: &str) -> String {
    let parts = path.trim_start_matches("/api/v1").split('/');
    parts.map(|part| if part.starts_with('{') { "{}" } else { part }).collect::<Vec<_>>().join("/")
}

#[test]
fn every_operation_of_the_contract_has_a_route() {
    let routes: BTreeSet<_> = routes().into_iter().map(|(method, path)| (method, shape(path))).collect();
    let operations = OPERATIONS.iter().flat_map(|(path, methods)| methods.iter().map(|method| (*method, *path)));
    let missing: Vec<_> =
        operations.filter(|(method, path)| !routes.contains(&(*method, (*path).to_owned()))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
