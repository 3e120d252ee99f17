//! Accounts and repositories of these tests: users of every kind, an organization with teams,
//! repositories.

use std::time::Duration;

use ferrite_proto::{Permission, Scope};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::callers::{Caller, Credential, OrgRole, TokenReach};
use crate::harness::client::unique;
use crate::harness::{Cluster, Profile, User};

/// Lifetime of the token that has expired when the tests begin.
const EXPIRES_AFTER: Duration = Duration::from_secs(10);
pub(super) const ABSENT_ID: i64 = 999_999_999;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    User,
    Organization,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tracker {
    /// Issue, comment, pull request and review are by a user who is not a caller.
    pub(super) issue_number: i64,
    pub(super) pull_number: i64,
    pub(super) review_id: i64,
    pub(super) review_comment_id: i64,
    pub(super) comment_id: i64,
    pub(super) label_id: i64,
    pub(super) milestone_id: i64,
}

/// Ids that do not exist.
pub(super) const NO_TRACKER: Tracker = Tracker {
    issue_number: ABSENT_ID,
    pull_number: ABSENT_ID,
    review_id: ABSENT_ID,
    review_comment_id: ABSENT_ID,
    comment_id: ABSENT_ID,
    label_id: ABSENT_ID,
    milestone_id: ABSENT_ID,
};

/// A repository, possibly deleted.
#[derive(Clone, Debug)]
pub(super) struct Repo {
    pub(super) owner_name: String,
    pub(super) name: String,
    pub(super) owner: Owner,
    /// Kept after a deletion.
    pub(super) id: i64,
    /// `None` if the repository was deleted.
    pub(super) private: Option<bool>,
    pub(super) tracker: Tracker,
}

#[derive(Clone)]
pub(super) struct Fixture {
    pub(super) callers: Vec<Caller>,
    pub(super) repos: Vec<Repo>,
    /// Archived ones, which only a few callers request.
    pub(super) archived: Vec<Repo>,
    pub(super) organization: String,
    /// The team of owners, which cannot be deleted.
    pub(super) owners_team: i64,
    pub(super) owner: User,
    pub(super) org_owner: User,
}

impl Fixture {
    /// The fixture of a shared installation, created by the first test.
    pub(super) async fn of(cluster: &Cluster) -> Self {
        static EMBEDDED: OnceCell<Fixture> = OnceCell::const_new();
        static PRODUCTION: OnceCell<Fixture> = OnceCell::const_new();
        let fixture = match cluster.profile {
            Profile::Embedded => &EMBEDDED,
            Profile::Production => &PRODUCTION,
        };
        fixture.get_or_init(|| Self::make(cluster)).await.reconnected()
    }

    fn reconnected(&self) -> Self {
        let mut fixture = self.clone();
        fixture.owner = fixture.owner.reconnected();
        fixture.org_owner = fixture.org_owner.reconnected();
        for caller in &mut fixture.callers {
            caller.user = caller.user.reconnected();
        }
        fixture
    }

    async fn make(cluster: &Cluster) -> Self {
        let owner = cluster.user("owner").await;
        let end = chrono::Utc::now() + EXPIRES_AFTER;
        let expired = token(&owner, "expiring", json!({"expires_at": end.to_rfc3339()})).await;
        let is_expired = Instant::now() + EXPIRES_AFTER + Duration::from_millis(100);
        let org_owner = cluster.user("org-owner").await;
        let organization = format!("{}-org", org_owner.name);
        org_owner.post("/user/orgs", &json!({"username": organization})).await.expect(201);
        let owners_team =
            org_owner.get(&format!("/orgs/{organization}/teams")).await.expect(200).json()[0]["id"].as_i64();
        let mut fixture = Self {
            callers: Vec::new(),
            repos: Vec::new(),
            archived: Vec::new(),
            organization,
            owners_team: owners_team.unwrap(),
            owner,
            org_owner,
        };
        fixture.make_repos(&cluster.user("poster").await).await;
        fixture.make_collaborators(cluster).await;
        fixture.make_members(cluster).await;
        fixture.make_tokens(cluster, &expired).await;
        tokio::time::sleep_until(is_expired).await;
        fixture
    }

