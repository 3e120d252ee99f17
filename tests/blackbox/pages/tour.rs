//! What a person does on pages, in a browser with scripts switched off: from the sign-in to a merged
//! pull request.

use serde_json::json;

use crate::harness::browser::Browser;
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        a_person_signs_in_and_gets_a_change_merged_without_scripts
    }
}

/// A browser without scripts, and the site.
struct Tour<'a> {
    browser: Browser,
    cluster: &'a Cluster,
}

impl Tour<'_> {
    async fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.cluster.url)).await;
    }

    /// Waits for a page with a text.
    async fn sees(&self, text: &str) {
        self.browser.reaches("body", text).await;
    }

    async fn sign_in(&self, user: &User) {
        self.open("/user/login").await;
        self.browser.write("[name=username]", &user.name).await;
        self.browser.write("[name=password]", &user.password).await;
        self.browser.click("main button.primary").await;
        self.browser.text(".menu summary").await;
    }

    async fn sign_out(&self) {
        self.open("/user/logout").await;
        self.browser.click("main button").await;
        self.sees("Sign in").await;
    }
}

async fn a_person_signs_in_and_gets_a_change_merged_without_scripts(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let browser = Browser::start().await;
    browser.disable_scripts().await;
    let tour = Tour { browser, cluster };
    let path = format!("/{}/lamp", ada.name);

    // A repository with a first commit.
    tour.sign_in(&ada).await;
    tour.open("/repo/create").await;
    tour.browser.write("[name=name]", "lamp").await;
    tour.browser.click("[name=auto_init]").await;
    tour.browser.click("main button.primary").await;
    tour.sees("README.md").await;

    // An issue, by keyboard: the form has no other button that Enter would press.
    tour.open(&format!("{path}/issues/new")).await;
    tour.browser.write("[name=title]", "It is dark").await;
    tour.browser.write("[name=body]", "There is **no** light.").await;
    tour.browser.click("button[name=preview]").await;
    tour.browser.reaches("#preview", "There is no light.").await;
    tour.browser.click("button[name=send]").await;
    tour.sees("It is dark #1").await;
    ada.share(&ada.repo("lamp", ""), &bob, "write").await;
    let branch = json!({"message": "Add light", "content": "bGlnaHQK", "new_branch": "light"});
    bob.post(&ada.repo("lamp", "/contents/light.txt"), &branch).await.expect(201);
    tour.sign_out().await;

    // A pull request of another person.
    tour.sign_in(&bob).await;
    tour.open(&format!("{path}/pulls/new")).await;
    tour.browser.write("[name=head]", "light").await;
    tour.browser.click("main button.primary").await;
    tour.sees("Merge light into").await;
    tour.browser.write("[name=body]", "Closes #1.").await;
    tour.browser.click("button[name=send]").await;
    tour.sees("wants to merge 1 commit").await;
    tour.sign_out().await;

    // A comment on a line, an approval, and the merge.
    tour.sign_in(&ada).await;
    tour.open(&format!("{path}/pulls/2/files")).await;
    tour.browser.click("a[aria-label^='Comment on line']").await;
    tour.browser.write("[name=body]", "How bright?").await;
    tour.browser.click("button[value=PENDING]").await;
    tour.browser.reaches("#review", "It has 1 comment").await;
    tour.browser.write("#review [name=body]", "Good.").await;
    tour.browser.click("#review [value=APPROVED]").await;
    tour.browser.click("#review button.primary").await;
    tour.sees("approved the changes").await;
    tour.open(&format!("{path}/pulls/2")).await;
    tour.sees("How bright?").await;
    tour.browser.click("#merge button.primary").await;
    tour.sees("merged 1 commit").await;
    tour.open(&format!("{path}/issues/1")).await;
    ada.eventually(&ada.repo("lamp", "/issues/1"), |issue| issue["state"] == "closed").await;
    tour.open(&format!("{path}/issues/1")).await;
    tour.sees("Closed").await;
    tour.open(&path).await;
    tour.sees("light.txt").await;

    let mut messages = tour.browser.console().await;
    messages.retain(|message| message["level"] != "DEBUG" && message["level"] != "INFO");
    assert!(messages.is_empty(), "{messages:?}");
}
