//! Sign-in, profiles, searches, and the settings of an account.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_visitor_signs_in_and_out
    }
    embedded {
        a_form_of_another_browser_or_site_signs_nobody_in
        profiles_and_searches_show_what_the_visitor_may_see
        the_buttons_of_a_repository_change_it_for_the_visitor
        settings_change_the_account
        a_profile_is_edited_and_a_password_replaced
        activities_are_on_profiles_the_front_page_and_in_feeds
        new_things_are_created_by_forms
    }
}

/// A browser: one user's cookies.
pub(super) struct Browser {
    pub(super) user: User,
    pub(super) cookies: Vec<(String, String)>,
}

impl Browser {
    pub(super) fn new(user: &User) -> Self {
        Self { user: user.clone(), cookies: Vec::new() }
    }

    /// Signed in with an access token in place of a session.
    fn signed_in(user: &User) -> Self {
        let session = ("ferrite_session".to_owned(), user.token.clone().unwrap());
        Self { cookies: vec![session], ..Self::new(user) }
    }

    pub(super) async fn send(&mut self, request: RequestBuilder) -> Response {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = Response::of(request.header("cookie", cookies.join("; "))).await;
        for set in response.headers.get_all("set-cookie") {
            let set = set.to_str().unwrap();
            assert!(set.contains("; HttpOnly; SameSite=Lax"), "{set}");
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(kept, _)| kept != name);
            if !set.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        response
    }

    pub(super) async fn get(&mut self, path: &str) -> Response {
        let request = self.user.raw(Method::GET, path);
        self.send(request).await
    }

    pub(super) async fn text(&mut self, path: &str) -> String {
        self.get(path).await.expect(200).text()
    }

