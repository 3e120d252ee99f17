//! The form to import a repository, and the list of imports.

use std::time::Duration;

use super::issues::send;
use super::{page, shows};
use crate::harness::git_server::{Behaviour, GitServer};
use crate::harness::{Cluster, Git, Response, User};
use crate::imports::{on_outward_installations, outward};

on_outward_installations! {
    embedded Embedded {
        repositories_are_imported_by_a_form_and_listed
    }
}

const SECRET: &str = "hunter2-of-the-form";
const FORM: &str = "/repo/migrate";
const LIST: &str = "/repo/migrations";
const RELOAD: &str = ">Reload</a>";

/// Follows the response to a form to the end of the import: the form again, the page of the import,
/// or that of the repository.
async fn ended(user: &User, response: Response) -> Response {
    if response.status == 422 {
        return response;
    }
    let place = response.expect(303).header("location");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let shown = page(user, &place).await.expect(200);
        if !shown.text().contains(RELOAD) {
            return shown;
        }
        assert!(tokio::time::Instant::now() < deadline, "{place} did not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn repositories_are_imported_by_a_form_and_listed(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    git.large("demo.git", 3).await;
    let server = GitServer::with_login(&git, Some(("ada", SECRET))).await;
    shows(&page(&ada, LIST).await.expect(200), &["There are no imports", FORM]);
    let (url, hostile) = (server.url("demo.git"), "<script>alert(1)</script>");
    let with_secret = url.replace("://", &format!("://ada:{SECRET}@"));
    let fields = |name| {
        [
            ("clone_addr", url.as_str()),
            ("auth_username", "ada"),
            ("auth_password", SECRET),
            ("repo_owner", ada.name.as_str()),
            ("repo_name", name),
            ("private", "true"),
            ("mirror", "true"),
            ("mirror_interval", "24h"),
        ]
    };
    for address in [with_secret.as_str(), "https://"] {
        let wrong =
            [("clone_addr", address), ("auth_token", SECRET), ("repo_name", "no name"), ("description", hostile)];
        let refused = send(&ada, FORM, &wrong).await.expect(422);
        shows(&refused, &["class=\"flash bad\"", "value=\"no name\"", "&#60;script&#62;"]);
        assert!(!refused.text().contains(SECRET), "{}", refused.text());
    }
    let mut wrong = fields("failed");
    wrong[2].1 = "another password";
    let failed = ended(&ada, send(&ada, FORM, &wrong).await).await.text();
    assert!(failed.contains("class=\"flash bad\"") && !failed.contains("another password"), "{failed}");

    let done = ended(&ada, send(&ada, FORM, &fields("demo")).await).await;
    shows(&done, &[&format!("href=\"/{}/demo\"", ada.name)]);
    let made = ada.get(&ada.repo("demo", "")).await.expect(200).json();
    assert!(made["private"] == true && made["mirror"] == true, "{made}");

    server.set(Behaviour::HoldPacks);
    let slow = send(&ada, FORM, &fields("slow")).await;
    let place = slow.header("location");
    assert!(place.starts_with(LIST), "{place}");
    shows(&page(&ada, &place).await.expect(200), &[RELOAD, &format!("{}/slow", ada.name)]);
    page(&cluster.outsider().await, &place).await.expect(404);
    server.set(Behaviour::Serve);
    shows(&ended(&ada, slow).await, &["To the repository"]);
    let list = page(&ada, LIST).await.expect(200);
    shows(&list, &["Done", "Failed", &place, &format!("{}/demo", ada.name)]);
    assert!(!list.text().contains(SECRET));
    for path in [FORM, LIST] {
        let to = page(&cluster.anonymous(), path).await.expect(303).header("location");
        assert!(to.starts_with("/user/login?redirect_to="), "{path}: {to}");
    }
}
