//! What the table means for a caller.

use ferrite_proto::{Permission, Scope};
use repo_svc::access::{RequiredRole, Rule, Unit};

use super::fixture::{Owned, Place};
use super::people::{Credential, Person, Reach, Standing};

/// How a request is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on; whether it then succeeds is another matter.
    Allowed,
    /// 401
    Unauthenticated,
    /// 403
    Forbidden,
    /// 404, as if it were not there.
    Hidden,
}

/// The door that a request comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Api,
    /// Where being an administrator of the site is worth no more than looking.
    Git,
}

use Verdict::{Allowed, Forbidden, Hidden, Unauthenticated};

/// How an operation ends that concerns no repository; `exists` says whether the organization or team that it concerns is there.
pub(super) fn of_rule(rule: Rule, person: &Person, exists: bool) -> Verdict {
    if person.credential == Credential::Invalid {
        return Unauthenticated;
    }
    let is_nobody = person.credential == Credential::Nothing;
    let has = |scope: Option<Scope>| scope.is_none_or(|scope| person.scopes.contain(scope));
    match rule {
        Rule::Anyone => Allowed,
        Rule::Service if is_nobody => Unauthenticated,
        Rule::Service => Forbidden,
        Rule::Password => Unauthenticated,
        _ if is_nobody => Unauthenticated,
        Rule::User(scope) => {
            if has(scope) {
                Allowed
            } else {
                Forbidden
            }
        }
        Rule::Administrator => {
            if person.administers() {
                Allowed
            } else {
                Forbidden
            }
        }
        Rule::Organization(_, scope) if !has(Some(scope)) => Forbidden,
        Rule::Team(_) if !has(Some(Scope::Org)) => Forbidden,
        Rule::Organization(..) | Rule::Team(_) if !exists => Hidden,
        Rule::Team(_) if person.standing == Standing::Outsider && !person.administers() => Hidden,
        Rule::Organization(role, _) | Rule::Team(role) => standing(role, person),
        Rule::Repository { .. } => panic!("a repository is needed"),
    }
}

/// Requests of the walk never concern the caller itself.
fn standing(role: RequiredRole, person: &Person) -> Verdict {
    let needed = match role {
        RequiredRole::Member => Standing::Member,
        RequiredRole::Owner | RequiredRole::OwnerOrSelf => Standing::Owner,
    };
    if person.administers() || person.standing >= needed { Allowed } else { Forbidden }
}

/// How an operation on a repository ends.
pub(super) fn on_place(
    unit: Unit,
    level: Permission,
    anonymous: bool,
    person: &Person,
    place: &Place,
    door: Door,
) -> Verdict {
    let Some(private) = place.private else {
        return match person.credential {
            Credential::Invalid => Unauthenticated,
            Credential::Nothing if !anonymous || door == Door::Git => Unauthenticated,
            Credential::Nothing | Credential::Token => Hidden,
        };
    };
    let is_open = anonymous && level == Permission::Read && !private;
    match person.credential {
        Credential::Invalid => return Unauthenticated,
        Credential::Nothing if is_open => return Allowed,
        Credential::Nothing if anonymous && door == Door::Api => return Hidden,
        Credential::Nothing => return Unauthenticated,
        Credential::Token => {}
    }
    let role = match (place.owned, door) {
        (_, Door::Git) if person.administers() => Permission::Read,
        (Owned::ByUser, _) => person.of_user,
        (Owned::ByOrganization, _) => person.of_organization,
    };
    // Where a token does not reach, its owner is a stranger.
    let role = if person.reach == Reach::Elsewhere { Permission::None } else { role };
    let role = if private { role } else { role.max(Permission::Read) };
    let left = |unit| role.min(cap(unit, person));
    let is_visible =
        !private || [Unit::Repository, Unit::Issues, Unit::Hooks].into_iter().any(|unit| left(unit) > Permission::None);
    match () {
        () if !is_visible => Hidden,
        () if is_open || left(unit) >= level => Allowed,
        () => Forbidden,
    }
}

fn cap(unit: Unit, person: &Person) -> Permission {
    let has = |scope| person.scopes.contain(scope);
    match unit {
        Unit::Repository if has(Scope::RepoAdmin) => Permission::Owner,
        Unit::Repository if has(Scope::RepoWrite) => Permission::Write,
        Unit::Repository if has(Scope::RepoRead) => Permission::Read,
        Unit::Issues if has(Scope::Issue) => Permission::Owner,
        Unit::Hooks if has(Scope::Hook) => Permission::Owner,
        Unit::Repository | Unit::Issues | Unit::Hooks => Permission::None,
    }
}
