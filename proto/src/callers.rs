//! Which roles may call which operations of a service with their own token. Every service checks
//! this before an RPC runs.
//!
//! The gateway acts for users, so it may call everything except what services only use among
//! themselves. The other roles may only call what their contract allows (`callers` of
//! `ferrite.access.v1.rule`).

use crate::ServiceRole;
use crate::ServiceRole::{Gateway, GitSvc, HookSvc, IssueSvc, RepoSvc};
use crate::events::event::Fact;
use crate::operation::Operation;

/// The RPC that receives events.
const DELIVER: &str = "ferrite.events.v1.EventSink/Deliver";

/// Returns the roles that may call `operation` of the service `callee`. The operation is the full
/// name of an RPC, or the path of an HTTP body of git-svc.
#[must_use]
pub fn callers(operation: &str, callee: ServiceRole) -> &'static [ServiceRole] {
    if operation == DELIVER {
        return emitters(callee);
    }
    Operation::named(operation).map_or(&[Gateway], |row| row.callers)
}

/// Returns the roles whose events `subscriber` receives.
fn emitters(subscriber: ServiceRole) -> &'static [ServiceRole] {
    match subscriber {
        Gateway => &[],
        RepoSvc => &[IssueSvc, HookSvc, GitSvc],
        IssueSvc => &[RepoSvc, GitSvc],
        HookSvc => &[RepoSvc, IssueSvc, GitSvc],
        GitSvc => &[RepoSvc],
    }
}

