//! What there is: users of every kind, an organization with teams, repositories.

use std::time::Duration;

use ferrite_proto::{Permission, Scope};
use reqwest::Method;
use serde_json::{Value, json};

use super::people::{Credential, Person, Reach, Standing};
use crate::harness::client::unique;
use crate::harness::{Answer, Cluster, User};

/// Whose a repository is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    ByUser,
    ByOrganization,
}

/// A repository to walk on.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) owned: Owned,
    /// Its id; of one that is gone, the id it had.
    pub(super) id: i64,
    /// Whether it is private; `None` when it is not there.
    pub(super) private: Option<bool>,
}

/// Everything that is walked on.
pub(super) struct World {
    pub(super) people: Vec<Person>,
    pub(super) places: Vec<Place>,
    pub(super) organization: String,
    /// The team of the owners, which nobody can remove.
    pub(super) owners_team: i64,
    /// Owner of the repositories of a user.
    pub(super) owner: User,
    /// Owner of the organization.
    pub(super) org_owner: User,
}

impl World {
    pub(super) async fn make(cluster: &Cluster) -> Self {
        let owner = cluster.user("owner").await;
        let org_owner = cluster.user("org-owner").await;
        let organization = format!("{}-org", org_owner.name);
        org_owner.post("/user/orgs", &json!({"username": organization})).await.expect(201);
        let owners_team =
            org_owner.get(&format!("/orgs/{organization}/teams")).await.expect(200).json()[0]["id"].as_i64();
        let mut world = Self {
            people: Vec::new(),
            places: Vec::new(),
            organization,
            owners_team: owners_team.unwrap(),
            owner,
            org_owner,
        };
        world.places().await;
        world.collaborators(cluster).await;
        world.members(cluster).await;
        world.tokens(cluster).await;
        world
    }

    /// Makes a repository.
    pub(super) async fn repository(&self, owned: Owned, name: &str, private: bool) -> Place {
        let body = json!({"name": name, "private": private, "auto_init": true});
        let made = match owned {
            Owned::ByUser => self.owner.post("/user/repos", &body).await,
            Owned::ByOrganization => self.org_owner.post(&format!("/org/{}/repos", self.organization), &body).await,
        };
        let id = made.expect(201).json()["id"].as_i64().unwrap();
        let owner = match owned {
            Owned::ByUser => self.owner.name.clone(),
            Owned::ByOrganization => self.organization.clone(),
        };
        Place { owner, name: name.to_owned(), owned, id, private: Some(private) }
    }

    async fn places(&mut self) {
        for owned in [Owned::ByUser, Owned::ByOrganization] {
            for (name, private) in [("open", false), ("hidden", true)] {
                let place = self.repository(owned, name, private).await;
                self.places.push(place);
            }
        }
        let gone = self.repository(Owned::ByUser, "gone", false).await;
        self.owner.delete(&self.owner.repo("gone", "")).await.expect(204);
        self.places.push(Place { private: None, ..gone });
    }

    async fn collaborators(&mut self, cluster: &Cluster) {
        for permission in [Permission::Read, Permission::Write, Permission::Admin] {
            let user = cluster.user(&format!("{permission}er")).await;
            for name in ["open", "hidden"] {
                let path = self.owner.repo(name, &format!("/collaborators/{}", user.name));
                self.owner.put(&path, &json!({"permission": permission.to_string()})).await.expect(204);
            }
            let title = format!("collaborator with {permission}");
            self.people.push(Person { of_user: permission, ..Person::new(&title, user) });
        }
    }

    async fn members(&mut self, cluster: &Cluster) {
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
            let standing = Standing::Member;
            self.people.push(Person { of_organization: permission, standing, ..Person::new(&title, user) });
        }
        let user = cluster.user("member").await;
        let path = format!("/orgs/{}/memberships/{}", self.organization, user.name);
        self.org_owner.put(&path, &json!({"role": "member"})).await.expect(204);
        self.people.push(Person { standing: Standing::Member, ..Person::new("member of no team", user) });
        let owner = Person::new("owner of the organization", self.org_owner.clone());
        self.people.push(Person { of_organization: Permission::Owner, standing: Standing::Owner, ..owner });
    }

    async fn tokens(&mut self, cluster: &Cluster) {
        let nobody = Person::new("nobody", cluster.anonymous());
        self.people.push(Person { credential: Credential::Nothing, scopes: Default::default(), ..nobody });
        let stranger = Person::new("stranger", cluster.user("stranger").await);
        self.people.push(stranger.with_invalid("unknown token", &"0".repeat(40)));
        let owner = Person { of_user: Permission::Owner, ..Person::new("owner", self.owner.clone()) };
        let admin = Person::new("administrator of the site", cluster.admin().await);
        let admin = Person {
            is_admin: true,
            of_user: Permission::Owner,
            of_organization: Permission::Owner,
            standing: Standing::Owner,
            ..admin
        };
        for scope in Scope::ALL {
            for person in [&owner, &admin] {
                let name = unique("only");
                let token = token(&person.user, &name, json!({"scopes": [scope.as_str()]})).await;
                self.people.push(demoted(person.with_only(scope, &token)));
            }
        }
        let elsewhere = self.repository(Owned::ByUser, "elsewhere", true).await;
        let limits = json!({"repositories": [format!("{}/{}", elsewhere.owner, elsewhere.name)]});
        let limited = token(&self.owner, "limited", limits).await;
        self.people.push(Person {
            title: "owner with a token for another repository".to_owned(),
            user: self.owner.with_token(Some(&limited)),
            reach: Reach::Elsewhere,
            scopes: [Scope::RepoAdmin, Scope::Issue, Scope::Hook].into_iter().collect(),
            ..owner.clone()
        });
        let disabled = cluster.user("disabled").await;
        let path = format!("/admin/users/{}", disabled.name);
        Answer::of(cluster.admin().await.request(Method::PATCH, &path).json(&json!({"active": false})))
            .await
            .expect(200);
        let disabled_token = disabled.token.clone().unwrap_or_default();
        self.people.push(Person::new("", disabled).with_invalid("disabled user", &disabled_token));
        let soon = chrono::Utc::now() + Duration::from_secs(2);
        let expiring = token(&self.owner, "expiring", json!({"expires_at": soon.to_rfc3339()})).await;
        self.people.push(owner.with_invalid("owner with an expired token", &expiring));
        self.people.extend([stranger, owner, admin]);
        tokio::time::sleep(Duration::from_millis(2100)).await;
    }
}

/// What is left of an administrator of the site whose token is not for that: a stranger.
fn demoted(person: Person) -> Person {
    if person.is_admin && !person.administers() {
        let (of_user, of_organization) = (Permission::None, Permission::None);
        return Person { of_user, of_organization, standing: Standing::Outsider, ..person };
    }
    person
}

/// A token of a user's with more in its request than a name.
pub(super) async fn token(user: &User, name: &str, more: Value) -> String {
    let mut body = json!({"name": name});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let request = user.raw(Method::POST, &format!("/api/v1/users/{}/tokens", user.name));
    let made = Answer::of(request.basic_auth(&user.name, Some(&user.password)).json(&body)).await;
    made.expect(201).json()["sha1"].as_str().unwrap().to_owned()
}
