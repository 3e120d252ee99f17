//! Rules of the table, and what counts as a read.

use super::*;
use crate::callers::callers;

#[test]
fn every_operation_that_does_not_read_is_a_write() {
    for read in [LIST_BRANCHES, GET_ISSUE, WATCH_EVENTS, LIST_EVENTS, UPLOAD_PACK, RAW, ASSET, ARCHIVE, DIFF, ""] {
        assert!(!is_write(read), "{read}");
    }
    for write in [PUT_CONTENTS, CREATE_ISSUE, REDELIVER, SET_PROTECTION, SYNC_MIRROR, RECEIVE_PACK, UPLOAD_ASSET] {
        assert!(is_write(write), "{write}");
    }
    for (name, expected) in [
        ("ferrite.repo.v1.AccessService/CheckAccess", false),
        (IS_STARRED, false),
        (WATCH_REPOSITORY, true),
        ("ferrite.repo.v1.NoSuchService/GetAnything", true),
        ("grpc.health.v1.Health/Check", false),
    ] {
        assert_eq!(is_write(name), expected, "{name}");
    }
}

#[test]
fn a_read_has_the_name_of_one_and_a_write_is_not_repeated() {
    const READS: [&str; 19] = [
        "Get",
        "List",
        "Search",
        "IsFollowing",
        "IsStarred",
        "Authenticate",
        "ResolveAccess",
        "ResolveActivityAccess",
        "ResolveFeedAccess",
        "ResolveIssueAccess",
        "ResolveKey",
        "RenewAccess",
        "Reauthorize",
        "Check",
        "Compare",
        "Describe",
        "Find",
        "FollowLines",
        "WatchEvents",
    ];
    for row in RPCS {
        let method = row.name.split_once('/').unwrap().1;
        let is_read = READS.iter().any(|name| method.starts_with(name));
        assert_eq!(row.is_write, !is_read, "{}", row.name);
        // A service applies an event once, and the head of a pull request has a sequence number.
        // Every read may be retried, except for a stream that has begun.
        let is_repeatable = match row.is_write {
            true => ["Deliver", "SetPullHead"].contains(&method),
            false => method != "WatchEvents",
        };
        assert_eq!(row.is_repeatable, is_repeatable, "{}", row.name);
    }
}

#[test]
fn what_takes_access_away_does_nothing_else() {
    const VERBS: [&str; 4] = ["Cancel", "Delete", "Reject", "Remove"];
    let marked: std::collections::BTreeSet<_> =
        OPERATIONS.iter().filter(|row| row.takes_access_away).map(|row| row.name).collect();
    assert_eq!(marked.len(), 12, "{marked:?}");
    for name in marked {
        let method = name.split_once('/').unwrap().1;
        assert!(VERBS.iter().any(|verb| method.starts_with(verb)) && is_write(name), "{name}");
        assert!(takes_access_away(name), "{name}");
    }
    for other in [CREATE_HOOK, UPDATE_REPOSITORY, LIST_HOOKS, "ferrite.repo.v1.NoSuchService/DeleteAnything", ""] {
        assert!(!takes_access_away(other), "{other}");
    }
}

#[test]
fn pages_of_wikis_are_apart_from_settings_of_wikis() {
    let of_wiki: Vec<_> = OPERATIONS.iter().map(|row| row.name).filter(|name| is_of_wiki(name)).collect();
    assert!(of_wiki.len() == 6 && of_wiki.contains(&GET_WIKI_PAGE), "{of_wiki:?}");
    assert!(!is_of_wiki(UPDATE_WIKI) && !is_of_wiki(RAW) && !is_of_wiki(RECEIVE_PACK));
}

#[test]
fn what_the_gateway_may_not_call_is_for_services_only() {
    let mut count = 0;
    for row in OPERATIONS {
        if ServiceRole::ALL.iter().any(|callee| callers(row.name, *callee).contains(&Gateway)) {
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
    assert_eq!(methods, ["SetMembership", "AddTeamMember", "AddTeamRepository", "CreateTeam", "UpdateTeam"]);
    assert!(OPERATIONS.iter().all(|row| row.further_scope.is_none() || row.capacity == Capacity::Own));
}

#[test]
fn operations_are_listed_once_and_by_name_so_that_each_is_found() {
    assert!(OPERATIONS.windows(2).all(|rows| (rows[0].name, rows[0].capacity) != (rows[1].name, rows[1].capacity)));
    assert!(OPERATIONS.is_sorted_by_key(|row| row.name));
    for row in OPERATIONS {
        let found = Operation::find(row.name, row.capacity).map(|row| (row.name, row.capacity));
        assert_eq!(found, Some((row.name, row.capacity)));
        assert_eq!(Operation::named(row.name).map(|row| row.name), Some(row.name));
    }
    for other in ["", "a", "ferrite.repo.v1.AccountService/", "git/upload-pack2", "z"] {
        assert!(Operation::named(other).is_none(), "{other}");
    }
}

#[test]
fn what_changes_a_repository_is_refused_on_archived_ones_or_named_here() {
    const READS: [&str; 6] = ["Get", "List", "Watch", "Compare", "Describe", "FollowLines"];
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
        "AddRepositoryTeam",
        "RemoveRepositoryTeam",
        "CreateDeployKey",
        "DeleteDeployKey",
        "StartTransfer",
        "CancelTransfer",
        "UpdateMirror",
        // It changes the fork.
        "ForkRepository",
        // They repeat earlier deliveries.
        "Redeliver",
        "ReplayDeliveries",
        "TestHook",
        // HTTP bodies that are read.
        "upload-pack",
        "raw",
        "archive",
        "asset",
        "diff",
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
