//! Where commit messages in a push may close issues.

use ferrite_db::args;
use ferrite_proto::grant::IssueReach;
use ferrite_proto::operation::{
    CHANGE_FILES, CREATE_CONTENTS, CREATE_ISSUE, DELETE_CONTENTS, GET_CONTENTS, PUT_CONTENTS, RECEIVE_PACK,
    UPDATE_ISSUE, UPLOAD_PACK,
};
use ferrite_proto::repo::{CreateAccessTokenRequest, ResolveAccessRequest};

use super::of_demo;
use super::ssh::{ADD_DEPLOY_KEY, ADD_USER_KEY};
use crate::testing::{Harness, PASSWORD, basic, with_token};

async fn token(harness: &Harness, name: &str, scopes: &[&str], repositories: &[&str]) -> String {
    let texts = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let request = CreateAccessTokenRequest {
        credential: Some(basic("ada", PASSWORD)),
        username: "ada".into(),
        name: name.into(),
        scopes: texts(scopes),
        repositories: texts(repositories),
        ..CreateAccessTokenRequest::default()
    };
    harness.account().create_access_token(request).await.unwrap().into_inner().value
}

async fn reach(harness: &Harness, token: &str, request: ResolveAccessRequest) -> IssueReach {
    let response = harness.access().resolve_access(with_token(request, token)).await.unwrap().into_inner();
    harness.trust().verifier.verify(&response.grant).unwrap().0.issue_reach
}

#[tokio::test]
async fn commits_close_issues_as_far_as_the_token_reaches() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", true).await.unwrap();
    for (token, expected) in [
        (ada.clone(), IssueReach::All),
        (token(&harness, "narrow", &["repo:write", "issue"], &[]).await, IssueReach::All),
        (token(&harness, "code", &["repo:admin", "user", "admin"], &[]).await, IssueReach::None),
        (token(&harness, "limited", &[], &["ada/demo"]).await, IssueReach::Repository),
        (token(&harness, "limited-code", &["repo:write"], &["ada/demo"]).await, IssueReach::None),
    ] {
        for operation in [CREATE_CONTENTS, PUT_CONTENTS, DELETE_CONTENTS, CHANGE_FILES, RECEIVE_PACK] {
            assert_eq!(reach(&harness, &token, of_demo(operation)).await, expected, "{operation}");
        }
        for credential in [basic(&token, ""), basic("ada", &token)] {
            let request = ResolveAccessRequest { basic: Some(credential), ..of_demo(RECEIVE_PACK) };
            assert_eq!(reach(&harness, "", request).await, expected);
        }
    }
    for operation in [CREATE_ISSUE, UPDATE_ISSUE, GET_CONTENTS, UPLOAD_PACK] {
        assert_eq!(reach(&harness, &ada, of_demo(operation)).await, IssueReach::None, "{operation}");
    }
}

#[tokio::test]
async fn commits_close_issues_for_passwords_and_keys_of_users_and_not_for_deploy_keys() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let demo = harness.create(&ada, "demo", true).await.unwrap();
    let db = harness.db().await;
    db.execute(ADD_USER_KEY, &args!["ada", "SHA256:ada"]).await.unwrap();
    db.execute(ADD_DEPLOY_KEY, &args![demo.id, "SHA256:bot", false]).await.unwrap();
    let push = of_demo(RECEIVE_PACK);
    let password = ResolveAccessRequest { basic: Some(basic("ada", PASSWORD)), ..push.clone() };
    assert_eq!(reach(&harness, "", password).await, IssueReach::All);
    for (fingerprint, expected) in [("SHA256:ada", IssueReach::All), ("SHA256:bot", IssueReach::None)] {
        let request = ResolveAccessRequest { ssh_fingerprint: Some(fingerprint.to_owned()), ..push.clone() };
        assert_eq!(reach(&harness, "", request).await, expected);
    }
}
