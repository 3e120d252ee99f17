//! The walk over REST and git over HTTP.

use repo_svc::access::{OPERATIONS, Operation, Rule};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::expect::{Door, Verdict, of_rule, on_place};
use super::fixture::{Owned, Place, World};
use super::people::Person;
use crate::harness::client::unique;
use crate::harness::{Answer, Cluster};

/// Somebody, and something, that nobody ever made.
const ABSENT: &str = "never-was";
const ABSENT_ID: &str = "999999999";
/// A body that nobody reads who may not do what it is for.
const BROKEN: &str = "{\"broken\":";

/// What a request is about, beside the caller.
struct About<'a> {
    world: &'a World,
    place: Option<&'a Place>,
    /// Whether to name the organization or team that is there.
    exists: bool,
}

impl About<'_> {
    /// The parts of a path that vary.
    fn parts(&self, path: &str, person: &Person) -> Vec<String> {
        let own = |text: &str| text.to_owned();
        let organization = if self.exists { self.world.organization.clone() } else { own(ABSENT) };
        let team = if self.exists { self.world.owners_team.to_string() } else { own(ABSENT_ID) };
        let rest = path.trim_start_matches("/api/v1");
        if rest.starts_with("/repos/{}/{}") || rest.starts_with("/{}/{}") {
            let place = self.place.unwrap();
            let last = match rest.rsplit_once("/{}").map(|(before, _)| before.rsplit('/').next().unwrap_or_default()) {
                Some("branches" | "commits" | "trees") => "main",
                Some("refs") => "heads/main",
                Some("archive") => "main.zip",
                Some("raw") => "main/README.md",
                Some("contents") => "README.md",
                Some("issues") => "1",
                Some("keys") => ABSENT_ID,
                _ => ABSENT,
            };
            return vec![place.owner.clone(), place.name.clone(), own(last)];
        }
        match rest.trim_start_matches("/admin").split('/').nth(1).unwrap_or_default() {
            // Everybody shows or hides itself alone.
            "orgs" | "org" if rest.contains("public_members") && !person.user.name.is_empty() => {
                vec![organization, person.user.name.clone()]
            }
            "orgs" | "org" => vec![organization, own(ABSENT)],
            "teams" => vec![team, own(ABSENT)],
            "user" if rest.contains("keys") => vec![own(ABSENT_ID)],
            "users" if !rest.starts_with("/admin") => vec![self.world.owner.name.clone(), own(ABSENT)],
            _ => vec![own(ABSENT), own(ABSENT)],
        }
    }

    fn request(&self, method: &str, path: &str, person: &Person) -> RequestBuilder {
        let mut parts = self.parts(path, person).into_iter();
        let mut filled = String::new();
        for (place, piece) in path.split("{}").enumerate() {
            if place > 0 {
                filled += &parts.next().unwrap();
            }
            filled += piece;
        }
        let method: Method = method.parse().unwrap();
        let request = person.user.request(method.clone(), filled.trim_start_matches("/api/v1"));
        if matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            return request.header("content-type", "application/json").body(BROKEN);
        }
        request
    }
}

/// What is said of something hidden, where a rule hides anything.
fn hidden_message(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::Organization(..) => Some("organization does not exist"),
        Rule::Team(_) => Some("team does not exist"),
        Rule::Repository { .. } => Some("repository does not exist"),
        Rule::Service | Rule::Anyone | Rule::Password | Rule::User(_) | Rule::Administrator => None,
    }
}

#[track_caller]
fn check(answer: &Answer, verdict: Verdict, rule: Rule, what: &str) {
    let status = answer.status.as_u16();
    let is_hidden = status == 404 && answer.json()["message"].as_str() == hidden_message(rule);
    let is_right = match verdict {
        Verdict::Allowed => !matches!(status, 401 | 403 | 429 | 500..) && !is_hidden,
        Verdict::Unauthenticated => status == 401,
        Verdict::Forbidden => status == 403,
        Verdict::Hidden => is_hidden,
    };
    assert!(is_right, "{what}: {verdict:?} expected, but {status} {}", answer.text());
    if verdict != Verdict::Allowed {
        answer.clone().refused(status);
    }
}

pub(super) async fn every_route_answers_every_caller_by_the_table(cluster: &Cluster) {
    let world = World::make(cluster).await;
    for operation in OPERATIONS {
        for (method, path) in super::routes(operation) {
            for person in &world.people {
                match operation.rule {
                    Rule::Repository { .. } => walk_places(&world, operation, method, &path, person).await,
                    Rule::Organization(..) | Rule::Team(_) => {
                        walk_one(&world, operation, method, &path, person, true).await;
                        walk_one(&world, operation, method, &path, person, false).await;
                    }
                    _ => walk_one(&world, operation, method, &path, person, true).await,
                }
            }
        }
    }
}