    /// Sends the form of a page with these fields.
    pub(super) async fn submit(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let token = form_token(&self.text(page).await);
        let fields: Vec<_> = [("form_token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        let request = with_fields(self.user.raw(Method::POST, path), &fields);
        self.send(request).await
    }

    pub(super) async fn sign_in(&mut self, password: &str) -> Response {
        let name = self.user.name.clone();
        let fields = [("username", name.as_str()), ("password", password), ("redirect_to", "/explore/repos?q=x")];
        self.submit("/user/login", "/user/login", &fields).await
    }

    pub(super) fn session(&self) -> Option<String> {
        self.cookies.iter().find(|(name, _)| name == "ferrite_session").map(|(_, value)| value.clone())
    }
}

pub(super) fn form_token(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
    rest.split('"').next().unwrap().to_owned()
}

pub(super) fn with_fields(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    request.header("content-type", "application/x-www-form-urlencoded").body(pairs.join("&"))
}

fn location(response: &Response) -> String {
    response.clone().expect(303).header("location")
}

async fn a_visitor_signs_in_and_out(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let mut browser = Browser::new(&ada);
    let wrong = browser.sign_in("wrong horse").await.expect(422).text();
    assert!(wrong.contains(&format!("value=\"{}\"", ada.name)) && !wrong.contains("wrong horse"), "{wrong}");
    assert_eq!(browser.session(), None);

    assert!(location(&browser.sign_in(&ada.password).await).ends_with("/explore/repos?q=x"));
    let first = browser.session().unwrap();
    assert!(browser.text("/").await.contains(&format!("href=\"/{}\"", ada.name)));
    let fields =
        [("username", ada.email.as_str()), ("password", ada.password.as_str()), ("redirect_to", "//evil.example")];
    let mut other = Browser::new(&ada);
    assert!(location(&other.submit("/user/login", "/user/login", &fields).await).ends_with('/'));
    let sessions = browser.text("/user/settings/sessions").await;
    assert_eq!(sessions.matches("Signed in <time").count(), 2, "{sessions}");

    // A new sign-in ends the browser's former session. The form is only shown to those signed out.
    let mut again = Browser::new(&ada);
    let token = form_token(&again.text("/user/login").await);
    again.cookies.push(("ferrite_session".to_owned(), first.clone()));
    let fields = [("form_token", token.as_str()), ("username", ada.name.as_str()), ("password", ada.password.as_str())];
    let request = with_fields(again.user.raw(Method::POST, "/user/login"), &fields);
    again.send(request).await.expect(303);
    assert_ne!(again.session().unwrap(), first);
    assert!(browser.text("/").await.contains("/user/login?redirect_to="), "it has ended");

    let value = again.session().unwrap();
    again.submit("/user/logout", "/user/logout", &[]).await.expect(303);
    assert_eq!(again.session(), None);
    ada.with_token(Some(&value)).get("/user").await.refused(401);
}

async fn a_form_of_another_browser_or_site_signs_nobody_in(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (mut one, mut two) = (Browser::new(&ada), Browser::new(&ada));
    let token = form_token(&one.text("/user/login").await);
    two.get("/user/login").await.expect(200);
    let fields = [("form_token", token.as_str()), ("username", ada.name.as_str()), ("password", ada.password.as_str())];
    let request = with_fields(ada.raw(Method::POST, "/user/login"), &fields);
    two.send(request.try_clone().unwrap()).await.expect(403);
    assert_eq!(two.session(), None);
    one.send(request.try_clone().unwrap().header("origin", "https://evil.example")).await.expect(403);
    assert_eq!(one.session(), None);
    one.send(request).await.expect(303);
    assert!(one.session().is_some());

    let mut signed_in = Browser::signed_in(&ada);
    let fields = [("form_token", token.as_str()), ("username", "x")];
    let request = with_fields(ada.raw(Method::POST, "/org/create"), &fields);
    signed_in.send(request).await.expect(403);
}

async fn profiles_and_searches_show_what_the_visitor_may_see(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let hostile = "<script>alert(1)</script>";
    ada.new_tracker("open", json!({"description": hostile})).await;
    ada.new_tracker("hidden", json!({"private": true})).await;
    let issue = format!("{hostile} of {}", ada.name);
    ada.new_issue(&ada.repo("open", ""), &issue, json!({})).await;
    ada.put_nothing(&format!("/user/starred/{}/open", ada.name)).await.empty(204);
    bob.put_nothing(&format!("/user/following/{}", ada.name)).await.empty(204);
    let acme = ada.new_organization("acme").await;
    ada.put_nothing(&format!("/orgs/{acme}/public_members/{}", ada.name)).await.empty(204);
    ada.new_repository_of(&acme, "tools", false).await;
    let (mut anonymous, mut own) = (Browser::new(&cluster.anonymous()), Browser::signed_in(&ada));
    let name = &ada.name;
    for (path, word) in [
        (format!("/{name}"), "/open\""),
        (format!("/{name}?tab=stars"), "/open\""),
        (format!("/{name}?tab=followers"), bob.name.as_str()),
        (format!("/{}?tab=following", bob.name), name),
        (format!("/{acme}"), "/tools\""),
        (format!("/org/{acme}/members"), name),
        (format!("/search?q={name}&type=users"), name),
        ("/search?q=open".to_owned(), "/open\""),
        ("/search?q=open&type=issues".to_owned(), "Sign in"),
        (format!("/explore/users?q={name}"), name),
        ("/explore/repos".to_owned(), "Organizations"),
        (format!("/{name}/open/stars"), name),
        (format!("/{name}/open/watchers"), "Watchers"),
        (format!("/{name}/open/forks"), "There are no forks"),
    ] {
        let shown = anonymous.text(&path).await;
        assert!(shown.contains(word) && !shown.contains(hostile), "{path}: {shown}");
        assert!(!shown.contains("/hidden\""), "{path}: {shown}");
        assert!(own.text(&path).await.contains("Sign out"), "{path}");
    }
    assert!(own.text(&format!("/{name}")).await.contains("/hidden\""));
    let found = own.text(&format!("/search?type=issues&q={name}")).await;
    assert!(found.contains(&format!("/{name}/open/issues/1")) && !found.contains(hostile), "{found}");
    own.get("/explore/organizations").await.expect(200);
    assert!(own.text(&format!("/org/{acme}/teams")).await.contains("Owners"));
    for path in ["/nobody-at-all".to_owned(), format!("/org/{name}/members"), format!("/{name}/hidden/stars")] {
        anonymous.get(&path).await.expect(404);
    }
    for path in ["/explore/organizations", "/repo/create", "/org/create", "/user/settings", "/user/settings/keys"] {
        let to = location(&anonymous.get(path).await);
        assert!(to.contains("/user/login?redirect_to=%2F"), "{path}: {to}");
    }
}

async fn the_buttons_of_a_repository_change_it_for_the_visitor(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let (page, name) = (format!("/{}/demo", ada.name), bob.name.as_str());
    let mut browser = Browser::signed_in(&bob);
    let (stars, watchers) = (format!("{page}/stars"), format!("{page}/watchers"));
    for (path, action, is_listed) in
        [(&stars, "star", true), (&stars, "unstar", false), (&watchers, "watch", true), (&watchers, "unwatch", false)]
    {
        let done = browser.submit(path, path, &[("action", action), ("redirect_to", path)]).await;
        assert!(location(&done).ends_with(path.as_str()));
        let shown = browser.text(path).await;
        assert_eq!(shown.contains(&format!("<a class=\"title\" href=\"/{name}\">")), is_listed, "{action}: {shown}");
    }
    let profile = format!("/{}", ada.name);
    browser.submit(&profile, &profile, &[("action", "follow")]).await.expect(303);
    assert!(browser.text(&format!("{profile}?tab=followers")).await.contains(&format!("href=\"/{name}\">The bob")));
    let fork = format!("{page}/fork");
    let forked = browser.submit(&fork, &fork, &[("owner", name), ("name", "copy")]).await;
    assert!(location(&forked).ends_with(&format!("/{name}/copy")));
    assert!(browser.text(&format!("{page}/forks")).await.contains(&format!("/{name}/copy\"")));
    browser.submit(&fork, &fork, &[("owner", name), ("name", "bad name")]).await.expect(422);
}

async fn settings_change_the_account(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let mut browser = Browser::signed_in(&ada);
    let (emails, email) = ("/user/settings/email", format!("more-{}", ada.email));
    browser.submit(emails, emails, &[("action", "add"), ("email", &email)]).await.expect(303);
    assert!(browser.text(emails).await.contains(&email));
    let again = browser.submit(emails, emails, &[("action", "add"), ("email", &ada.email)]).await.expect(422);
    assert!(again.text().contains("class=\"flash bad\""), "{}", again.text());
    browser.submit(emails, emails, &[("action", "remove"), ("email", &email)]).await.expect(303);
    assert!(!browser.text(emails).await.contains(&email));

    let keys = "/user/settings/keys";
    let refused = browser.submit(keys, keys, &[("action", "add"), ("title", "laptop"), ("key", "no key")]).await;
    assert!(refused.expect(422).text().contains("value=\"laptop\""));

    let tokens = "/user/settings/applications";
    let new = [("action", "create"), ("name", "ci"), ("scopes", "issue")];
    let with = |password| new.into_iter().chain([("password", password)]).collect::<Vec<_>>();
    browser.submit(tokens, tokens, &with("wrong horse")).await.expect(422);
    let made = browser.submit(tokens, tokens, &with(&ada.password)).await.expect(200);
    assert_eq!(made.header("cache-control"), "no-store");
    let text = made.text();
    let value = text.split_once("<pre><code>").unwrap().1.split('<').next().unwrap();
    ada.with_token(Some(value)).get("/user").await.expect(200);
    let no_scope = [("action", "create"), ("name", "all"), ("password", ada.password.as_str())];
    browser.submit(tokens, tokens, &no_scope).await.expect(422);
    let revoke = [("action", "revoke"), ("name", "ci"), ("password", ada.password.as_str())];
    browser.submit(tokens, tokens, &revoke).await.expect(200);
    ada.with_token(Some(value)).get("/user").await.refused(401);

    let picture = "/user/settings/avatar";
    let token = form_token(&browser.text(picture).await);
    let part =
        |about: &str, content: &str| format!("--xyz\r\nContent-Disposition: form-data; {about}\r\n\r\n{content}\r\n");
    let mut send = async |content: &str| {
        let (field, file) = (part("name=form_token", &token), part("name=image; filename=a", content));
        let body = [field, file, "--xyz--\r\n".to_owned()].concat();
        let request = ada.raw(Method::POST, picture).body(body);
        browser.send(request.header("content-type", "multipart/form-data; boundary=xyz")).await
    };
    assert!(send("no picture").await.expect(422).text().contains("class=\"flash bad\""));
    assert!(send("").await.expect(422).text().contains("Select a file"));
}

async fn a_profile_is_edited_and_a_password_replaced(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (mut browser, mut other) = (Browser::new(&ada), Browser::new(&ada));
    browser.sign_in(&ada.password).await.expect(303);
    other.sign_in(&ada.password).await.expect(303);
    let profile = "/user/settings";
    let wrong = [("full_name", "Ada <b>"), ("website", "no address"), ("location", "London")];
    let refused = browser.submit(profile, profile, &wrong).await.expect(422).text();
    assert!(refused.contains("class=\"flash bad\"") && refused.contains("value=\"London\""), "{refused}");
    let right = [("full_name", "Ada <b>"), ("website", "https://ada.example"), ("description", "Writes <i>code</i>")];
    browser.submit(profile, profile, &right).await.expect(303);
    let shown = Browser::new(&cluster.anonymous()).text(&format!("/{}", ada.name)).await;
    assert!(shown.contains("https://ada.example") && shown.contains("Writes "), "{shown}");
    assert!(!shown.contains("<i>") && !shown.contains("Ada <b>"), "{shown}");

    let password = "/user/settings/password";
    for (old, new, retype) in [
        ("wrong horse", "another horse", "another horse"),
        (&ada.password, "short", "short"),
        (&ada.password, "another horse", "another one"),
    ] {
        let fields = [("old_password", old), ("password", new), ("retype", retype)];
        let refused = browser.submit(password, password, &fields).await.expect(422).text();
        assert!(refused.contains("class=\"flash bad\"") && !refused.contains("horse"), "{refused}");
    }
    let former = browser.session();
    let fields = [("old_password", ada.password.as_str()), ("password", "another horse"), ("retype", "another horse")];
    let changed = browser.submit(password, password, &fields).await;
    assert!(location(&changed).ends_with("/user/settings/sessions"));
    assert!(browser.session().is_some() && browser.session() != former);
    assert_eq!(browser.text("/user/settings/sessions").await.matches("Signed in <time").count(), 1);
    assert!(location(&other.get(profile).await).contains("/user/login"), "its session has ended");
    Browser::new(&ada).sign_in(&ada.password).await.expect(422);
    Browser::new(&ada).sign_in("another horse").await.expect(303);

    let (emails, email) = ("/user/settings/email", format!("work-{}", ada.email));
    ada.post("/user/emails", &json!({"emails": [email]})).await.expect(201);
    let choose = [("action", "primary"), ("email", email.as_str())];
    browser.submit(emails, emails, &choose).await.expect(422);
    let verified = format!("/admin/users/{}/emails/{email}/verified", ada.name);
    cluster.admin().await.put_nothing(&verified).await.empty(204);
    browser.submit(emails, emails, &choose).await.expect(303);
    assert_eq!(ada.get("/user").await.expect(200).json()["email"], email);
}

async fn activities_are_on_profiles_the_front_page_and_in_feeds(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let hostile = "<script>alert(1)</script>";
    let repo = ada.new_tracker("demo", json!({"auto_init": true})).await;
    ada.new_issue(&repo, hostile, json!({})).await;
    let is_told = |page: &Value| page.to_string().contains("create_issue");
    ada.eventually(&format!("/users/{}/activities/feeds", ada.name), is_told).await;
    let (mut anonymous, mut own) = (Browser::new(&cluster.anonymous()), Browser::signed_in(&ada));
    let (profile, page) = (format!("/{}", ada.name), format!("/{}/demo", ada.name));
    for shown in [anonymous.text(&format!("{profile}?tab=activity")).await, own.text("/").await] {
        assert!(shown.contains("opened issue <a href=") && !shown.contains(hostile), "{shown}");
    }
    assert!(!anonymous.text("/").await.contains("Recent activity"));
    for path in [&profile, &page] {
        let link =
            format!("<link rel=\"alternate\" type=\"application/atom+xml\" title=\"Activity\" href=\"{path}.atom\">");
        assert!(anonymous.text(path).await.contains(&link), "{path}");
        let feed = anonymous.get(&format!("{path}.atom")).await.expect(200);
        assert_eq!(feed.header("content-type"), "application/atom+xml; charset=utf-8");
        let text = feed.text();
        assert!(text.contains("opened issue #1") && !text.contains(hostile), "{text}");
        assert!(text.contains(&format!("{page}/issues/1?activity=")), "{text}");
    }
    ada.patch(&repo, &json!({"private": true})).await.expect(200);
    anonymous.get(&format!("{page}.atom")).await.expect(404);
    assert!(!anonymous.text(&format!("{profile}.atom")).await.contains("opened issue"));
    anonymous.get("/nobody-at-all.atom").await.expect(404);
}

async fn new_things_are_created_by_forms(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let mut browser = Browser::signed_in(&ada);
    let acme = ada.new_organization("acme").await;
    for owner in [&ada.name, &acme] {
        let fields = [("owner", owner.as_str()), ("name", "demo"), ("private", "true"), ("auto_init", "true")];
        let made = browser.submit("/repo/create", "/repo/create", &fields).await;
        assert!(location(&made).ends_with(&format!("/{owner}/demo")));
        let made = ada.get(&format!("/repos/{owner}/demo")).await.expect(200).json();
        assert_eq!((&made["private"], &made["empty"]), (&json!(true), &json!(false)));
    }
    let again = browser.submit("/repo/create", "/repo/create", &[("owner", &ada.name), ("name", "demo")]).await;
    assert!(again.expect(422).text().contains("value=\"demo\""));

    let name = format!("umbrella-of-{}", ada.name);
    let fields = [("username", name.as_str()), ("full_name", "The <b>"), ("visibility", "private")];
    let made = browser.submit("/org/create", "/org/create", &fields).await;
    assert!(location(&made).ends_with(&format!("/{name}")));
    let shown = browser.text(&format!("/{name}")).await;
    assert!(shown.contains("b&#62;") && !shown.contains("The <b>") && shown.contains("private"), "{shown}");
    Browser::new(&cluster.anonymous()).get(&format!("/{name}")).await.expect(404);
}
