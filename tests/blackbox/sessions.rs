//! Sessions of the web pages, as the API lists and ends them.

use ferrite_proto::repo::session_service_client::SessionServiceClient;
use ferrite_proto::repo::{BasicCredential, CreateSessionRequest};
use serde_json::json;

use crate::harness::grpc::with_token;
use crate::harness::{Cluster, Role, User};

on_profiles! {
    both {
        a_session_is_listed_and_ended
    }
}

/// Signs a user in, as the pages do. Returns the user with the session in place of the token, and the
/// id of the session.
pub(crate) async fn sign_in(cluster: &Cluster, user: &User) -> (User, i64) {
    let credential = Some(BasicCredential { username: user.name.clone(), password: user.password.clone() });
    let request = CreateSessionRequest { credential, user_agent: "Lynx".to_owned() };
    // A direct call needs some credential, and the pages have that of the gateway.
    let request = with_token(request, user.token.as_deref().unwrap());
    let mut client = SessionServiceClient::new(cluster.channel(Role::Repo).await);
    let made = client.create_session(request).await.unwrap().into_inner();
    (user.with_token(Some(&made.value)), made.session.unwrap().id)
}

async fn a_session_is_listed_and_ended(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let ((one, first), (two, second)) = (sign_in(cluster, &ada).await, sign_in(cluster, &ada).await);
    one.new_repository("demo", json!({"private": true})).await;
    assert_eq!(ada.token_list().await.json().as_array().unwrap().len(), 1, "a session is no token");

    let listed = two.get("/user/sessions").await.expect(200);
    let mut ids = listed.ids("id");
    ids.sort_unstable();
    assert_eq!(ids, [first, second]);
    for session in listed.json().as_array().unwrap() {
        assert_eq!((&session["user_agent"], &session["is_current"]), (&json!("Lynx"), &json!(session["id"] == second)));
    }
    assert_eq!(bob.get("/user/sessions").await.expect(200).json(), json!([]));
    let path = |id: i64| format!("/user/sessions/{id}");
    for id in [first, 0, i64::MAX] {
        bob.delete(&path(id)).await.refused_with_message(404, "session does not exist");
    }

    two.delete(&path(first)).await.empty(204);
    one.get("/user").await.refused(401);
    two.delete(&path(first)).await.refused(404);
    // A sign-out.
    two.delete(&path(second)).await.empty(204);
    two.get("/user").await.refused(401);
    assert_eq!(ada.get("/user/sessions").await.expect(200).json(), json!([]));

    let (three, _) = sign_in(cluster, &ada).await;
    let password = json!({"password": "another horse"});
    cluster.admin().await.patch(&format!("/admin/users/{}", ada.name), &password).await.expect(200);
    three.get("/user").await.refused(401);
    ada.get("/user").await.expect(200);
}
