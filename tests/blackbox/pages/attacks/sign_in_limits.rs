//! Passwords that are guessed with the form, within the limits of the API.

use reqwest::Method;

use super::closed::{MAX_ACCOUNT_FAILURES, MAX_ADDRESS_FAILURES, SignInPage};
use crate::harness::{Cluster, Response, User};

mod embedded {
    #[test]
    fn passwords_are_guessed_only_so_often() {
        super::super::closed::run(super::passwords_are_guessed_only_so_often);
    }
}

const HOME: [u8; 4] = [127, 0, 78, 1];
const ATTACKER: [u8; 4] = [127, 0, 78, 2];
const ELSEWHERE: [u8; 4] = [127, 0, 78, 3];
const SCANNER: [u8; 4] = [127, 0, 78, 4];
const WRONG: &str = "wrong horse battery";

/// Fails unless the page says when to try again, and shows no password.
#[track_caller]
fn is_throttled(response: &Response, password: &str) {
    assert_eq!(response.status, 429, "{}", response.text());
    let wait: u64 = response.header("retry-after").parse().unwrap();
    assert!((1..=3600).contains(&wait), "{wait}");
    assert_eq!(response.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(response.header("cache-control"), "no-store");
    assert!(!response.header("set-cookie").contains("session"), "nobody is signed in");
    let html = response.text();
    assert!(html.contains("There were too many attempts.") && html.contains("name=\"password\""), "{html}");
    assert!(!html.contains(password), "{html}");
}

async fn attempt(cluster: &Cluster, address: [u8; 4], user: &User, password: &str) -> Response {
    SignInPage::open(cluster, address).await.send(&user.name, password, "/").await
}

async fn passwords_are_guessed_only_so_often(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    attempt(cluster, HOME, &ada, &ada.password).await.expect(303);
    for _ in 0..MAX_ACCOUNT_FAILURES {
        attempt(cluster, ATTACKER, &ada, WRONG).await.expect(422);
    }
    is_throttled(&attempt(cluster, ATTACKER, &ada, WRONG).await, WRONG);
    is_throttled(&attempt(cluster, ELSEWHERE, &ada, &ada.password).await, &ada.password);
    attempt(cluster, HOME, &ada, &ada.password).await.expect(303);

    // Attempts with the API count, too.
    for number in 0..MAX_ADDRESS_FAILURES {
        let mut unknown = bob.clone();
        unknown.name = format!("no-such-user-{number}");
        match number % 2 {
            0 => drop(attempt(cluster, SCANNER, &unknown, WRONG).await.expect(422)),
            _ => drop(basic(&unknown, SCANNER).await.refused(401)),
        }
    }
    is_throttled(&attempt(cluster, SCANNER, &bob, &bob.password).await, &bob.password);
    basic(&bob, SCANNER).await.refused(429);
    attempt(cluster, ELSEWHERE, &bob, &bob.password).await.expect(303);
}

/// Sends a wrong password to the API.
async fn basic(user: &User, address: [u8; 4]) -> Response {
    let client = reqwest::Client::builder().no_proxy().local_address(Some(address.into())).build().unwrap();
    let request = client.request(Method::GET, format!("{}/api/v1/users/{}/tokens", user.url, user.name));
    Response::of(request.basic_auth(&user.name, Some(WRONG))).await
}
