//! Requests to the REST API and to git over HTTP.

use ferrite_proto::operation;
use repo_svc::access::{OPERATIONS, Operation, Rule};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::callers::Caller;
use super::expected::{Expected, Interface, of_operation, of_route, on_repo};
use super::fixture::{ABSENT_ID, Fixture, NO_TRACKER, Repo};
use super::{AT_ONCE, Question, Selection, expected_on, questions, routes};
use crate::harness::concurrent::for_each;
use crate::harness::{Cluster, Response};

const ABSENT: &str = "never-was";
/// A body that is not JSON: refusals come before the body is read.
const BROKEN: &str = "{\"broken\":";

struct Case<'a> {
    operation: &'static Operation,
    method: &'static str,
    path: &'a str,
    caller: &'a Caller,
    target: Target<'a>,
}

#[derive(Clone, Copy)]
enum Target<'a> {
    Repo(&'a Repo),
    /// The organization or team in the path, if any, which may not exist.
    Other {
        exists: bool,
    },
}

/// The variable parts of a path inside a repository: owner and name, or its number, then the others
/// according to the segment before each.
fn repository_parts(path: &str, repo: &Repo) -> Vec<String> {
    if path.starts_with("/repositories/") {
        return vec![repo.id.to_string()];
    }
    let tracker = repo.tracker;
    let segments: Vec<_> = path.split('/').collect();
    let mut parts = vec![repo.owner_name.clone(), repo.name.clone()];
    for pair in segments.windows(2).filter(|pair| pair[1] == "{}").skip(2) {
        parts.push(match pair[0] {
            "commits" | "trees" => "main".to_owned(),
            "refs" => "heads/main".to_owned(),
            "compare" => "main...main".to_owned(),
            "archive" => "main.zip".to_owned(),
            "raw" | "media" => "main/README.md".to_owned(),
            "contents" | "blame" => "README.md".to_owned(),
            "issues" => tracker.issue_number.to_string(),
            "pulls" => tracker.pull_number.to_string(),
            "reviews" => tracker.review_id.to_string(),
            "comments" if path.contains("/pulls/comments/") => tracker.review_comment_id.to_string(),
            "comments" => tracker.comment_id.to_string(),
            "labels" => tracker.label_id.to_string(),
            "milestones" => tracker.milestone_id.to_string(),
            "keys" => ABSENT_ID.to_string(),
            _ => ABSENT.to_owned(),
        });
    }
    parts
}

impl Case<'_> {
    fn parts(&self, fixture: &Fixture) -> Vec<String> {
        let own = |text: &str| text.to_owned();
        let rest = self.path.trim_start_matches("/api/v1");
        let exists = match self.target {
            Target::Repo(repo) => return repository_parts(rest, repo),
            Target::Other { exists } => exists,
        };
        let organization = if exists { fixture.organization.clone() } else { own(ABSENT) };
        let team = if exists { fixture.owners_team.to_string() } else { ABSENT_ID.to_string() };
        match rest.trim_start_matches("/admin").split('/').nth(1).unwrap_or_default() {
            // Members can change the visibility of their own membership only.
            "orgs" | "org" if rest.contains("public_members") && !self.caller.user.name.is_empty() => {
                vec![organization, self.caller.user.name.clone()]
            }
            "orgs" | "org" => vec![organization, own(ABSENT), own(ABSENT)],
            "teams" => vec![team, own(ABSENT), own(ABSENT)],
            "user" if rest.contains("keys") || rest.contains("sessions") => vec![ABSENT_ID.to_string()],
            "users" if !rest.starts_with("/admin") => vec![fixture.owner.name.clone(), own(ABSENT)],
            _ => vec![own(ABSENT), own(ABSENT)],
        }
    }

    fn request(&self, fixture: &Fixture) -> RequestBuilder {
        let mut parts = self.parts(fixture).into_iter();
        let mut filled = String::new();
        for (number, piece) in self.path.split("{}").enumerate() {
            if number > 0 {
                filled += &parts.next().unwrap();
            }
            filled += piece;
        }
        let method: Method = self.method.parse().unwrap();
        let request = self.caller.user.request(method.clone(), filled.trim_start_matches("/api/v1"));
        if matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            return request.header("content-type", "application/json").body(BROKEN);
        }
        request
    }

    async fn send(&self, fixture: &Fixture) -> Response {
        Response::of(self.request(fixture)).await
    }
}