    pub(super) async fn new_repo(&self, owner: Owner, name: &str, private: bool) -> Repo {
        let body = json!({"name": name, "private": private, "auto_init": true});
        let made = match owner {
            Owner::User => self.owner.post("/user/repos", &body).await,
            Owner::Organization => self.org_owner.post(&format!("/org/{}/repos", self.organization), &body).await,
        };
        let id = made.expect(201).json()["id"].as_i64().unwrap();
        let owner_name = match owner {
            Owner::User => self.owner.name.clone(),
            Owner::Organization => self.organization.clone(),
        };
        Repo { owner_name, name: name.to_owned(), owner, id, private: Some(private), tracker: NO_TRACKER }
    }

    /// Creates an issue, a comment, a pull request, a review of it, a label and a milestone. All but the
    /// last two are by a user who is not a caller.
    async fn fill_tracker(&self, repo: &mut Repo, poster: &User) {
        let path = format!("/repos/{}/{}", repo.owner_name, repo.name);
        let owner = match repo.owner {
            Owner::User => &self.owner,
            Owner::Organization => &self.org_owner,
        };
        owner.share(&path, poster, "read").await;
        let issue_number = poster.new_issue(&path, "Issue", json!({})).await["number"].as_i64().unwrap();
        let comment_id = poster.new_comment(&path, issue_number, "Comment").await;
        let (label_id, milestone_id) = (owner.new_label(&path, "label").await, owner.new_milestone(&path, "One").await);
        let change = json!({"message": "m", "content": "eA==", "new_branch": "offered"});
        owner.put(&format!("{path}/contents/offered"), &change).await.expect(201);
        let pull = json!({"head": "offered", "base": "main", "title": "Pull request"});
        let pull = poster.post(&format!("{path}/pulls"), &pull).await.expect(201).json();
        let pull_number = pull["number"].as_i64().unwrap();
        let reviews = format!("{path}/pulls/{pull_number}/reviews");
        let review = json!({"event": "COMMENT", "comments": [{"path": "offered", "body": "Line", "new_position": 1}]});
        let review_id = poster.post(&reviews, &review).await.expect(200).json()["id"].as_i64().unwrap();
        let review_comment_id = poster.get(&format!("{reviews}/{review_id}/comments")).await.expect(200).ids("id")[0];
        repo.tracker =
            Tracker { issue_number, pull_number, review_id, review_comment_id, comment_id, label_id, milestone_id };
    }

    /// Creates a repository like `repo` for a caller that deletes it.
    pub(super) async fn disposable(&self, repo: &Repo) -> Repo {
        self.new_repo(repo.owner, &unique("disposable"), repo.private == Some(true)).await
    }

    async fn make_repos(&mut self, poster: &User) {
        for owner in [Owner::User, Owner::Organization] {
            for (name, private) in [("open", false), ("hidden", true)] {
                let mut repo = self.new_repo(owner, name, private).await;
                self.fill_tracker(&mut repo, poster).await;
                self.repos.push(repo);
            }
        }
        let mut archived = self.new_repo(Owner::User, "archived", false).await;
        self.fill_tracker(&mut archived, poster).await;
        self.owner.patch(&self.owner.repo("archived", ""), &json!({"archived": true})).await.expect(200);
        self.archived.push(archived);
        let mut gone = self.new_repo(Owner::User, "gone", false).await;
        self.fill_tracker(&mut gone, poster).await;
        self.owner.delete(&self.owner.repo("gone", "")).await.expect(204);
        self.repos.push(Repo { private: None, ..gone });
    }

    async fn make_collaborators(&mut self, cluster: &Cluster) {
        for permission in [Permission::Read, Permission::Write, Permission::Admin] {
            let user = cluster.user(&format!("{permission}er")).await;
            for name in ["open", "hidden"] {
                let path = self.owner.repo(name, &format!("/collaborators/{}", user.name));
                self.owner.put(&path, &json!({"permission": permission.to_string()})).await.expect(204);
            }
            let title = format!("collaborator with {permission}");
            self.callers.push(Caller { of_user: permission, ..Caller::new(&title, user) });
        }
    }

