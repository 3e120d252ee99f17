use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Failure, Kind, Shared};
use crate::harness::User;

const PAUSE_AFTER_REQUEST: Duration = Duration::from_millis(60);
const PAUSE_AFTER_GIT: Duration = Duration::from_millis(300);

pub(super) fn start(shared: &Arc<Shared>) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    for number in 0..2 {
        workers.spawn(files(Arc::clone(shared), number));
        workers.spawn(issues(Arc::clone(shared), number));
        workers.spawn(reads(Arc::clone(shared), number));
    }
    workers.spawn(clones(Arc::clone(shared)));
    workers.spawn(pushes(Arc::clone(shared)));
    workers
}

/// The text of a file, derived from its path.
pub(super) fn content(path: &str) -> String {
    format!("content of {path}\n")
}

async fn write(user: User, method: Method, path: &str, key: &str, body: &Value) -> Result<Value, Failure> {
    let request = user.request(method, path).header("idempotency-key", key).json(body);
    Failure::or_response(request, &[200, 201]).await.map(|response| response.json())
}

async fn files(shared: Arc<Shared>, worker: usize) {
    for step in 0.. {
        if shared.is_over() {
            return;
        }
        // Two workers never write to the same repository: a lost race is a conflict that no retry
        // resolves.
        let half = shared.repositories.len() / 2;
        let repository = &shared.repositories[worker * half + step % half];
        let (path, key) = (format!("files/{worker}-{step}.txt"), format!("file-{worker}-{step}"));
        let api = shared.users[0].repo(repository, &format!("/contents/{path}"));
        let content = base64::engine::general_purpose::STANDARD.encode(content(&path));
        let body = json!({"message": format!("Add {path}"), "content": content});
        let made = shared.perform(Kind::File, &key, |user| write(user, Method::PUT, &api, &key, &body)).await;
        if let Some(made) = made {
            let commit = made["commit"]["sha"].as_str().unwrap_or_default().to_owned();
            shared.ledger.lock().unwrap().files.insert((repository.clone(), path), commit);
        }
        tokio::time::sleep(PAUSE_AFTER_REQUEST).await;
    }
}

async fn issues(shared: Arc<Shared>, worker: usize) {
    for step in 0.. {
        if shared.is_over() {
            return;
        }
        let repository = &shared.repositories[(worker + step) % shared.repositories.len()];
        let (title, key) = (format!("Issue {worker} {step}"), format!("issue-{worker}-{step}"));
        let (api, body) = (shared.users[0].repo(repository, "/issues"), json!({"title": title}));
        let made = shared.perform(Kind::Issue, &key, |user| write(user, Method::POST, &api, &key, &body)).await;
        let Some(number) = made.and_then(|made| made["number"].as_i64()) else { continue };
        let place = (repository.clone(), number);
        shared.ledger.lock().unwrap().issues.insert(place.clone(), (title.clone(), false));
        if step % 2 == 0 {
            let (api, key) = (format!("{api}/{number}"), format!("close-{worker}-{step}"));
            let body = json!({"state": "closed"});
            let closed = shared.perform(Kind::Issue, &key, |user| write(user, Method::PATCH, &api, &key, &body)).await;
            if closed.is_some() {
                shared.ledger.lock().unwrap().issues.insert(place, (title, true));
            }
        }
        tokio::time::sleep(PAUSE_AFTER_REQUEST).await;
    }
}

/// Reads acknowledged writes one after the other: a response without them is wrong.
async fn reads(shared: Arc<Shared>, worker: usize) {
    for step in worker.. {
        if shared.is_over() {
            return;
        }
        let repository = &shared.repositories[step % shared.repositories.len()];
        let file = shared.ledger.lock().unwrap().files.keys().rfind(|(name, _)| name == repository).cloned();
        let (rest, expected) = match (step % 5, file) {
            (0 | 1, Some((_, path))) => (format!("/raw/main/{path}"), content(&path)),
            (2, _) => (String::new(), format!("\"name\":\"{repository}\"")),
            (3, _) => ("/issues?limit=20".to_owned(), "[".to_owned()),
            _ => ("/branches".to_owned(), "\"name\":\"main\"".to_owned()),
        };
        let path = shared.users[0].repo(repository, &rest);
        let read = |user: User| {
            let (path, expected) = (&path, &expected);
            async move {
                let response = Failure::or_response(user.request(Method::GET, path), &[200]).await?;
                if response.text().contains(expected) { Ok(()) } else { Err(Failure::unclear(response.text())) }
            }
        };
        shared.perform(Kind::Read, &path, read).await;
        tokio::time::sleep(PAUSE_AFTER_REQUEST / 2).await;
    }
}

async fn clones(shared: Arc<Shared>) {
    for step in 0_usize.. {
        if shared.is_over() {
            return;
        }
        let repository = &shared.repositories[step % shared.repositories.len()];
        let attempts = AtomicUsize::new(0);
        let clone = |user: User| {
            let (shared, attempt) = (&shared, attempts.fetch_add(1, Ordering::SeqCst));
            async move {
                let folder = format!("clone-{step}-{attempt}");
                let (url, login) = (repository_url(&user, repository), login(&user));
                let output = shared.git.attempt("", &["-c", &login, "clone", "-q", &url, &folder]).await;
                let _ = std::fs::remove_dir_all(shared.git.path().join(folder));
                Failure::or_output(&output)
            }
        };
        shared.perform(Kind::Clone, &format!("clone {repository}"), clone).await;
        tokio::time::sleep(PAUSE_AFTER_GIT).await;
    }
}

fn repository_url(user: &User, repository: &str) -> String {
    format!("{}/{}/{repository}.git", user.url, user.name)
}

/// The setting that makes git send the token at once. With a token in the URL, git waits for a
/// challenge first, and reports refused credentials if the server dies between the challenge and
/// its response.
fn login(user: &User) -> String {
    let token = user.token.as_deref().unwrap_or_default();
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{}:{token}", user.name));
    format!("http.extraHeader=Authorization: Basic {basic}")
}

async fn pushes(shared: Arc<Shared>) {
    shared.git.small("source").await;
    for step in 0.. {
        if shared.is_over() {
            return;
        }
        let repository = &shared.repositories[step % shared.repositories.len()];
        let commit = shared.git.commit("source", "step.txt", &format!("step {step}\n")).await;
        let (shared2, refspec) = (&shared, format!("{commit}:refs/heads/pushed"));
        let push = |user: User| {
            let refspec = &refspec;
            async move {
                let (url, login) = (repository_url(&user, repository), login(&user));
                Failure::or_output(&shared2.git.attempt("source", &["-c", &login, "push", "-q", &url, refspec]).await)
            }
        };
        if shared.perform(Kind::Push, &format!("push {step} to {repository}"), push).await.is_some() {
            let place = (repository.clone(), "refs/heads/pushed".to_owned());
            shared.ledger.lock().unwrap().branches.insert(place, commit);
        }
        tokio::time::sleep(PAUSE_AFTER_GIT).await;
    }
}
