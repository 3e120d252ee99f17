//! The table against the contracts, and its rules among themselves.

use std::collections::BTreeSet;

use ferrite_proto::callers::callers;
use ferrite_proto::{DESCRIPTORS, ServiceRole, contract};
use prost::Message;

use super::*;

#[test]
fn every_rpc_is_in_the_table_and_nothing_else() {
    let set = prost_types::FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let ours = set.file.iter().filter(|file| file.package().starts_with("ferrite."));
    let rpcs: BTreeSet<_> = ours
        .flat_map(|file| file.service.iter().map(move |service| (file.package(), service)))
        .flat_map(|(package, service)| {
            service.method.iter().map(move |method| format!("{package}.{}/{}", service.name(), method.name()))
        })
        .collect();
    let table: BTreeSet<_> =
        OPERATIONS.iter().map(|row| row.name.to_owned()).filter(|name| name.starts_with("ferrite.")).collect();
    assert_eq!(rpcs, table);
}

#[test]
fn what_the_gateway_may_not_call_is_for_services_only() {
    let mut count = 0;
    for row in OPERATIONS {
        if ServiceRole::ALL.iter().any(|callee| callers(row.name, *callee).contains(&ServiceRole::Gateway)) {
            continue;
        }
        count += 1;
        assert_eq!(row.rule, Rule::Service, "{}", row.name);
    }
    assert!(count > 10, "{count}");
}

#[test]
fn to_give_access_to_an_organization_takes_the_scope_for_repositories_as_well() {
    let marked = OPERATIONS.iter().filter(|row| row.further_scope == Some(Scope::RepoAdmin));
    let methods: Vec<_> = marked.map(|row| row.name.split_once('/').unwrap().1).collect();
    assert_eq!(methods, ["SetMembership", "CreateTeam", "UpdateTeam", "AddTeamMember", "AddTeamRepository"]);
    assert!(OPERATIONS.iter().all(|row| row.further_scope.is_none() || row.capacity == Capacity::Own));
}

#[test]
fn no_operation_is_listed_twice() {
    for (place, row) in OPERATIONS.iter().enumerate() {
        let before = &OPERATIONS[..place];
        assert!(before.iter().all(|other| (other.name, other.capacity) != (row.name, row.capacity)), "{}", row.name);
    }
}

#[test]
fn what_changes_a_repository_is_refused_on_archived_ones_or_named_here() {
    const READS: [&str; 3] = ["Get", "List", "Watch"];
    const ALLOWED: &[&str] = &[
        // Settings and access.
        "UpdateRepository",
        "DeleteRepository",
        "UpdateIssueTracker",
        "UpdateWiki",
        "SetTopics",
        "AddTopic",
        "RemoveTopic",
        "SetCollaborator",
        "RemoveCollaborator",
        "CreateDeployKey",
        "DeleteDeployKey",
        "StartTransfer",
        "CancelTransfer",
        "UpdateMirror",
        // What it changes is the fork.
        "ForkRepository",
        // Deliveries of what happened before.
        "Redeliver",
        "ReplayDeliveries",
        "TestHook",
        // Bodies that are read.
        "upload-pack",
        "raw",
        "archive",
        "asset",
    ];
    for row in OPERATIONS {
        let Rule::Repository { level, .. } = row.rule else {
            assert!(!row.changes_content, "{} has no repository", row.name);
            continue;
        };
        let method = row.name.split_once('/').unwrap().1;
        let is_read = READS.iter().any(|verb| method.starts_with(verb));
        assert_eq!(row.changes_content, !is_read && !ALLOWED.contains(&method), "{} ({level})", row.name);
    }
}

#[test]
fn anonymous_callers_can_only_read_repositories() {
    for row in OPERATIONS {
        if let Rule::Repository { level, anonymous: true, .. } = row.rule {
            assert_eq!(level, Permission::Read, "{}", row.name);
        }
    }
}

#[test]
fn the_contracts_say_the_same() {
    let ours: BTreeSet<_> = OPERATIONS
        .iter()
        .map(|row| format!("{:?}", (row.name, row.capacity, row.rule, row.further_scope, row.changes_content)))
        .collect();
    let generated: BTreeSet<_> = contract::OPERATIONS
        .iter()
        .map(|row| format!("{:?}", (row.name, row.capacity, row.rule, row.further_scope, row.changes_content)))
        .collect();
    assert_eq!(ours, generated);
    assert_eq!(OPERATIONS.len(), contract::OPERATIONS.len());
    for row in contract::OPERATIONS {
        assert_eq!(row.is_write, operation::is_write(row.name), "{}", row.name);
        let is_for_services = row.rule == ferrite_proto::Rule::Service;
        for callee in ServiceRole::ALL {
            // Who tells a service of events depends on what it subscribes to.
            if row.name != "ferrite.events.v1.EventSink/Deliver" {
                assert_eq!(row.callers, callers(row.name, callee), "{}", row.name);
            }
        }
        assert!(is_for_services || row.callers.contains(&ServiceRole::Gateway), "{}", row.name);
    }
}
