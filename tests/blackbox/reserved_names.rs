//! Reserved names of accounts and repositories: names of routes in places where an account or
//! repository can be, and the words of filters by account. They come from the route table, so a new
//! route cannot hide an account.

use std::collections::BTreeSet;

/// Route parameters that are account names.
const ACCOUNTS: [&str; 5] = ["{username}", "{org}", "{owner}", "{target}", "{collaborator}"];
/// Parameters that are ids, git texts, or names without routes beside them.
const OTHERS: [&str; 22] = [
    "{id}",
    "{index}",
    "{delivery}",
    "{asset}",
    "{sha}",
    "{name}",
    "{team}",
    "{topic}",
    "{email}",
    "{file}",
    "{*file}",
    "{*folder}",
    "{*branch}",
    "{*pattern}",
    "{*sha}",
    "{*name}",
    "{*tag}",
    "{*archive}",
    "{*basehead}",
    "{base}",
    "{*head}",
    "{repo}",
];

fn segments(path: &'static str) -> Vec<&'static str> {
    path.trim_matches('/').split('/').collect()
}

/// Fixed segments that appear where other routes with the same prefix have one of `parameters`.
fn beside(paths: &BTreeSet<&'static str>, parameters: &[&str]) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for path in paths {
        let with_name = segments(path);
        for place in (0..with_name.len()).filter(|place| parameters.contains(&with_name[*place])) {
            let fixed = paths.iter().map(|other| segments(other)).filter(|other| other.len() > place);
            let fixed = fixed.filter(|other| other[..place] == with_name[..place] && !other[place].starts_with('{'));
            found.extend(fixed.map(|other| other[place]));
        }
    }
    found
}

#[test]
fn no_account_or_repository_may_have_the_name_of_a_route_or_of_a_filter() {
    let paths: BTreeSet<_> = gateway::routes().into_iter().map(|(_, path)| path).collect();
    let parameters: BTreeSet<_> =
        paths.iter().flat_map(|path| segments(path)).filter(|part| part.starts_with('{')).collect();
    let known: BTreeSet<_> = ACCOUNTS.into_iter().chain(OTHERS).collect();
    assert_eq!(parameters.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new(), "is this an account name?");

    let routes = beside(&paths, &ACCOUNTS);
    for expected in ["api", "avatars", "docs", "migrate", "migrations", "search"] {
        assert!(routes.contains(expected), "{expected}: {routes:?}");
    }
    let words = routes.into_iter().chain(gateway::ASSIGNEE_WORDS);
    let free: Vec<_> = words.filter(|name| repo_svc::may_be_account_name(name)).collect();
    assert_eq!(free, Vec::<&str>::new(), "an account with this name would be hidden");
    let free: Vec<_> =
        beside(&paths, &["{repo}"]).into_iter().filter(|name| repo_svc::may_be_repository_name(name)).collect();
    assert_eq!(free, Vec::<&str>::new(), "a repository with this name would be hidden");
    // Names of tokens, stores and topics have no fixed segment beside them.
    assert_eq!(beside(&paths, &["{name}", "{team}", "{topic}", "{email}"]), BTreeSet::new());
}
