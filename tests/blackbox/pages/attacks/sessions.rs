//! Sessions that somebody else chose, or that have ended.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Cluster, User};
use crate::pages::accounts::{Browser, form_token, with_fields};

on_profiles! {
    both {
        a_cookie_from_before_the_sign_in_is_never_the_session
        an_ended_session_leads_to_the_sign_in
    }
}

const COOKIE: &str = "ferrite_session";
const FORM_COOKIE: &str = "ferrite_form";
const PLANTED: &str = "0123456789abcdef0123456789abcdef01234567";

async fn signed_in(user: &User) -> Browser {
    let mut browser = Browser::new(user);
    browser.sign_in(&user.password).await.expect(303);
    browser
}

/// Fails unless pages and forms treat the session as none.
async fn leads_to_sign_in(user: &User, session: &str) {
    let mut browser = Browser::new(user);
    browser.cookies.push((COOKIE.to_owned(), session.to_owned()));
    let shown = browser.get("/user/settings").await.expect(303).header("location");
    assert!(shown.contains("/user/login?redirect_to="), "{shown}");
    assert!(!browser.text("/").await.contains("Sign out"));
    let form = with_fields(user.raw(Method::POST, "/user/settings"), &[("full_name", "Eve")]);
    let sent = browser.send(form).await.expect(303).header("location");
    assert!(sent.contains("/user/login?redirect_to="), "{sent}");
}

async fn a_cookie_from_before_the_sign_in_is_never_the_session(cluster: &Cluster) {
    let (ada, eve) = (cluster.user("ada").await, cluster.user("eve").await);
    let session_of_eve = signed_in(&eve).await.session().unwrap();
    for planted in [PLANTED, &session_of_eve] {
        let mut browser = Browser::new(&ada);
        // Eve also chose the cookie to which the form belongs.
        browser.cookies.push((FORM_COOKIE.to_owned(), PLANTED[..32].to_owned()));
        let token = form_token(&browser.text("/user/login").await);
        browser.cookies.push((COOKIE.to_owned(), planted.to_owned()));
        let fields =
            [("form_token", token.as_str()), ("username", ada.name.as_str()), ("password", ada.password.as_str())];
        let form = with_fields(ada.raw(Method::POST, "/user/login"), &fields);
        browser.send(form).await.expect(303);
        let session = browser.session().unwrap();
        assert!(session != planted && browser.cookies.len() == 1, "{:?}", browser.cookies);
        assert!(browser.text("/").await.contains(&format!("href=\"/{}\"", ada.name)));
        leads_to_sign_in(&ada, planted).await;
    }
}

async fn an_ended_session_leads_to_the_sign_in(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let account = format!("/admin/users/{}", ada.name);

    let mut browser = signed_in(&ada).await;
    let session = browser.session().unwrap();
    browser.submit("/user/logout", "/user/logout", &[]).await.expect(303);
    leads_to_sign_in(&ada, &session).await;

    let (mut browser, other) = (signed_in(&ada).await, signed_in(&ada).await.session().unwrap());
    let fields = [("old_password", ada.password.as_str()), ("password", "another horse"), ("retype", "another horse")];
    browser.submit("/user/settings/password", "/user/settings/password", &fields).await.expect(303);
    leads_to_sign_in(&ada, &other).await;

    let session = browser.session().unwrap();
    admin.patch(&account, &json!({"password": ada.password})).await.expect(200);
    leads_to_sign_in(&ada, &session).await;

    let session = signed_in(&ada).await.session().unwrap();
    admin.patch(&account, &json!({"active": false})).await.expect(200);
    leads_to_sign_in(&ada, &session).await;
    Browser::new(&ada).sign_in(&ada.password).await.expect(422);
    admin.patch(&account, &json!({"active": true})).await.expect(200);

    let session = signed_in(&ada).await.session().unwrap();
    admin.delete(&account).await.empty(204);
    leads_to_sign_in(&ada, &session).await;
}
