use ferrite_proto::Scope;
use ferrite_proto::repo::{
    GetOrganizationPermissionsRequest, ListAllOrganizationsRequest, ListMembersRequest, MembershipRole, Permission,
};
use tonic::{Code, Status};

use super::organizations::{client, create, narrow, set, show};
use super::teams::{add_member, setup, team};
use super::{refusal, refused};
use crate::testing::{Harness, with_token};

async fn permissions(harness: &Harness, token: &str, username: &str) -> Result<(Permission, bool), Status> {
    let request = GetOrganizationPermissionsRequest { organization: "ACME".into(), username: username.into() };
    let response = client(harness).get_organization_permissions(with_token(request, token)).await?.into_inner();
    Ok((response.permission(), response.can_create_repository))
}

#[tokio::test]
async fn every_user_lists_all_organizations_and_an_administrator_as_one() {
    let (harness, [ada, _, eve, root]) = setup().await;
    create(&harness, &ada, "other").await;
    let list = async |token: &str, as_administrator: bool| {
        let request = ListAllOrganizationsRequest { page: 1, page_size: 1, as_administrator };
        client(&harness).list_all_organizations(with_token(request, token)).await
    };
    for (token, as_administrator) in [(&eve, false), (&root, true)] {
        let listed = list(token, as_administrator).await.unwrap().into_inner();
        assert_eq!((listed.organizations[0].username.as_str(), listed.total_count), ("acme", 2));
        assert_eq!(listed.organizations.len(), 1);
    }
    assert_eq!(refusal(list("", false).await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(refusal(list(&eve, true).await), refused(Code::PermissionDenied, "ADMIN_REQUIRED"));
}

#[tokio::test]
async fn permissions_in_an_organization_are_those_of_the_highest_team() {
    let (harness, [ada, bob, eve, root]) = setup().await;
    assert_eq!(permissions(&harness, &ada, "ADA").await.unwrap(), (Permission::Owner, true));
    assert_eq!(permissions(&harness, &bob, "bob").await.unwrap(), (Permission::None, false));
    assert_eq!(permissions(&harness, &eve, "eve").await.unwrap(), (Permission::None, false));
    let devs = team(&harness, &ada, "devs", "write").await.unwrap();
    add_member(&harness, &ada, devs.id, "bob").await.unwrap();
    for who in [&ada, &bob, &root] {
        assert_eq!(permissions(&harness, who, "bob").await.unwrap(), (Permission::Write, false));
    }
    let outsider = refused(Code::PermissionDenied, "ORGANIZATION_MEMBER_REQUIRED");
    assert_eq!(refusal(permissions(&harness, &eve, "bob").await), outsider);
    for unknown in ["nobody", "acme", ""] {
        assert_eq!(refusal(permissions(&harness, &eve, unknown).await), refused(Code::NotFound, "USER_NOT_FOUND"));
    }
    let request = GetOrganizationPermissionsRequest { organization: "eve".into(), username: "eve".into() };
    let outcome = client(&harness).get_organization_permissions(with_token(request, &eve)).await;
    assert_eq!(refusal(outcome), refused(Code::NotFound, "ORGANIZATION_NOT_FOUND"));
    narrow(&harness, "test", &[Scope::RepoAdmin]).await;
    let outcome = permissions(&harness, &bob, "bob").await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
}

#[tokio::test]
async fn public_members_are_the_same_for_members_and_outsiders() {
    let (harness, [ada, bob, eve, _]) = setup().await;
    set(&harness, &ada, "acme", "eve", MembershipRole::Member).await.unwrap();
    show(&harness, &bob, "acme", true).await.unwrap();
    for who in [&ada, &bob, &eve] {
        let request = ListMembersRequest { organization: "acme".into(), page: 1, page_size: 10, only_public: true };
        let listed = client(&harness).list_members(with_token(request, who)).await.unwrap().into_inner();
        assert_eq!((listed.users[0].username.as_str(), listed.users.len(), listed.total_count), ("bob", 1, 1));
    }
}
