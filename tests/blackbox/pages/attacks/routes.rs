//! The routes of the pages, from their source: an attack on all of them leaves none out.

use std::fs;
use std::path::Path;

/// Paths that the source does not write as they are.
const NAMED: [(&str, &str); 9] = [
    ("PATH", "/user/transfers"),
    ("SIGN_IN_PATH", "/user/login"),
    ("Section::Avatar.path()", "/user/settings/avatar"),
    ("Section::Emails.path()", "/user/settings/email"),
    ("Section::Password.path()", "/user/settings/password"),
    ("Section::Profile.path()", "/user/settings"),
    ("Section::PublicKeys.path()", "/user/settings/keys"),
    ("Section::Sessions.path()", "/user/settings/sessions"),
    ("Section::Tokens.path()", "/user/settings/applications"),
];
/// Variables that paths begin with.
const BEGINNINGS: [(&str, &[&str]); 3] = [
    ("{pull}", &["/{owner}/{repo}/pulls/{index}"]),
    ("{hooks}", &["/{owner}/{repo}/settings/hooks", "/org/{org}/settings/hooks", "/-/admin/hooks"]),
    ("{hook}", &["/{owner}/{repo}/settings/hooks/{hook}", "/org/{org}/settings/hooks/{hook}", "/-/admin/hooks/{hook}"]),
];
/// Enough to see that the source is understood.
const MIN_FORMS: usize = 80;

pub(super) struct Route {
    pub(super) path: String,
    pub(super) has_page: bool,
    pub(super) has_form: bool,
}

/// Returns all routes, with the names of their parameters.
pub(super) fn all() -> Vec<Route> {
    let mut sources = Vec::new();
    add_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/src/pages"), &mut sources);
    let routes: Vec<_> = sources.iter().flat_map(|source| calls(source)).flat_map(of_call).collect();
    let forms = routes.iter().filter(|route| route.has_form).count();
    assert!(forms >= MIN_FORMS, "only {forms} forms were found");
    routes
}

fn add_sources(folder: &Path, sources: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, sources);
        } else {
            let source = fs::read_to_string(path).unwrap();
            sources.push(source.split("#[cfg(test)]").next().unwrap().to_owned());
        }
    }
}

/// The arguments of all calls of `route`: the path, and the handlers of methods.
fn calls(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.split(".route(").skip(1).map(|rest| {
        let mut depth = 1;
        let end = rest.find(|sign: char| {
            depth += match sign {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        let (path, methods) = rest[..end.unwrap()].split_once(',').unwrap();
        (path.trim().trim_start_matches('&'), methods.trim())
    })
}

fn of_call((path, methods): (&str, &str)) -> Vec<Route> {
    let (has_page, has_form) = (methods.starts_with("get("), methods.contains("post("));
    let paths = paths(path);
    assert!(!paths.is_empty() || !has_form, "what is the path {path} of a form?");
    paths.into_iter().map(|path| Route { path, has_page, has_form }).collect()
}

/// Returns the paths that an expression stands for; none for what is no page.
fn paths(expression: &str) -> Vec<String> {
    let is_variable = expression.bytes().all(|byte| byte.is_ascii_lowercase());
    let text = match expression.split_once('"') {
        Some((before, rest)) => {
            let text = rest.split('"').next().unwrap();
            if before.is_empty() { text.to_owned() } else { text.replace("{{", "{").replace("}}", "}") }
        }
        None if is_variable => format!("{{{expression}}}"),
        None => match NAMED.iter().find(|(name, _)| *name == expression) {
            Some((_, path)) => (*path).to_owned(),
            None => return Vec::new(),
        },
    };
    if text.starts_with('/') {
        return vec![text];
    }
    let found = BEGINNINGS.iter().find_map(|(name, beginnings)| Some((*beginnings, text.strip_prefix(name)?)));
    let (beginnings, rest) = found.unwrap_or((&[], ""));
    beginnings.iter().map(|beginning| format!("{beginning}{rest}")).collect()
}

/// Returns a path with these values of its parameters, and usual ones for others.
pub(super) fn filled(path: &str, values: &[(&str, &str)]) -> String {
    let mut before = "";
    let mut filled = String::new();
    for segment in path.split('/').skip(1) {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let value = name.map(|name| match values.iter().find(|(found, _)| *found == name) {
            Some((_, value)) => *value,
            None => usual(before, name).unwrap_or_else(|| panic!("{name} in {path} has no value")),
        });
        filled.push('/');
        filled.push_str(value.unwrap_or(segment));
        before = segment;
    }
    filled
}

fn usual(before: &str, name: &str) -> Option<&'static str> {
    let value = match (before, name) {
        ("_edit" | "_delete", "*rest") => "main/README.md",
        ("_new" | "_upload", "*rest") => "main",
        ("archive", "*rest") => "main.zip",
        (_, "*rest") => "branch/main/README.md",
        ("compare", "*basehead") => "main...main",
        (_, "*basehead") => "main...topic",
        (_, "*name") => "main",
        (_, "*tag") => "v1",
        (_, "*page") => "Home",
        (_, "delivery" | "file" | "hook" | "id" | "index" | "number" | "release") => "1",
        (_, "name") => "file.bin",
        (_, "store") => "default",
        (_, "team") => "Owners",
        _ => return None,
    };
    Some(value)
}
