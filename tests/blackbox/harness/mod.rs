//! Starts real installations of the released binary, in both profiles, and sends requests to them.
//!
//! Every child process holds a pipe from this process. When this process ends, in any way, the
//! pipes close, the children stop and their folders are removed.

pub(crate) mod accounts;
pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod concurrent;
pub(crate) mod document;
pub(crate) mod gateway;
pub(crate) mod git;
pub(crate) mod git_server;
pub(crate) mod grpc;
pub(crate) mod keys;
pub(crate) mod network;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod replicas;
pub(crate) mod rows;
pub(crate) mod servers;
pub(crate) mod ssh;
pub(crate) mod tracker;
pub(crate) mod tree;

use std::future::Future;
use std::sync::{Arc, OnceLock};

pub(crate) use client::{Response, User};
pub(crate) use cluster::{Cluster, Options, Profile, Role};
pub(crate) use git::Git;

/// The installation shared by all tests of a profile.
pub(crate) fn shared(profile: Profile) -> Arc<Cluster> {
    static EMBEDDED: OnceLock<Arc<Cluster>> = OnceLock::new();
    static PRODUCTION: OnceLock<Arc<Cluster>> = OnceLock::new();
    let place = match profile {
        Profile::Embedded => &EMBEDDED,
        Profile::Production => &PRODUCTION,
    };
    Arc::clone(place.get_or_init(|| Arc::new(Cluster::start(profile, &Options::default()))))
}

/// The installation shared by tests of replicas and stores: two processes of each role and three
/// stores, none of which is stopped.
pub(crate) fn replicated() -> Arc<Cluster> {
    static REPLICATED: OnceLock<Arc<Cluster>> = OnceLock::new();
    let options = || Options { replicas: 2, stores: 3, settings: receiver::LOOPBACK.to_vec(), ..Options::default() };
    Arc::clone(REPLICATED.get_or_init(|| Arc::new(Cluster::start(Profile::Production, &options()))))
}

/// Whether this is `make test-slow`.
pub(crate) fn is_slow() -> bool {
    std::env::vars_os().any(|(name, value)| name == "FERRITE_TEST_SLOW" && !value.is_empty())
}

/// Rounds of a stress test: a tenth of `full`, or all of them in `make test-slow`.
pub(crate) fn rounds(full: usize) -> usize {
    if is_slow() { full } else { full.div_ceil(10) }
}

pub(crate) fn run(cluster: &Cluster, test: impl Future<Output = ()>) {
    run_expecting_errors(cluster, &[], test);
}

/// Like [`run`], for a test that causes errors: log lines with one of these texts are allowed.
pub(crate) fn run_expecting_errors(cluster: &Cluster, expected: &[&str], test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let before = cluster.log().errors().len();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(test)));
    runtime.shutdown_background();
    if let Err(panic) = outcome {
        let all = cluster.log().all();
        let warnings = all.iter().filter(|line| !line.contains("\"level\":\"INFO\""));
        let last: Vec<_> = warnings.rev().take(30).map(|line| line.chars().take(400).collect::<String>()).collect();
        eprintln!("the last warnings of the installation, newest first:\n{}", last.join("\n"));
        // Printed again, because the panic message is far above, before its frames.
        if let Some(text) = panic.downcast_ref::<String>() {
            eprintln!("the test failed: {text}");
        }
        std::panic::resume_unwind(panic);
    }
    let mut errors = cluster.log().errors().split_off(before);
    errors.retain(|line| !expected.iter().any(|text| line.contains(text)));
    let first: Vec<_> = errors.iter().take(5).map(|line| line.chars().take(600).collect::<String>()).collect();
    assert!(errors.is_empty(), "the installation logged {} errors:\n{}", errors.len(), first.join("\n"));
}

/// Generates tests from functions, on the shared installations of the profiles they are listed
/// under:
///
/// ```text
/// on_profiles! {
///     both { a_test }
///     embedded { another_test }
///     production { a_third_test }
/// }
/// ```
///
/// List a test under `both` if a change could break it in one profile only: racing transactions,
/// statements that differ between the dialects, data cached or counted in Redis or in memory,
/// events between services, connections between processes, restarts, or keys and settings that the
/// launcher generates. All other tests run once: what repo-svc stores on production (its own tests
/// run on SQLite), repositories and the forms of requests and responses on embedded.
macro_rules! on_profiles {
    (
        $(both { $($both:ident)* })?
        $(embedded { $($embedded:ident)* })?
        $(production { $($production:ident)* })?
    ) => {
        mod embedded {
            on_profiles!(@tests Embedded $($($both)*)? $($($embedded)*)?);
        }
        mod production {
            on_profiles!(@tests Production $($($both)*)? $($($production)*)?);
        }
    };
    (@tests $profile:ident $($name:ident)*) => {
        $(#[test]
        fn $name() {
            let cluster = $crate::harness::shared($crate::harness::Profile::$profile);
            $crate::harness::run(&cluster, super::$name(&cluster));
        })*
    };
}

/// Generates two tests from every function, one per profile. Each has its own installation, which
/// it may kill, stop and restart.
macro_rules! on_own_installations {
    ($($name:ident($options:expr))*) => {
        on_own_installations!(@profile embedded Embedded $($name($options))*);
        on_own_installations!(@profile production Production $($name($options))*);
    };
    (@profile $module:ident $profile:ident $($name:ident($options:expr))*) => {
        mod $module {
            use super::*;

            $(#[test]
            fn $name() {
                let cluster = Cluster::start($crate::harness::Profile::$profile, &$options);
                $crate::harness::run(&cluster, super::$name(&cluster));
            })*
        }
    };
}
