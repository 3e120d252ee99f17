//! Pages of organizations: settings, members and teams.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    embedded {
        owners_change_the_settings_and_delete_the_organization
        the_labels_of_an_organization_are_changed_by_owners
        members_are_added_shown_and_removed
        teams_have_members_and_repositories
        settings_and_forms_are_for_owners
    }
}

const HOSTILE: &str = "<script>alert(1)</script>";
const ESCAPED: &str = "&#60;script&#62;alert(1)&#60;/script&#62;";
/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGMwTpsJAAICATNWh+JUAAAAAElFTkSuQmCC";

/// Sends a file from the page of the settings.
async fn send_picture(user: &User, settings: &str, content: &[u8]) -> Response {
    let html = page(user, settings).await.expect(200).text();
    let (_, rest) = html.split_once("name=\"form_token\" value=\"").expect("a form");
    let token = rest.split('"').next().unwrap();
    let head = "--xyz\r\nContent-Disposition: form-data; name=";
    let body = [
        format!("{head}\"form_token\"\r\n\r\n{token}\r\n{head}\"image\"; filename=\"a.png\"\r\n\r\n").as_bytes(),
        content,
        b"\r\n--xyz--\r\n",
    ]
    .concat();
    let request = user.raw(Method::POST, &format!("{settings}/avatar")).body(body);
    let request = request.header("content-type", "multipart/form-data; boundary=xyz");
    Response::of(request.header("cookie", format!("ferrite_session={}", user.token.as_deref().unwrap()))).await
}

async fn owners_change_the_settings_and_delete_the_organization(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let acme = ada.new_organization("acme").await;
    let settings = format!("/org/{acme}/settings");
    shows(&page(&ada, &format!("/{acme}")).await.expect(200), &[&format!("href=\"{settings}\"")]);
    let refused = send(&ada, &settings, &[("website", "no address"), ("location", HOSTILE)]).await.expect(422);
    shows(&refused, &["class=\"flash bad\"", "value=\"no address\"", ESCAPED]);
    let fields = [
        ("full_name", HOSTILE),
        ("website", "https://acme.example"),
        ("visibility", "limited"),
        ("repo_admin_change_team_access", "true"),
    ];
    leads(&send(&ada, &settings, &fields).await, &settings);
    let shown = page(&ada, &settings).await.expect(200);
    shows(&shown, &[ESCAPED, "value=\"limited\" checked", "value=\"true\" checked", "https://acme.example"]);
    page(&cluster.anonymous(), &format!("/{acme}")).await.expect(404);

    shows(&send_picture(&ada, &settings, b"no picture").await.expect(422), &["class=\"flash bad\""]);
    shows(&send_picture(&ada, &settings, b"").await.expect(422), &["Select a file"]);
    leads(&send_picture(&ada, &settings, &STANDARD.decode(PNG).unwrap()).await, &settings);

    ada.new_repository_of(&acme, "tools", false).await;
    let delete = format!("{settings}/delete");
    shows(&page(&ada, &delete).await.expect(200), &[&format!("<span>Type <strong>{acme}</strong> to confirm</span>")]);
    shows(&send(&ada, &delete, &[("name", "other")]).await.expect(422), &["Type the name"]);
    shows(&send(&ada, &delete, &[("name", &acme)]).await.expect(422), &["still owns repositories"]);
    ada.delete(&format!("/repos/{acme}/tools")).await.empty(204);
    leads(&send(&ada, &delete, &[("name", &acme)]).await, "/explore/organizations");
    page(&ada, &format!("/{acme}")).await.expect(404);
}

async fn the_labels_of_an_organization_are_changed_by_owners(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let acme = ada.new_organization("acme").await;
    let labels = format!("/org/{acme}/settings/labels");
    shows(&page(&ada, &labels).await.expect(200), &["There are no labels"]);
    let fields = [("name", HOSTILE), ("color", "#ff8000"), ("description", "of all")];
    leads(&send(&ada, &labels, &fields).await, &labels);
    shows(&page(&ada, &labels).await.expect(200), &[ESCAPED, "#ff8000", "of all"]);
    shows(&send(&ada, &labels, &fields).await.expect(422), &["class=\"flash bad\"", "value=\"#ff8000\""]);
    let id = ada.get(&format!("/orgs/{acme}/labels")).await.expect(200).json()[0]["id"].to_string();
    let edit = format!("{labels}/{id}/edit");
    leads(&send(&ada, &edit, &[("name", "bug"), ("color", "#000000"), ("description", "")]).await, &labels);
    shows(&page(&ada, &edit).await.expect(200), &["value=\"bug\"", "value=\"#000000\""]);
    leads(&send(&ada, &edit, &[("delete", "1")]).await, &labels);
    page(&ada, &edit).await.expect(404);
}

