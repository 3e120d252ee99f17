//! The limit on an account's writes: every modifying operation but a sign-in counts, whichever
//! service stores it, and a rejected one changes nothing.

use std::collections::BTreeSet;

use ferrite_proto::operation::{self, is_write};
use repo_svc::access::{OPERATIONS, Rule};
use reqwest::Method;
use serde_json::{Value, json};

use super::avatars::RED;
use super::imports::import;
use super::sessions::sign_in;
use crate::harness::git_server::{GitServer, REACHABLE};
use crate::harness::keys::{GOOD, ed25519};
use crate::harness::ssh::Client;
use crate::harness::{Cluster, Git, Options, Response, User};

on_own_installations! {
    every_write_is_counted(options())
}

/// Limits of these tests: one request of 1 MB is within the byte limit, four are not.
fn options() -> Options {
    let settings = [
        ("FERRITE_WRITES_PER_HOUR", "1000"),
        ("FERRITE_WRITE_BYTES_PER_HOUR", "4000000"),
        ("FERRITE_REPO_CREATIONS_PER_HOUR", "0"),
        ("FERRITE_REPO_ADMINISTRATOR_CREATIONS_PER_HOUR", "0"),
    ];
    Options { settings: [&REACHABLE[..], &settings].concat(), ..Options::default() }
}

/// Operations that remove access, which are never rejected.
const TAKE_ACCESS_AWAY: [&str; 6] =
    ["DeletePublicKey", "DeleteDeployKey", "RemoveCollaborator", "RemoveMember", "RemoveRepositoryTeam", "DeleteHook"];

/// A modifying request, and the operations that it performs.
struct Write<'a> {
    /// Operation names without their package, or complete names if they are not RPCs.
    operations: &'static str,
    user: &'a User,
    method: Method,
    path: String,
    body: Value,
}

impl Write<'_> {
    async fn send(&self) -> Response {
        let request = self.user.request(self.method.clone(), &self.path);
        let is_upload = self.path.contains("/assets?name=");
        let request = match &self.body {
            Value::Null if is_upload => request.header("content-type", "application/octet-stream").body("text"),
            Value::Null => request,
            body => request.json(body),
        };
        Response::of(request).await
    }
}

#[track_caller]
fn refused(response: Response, part: &str) {
    let response = response.refused_with_message(429, part);
    let wait: u64 = response.header("retry-after").parse().unwrap();
    assert!((1..=3600).contains(&wait), "{wait}");
}

async fn limit(admin: &User, name: &str, rate_percent: i64) {
    let path = format!("/admin/users/{name}/quota");
    admin.patch(&path, &json!({ "rate_percent": rate_percent })).await.expect(200);
}

fn id(made: &Value) -> String {
    made["id"].to_string()
}