/// The message of a 404 that hides something, if the rule hides anything.
fn hidden_message(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::Organization(..) => Some("organization does not exist"),
        Rule::Team(_) => Some("team does not exist"),
        Rule::Repository { .. } => Some("repository does not exist"),
        Rule::Service | Rule::Public | Rule::Anyone | Rule::Password | Rule::User(_) | Rule::Administrator => None,
    }
}

#[track_caller]
fn check(response: &Response, expected: Expected, rule: Rule, what: &str) {
    let status = response.status.as_u16();
    let is_hidden = status == 404 && response.json()["message"].as_str() == hidden_message(rule);
    let is_right = match expected {
        Expected::Allowed => !matches!(status, 401 | 403 | 429 | 500..) && !is_hidden,
        Expected::Unauthenticated => status == 401,
        Expected::Forbidden => status == 403,
        Expected::Hidden => is_hidden,
    };
    assert!(is_right, "{what}: {expected:?} expected, but {status} {}", response.text());
    if expected != Expected::Allowed {
        response.clone().refused(status);
    }
}

pub(super) async fn every_route_responds_to_every_caller_by_the_table(cluster: &Cluster) {
    let (fixture, selection) = (Fixture::of(cluster).await, Selection::of_rest(cluster.profile));
    for operation in OPERATIONS {
        for (method, path) in routes(operation) {
            let case = |caller, target| Case { operation, method, path: &path, caller, target };
            if let Rule::Repository { .. } = operation.rule {
                let questions = questions(&fixture, selection, operation).into_iter();
                let questions = questions.map(|question| with_pull(operation, &path, question));
                for_each(AT_ONCE, questions, async |question| {
                    ask(&fixture, &case(question.caller, Target::Repo(question.repo)), question).await;
                })
                .await;
                continue;
            }
            let row = of_route(operation, &path);
            let targets = match row.rule {
                Rule::Organization(..) | Rule::Team(_) => &[true, false][..],
                _ => &[true],
            };
            for_each(AT_ONCE, selection.callers(&fixture), async |caller| {
                for exists in targets {
                    let response = case(caller, Target::Other { exists: *exists }).send(&fixture).await;
                    let what = format!("{method} {path} by {} (target exists: {exists})", caller.title);
                    check(&response, of_operation(&row, caller, *exists), row.rule, &what);
                }
            })
            .await;
        }
    }
}

/// Routes below a pull request read it first: what the caller may not read decides.
fn with_pull<'a>(operation: &Operation, path: &str, question: Question<'a>) -> Question<'a> {
    let of_git = [
        operation::GET_CONFLICTS,
        operation::GET_MERGE_REQUIREMENTS,
        operation::REVERT_MERGE,
        operation::UPDATE_PULL_HEAD,
    ];
    let row = OPERATIONS.iter().find(|row| row.name == operation::GET_PULL).expect("pull requests are read");
    match expected_on(row, question.caller, question.repo) {
        _ if !of_git.contains(&operation.name) || !path.contains("/pulls/") => question,
        // A write asks for a token first.
        _ if question.expected == Expected::Unauthenticated => question,
        Expected::Allowed => question,
        expected => {
            Question { expected, is_compared: question.is_compared && expected == Expected::Hidden, ..question }
        }
    }
}