async fn members_are_added_shown_and_removed(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let acme = ada.new_organization("acme").await;
    let members = format!("/org/{acme}/members");
    let add = |name| [("action", "set"), ("username", name), ("role", "admin")];
    let refused = send(&ada, &members, &add("nobody-at-all")).await.expect(422);
    shows(&refused, &["class=\"flash bad\"", "value=\"nobody-at-all\""]);
    leads(&send(&ada, &members, &add(&bob.name)).await, &members);
    let role = ada.get(&format!("/orgs/{acme}/memberships/{}", bob.name)).await.expect(200).json();
    assert_eq!((&role["role"], &role["public"]), (&json!("admin"), &json!(false)));

    let link = format!("<a class=\"title\" href=\"/{}\">", bob.name);
    assert!(!page(&cluster.anonymous(), &members).await.expect(200).text().contains(&link));
    for (action, is_public) in [("publish", true), ("hide", false)] {
        leads(&send(&bob, &members, &[("action", action)]).await, &members);
        assert_eq!(page(&cluster.anonymous(), &members).await.text().contains(&link), is_public, "{action}");
    }
    let remove = |user: &User| format!("{members}/{}/remove", user.name);
    shows(&page(&ada, &members).await.expect(200), &[&remove(&bob), "Leave", &remove(&ada)]);
    leads(&send(&bob, &remove(&bob), &[]).await, &format!("/{}", bob.name));
    shows(&send(&ada, &remove(&ada), &[]).await.expect(422), &["class=\"flash bad\""]);
    send(&ada, &members, &[("action", "set"), ("username", &bob.name), ("role", "member")]).await.expect(303);
    page(&bob, &remove(&ada)).await.expect(403);
    leads(&send(&ada, &remove(&bob), &[]).await, &members);
    ada.get(&format!("/orgs/{acme}/members/{}", bob.name)).await.refused(404);
}

async fn teams_have_members_and_repositories(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let acme = ada.new_organization("acme").await;
    ada.new_repository_of(&acme, "tools", true).await;
    let teams = format!("/org/{acme}/teams");
    let new = format!("{teams}/new");
    let fields = [("name", "Owners"), ("description", HOSTILE), ("permission", "write")];
    shows(&send(&ada, &new, &fields).await.expect(422), &["flash bad", ESCAPED, "value=\"write\" checked"]);
    let fields = [("name", "red.blue"), ("description", HOSTILE), ("permission", "write")];
    let team = format!("{teams}/red.blue");
    leads(&send(&ada, &new, &fields).await, &team);
    shows(&page(&ada, &teams).await.expect(200), &[ESCAPED, "red.blue", &format!("href=\"{team}\"")]);

    shows(&send(&ada, &team, &[("username", "nobody-at-all")]).await.expect(422), &["value=\"nobody-at-all\""]);
    leads(&send(&ada, &team, &[("action", "add"), ("username", &bob.name)]).await, &team);
    shows(&page(&bob, &team).await.expect(200), &[&format!("href=\"/{}\"", bob.name), "the permission write"]);
    let repositories = format!("{team}/repositories");
    bob.get(&format!("/repos/{acme}/tools")).await.refused(404);
    shows(&send(&ada, &repositories, &[("repository", "none")]).await.expect(422), &["value=\"none\""]);
    leads(&send(&ada, &repositories, &[("action", "add"), ("repository", "tools")]).await, &repositories);
    shows(&page(&bob, &repositories).await.expect(200), &[&format!("href=\"/{acme}/tools\"")]);
    bob.get(&format!("/repos/{acme}/tools")).await.expect(200);
    leads(&send(&ada, &repositories, &[("action", "remove"), ("repository", "tools")]).await, &repositories);
    bob.get(&format!("/repos/{acme}/tools")).await.refused(404);

    let fields = [("name", "red"), ("permission", "read"), ("includes_all_repositories", "true")];
    let red = format!("{teams}/red");
    leads(&send(&ada, &format!("{team}/edit"), &fields).await, &red);
    bob.get(&format!("/repos/{acme}/tools")).await.expect(200);
    assert!(!page(&ada, &format!("{red}/repositories")).await.text().contains("Add a repository"));
    leads(&send(&ada, &red, &[("action", "remove"), ("username", &bob.name)]).await, &red);
    shows(&page(&ada, &red).await.expect(200), &["The team has no members"]);
    let owners = format!("{teams}/owners");
    leads(&send(&ada, &format!("{owners}/edit"), &[("description", "All")]).await, &format!("{teams}/Owners"));
    shows(&send(&ada, &format!("{owners}/delete"), &[]).await.expect(422), &["owners team"]);
    leads(&send(&ada, &format!("{red}/delete"), &[]).await, &teams);
    page(&ada, &red).await.expect(404);
}

async fn settings_and_forms_are_for_owners(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let acme = ada.new_organization("acme").await;
    let team = ada.new_team(&acme, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    let forms = ["settings", "settings/delete", "settings/labels", "teams/new", "teams/crew/edit", "teams/crew/delete"];
    for path in forms.map(|rest| format!("/org/{acme}/{rest}")) {
        page(&bob, &path).await.expect(403);
        let to = page(&cluster.anonymous(), &path).await.expect(303).header("location");
        assert!(to.starts_with("/user/login?redirect_to="), "{path}: {to}");
    }
    let shown = page(&bob, &format!("/org/{acme}/teams/crew")).await.expect(200).text();
    assert!(
        !shown.contains("Add a member") && !shown.contains(&format!("{acme}/settings\"")) && shown.contains("/teams\""),
        "{shown}"
    );
    let members = format!("/org/{acme}/members");
    let fields = [("action", "set"), ("username", ada.name.as_str()), ("role", "member")];
    send(&bob, &members, &fields).await.expect(403);
    page(&cluster.outsider().await, &format!("/org/{acme}/teams")).await.expect(403);
}
