//! Requests for reviews: of users and teams, with a new pull request or later.

use reqwest::Method;
use serde_json::{Value, json};

use super::protection::writer;
use super::{Work, number_of};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        users_are_asked_and_answer
    }
    embedded {
        a_team_is_asked_and_a_member_answers
        a_new_pull_request_asks_for_reviews
        who_cannot_be_asked_is_refused
        posters_and_writers_ask
    }
}

/// The users and teams that a pull request asks for reviews.
fn asked(pull: &Value) -> (Vec<&str>, Vec<&str>) {
    let all = |list: &str, name: &str| {
        let list = pull[list].as_array().unwrap_or_else(|| panic!("no {list}: {pull}"));
        list.iter().map(|one| one[name].as_str().unwrap_or_default()).collect()
    };
    (all("requested_reviewers", "login"), all("requested_reviewers_teams", "name"))
}

async fn ask(work: &Work, user: &User, number: i64, body: &Value) -> Response {
    user.post(&work.pull_path(number, "/requested_reviewers"), body).await
}

async fn take_back(work: &Work, user: &User, number: i64, body: &Value) -> Response {
    let request = user.request(Method::DELETE, &work.pull_path(number, "/requested_reviewers"));
    Response::of(request.json(body)).await
}

fn users(users: &[&User]) -> Value {
    json!({"reviewers": users.iter().map(|user| &user.name).collect::<Vec<_>>()})
}

async fn users_are_asked_and_answer(cluster: &Cluster) {
    let work = Work::new(cluster, "asked").await;
    let (bob, carol) = (writer(&work, cluster, "bob").await, cluster.user("carol").await);
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    let requests = ask(&work, &work.owner, number, &users(&[&bob, &carol])).await.expect(201);
    assert_eq!(requests.each("state"), ["REQUEST_REVIEW", "REQUEST_REVIEW"]);
    let requests = requests.json();
    assert_eq!(
        (&requests[0]["user"]["login"], &requests[1]["user"]["login"], &requests[0]["team"]),
        (&json!(bob.name), &json!(carol.name), &Value::Null)
    );
    assert_eq!((&requests[0]["submitted_at"], &requests[0]["commit_id"]), (&Value::Null, &json!(head)));
    assert_eq!(asked(&work.pull(number).await), (vec![bob.name.as_str(), &carol.name], vec![]));
    // Who was asked stays asked.
    let again = ask(&work, &work.owner, number, &users(&[&carol])).await.expect(201).json();
    assert_eq!((&again[0]["id"], &again[1]), (&requests[1]["id"], &Value::Null));
    let path = |request: &Value| work.pull_path(number, &format!("/reviews/{}", request["id"]));
    work.owner.delete(&path(&requests[0])).await.refused_any(&[404, 422]);
    assert_eq!(work.owner.get(&path(&requests[0])).await.expect(200).json()["state"], "REQUEST_REVIEW");

    // What is pending is no answer yet.
    work.review(&bob, number, json!({"body": "Draft"})).await;
    assert_eq!(asked(&work.pull(number).await).0.len(), 2);
    work.review(&bob, number, json!({"event": "COMMENT", "body": "Fine"})).await;
    assert_eq!(asked(&work.pull(number).await), (vec![carol.name.as_str()], vec![]));
    let listed = work.owner.get(&work.path("/pulls")).await.expect(200).json();
    assert_eq!(asked(&listed[0]), (vec![carol.name.as_str()], vec![]));
    let reviews = work.owner.get(&work.pull_path(number, "/reviews")).await.expect(200);
    assert_eq!(reviews.each("state"), ["REQUEST_REVIEW", "COMMENT"]);
    // A user declines, and may be asked again.
    take_back(&work, &carol, number, &users(&[&carol])).await.empty(204);
    take_back(&work, &work.owner, number, &users(&[&bob, &carol])).await.empty(204);
    assert_eq!(asked(&work.pull(number).await), (vec![], vec![]));
    ask(&work, &work.owner, number, &users(&[&bob])).await.expect(201);
    assert_eq!(asked(&work.pull(number).await), (vec![bob.name.as_str()], vec![]));
    let timeline = work.owner.timeline(&work.repo, number).await;
    let entries = timeline.iter().filter(|entry| entry["action"] != "reviewed");
    let entries: Vec<_> =
        entries.map(|entry| (&entry["action"], &entry["user"]["login"], &entry["assignee"]["login"])).collect();
    let (requested, removed) = (json!("review_requested"), json!("review_request_removed"));
    let [ada, bob, carol] = [&work.owner, &bob, &carol].map(|user| json!(user.name));
    assert_eq!(
        entries,
        [(&requested, &ada, &bob), (&requested, &ada, &carol), (&removed, &carol, &carol), (&requested, &ada, &bob),]
    );
}

/// A repository of an organization with a pull request, and a team that can read it. The member is
/// in the team.
async fn with_team(cluster: &Cluster, name: &str, member: &User) -> (User, String) {
    let owner = cluster.user("ada").await;
    let organization = owner.new_organization("acme").await;
    owner.new_repository_of(&organization, name, true).await;
    let team = owner.new_team(&organization, "crew", "read").await;
    owner.put_nothing(&format!("{team}/members/{}", member.name)).await.empty(204);
    owner.put_nothing(&format!("{team}/repos/{name}")).await.empty(204);
    owner.new_team(&organization, "others", "read").await;
    let repo = format!("/repos/{organization}/{name}");
    let change = json!({"message": "m", "content": "eA==", "new_branch": "topic"});
    owner.put(&format!("{repo}/contents/topic"), &change).await.expect(201);
    (owner, repo)
}