async fn every_write_is_counted(cluster: &Cluster) {
    a_few_large_texts_reach_the_limit_in_all_services_together(cluster).await;
    let (admin, ada, bob, carol) =
        (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await, cluster.user("carol").await);
    let (git, root) = (Git::new(), cluster.user("root").await);
    admin.patch(&format!("/admin/users/{}", root.name), &json!({"admin": true})).await.expect(200);
    let writes = writes(&ada, &bob, &carol, &root, &git).await;
    let removals = removals(&ada, &bob, &carol, &root).await;
    let deployed = Client::new(cluster, "ed25519").await;
    let key = json!({"title": "bot", "key": deployed.public(), "read_only": false});
    ada.post(&ada.repo("demo", "/keys"), &key).await.expect(201);

    let (_, session) = sign_in(cluster, &ada).await;
    for user in [&ada, &bob, &root] {
        limit(&admin, &user.name, 0).await;
    }
    let mut walked = BTreeSet::new();
    for write in &writes {
        let response = write.send().await;
        walked.extend(write.operations.split(' '));
        if TAKE_ACCESS_AWAY.contains(&write.operations) {
            response.empty(204);
            continue;
        }
        assert_eq!(response.status, 429, "{}: {} {}: {}", write.operations, write.method, write.path, response.text());
        refused(response, "limit reached: 0 writes per hour");
    }
    for removal in &removals {
        let response = removal.send().await;
        assert!(response.status.is_success(), "{}: {}", removal.operations, response.text());
        // Removing something that is gone counts as a write, if it does not fail.
        removal.send().await.refused_any(&[404, 429]);
        walked.insert(removal.operations);
    }
    tokens_and_pushes_are_counted(&ada, &git, &mut walked).await;
    sign_ins_are_not_refused(cluster, &ada, session, &mut walked).await;
    a_deploy_key_writes_for_the_owner(&ada, &deployed).await;
    let missing: Vec<_> = OPERATIONS
        .iter()
        .filter(|operation| operation.rule != Rule::Service && is_write(operation.name))
        .map(|operation| operation.name.rsplit('.').next().unwrap_or_default())
        .filter(|name| !walked.contains(name.rsplit_once('/').map_or(*name, |(_, method)| method)))
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "modifying operations without a request here");

    let shown = ada.get(&ada.repo("demo", "")).await.expect(200).json();
    assert_eq!((&shown["description"], &shown["stars_count"]), (&json!(""), &json!(0)));
    assert_eq!(ada.get(&ada.repo("demo", "/releases")).await.expect(200).json().as_array().unwrap().len(), 1);
    ada.get(&ada.repo("demo", "/issues")).await.expect(200);
    limit(&admin, &ada.name, 100).await;
    ada.patch(&ada.repo("demo", ""), &json!({"description": "Changed"})).await.expect(200);
}

/// Repeated texts of 1 MB in three services, with different keys. With Redis they count together,
/// otherwise per service.
async fn a_few_large_texts_reach_the_limit_in_all_services_together(cluster: &Cluster) {
    let dora = cluster.user("dora").await;
    dora.new_repository("demo", json!({"auto_init": true})).await;
    let release = dora.post(&dora.repo("demo", "/releases"), &json!({"tag_name": "v1", "draft": true})).await;
    let release = dora.repo("demo", &format!("/releases/{}", id(&release.expect(201).json())));
    let issue = dora.new_issue(&dora.repo("demo", ""), "One", json!({})).await;
    let issue = dora.repo("demo", &format!("/issues/{}", issue["number"]));
    let mut done = [0, 0];
    for round in 0..6 {
        // An unchanged text is not written again.
        let text = if round % 2 == 0 { "x" } else { "y" }.repeat(900_000);
        let edits = [(&release, json!({"body": text})), (&issue, json!({"body": text}))];
        for (place, (path, body)) in edits.into_iter().enumerate() {
            let request = dora.request(Method::PATCH, path).header("idempotency-key", format!("{place} {round}"));
            let response = Response::of(request.json(&body)).await;
            match response.status.as_u16() {
                200 | 201 => done[place] += 1,
                _ => refused(response, "limit reached: 4000000 bytes written per hour"),
            }
        }
    }
    let most = match cluster.profile {
        // In each service, one more may be running before Redis has counted the bytes of the last.
        crate::harness::Profile::Production => 6,
        crate::harness::Profile::Embedded => 10,
    };
    assert!(done.iter().sum::<i32>() <= most && done.iter().all(|done| *done >= 1), "{done:?}");
    let text = dora.get(&release).await.expect(200).json()["body"].as_str().unwrap().len();
    assert_eq!(text, 900_000);
    cluster.user("eva").await.new_repository("demo", json!({})).await;
}

async fn tokens_and_pushes_are_counted(ada: &User, git: &Git, walked: &mut BTreeSet<&'static str>) {
    let path = format!("/api/v1/users/{}/tokens", ada.name);
    let by_password = |method, path: &str| ada.raw(method, path).basic_auth(&ada.name, Some(&ada.password));
    refused(Response::of(by_password(Method::POST, &path).json(&json!({"name": "more"}))).await, "writes per hour");
    // Someone with a stolen token cannot prevent its owner from revoking it.
    Response::of(by_password(Method::DELETE, &format!("{path}/spare"))).await.empty(204);
    let changed = by_password(Method::PUT, "/api/v1/user/password").json(&json!({"password": "another horse"}));
    refused(Response::of(changed).await, "writes per hour");
    walked.extend(["CreateAccessToken", "DeleteAccessToken", "ChangePassword"]);
    let url = ada.git_url(&ada.name, "demo");
    let before = git.run("", &["ls-remote", &url]).await;
    let output = git.attempt("work", &["push", &url, "HEAD:refs/heads/pushed"]).await;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("limit reached: 0 writes per hour"), "{text}");
    assert_eq!(git.run("", &["ls-remote", &url]).await, before);
    walked.insert(operation::RECEIVE_PACK.rsplit('/').next().unwrap());
}

