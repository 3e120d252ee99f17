//! Starts real installations of the shipped binary, in either profile, and talks to them.
//!
//! Everything that is started hangs on this process by a pipe: when the process ends, in whatever way, the pipes close, the
//! children stop and their folders are removed.

pub(crate) mod accounts;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod git;
pub(crate) mod grpc;
pub(crate) mod keys;
pub(crate) mod process;
pub(crate) mod rows;
pub(crate) mod servers;
pub(crate) mod ssh;
pub(crate) mod tree;

use std::future::Future;
use std::sync::{Arc, OnceLock};

pub(crate) use client::{Answer, User};
pub(crate) use cluster::{Cluster, Options, Profile, Role};
pub(crate) use git::Git;

/// The installation that all tests of one profile share.
pub(crate) fn shared(profile: Profile) -> Arc<Cluster> {
    static EMBEDDED: OnceLock<Arc<Cluster>> = OnceLock::new();
    static PRODUCTION: OnceLock<Arc<Cluster>> = OnceLock::new();
    let place = match profile {
        Profile::Embedded => &EMBEDDED,
        Profile::Production => &PRODUCTION,
    };
    Arc::clone(place.get_or_init(|| Arc::new(Cluster::start(profile, &Options::default()))))
}

/// Runs a test against an installation, and fails it if the installation logged an error meanwhile.
pub(crate) fn run(cluster: &Cluster, test: impl Future<Output = ()>) {
    run_forgiving(cluster, &[], test);
}

/// The same for a test that provokes errors: lines with one of these texts are no failure.
pub(crate) fn run_forgiving(cluster: &Cluster, expected: &[&str], test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let before = cluster.log().errors().len();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(test)));
    runtime.shutdown_background();
    if let Err(panic) = outcome {
        let all = cluster.log().all();
        let told = all.iter().filter(|line| !line.contains("\"level\":\"INFO\""));
        let last: Vec<_> = told.rev().take(30).map(|line| line.chars().take(400).collect::<String>()).collect();
        eprintln!("the last warnings of the installation, newest first:\n{}", last.join("\n"));
        // Once more: the first time is far above, before the frames of the panic.
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

/// Makes two tests of every function: one on each profile's shared installation.
macro_rules! on_both_profiles {
    ($($name:ident)*) => {
        on_both_profiles!(@profile embedded Embedded $($name)*);
        on_both_profiles!(@profile production Production $($name)*);
    };
    (@profile $module:ident $profile:ident $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                let cluster = $crate::harness::shared($crate::harness::Profile::$profile);
                $crate::harness::run(&cluster, super::$name(&cluster));
            })*
        }
    };
}

/// Makes two tests of every function: each on an installation of its own, which it may kill, stop and restart.
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
