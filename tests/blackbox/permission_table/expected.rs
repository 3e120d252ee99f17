//! The expected response to a caller according to the permission table, computed without the
//! service's code.

use ferrite_proto::{Permission, Scope, operation};
use repo_svc::access::{Operation, RequiredRole, Rule, Unit};

use super::callers::{Caller, Credential, OrgRole, TokenReach};
use super::fixture::{Owner, Repo};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The table allows the request; it may still fail for another reason.
    Allowed,
    /// 401
    Unauthenticated,
    /// 403
    Forbidden,
    /// 404, as for a missing resource.
    Hidden,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    Api,
    /// git over HTTP. A site administrator can only read here.
    Git,
}

use Expected::{Allowed, Forbidden, Hidden, Unauthenticated};

/// The operation of a route. What anyone may read of an account needs a token if that is the caller's
/// own, which the path does not name.
pub(super) fn of_route(operation: &Operation, path: &str) -> Operation {
    let rule = match (operation.rule, operation.name) {
        (Rule::Anyone, _) if !path.starts_with("/api/v1/user/") => Rule::Anyone,
        (Rule::Anyone, operation::LIST_REPOSITORIES) => Rule::User(Some(Scope::RepoRead)),
        (Rule::Anyone, _) => Rule::User(None),
        (rule, _) => rule,
    };
    Operation { rule, ..*operation }
}

/// Expectation for an operation that is not about a repository. `exists` tells whether its
/// organization or team exists.
pub(super) fn of_operation(operation: &Operation, caller: &Caller, exists: bool) -> Expected {
    let rule = operation.rule;
    if rule == Rule::Public {
        return Allowed;
    }
    if caller.credential == Credential::Invalid {
        return Unauthenticated;
    }
    let is_anonymous = caller.credential == Credential::Nothing;
    let has = |scope: Option<Scope>| scope.is_none_or(|scope| caller.scopes.contain(scope));
    match rule {
        Rule::Public | Rule::Anyone => Allowed,
        Rule::Service if is_anonymous => Unauthenticated,
        Rule::Service => Forbidden,
        Rule::Password => Unauthenticated,
        _ if is_anonymous => Unauthenticated,
        Rule::User(scope) => {
            if has(scope) {
                Allowed
            } else {
                Forbidden
            }
        }
        Rule::Administrator => {
            if caller.administers() {
                Allowed
            } else {
                Forbidden
            }
        }
        Rule::Organization(_, scope) if !has(Some(scope)) => Forbidden,
        Rule::Team(_) if !has(Some(Scope::Org)) => Forbidden,
        _ if !has(operation.further_scope) => Forbidden,
        Rule::Organization(..) | Rule::Team(_) if !exists => Hidden,
        Rule::Team(_) if caller.org_role == OrgRole::Outsider && !caller.administers() => Hidden,
        Rule::Organization(role, _) | Rule::Team(role) => by_org_role(role, caller),
        Rule::Repository { .. } => panic!("a repository is needed"),
    }
}

/// The requests here never concern the caller itself, so `OwnerOrSelf` requires an owner, and no
/// team may create repositories, so `Creator` does, too.
fn by_org_role(role: RequiredRole, caller: &Caller) -> Expected {
    let needed = match role {
        RequiredRole::Member => OrgRole::Member,
        RequiredRole::Owner | RequiredRole::OwnerOrSelf | RequiredRole::Creator => OrgRole::Owner,
    };
    if caller.administers() || caller.org_role >= needed { Allowed } else { Forbidden }
}

pub(super) fn on_repo(
    unit: Unit,
    level: Permission,
    anonymous: bool,
    caller: &Caller,
    repo: &Repo,
    interface: Interface,
) -> Expected {
    let Some(private) = repo.private else {
        return match caller.credential {
            Credential::Invalid => Unauthenticated,
            Credential::Nothing if !anonymous || interface == Interface::Git => Unauthenticated,
            Credential::Nothing | Credential::Token => Hidden,
        };
    };
    let is_open = anonymous && level == Permission::Read && !private;
    match caller.credential {
        Credential::Invalid => return Unauthenticated,
        Credential::Nothing if is_open => return Allowed,
        Credential::Nothing if anonymous && interface == Interface::Api => return Hidden,
        Credential::Nothing => return Unauthenticated,
        Credential::Token => {}
    }
    let role = match (repo.owner, interface) {
        (_, Interface::Git) if caller.administers() => Permission::Read,
        (Owner::User, _) => caller.of_user,
        (Owner::Organization, _) => caller.of_organization,
    };
    // On repositories outside a token's reach, its owner has no role.
    let role = if caller.reach == TokenReach::Elsewhere { Permission::None } else { role };
    let role = if private { role } else { role.max(Permission::Read) };
    let left = |unit| role.min(cap(unit, caller));
    let is_visible =
        !private || [Unit::Repository, Unit::Issues, Unit::Hooks].into_iter().any(|unit| left(unit) > Permission::None);
    match () {
        () if !is_visible => Hidden,
        () if is_open || left(unit) >= level => Allowed,
        () => Forbidden,
    }
}

/// The highest level that the scopes of a caller's token allow on a part of a repository.
fn cap(unit: Unit, caller: &Caller) -> Permission {
    let has = |scope| caller.scopes.contain(scope);
    match unit {
        Unit::Repository if has(Scope::RepoAdmin) => Permission::Owner,
        Unit::Repository if has(Scope::RepoWrite) => Permission::Write,
        Unit::Repository if has(Scope::RepoRead) => Permission::Read,
        Unit::Issues if has(Scope::Issue) => Permission::Owner,
        Unit::Hooks if has(Scope::Hook) => Permission::Owner,
        Unit::Forks if has(Scope::RepoAdmin) => Permission::Owner,
        Unit::Repository | Unit::Issues | Unit::Hooks | Unit::Forks => Permission::None,
    }
}