async fn ask(fixture: &Fixture, case: &Case<'_>, question: Question<'_>) {
    let Question { caller, repo, expected, is_compared } = question;
    if case.operation.name.ends_with("/DeleteRepository") && expected == Expected::Allowed {
        let disposable = fixture.disposable(repo).await;
        Case { target: Target::Repo(&disposable), ..*case }.send(fixture).await.expect(204);
        return;
    }
    // An allowed deletion names a missing item, so that the fixture stays complete.
    let spared = Repo { tracker: NO_TRACKER, ..repo.clone() };
    let is_deletion = case.method == "DELETE" && expected == Expected::Allowed;
    let case = Case { target: Target::Repo(if is_deletion { &spared } else { repo }), ..*case };
    let response = case.send(fixture).await;
    let what = format!("{} {} by {} on {}/{}", case.method, case.path, caller.title, repo.owner_name, repo.name);
    check(&response, expected, case.operation.rule, &what);
    if is_compared {
        let never = Repo { id: ABSENT_ID, name: ABSENT.to_owned(), private: None, ..repo.clone() };
        let missing = Case { target: Target::Repo(&never), ..case }.send(fixture).await;
        assert_eq!((missing.status, &missing.body), (response.status, &response.body), "{what}");
        let names = |response: &Response| response.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&missing), names(&response), "{what}");
    }
}

pub(super) async fn git_over_http_responds_to_every_caller_by_the_table(cluster: &Cluster) {
    let (fixture, selection) = (Fixture::of(cluster).await, Selection::of_rpc_and_git(cluster.profile));
    let mut cases = Vec::new();
    for (service, operation) in [("upload-pack", operation::UPLOAD_PACK), ("receive-pack", operation::RECEIVE_PACK)] {
        let row = OPERATIONS.iter().find(|row| row.name == operation).unwrap();
        for caller in selection.callers(&fixture) {
            cases.extend(selection.repos(&fixture, caller).into_iter().map(|repo| (service, row, caller, repo)));
        }
    }
    for_each(AT_ONCE, cases, async |(service, row, caller, repo)| {
        let Rule::Repository { unit, level, anonymous } = row.rule else { panic!("{:?}", row.rule) };
        let expected = match on_repo(unit, level, anonymous, caller, repo, Interface::Git) {
            Expected::Allowed => 200,
            Expected::Unauthenticated => 401,
            Expected::Forbidden => 403,
            Expected::Hidden => 404,
        };
        let base = format!("/{}/{}.git", repo.owner_name, repo.name);
        let refs = caller.user.raw(Method::GET, &format!("{base}/info/refs?service=git-{service}"));
        let exchange = caller.user.raw(Method::POST, &format!("{base}/git-{service}"));
        let exchange = exchange.header("content-type", format!("application/x-git-{service}-request")).body("0000");
        for (request, name) in [(refs, "refs"), (exchange, "exchange")] {
            let request = match &caller.user.token {
                Some(token) => request.basic_auth("anybody", Some(token)),
                None => request,
            };
            let response = Response::of(request).await;
            let what = format!("{service} {name} by {} on {}/{}", caller.title, repo.owner_name, repo.name);
            assert_eq!(response.status.as_u16(), expected, "{what}: {}", response.text());
        }
    })
    .await;
}

pub(super) async fn a_password_gives_access_to_the_tokens_of_its_owner_alone(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let ask = async |method: Method, path: &str, password: &str| {
        let request = ada.raw(method, path).basic_auth(&ada.name, Some(password)).json(&json!({"name": ""}));
        Response::of(request).await
    };
    for (method, rest) in [(Method::GET, ""), (Method::POST, ""), (Method::DELETE, "/never-was")] {
        for (name, password, status) in [
            (ada.name.as_str(), ada.password.as_str(), 0),
            (&ada.name, "wrong", 401),
            (&ada.name, ada.token.as_deref().unwrap(), 401),
            (&bob.name, &ada.password, 403),
            (ABSENT, &ada.password, 404),
            (ABSENT, "wrong", 401),
        ] {
            let response = ask(method.clone(), &format!("/api/v1/users/{name}/tokens{rest}"), password).await;
            match status {
                0 => assert!(!matches!(response.status.as_u16(), 401 | 403), "{method} {}", response.text()),
                status => drop(response.refused(status)),
            }
        }
    }
    // All other routes that look at credentials reject a password.
    for operation in OPERATIONS.iter().filter(|operation| !matches!(operation.rule, Rule::Password | Rule::Public)) {
        for (method, path) in routes(operation) {
            let path = path.replace("{}", "x");
            ask(method.parse().unwrap(), &path, &ada.password).await.refused(401);
        }
    }
}