/// They have limits of their own.
async fn sign_ins_are_not_refused(cluster: &Cluster, ada: &User, session: i64, walked: &mut BTreeSet<&'static str>) {
    let (signed_in, _) = sign_in(cluster, ada).await;
    refused(signed_in.patch(&ada.repo("demo", ""), &json!({"description": "Changed"})).await, "writes per hour");
    ada.delete(&format!("/user/sessions/{session}")).await.empty(204);
    walked.extend(["CreateSession", "DeleteSession"]);
}

/// Grants access and returns requests that remove it. Each can run once after the limit is reached.
async fn removals<'a>(ada: &'a User, bob: &'a User, carol: &User, root: &'a User) -> Vec<Write<'a>> {
    let org = format!("{}-of-removals", ada.name);
    ada.post("/user/orgs", &json!({"username": org})).await.expect(201);
    ada.post(&format!("/orgs/{org}/repos"), &json!({"name": "shared"})).await.expect(201);
    let team = ada.post(&format!("/orgs/{org}/teams"), &json!({"name": "team"})).await.expect(201).json();
    let team = format!("/teams/{}", id(&team));
    let (member, held) = (format!("{team}/members/{}", bob.name), format!("{team}/repos/shared"));
    ada.put_nothing(&member).await.expect(204);
    ada.put_nothing(&held).await.expect(204);
    let membership = format!("/orgs/{org}/memberships/{}", bob.name);
    ada.put(&membership, &json!({"role": "admin"})).await.expect(204);
    for name in ["withdrawn", "rejected"] {
        ada.new_repository(name, json!({})).await;
        ada.post(&ada.repo(name, "/transfer"), &json!({"new_owner": bob.name})).await.expect(202);
    }
    ada.new_repository("opened", json!({})).await;
    ada.patch(&ada.repo("opened", "/wiki"), &json!({"allow_public_wiki": true})).await.expect(204);

    ada.share(&ada.repo("opened", ""), bob, "admin").await;
    let lowered = ada.repo("opened", &format!("/collaborators/{}", bob.name));
    let lower = json!({"name": "lower", "permission": "write"});
    let lower = ada.post(&format!("/orgs/{org}/teams"), &lower).await.expect(201).json();
    let lower = format!("/teams/{}", id(&lower));

    let (user, nothing) = (format!("/admin/users/{}", carol.name), Value::Null);
    let demoted = format!("/admin/users/{}", bob.name);
    root.patch(&demoted, &json!({"admin": true})).await.expect(200);
    [
        (ada, "RemoveTeamMember", Method::DELETE, member, nothing.clone()),
        (ada, "RemoveTeamRepository", Method::DELETE, held, nothing.clone()),
        (ada, "DeleteTeam", Method::DELETE, team, nothing.clone()),
        (ada, "SetMembership", Method::PUT, membership, json!({"role": "member"})),
        (ada, "CancelTransfer", Method::DELETE, ada.repo("withdrawn", "/transfer"), nothing.clone()),
        (bob, "RejectTransfer", Method::POST, ada.repo("rejected", "/transfer/reject"), json!({})),
        (ada, "SetCollaborator", Method::PUT, lowered, json!({"permission": "read"})),
        (ada, "UpdateTeam", Method::PATCH, lower, json!({"permission": "read"})),
        (ada, "UpdateRepository", Method::PATCH, ada.repo("opened", ""), {
            json!({"private": true, "default_branch": "main"})
        }),
        (ada, "UpdateWiki", Method::PATCH, ada.repo("opened", "/wiki"), json!({"allow_public_wiki": false})),
        (root, "UpdateUser", Method::PATCH, demoted, json!({"admin": false})),
        (root, "UpdateUser", Method::PATCH, user.clone(), json!({"active": false})),
        (root, "DeleteUser", Method::DELETE, user, nothing),
    ]
    .into_iter()
    .map(|(user, operations, method, path, body)| Write { operations, user, method, path, body })
    .collect()
}

