//! Tests of the shipped binary from outside: real processes, real sockets, the real git program, in both profiles.
//!
//! Not here: what one crate can show by itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[macro_use]
mod harness;

mod accounts;
mod administration;
mod archives;
mod attacks_access;
mod audit;
mod avatars;
mod bad_input;
mod changes;
mod closing;
mod collaborators;
mod comments;
mod compatibility;
mod contents;
mod crashes;
mod cut_clients;
mod deliveries;
mod deploy_keys;
mod direct;
mod disk;
mod durability;
mod emails;
mod events;
mod feed;
mod follows;
mod fork_durability;
mod forks;
mod git_data;
mod git_http;
mod git_http_access;
mod history;
mod hooks;
mod issue_durability;
mod issue_edits;
mod issue_labels;
mod issue_lists;
mod issue_pages;
mod issue_races;
mod issue_tracker;
mod issues;
mod labels;
mod launcher;
mod limits;
mod markdown;
mod matrix;
mod members;
mod migrations;
mod milestones;
mod mirrors;
mod organization_repositories;
mod organizations;
mod permission_table;
mod protection;
mod protocol;
mod public_keys;
mod reading;
mod release_uploads;
mod releases;
mod repositories;
mod repository_settings;
mod revocation;
mod shapes;
mod ssh;
mod stars;
mod teams;
mod throttling;
mod timeline;
mod tokens;
mod traces;
mod transports;
mod user_issues;
mod users;
mod webhook_durability;
mod webhooks;
mod wiki;
