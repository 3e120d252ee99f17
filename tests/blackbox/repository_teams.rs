//! The teams of a repository, and single members and repositories of a team.

use serde_json::json;

use crate::harness::Cluster;

on_profiles! {
    both {
        put_and_delete_repos_teams_open_and_close_a_repository
    }
    production {
        get_repos_teams_is_for_members_of_the_organization
        get_teams_members_and_repos_find_single_ones
    }
}

async fn put_and_delete_repos_teams_open_and_close_a_repository(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "tools", true).await;
    let team = ada.new_team(&name, "Crew", "write").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    let (repo, path) = (format!("/repos/{name}/tools"), format!("/repos/{name}/tools/teams/CREW"));
    ada.get(&path).await.refused_with_message(404, "team does not exist");
    for _ in 0..2 {
        ada.put_nothing(&path).await.empty(204);
        assert_eq!(bob.get(&repo).await.expect(200).json()["permissions"]["push"], true);
    }
    let shown = bob.get(&path).await.expect(200);
    assert_eq!(shown.json(), ada.get(&team).await.expect(200).json());
    bob.delete(&path).await.refused(403);
    ada.delete(&path).await.empty(204);
    bob.get(&repo).await.refused(404);
    ada.delete(&path).await.refused(404);
    ada.delete(&format!("{repo}/teams/owners")).await.refused(422);
    ada.put_nothing(&format!("{repo}/teams/nobody")).await.refused(404);
}

async fn get_repos_teams_is_for_members_of_the_organization(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "tools", false).await;
    let team = ada.new_team(&name, "crew", "read").await;
    ada.put_nothing(&format!("{team}/repos/{}/TOOLS", name.to_uppercase())).await.empty(204);
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    let path = format!("/repos/{name}/tools/teams");
    for member in [&ada, &bob, &cluster.admin().await] {
        assert_eq!(member.get(&path).await.expect(200).each("name"), ["Owners", "crew"], "{}", member.name);
    }
    assert_eq!(ada.get(&format!("{path}?limit=1&page=2")).await.expect(200).each("name"), ["crew"]);
    assert_eq!(outsider.get(&path).await.expect(200).json(), json!([]));
    outsider.get(&format!("{path}/crew")).await.refused(404);
    outsider.put_nothing(&format!("{path}/crew")).await.refused(404);
    bob.put_nothing(&format!("{path}/crew")).await.refused(403);
    bob.with_scopes(&["repo:admin"]).await.get(&path).await.refused_with_message(403, "`org`");
    let narrow = ada.with_scopes(&["org", "repo:read"]).await;
    narrow.put_nothing(&format!("{path}/crew")).await.refused_with_message(403, "`repo:admin`");
    cluster.anonymous().get(&path).await.refused(401);
    ada.new_repository("own", json!({})).await;
    ada.get(&ada.repo("own", "/teams")).await.refused_with_message(404, "organization does not exist");
}

async fn get_teams_members_and_repos_find_single_ones(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "tools", true).await;
    ada.new_repository("tools", json!({})).await;
    let team = ada.new_team(&name, "crew", "read").await;
    let member = format!("{team}/members/{}", bob.name.to_uppercase());
    ada.get(&member).await.refused_with_message(404, "member does not exist");
    ada.put_nothing(&member).await.empty(204);
    assert_eq!(ada.get(&member).await.expect(200).json()["login"], bob.name.as_str());
    outsider.get(&member).await.refused_with_message(404, "team does not exist");
    ada.get(&format!("{team}/members/no-such-user")).await.refused(404);
    let held = format!("{team}/repos/{name}/tools");
    ada.get(&held).await.refused(404);
    ada.put_nothing(&held).await.empty(204);
    assert_eq!(bob.get(&held).await.expect(200).json()["full_name"], format!("{name}/tools"));
    for foreign in [format!("{team}/repos/{}/tools", ada.name), format!("{team}/repos/no-such-user/tools")] {
        ada.get(&foreign).await.refused(404);
        ada.put_nothing(&foreign).await.refused(404);
        ada.delete(&foreign).await.refused(404);
    }
    ada.delete(&held).await.empty(204);
    ada.get(&held).await.refused(404);
}