    async fn make_members(&mut self, cluster: &Cluster) {
        let org_role = OrgRole::Member;
        for permission in [Permission::Read, Permission::Write, Permission::Admin] {
            let user = cluster.user(&format!("team-{permission}")).await;
            let body = json!({"name": format!("{permission}ers"), "permission": permission.to_string()});
            let made = self.org_owner.post(&format!("/orgs/{}/teams", self.organization), &body).await.expect(201);
            let team = made.json()["id"].as_i64().unwrap();
            let put = async |rest: String| {
                self.org_owner.put(&format!("/teams/{team}/{rest}"), &Value::Null).await.expect(204);
            };
            put(format!("members/{}", user.name)).await;
            put("repos/open".to_owned()).await;
            put("repos/hidden".to_owned()).await;
            let title = format!("member of a team with {permission}");
            self.callers.push(Caller { of_organization: permission, org_role, ..Caller::new(&title, user) });
        }
        let user = cluster.user("member").await;
        let path = format!("/orgs/{}/memberships/{}", self.organization, user.name);
        self.org_owner.put(&path, &json!({"role": "member"})).await.expect(204);
        self.callers.push(Caller { org_role, ..Caller::new("member of no team", user) });
        let owner = Caller::new("owner of the organization", self.org_owner.clone());
        self.callers.push(Caller { of_organization: Permission::Owner, org_role: OrgRole::Owner, ..owner });
    }

    async fn make_tokens(&mut self, cluster: &Cluster, expired: &str) {
        let anonymous = Caller::new("anonymous", cluster.anonymous());
        self.callers.push(Caller { credential: Credential::Nothing, scopes: Default::default(), ..anonymous });
        let outsider = Caller::new("outsider", cluster.user("outsider").await);
        self.callers.push(outsider.with_invalid("unknown token", &"0".repeat(40)));
        let owner = Caller { of_user: Permission::Owner, ..Caller::new("owner", self.owner.clone()) };
        self.callers.push(owner.with_invalid("owner with an expired token", expired));
        let admin = Caller::new("administrator of the site", cluster.admin().await);
        let admin = Caller {
            is_admin: true,
            of_user: Permission::Owner,
            of_organization: Permission::Owner,
            org_role: OrgRole::Owner,
            ..admin
        };
        for scope in Scope::ALL {
            for caller in [&owner, &admin] {
                let name = unique("only");
                let token = token(&caller.user, &name, json!({"scopes": [scope.as_str()]})).await;
                self.callers.push(demoted(caller.with_only(scope, &token)));
            }
        }
        let elsewhere = self.new_repo(Owner::User, "elsewhere", true).await;
        let limits = json!({"repositories": [format!("{}/{}", elsewhere.owner_name, elsewhere.name)]});
        let limited = token(&self.owner, "limited", limits).await;
        self.callers.push(Caller {
            title: "owner with a token for another repository".to_owned(),
            user: self.owner.with_token(Some(&limited)),
            reach: TokenReach::Elsewhere,
            scopes: [Scope::RepoAdmin, Scope::Issue, Scope::Hook].into_iter().collect(),
            ..owner.clone()
        });
        let disabled = cluster.user("disabled").await;
        let path = format!("/admin/users/{}", disabled.name);
        cluster.admin().await.patch(&path, &json!({"active": false})).await.expect(200);
        let disabled_token = disabled.token.clone().unwrap_or_default();
        self.callers.push(Caller::new("", disabled).with_invalid("disabled user", &disabled_token));
        self.callers.extend([outsider, owner, admin]);
    }
}

/// A site administrator without the scope `admin` has no role anywhere.
fn demoted(caller: Caller) -> Caller {
    if caller.is_admin && !caller.administers() {
        let (of_user, of_organization) = (Permission::None, Permission::None);
        return Caller { of_user, of_organization, org_role: OrgRole::Outsider, ..caller };
    }
    caller
}

async fn token(user: &User, name: &str, more: Value) -> String {
    let mut body = json!({"name": name});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    user.make_token(&body).await.expect(201).json()["sha1"].as_str().unwrap().to_owned()
}