async fn walk_one(world: &World, operation: &Operation, method: &str, path: &str, person: &Person, exists: bool) {
    let about = About { world, place: None, exists };
    let answer = Answer::of(about.request(method, path, person)).await;
    let what = format!("{method} {path} by {} (target there: {exists})", person.title);
    check(&answer, of_rule(operation.rule, person, exists), operation.rule, &what);
}

async fn walk_places(world: &World, operation: &Operation, method: &str, path: &str, person: &Person) {
    let Rule::Repository { unit, level, anonymous } = operation.rule else { return };
    for place in &world.places {
        let verdict = on_place(unit, level, anonymous, person, place, Door::Api);
        let is_deletion = operation.name.ends_with("/DeleteRepository");
        if is_deletion && verdict == Verdict::Allowed {
            let doomed = world.repository(place.owned, &unique("doomed"), place.private == Some(true)).await;
            let about = About { world, place: Some(&doomed), exists: true };
            Answer::of(about.request(method, path, person)).await.expect(204);
            continue;
        }
        let about = About { world, place: Some(place), exists: true };
        let answer = Answer::of(about.request(method, path, person)).await;
        let what = format!("{method} {path} by {} on {}/{}", person.title, place.owner, place.name);
        check(&answer, verdict, operation.rule, &what);
        if verdict == Verdict::Hidden {
            let never = Place { name: ABSENT.to_owned(), private: None, ..place.clone() };
            let about = About { world, place: Some(&never), exists: true };
            let missing = Answer::of(about.request(method, path, person)).await;
            assert_eq!((missing.status, &missing.body), (answer.status, &answer.body), "{what}");
            let names = |answer: &Answer| answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(names(&missing), names(&answer), "{what}");
        }
    }
}

pub(super) async fn git_over_http_answers_every_caller_by_the_table(cluster: &Cluster) {
    let world = World::make(cluster).await;
    for (service, operation) in [
        ("upload-pack", ferrite_proto::operation::UPLOAD_PACK),
        ("receive-pack", ferrite_proto::operation::RECEIVE_PACK),
    ] {
        let row = OPERATIONS.iter().find(|row| row.name == operation).unwrap();
        let Rule::Repository { unit, level, anonymous } = row.rule else { panic!("{:?}", row.rule) };
        for person in &world.people {
            for place in &world.places {
                let verdict = on_place(unit, level, anonymous, person, place, Door::Git);
                let expected = match verdict {
                    Verdict::Allowed => 200,
                    Verdict::Unauthenticated => 401,
                    Verdict::Forbidden => 403,
                    Verdict::Hidden => 404,
                };
                let base = format!("/{}/{}.git", place.owner, place.name);
                let refs = person.user.raw(Method::GET, &format!("{base}/info/refs?service=git-{service}"));
                let exchange = person.user.raw(Method::POST, &format!("{base}/git-{service}"));
                let exchange =
                    exchange.header("content-type", format!("application/x-git-{service}-request")).body("0000");
                for (request, name) in [(refs, "refs"), (exchange, "exchange")] {
                    let request = match &person.user.token {
                        Some(token) => request.basic_auth("anybody", Some(token)),
                        None => request,
                    };
                    let answer = Answer::of(request).await;
                    let what = format!("{service} {name} by {} on {}/{}", person.title, place.owner, place.name);
                    assert_eq!(answer.status.as_u16(), expected, "{what}: {}", answer.text());
                }
            }
        }
    }
}

pub(super) async fn a_password_opens_the_tokens_of_its_owner_and_nothing_else(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let ask = async |method: Method, path: &str, password: &str| {
        let request = ada.raw(method, path).basic_auth(&ada.name, Some(password)).json(&json!({"name": ""}));
        Answer::of(request).await
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
            let answer = ask(method.clone(), &format!("/api/v1/users/{name}/tokens{rest}"), password).await;
            match status {
                0 => assert!(!matches!(answer.status.as_u16(), 401 | 403), "{method} {}", answer.text()),
                status => drop(answer.refused(status)),
            }
        }
    }
    // Everywhere else a password is no credential at all.
    for operation in OPERATIONS.iter().filter(|operation| operation.rule != Rule::Password) {
        for (method, path) in super::routes(operation) {
            let path = path.replace("{}", "x");
            ask(method.parse().unwrap(), &path, &ada.password).await.refused(401);
        }
    }
}

/// Where a place is, for the other walk.
pub(super) async fn doomed(world: &World, owned: Owned, private: bool) -> Place {
    world.repository(owned, &unique("doomed"), private).await
}