async fn a_deploy_key_writes_for_the_owner(ada: &User, deployed: &Client) {
    deployed.git("", &["clone", "-q", &deployed.url(&ada.name, "demo"), "work"]).await;
    deployed.git.commit("work", "by-a-key", "x").await;
    let stderr = deployed.fails("work", &["push", "origin", "HEAD:refs/heads/by-a-key"]).await;
    assert!(stderr.contains("limit reached: 0 writes per hour"), "{stderr}");
}

/// Creates what the requests need, and returns at least one for every operation.
async fn writes<'a>(ada: &'a User, bob: &'a User, carol: &User, root: &'a User, git: &Git) -> Vec<Write<'a>> {
    let mut writes = Vec::new();
    let mut add = |user, operations, method: &str, path: String, body| {
        writes.push(Write { operations, user, method: method.parse().unwrap(), path, body });
    };
    let nothing = || Value::Null;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    ada.new_repository("given", json!({})).await;
    bob.new_repository("theirs", json!({"auto_init": true})).await;
    ada.post(&ada.repo("given", "/transfer"), &json!({"new_owner": bob.name})).await.expect(202);
    let demo = |rest: &str| ada.repo("demo", rest);

    // Accounts
    ada.new_token("spare").await;
    add(ada, "SetAvatar", "POST", "/user/avatar".into(), json!({"image": RED}));
    add(ada, "DeleteAvatar", "DELETE", "/user/avatar".into(), nothing());
    add(ada, "AddEmails", "POST", "/user/emails".into(), json!({"emails": ["more@example.org"]}));
    ada.post("/user/emails", &json!({"emails": [format!("{}@example.net", ada.name)]})).await.expect(201);
    add(ada, "DeleteEmails", "DELETE", "/user/emails".into(), json!({"emails": [format!("{}@example.net", ada.name)]}));
    add(ada, "SetPrimaryEmail", "PATCH", "/user/emails".into(), json!({"email": ada.email}));
    add(ada, "UpdateUserSettings", "PATCH", "/user/settings".into(), json!({"location": "There"}));
    add(ada, "FollowUser", "PUT", format!("/user/following/{}", bob.name), nothing());
    add(ada, "UnfollowUser", "DELETE", format!("/user/following/{}", bob.name), nothing());
    add(ada, "CreatePublicKey", "POST", "/user/keys".into(), json!({"title": "more", "key": ed25519("a")}));
    let key = ada.post("/user/keys", &json!({"title": "one", "key": ed25519("b")})).await.expect(201).json();
    add(ada, "DeletePublicKey", "DELETE", format!("/user/keys/{}", id(&key)), nothing());

    // Organizations and teams
    let org = format!("{}-org", ada.name);
    ada.post("/user/orgs", &json!({"username": org})).await.expect(201);
    ada.post(&format!("/orgs/{org}/repos"), &json!({"name": "shared"})).await.expect(201);
    let team = ada.post(&format!("/orgs/{org}/teams"), &json!({"name": "team"})).await.expect(201).json();
    let team = format!("/teams/{}", id(&team));
    ada.put_nothing(&format!("{team}/members/{}", carol.name)).await.expect(204);
    add(ada, "CreateOrganization", "POST", "/user/orgs".into(), json!({"username": format!("{org}-two")}));
    add(ada, "UpdateOrganization", "PATCH", format!("/orgs/{org}"), json!({"description": "Changed"}));
    add(ada, "SetAvatar", "POST", format!("/orgs/{org}/avatar"), json!({"image": RED}));
    add(ada, "SetMembership", "PUT", format!("/orgs/{org}/memberships/{}", root.name), json!({"role": "member"}));
    add(ada, "SetMembershipVisibility", "PUT", format!("/orgs/{org}/public_members/{}", ada.name), nothing());
    add(ada, "RemoveMember", "DELETE", format!("/orgs/{org}/members/{}", carol.name), nothing());
    add(ada, "CreateTeam", "POST", format!("/orgs/{org}/teams"), json!({"name": "more"}));
    add(ada, "UpdateTeam", "PATCH", team.clone(), json!({"description": "Changed"}));
    add(ada, "AddTeamMember", "PUT", format!("{team}/members/{}", bob.name), nothing());
    add(ada, "AddTeamRepository", "PUT", format!("{team}/repos/shared"), nothing());
    let holder = ada.new_team(&org, "holder", "read").await;
    ada.put_nothing(&format!("{holder}/repos/shared")).await.expect(204);
    let teams = format!("/repos/{org}/shared/teams");
    add(ada, "AddRepositoryTeam", "PUT", format!("{teams}/team"), nothing());
    add(ada, "RemoveRepositoryTeam", "DELETE", format!("{teams}/holder"), nothing());
    let labels = format!("/orgs/{org}/labels");
    let label = ada.post(&labels, &json!({"name": "one", "color": "#ff0000"})).await.expect(201).json();
    let label = format!("{labels}/{}", id(&label));
    add(ada, "CreateOrganizationLabel", "POST", labels, json!({"name": "more", "color": "#ff0000"}));
    add(ada, "UpdateOrganizationLabel", "PATCH", label.clone(), json!({"name": "changed"}));
    add(ada, "DeleteOrganizationLabel", "DELETE", label, nothing());
    add(ada, "DeleteOrganization", "DELETE", format!("/orgs/{org}"), nothing());

    // Repositories
    let theirs = bob.repo("theirs", "");
    add(ada, "CreateRepository", "POST", "/user/repos".into(), json!({"name": "more"}));
    add(ada, "CreateRepository", "POST", format!("/orgs/{org}/repos"), json!({"name": "more"}));
    add(ada, "ForkRepository", "POST", format!("{theirs}/forks"), json!({}));
    add(ada, "MigrateRepository", "POST", "/repos/migrate".into(), {
        json!({"clone_addr": "https://example.com/x.git", "uid": ada.id, "repo_name": "brought"})
    });
    add(ada, "UpdateRepository", "PATCH", demo(""), json!({"description": "Changed"}));
    add(ada, "UpdateIssueTracker", "PATCH", demo("/issue-tracker"), json!({"enable_issues": false}));
    add(ada, "UpdateWiki", "PATCH", demo("/wiki"), json!({"enable_wiki": false}));
    add(ada, "SetTopics", "PUT", demo("/topics"), json!({"topics": ["git"]}));
    add(ada, "AddTopic", "PUT", demo("/topics/git"), nothing());
    ada.put_nothing(&demo("/topics/old")).await.expect(204);
    add(ada, "RemoveTopic", "DELETE", demo("/topics/old"), nothing());
    add(ada, "StarRepository", "PUT", format!("/user/starred/{}/demo", ada.name), nothing());
    ada.put_nothing(&format!("/user/starred/{}/theirs", bob.name)).await.expect(204);
    add(ada, "UnstarRepository", "DELETE", format!("/user/starred/{}/theirs", bob.name), nothing());
    add(ada, "WatchRepository", "PUT", format!("{theirs}/subscription"), nothing());
    add(ada, "UnwatchRepository", "DELETE", demo("/subscription"), nothing());
    add(ada, "StartTransfer", "POST", demo("/transfer"), json!({"new_owner": bob.name}));
    add(bob, "AcceptTransfer", "POST", ada.repo("given", "/transfer/accept"), json!({}));
    add(ada, "SetCollaborator", "PUT", demo(&format!("/collaborators/{}", bob.name)), json!({"permission": "read"}));
    ada.share(&demo(""), carol, "read").await;
    add(ada, "RemoveCollaborator", "DELETE", demo(&format!("/collaborators/{}", carol.name)), nothing());
    add(ada, "CreateDeployKey", "POST", demo("/keys"), json!({"title": "more", "key": ed25519("c")}));
    let key = ada.post(&demo("/keys"), &json!({"title": "one", "key": ed25519("d")})).await.expect(201).json();
    add(ada, "DeleteDeployKey", "DELETE", demo(&format!("/keys/{}", id(&key))), nothing());

    // Files, releases and branch protection
    let content = json!({"message": "m", "content": "dGV4dA=="});
    add(ada, "PutContents", "PUT", demo("/contents/more"), content.clone());
    add(ada, "CreateContents", "POST", demo("/contents/three"), content.clone());
    let made = ada.put(&demo("/contents/one"), &content).await.expect(201).json();
    let sha = made["content"]["sha"].clone();
    add(ada, "DeleteContents", "DELETE", demo("/contents/one"), json!({"message": "m", "sha": sha}));
    add(ada, "ChangeFiles", "POST", demo("/contents"), {
        json!({"message": "m", "files": [{"operation": "create", "path": "two", "content": "dGV4dA=="}]})
    });
    for name in ["one", "two"] {
        ada.post(&demo("/branches"), &json!({"new_branch_name": name})).await.expect(201);
    }
    add(ada, "CreateBranch", "POST", demo("/branches"), json!({"new_branch_name": "more"}));
    add(ada, "RenameBranch", "PATCH", demo("/branches/one"), json!({"name": "renamed"}));
    add(ada, "DeleteBranch", "DELETE", demo("/branches/two"), nothing());
    ada.post(&demo("/tags"), &json!({"tag_name": "one"})).await.expect(201);
    add(ada, "AddTag", "POST", demo("/tags"), json!({"tag_name": "more", "message": "m"}));
    add(ada, "DeleteTag", "DELETE", demo("/tags/one"), nothing());
    for title in ["one", "two"] {
        ada.post(&demo("/wiki/new"), &json!({"title": title})).await.expect(201);
    }
    add(ada, "CreateWikiPage", "POST", demo("/wiki/new"), json!({"title": "more"}));
    add(ada, "UpdateWikiPage", "PATCH", demo("/wiki/page/one"), json!({"content_base64": "eA=="}));
    add(ada, "DeleteWikiPage", "DELETE", demo("/wiki/page/two"), nothing());
    let protections = demo("/branch_protections");
    add(ada, "SetProtection", "POST", protections.clone(), json!({"pattern": "more"}));
    ada.post(&protections, &json!({"pattern": "one"})).await.expect(201);
    add(ada, "UpdateProtection", "PATCH", format!("{protections}/one"), json!({"allow_force": true}));
    add(ada, "CreateStatus", "POST", demo("/statuses/main"), json!({"state": "success"}));
    add(ada, "DeleteProtection", "DELETE", format!("{protections}/one"), nothing());
    let release = ada.post(&demo("/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
    let release = demo(&format!("/releases/{}", id(&release)));
    let upload = ada.request(Method::POST, &format!("{release}/assets?name=one"));
    let upload = upload.header("content-type", "application/octet-stream").body("text");
    let asset = id(&Response::of(upload).await.expect(201).json());
    add(ada, "CreateRelease", "POST", demo("/releases"), json!({"tag_name": "v2"}));
    add(ada, "UpdateRelease", "PATCH", release.clone(), json!({"name": "Changed"}));
    // The request to reserve space fails before the bytes are sent.
    add(ada, "CreateReleaseAsset upload-asset", "POST", format!("{release}/assets?name=more"), nothing());
    add(ada, "UpdateReleaseAsset", "PATCH", format!("{release}/assets/{asset}"), json!({"name": "renamed"}));
    add(ada, "DeleteReleaseAsset", "DELETE", format!("{release}/assets/{asset}"), nothing());
    add(ada, "DeleteRelease", "DELETE", release, nothing());

    // Issues
    let issue = ada.new_issue(&demo(""), "One", json!({})).await["number"].as_i64().unwrap();
    let comment = ada.new_comment(&demo(""), issue, "One").await;
    let label = ada.new_label(&demo(""), "one").await;
    let milestone = ada.new_milestone(&demo(""), "One").await;
    let of_issue = |rest: &str| demo(&format!("/issues/{issue}{rest}"));
    add(ada, "CreateIssue", "POST", demo("/issues"), json!({"title": "More"}));
    add(ada, "UpdateIssue", "PATCH", of_issue(""), json!({"title": "Changed"}));
    add(ada, "CreateComment", "POST", of_issue("/comments"), json!({"body": "More"}));
    add(ada, "UpdateComment", "PATCH", of_issue(&format!("/comments/{comment}")), json!({"body": "Changed"}));
    add(ada, "DeleteComment", "DELETE", of_issue(&format!("/comments/{comment}")), nothing());
    add(ada, "AddReaction", "POST", of_issue("/reactions"), json!({"content": "eyes"}));
    add(ada, "RemoveReaction", "DELETE", of_issue("/reactions"), json!({"content": "eyes"}));
    add(ada, "ChangeIssueLabels", "POST", of_issue("/labels"), json!({"labels": [label]}));
    add(ada, "CreateLabel", "POST", demo("/labels"), json!({"name": "more", "color": "#ff0000"}));
    add(ada, "UpdateLabel", "PATCH", demo(&format!("/labels/{label}")), json!({"name": "changed"}));
    add(ada, "DeleteLabel", "DELETE", demo(&format!("/labels/{label}")), nothing());
    add(ada, "CreateMilestone", "POST", demo("/milestones"), json!({"title": "More"}));
    add(ada, "UpdateMilestone", "PATCH", demo(&format!("/milestones/{milestone}")), json!({"title": "Changed"}));
    add(ada, "DeleteMilestone", "DELETE", demo(&format!("/milestones/{milestone}")), nothing());

    // Pull requests
    ada.patch(&demo(""), &json!({"allow_manual_merge": true})).await.expect(200);
    for name in ["pulled", "offered", "undone"] {
        let change = json!({"message": "m", "content": "dGV4dA==", "new_branch": name});
        ada.put(&demo(&format!("/contents/{name}")), &change).await.expect(201);
    }
    let pull = ada.post(&demo("/pulls"), &json!({"head": "pulled", "base": "main", "title": "One"})).await;
    let pull = demo(&format!("/pulls/{}", pull.expect(201).json()["number"]));
    let undone = ada.post(&demo("/pulls"), &json!({"head": "undone", "base": "main", "title": "Two"})).await;
    let undone = demo(&format!("/pulls/{}", undone.expect(201).json()["number"]));
    ada.post(&format!("{undone}/merge"), &json!({"Do": "merge"})).await.expect(200);
    ada.put(&demo("/contents/newer"), &content).await.expect(201);
    let base = ada.get(&demo("/branches/main")).await.expect(200).json()["commit"]["id"].clone();
    add(ada, "CreatePull", "POST", demo("/pulls"), json!({"head": "offered", "base": "main", "title": "More"}));
    add(ada, "UpdatePull", "PATCH", pull.clone(), json!({"title": "Changed"}));
    add(ada, "UpdatePullHead", "POST", format!("{pull}/update"), json!({}));
    add(ada, "MarkMerged", "POST", format!("{pull}/merge"), json!({"Do": "manually-merged", "MergeCommitID": base}));
    add(ada, "RevertMerge", "POST", format!("{undone}/revert"), json!({}));
    add(ada, "CancelMerge", "DELETE", format!("{pull}/merge"), nothing());
    add(ada, "PermitMerge MergePull ScheduleMerge", "POST", format!("{pull}/merge"), json!({"Do": "merge"}));
    let (reviews, asking) = (format!("{pull}/reviews"), format!("{pull}/requested_reviewers"));
    let review = async |user: &User, body: Value| {
        let made = user.post(&reviews, &body).await.expect(200).json();
        format!("{reviews}/{}", id(&made))
    };
    let line = json!([{"path": "pulled", "body": "Why?", "new_position": 1}]);
    let rejection = review(bob, json!({"event": "REQUEST_CHANGES", "body": "No", "comments": line})).await;
    let pending = review(bob, json!({"body": "Draft"})).await;
    let dismissed = review(carol, json!({"event": "REQUEST_CHANGES", "body": "No"})).await;
    ada.post(&format!("{dismissed}/dismissals"), &json!({"message": "Yes"})).await.expect(200);
    let asked = json!({"reviewers": [carol.name]});
    ada.post(&asking, &asked).await.expect(201);
    let line = bob.get(&format!("{rejection}/comments")).await.expect(200).ids("id")[0];
    let line = demo(&format!("/pulls/comments/{line}"));
    add(bob, "CreateReview", "POST", reviews.clone(), json!({"event": "COMMENT", "body": "More"}));
    add(bob, "SubmitReview", "POST", pending, json!({"event": "COMMENT"}));
    add(ada, "DismissReview", "POST", format!("{rejection}/dismissals"), json!({"message": "Yes"}));
    add(ada, "UndismissReview", "POST", format!("{dismissed}/undismissals"), nothing());
    add(ada, "RequestReviews", "POST", asking.clone(), json!({"reviewers": [bob.name]}));
    add(ada, "RemoveReviewRequests", "DELETE", asking, asked);
    add(bob, "UpdateReviewComment", "PATCH", line.clone(), json!({"body": "Changed"}));
    add(bob, "ResolveReviewComment", "POST", format!("{line}/resolve"), nothing());
    add(bob, "UnresolveReviewComment", "POST", format!("{line}/unresolve"), nothing());
    add(bob, "DeleteReviewComment", "DELETE", line, nothing());
    add(bob, "DeleteReview", "DELETE", rejection, nothing());

    // Webhooks with an unreachable URL
    let new = json!({"type": "native", "config": {"url": "https://example.com/hook", "content_type": "json"}});
    for hooks in [demo("/hooks"), format!("/orgs/{org}/hooks")] {
        let hook = id(&ada.post(&hooks, &new).await.expect(201).json());
        let of_hook = |rest: &str| format!("{hooks}/{hook}{rest}");
        add(ada, "CreateHook", "POST", hooks.clone(), new.clone());
        add(ada, "UpdateHook", "PATCH", of_hook(""), json!({"config": new["config"], "active": false}));
        add(ada, "ReplayDeliveries", "POST", of_hook("/replay"), {
            json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"})
        });
        if hooks.starts_with("/repos") {
            let delivery = Response::of(ada.request(Method::POST, &of_hook("/test"))).await.expect(202).json();
            let delivery = delivery["id"].as_str().unwrap();
            add(ada, "TestHook", "POST", of_hook("/test"), nothing());
            add(ada, "Redeliver", "POST", of_hook(&format!("/deliveries/{delivery}/redeliver")), nothing());
        }
        add(ada, "DeleteHook", "DELETE", of_hook(""), nothing());
    }

    // Mirrors
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "remote.git"]).await;
    let server = GitServer::start(git).await;
    let more = json!({"mirror": true, "mirror_interval": "8h"});
    import(ada, &server.url("remote.git"), "followed", more).await.expect(201);
    add(ada, "SyncMirror", "POST", ada.repo("followed", "/mirror-sync"), nothing());
    add(ada, "UpdateMirror", "PATCH", ada.repo("followed", ""), json!({"mirror_interval": "10h"}));

    // Administration
    let user = format!("/admin/users/{}", carol.name);
    add(root, "CreateUser", "POST", "/admin/users".into(), {
        json!({"username": format!("{}-two", ada.name), "email": format!("{}-two@example.com", ada.name), "password": "long enough"})
    });
    add(root, "UpdateUser", "PATCH", user.clone(), json!({"full_name": "Changed"}));
    add(root, "SetEmailVerification", "PUT", format!("{user}/emails/{}/verified", carol.email), nothing());
    add(root, "UpdateQuota", "PATCH", format!("{user}/quota"), json!({"bytes": 5}));
    add(root, "CreatePublicKey", "POST", format!("{user}/keys"), json!({"title": "theirs", "key": GOOD[0]}));
    add(root, "SetStore", "PUT", "/admin/stores/more".into(), json!({}));
    let stores = root.get("/admin/stores").await.expect(200).json();
    let store = format!("/admin/stores/{}", stores[0]["name"].as_str().unwrap());
    add(root, "UpdateStore", "PATCH", store.clone(), json!({"weight": 7}));
    add(root, "DeleteStore", "DELETE", store, nothing());

    add(ada, "DeleteRepository", "DELETE", demo(""), nothing());
    writes
}