/// Returns the only role that may emit `fact`.
#[must_use]
pub fn emitter(fact: &Fact) -> ServiceRole {
    match fact {
        Fact::RepositoryCreated(_)
        | Fact::RepositoryDeleted(_)
        | Fact::RepositoryUpdated(_)
        | Fact::RepositoryForked(_)
        | Fact::OrganizationDeleted(_)
        | Fact::ReleasePublished(_) => RepoSvc,
        Fact::IssueChanged(_) | Fact::IssueUpdated(_) | Fact::CommentChanged(_) | Fact::PullReviewed(_) => IssueSvc,
        Fact::HookChanged(_) => HookSvc,
        Fact::RefsUpdated(_)
        | Fact::SizeChanged(_)
        | Fact::ProtectionChanged(_)
        | Fact::MigrationEnded(_)
        | Fact::MirrorChanged(_)
        | Fact::StatusCreated(_)
        | Fact::LanguageChanged(_) => GitSvc,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;
    use crate::DESCRIPTORS;
    use crate::operation::OPERATIONS;

    /// Returns all RPCs, each with the services that serve it.
    fn calls() -> Vec<(String, Vec<ServiceRole>)> {
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
        let ours = set.file.iter().filter(|file| file.package().starts_with("ferrite."));
        ours.flat_map(|file| file.service.iter().map(move |service| (file.package(), service)))
            .flat_map(|(package, service)| {
                let served_by = match package {
                    "ferrite.repo.v1" => vec![RepoSvc],
                    "ferrite.issue.v1" => vec![IssueSvc],
                    "ferrite.hook.v1" => vec![HookSvc],
                    "ferrite.git.v1" => vec![GitSvc],
                    "ferrite.events.v1" => vec![RepoSvc, IssueSvc, HookSvc, GitSvc],
                    other => panic!("no service of {other}"),
                };
                let name = move |method: &str| format!("{package}.{}/{method}", service.name());
                service.method.iter().map(move |method| (name(method.name()), served_by.clone()))
            })
            .collect()
    }

    #[test]
    fn every_call_of_every_role_is_admitted_or_refused_by_the_table() {
        let (mut table, mut admitted) = (String::new(), BTreeMap::<_, Vec<String>>::new());
        for (name, served_by) in calls() {
            for callee in served_by {
                write!(table, "{callee:>9}  {name:60}").unwrap();
                for caller in ServiceRole::ALL {
                    let is_admitted = callers(&name, callee).contains(&caller);
                    write!(table, " {}", if is_admitted { caller.as_str() } else { "-" }).unwrap();
                    if is_admitted && caller != Gateway {
                        let method = name.rsplit_once('/').unwrap().1;
                        admitted.entry((caller, callee)).or_default().push(method.to_owned());
                    }
                }
                table.push('\n');
            }
        }
        eprintln!("{table}");
        // Read as: caller, callee, operations. Everything else is only for the gateway.
        let expected: [((ServiceRole, ServiceRole), &[&str]); 11] = [
            (
                (RepoSvc, GitSvc),
                &[
                    "CreateRepository",
                    "CreateTag",
                    "DeleteAssetFiles",
                    "DeleteRepository",
                    "Deliver",
                    "GetMigration",
                    "GetStoreStatus",
                    "SetDefaultBranch",
                    "StartMigration",
                ],
            ),
            ((RepoSvc, IssueSvc), &["Deliver"]),
            ((RepoSvc, HookSvc), &["Deliver"]),
            (
                (IssueSvc, RepoSvc),
                &[
                    "Authenticate",
                    "CheckAccess",
                    "CheckPullSource",
                    "Deliver",
                    "DescribeRepositories",
                    "DescribeReviewers",
                    "ReauthorizeAccess",
                    "RenewAccess",
                    "ResolveAccess",
                    "ResolveIssueAccess",
                ],
            ),
            ((IssueSvc, HookSvc), &["Deliver"]),
            (
                (IssueSvc, GitSvc),
                &[
                    "DeleteBranch",
                    "FindLines",
                    "FindMerged",
                    "ListMerges",
                    "ListPushedCommits",
                    "MergePull",
                    "SetPullHead",
                    "StageHead",
                ],
            ),
            (
                (HookSvc, RepoSvc),
                &[
                    "Authenticate",
                    "CheckAccess",
                    "Deliver",
                    "DescribeRepositories",
                    "GetUsers",
                    "ResolveAccess",
                    "ResolveActivityAccess",
                    "ResolveFeedAccess",
                ],
            ),
            ((HookSvc, GitSvc), &["DescribeUpdates"]),
            (
                (GitSvc, RepoSvc),
                &["Authenticate", "Deliver", "GetStorageQuota", "GetTagUse", "ReauthorizeAccess", "ResolveAccess"],
            ),
            ((GitSvc, IssueSvc), &["Deliver"]),
            ((GitSvc, HookSvc), &["Deliver"]),
        ];
        let expected: BTreeMap<_, _> = expected.into_iter().collect();
        for names in admitted.values_mut() {
            names.sort();
        }
        let admitted: BTreeMap<_, Vec<_>> =
            admitted.iter().map(|(pair, names)| (*pair, names.iter().map(String::as_str).collect())).collect();
        let expected: BTreeMap<_, Vec<_>> =
            expected.into_iter().map(|(pair, names): (_, &[&str])| (pair, names.to_vec())).collect();
        assert_eq!(admitted, expected);
    }

    #[test]
    fn what_services_keep_among_themselves_is_refused_to_the_gateway() {
        let refused: Vec<_> = calls()
            .into_iter()
            .flat_map(|(name, served_by)| served_by.into_iter().map(move |callee| (name.clone(), callee)))
            .filter(|(name, callee)| !callers(name, *callee).contains(&Gateway))
            .map(|(name, _)| name)
            .collect();
        // Events are one RPC of four services; the rest are RPCs of one.
        let rows = OPERATIONS.iter().filter(|row| !row.callers.contains(&Gateway)).count();
        assert_eq!(refused.len(), rows + 3, "{refused:?}");
    }

    #[test]
    fn paths_of_bodies_and_unknown_operations_are_for_the_gateway_alone() {
        for operation in ["git/1/raw", "git/1/session", "git/1/asset", "", "ferrite.git.v1.StorageService/NoSuchCall"] {
            assert_eq!(callers(operation, GitSvc), [Gateway], "{operation}");
        }
    }

    #[test]
    fn names_of_roles_are_read_back() {
        for role in ServiceRole::ALL {
            assert_eq!(ServiceRole::parse(role.as_str()), Some(role));
        }
        assert_eq!(ServiceRole::parse("Gateway"), None);
    }
}