async fn a_team_is_asked_and_a_member_answers(cluster: &Cluster) {
    let bob = cluster.user("bob").await;
    let (owner, repo) = with_team(cluster, "teams", &bob).await;
    let pull = json!({"head": "topic", "base": "main", "title": "x"});
    let number = number_of(&owner.post(&format!("{repo}/pulls"), &pull).await.expect(201).json());
    let pull = format!("{repo}/pulls/{number}");
    let asking = format!("{pull}/requested_reviewers");
    let requests = owner.post(&asking, &json!({"team_reviewers": ["crew"]})).await.expect(201).json();
    assert_eq!(
        (&requests[0]["state"], &requests[0]["team"]["name"], &requests[0]["user"]),
        (&json!("REQUEST_REVIEW"), &json!("crew"), &Value::Null)
    );
    let shown = owner.get(&pull).await.expect(200).json();
    assert_eq!(asked(&shown), (vec![], vec!["crew"]));
    assert_eq!(shown["requested_reviewers_teams"][0]["id"], requests[0]["team"]["id"]);
    // A team that cannot read the repository, and one that is not there.
    for team in ["others", "never-was"] {
        owner.post(&asking, &json!({"team_reviewers": [team]})).await.refused_field("team_reviewers");
    }
    bob.post(&format!("{pull}/reviews"), &json!({"event": "APPROVED"})).await.expect(200);
    assert_eq!(asked(&owner.get(&pull).await.expect(200).json()), (vec![], vec![]));
}

async fn a_new_pull_request_asks_for_reviews(cluster: &Cluster) {
    let bob = cluster.user("bob").await;
    let (owner, repo) = with_team(cluster, "asks", &bob).await;
    let pulls = format!("{repo}/pulls");
    let mut pull = json!({
        "head": "topic", "base": "main", "title": "x", "reviewers": [bob.name, "never-was"], "team_reviewers": ["crew"],
    });
    owner.post(&pulls, &pull).await.refused_field("reviewers");
    assert_eq!(owner.get(&pulls).await.expect(200).json(), json!([]), "all or nothing");
    pull["reviewers"] = json!([bob.name]);
    let made = owner.post(&pulls, &pull).await.expect(201).json();
    assert_eq!(asked(&made), (vec![bob.name.as_str()], vec!["crew"]));
    let reviews = owner.get(&format!("{pulls}/{}/reviews", number_of(&made))).await.expect(200);
    assert_eq!(reviews.each("state"), ["REQUEST_REVIEW", "REQUEST_REVIEW"]);
    // One answer is both that of the user and that of the team.
    let answer = json!({"event": "COMMENT", "body": "Fine"});
    bob.post(&format!("{pulls}/{}/reviews", number_of(&made)), &answer).await.expect(200);
    assert_eq!(asked(&owner.get(&format!("{pulls}/{}", number_of(&made))).await.expect(200).json()), (vec![], vec![]));
}

async fn who_cannot_be_asked_is_refused(cluster: &Cluster) {
    let work = Work::of(cluster.user("ada").await, "private", json!({"private": true})).await;
    let (bob, outsider) = (writer(&work, cluster, "bob").await, cluster.outsider().await);
    let number = work.open("topic").await;
    for name in [outsider.name.as_str(), &work.owner.name, "never-was"] {
        let body = json!({"reviewers": [bob.name, name]});
        ask(&work, &work.owner, number, &body).await.refused_field("reviewers");
    }
    ask(&work, &work.owner, number, &json!({"team_reviewers": ["crew"]})).await.refused_field("team_reviewers");
    ask(&work, &work.owner, number, &json!({"reviewers": vec![bob.name.clone(); 51]})).await.refused_field("reviewers");
    assert_eq!(asked(&work.pull(number).await), (vec![], vec![]), "nobody was asked");
    ask(&work, &outsider, number, &users(&[&bob])).await.refused(404);
    work.edit(number, json!({"state": "closed"})).await;
    ask(&work, &work.owner, number, &users(&[&bob])).await.refused_any(&[409, 422]);
}

async fn posters_and_writers_ask(cluster: &Cluster) {
    let work = Work::new(cluster, "posted").await;
    let (bob, carol, eve) =
        (writer(&work, cluster, "bob").await, cluster.user("carol").await, cluster.user("eve").await);
    work.fork(&carol, "fork").await;
    work.git.run("fork", &["checkout", "-q", "-b", "theirs"]).await;
    work.git.commit("fork", "theirs", "x\n").await;
    work.git.run("fork", &["push", "-q", "origin", "theirs"]).await;
    let offer =
        json!({"head": format!("{}:theirs", carol.name), "base": "main", "title": "x", "reviewers": [bob.name]});
    let made = work.create(&carol, &offer).await.expect(201).json();
    assert_eq!(asked(&made).0, [bob.name.as_str()], "posters ask");
    let number = number_of(&made);
    ask(&work, &carol, number, &users(&[&work.owner])).await.expect(201);
    ask(&work, &bob, number, &users(&[&eve])).await.expect(201);
    ask(&work, &eve, number, &users(&[&bob])).await.refused(403);
    take_back(&work, &eve, number, &users(&[&bob])).await.refused(403);
    take_back(&work, &eve, number, &users(&[&eve])).await.empty(204);
    // An open request can hold the merge back, so posters do not take those of others back.
    take_back(&work, &carol, number, &users(&[&work.owner])).await.refused(403);
    take_back(&work, &bob, number, &users(&[&work.owner])).await.empty(204);
    assert_eq!(asked(&work.pull(number).await).0, [bob.name.as_str()]);
}
