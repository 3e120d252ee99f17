//! `docker-compose.yml`: its rules, and its topology started without containers.

mod file;
mod postgres;
mod rules;
mod topology;
mod tour;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use self::file::ComposeFile;

const COMPOSE_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker-compose.yml");
const EXAMPLE_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.env.example");

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_file_keeps_the_rules() {
    let settings = rules::Settings::of_the_program();
    let faults = rules::faults(&text(COMPOSE_FILE), &text(EXAMPLE_FILE), &settings);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_rule_fails_on_a_broken_copy() {
    let settings = rules::Settings::of_the_program();
    let (compose, example) = (text(COMPOSE_FILE), text(EXAMPLE_FILE));
    let changed = |text: &str, before: &str, after: &str| {
        assert!(text.contains(before), "nothing to break: {before}");
        text.replacen(before, after, 1)
    };
    let of_file = rules::BREAKS.iter().map(|(before, after, expected)| {
        (before, after, expected, rules::faults(&changed(&compose, before, after), &example, &settings))
    });
    let of_example = rules::EXAMPLE_BREAKS.iter().map(|(before, after, expected)| {
        (before, after, expected, rules::faults(&compose, &changed(&example, before, after), &settings))
    });
    for (before, after, expected, faults) in of_file.chain(of_example) {
        let is_found = faults.iter().any(|fault| fault.contains(expected));
        assert!(is_found, "`{before}` -> `{after}`: no `{expected}` in {faults:#?}");
    }
}

/// The registry gives every tag a digest.
#[test]
fn images_are_pinned_by_digest_wherever_they_are_named() {
    const FILES: [&str; 5] = [
        "Dockerfile",
        "docker-compose.yml",
        ".env.example",
        "k8s/overlays/dev/postgres.yaml",
        "k8s/overlays/dev/redis.yaml",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = tempfile::tempdir().unwrap();
    for file in FILES {
        std::fs::create_dir_all(copy.path().join(file).parent().unwrap()).unwrap();
        std::fs::copy(root.join(file), copy.path().join(file)).unwrap();
    }
    let docker = copy.path().join("docker");
    let script = "#!/bin/sh\nfor image; do :; done\nprintf 'sha256:%s\\n' \"$(printf %s \"$image\" | sha256sum | cut -d' ' -f1)\"\n";
    std::fs::write(&docker, script).unwrap();
    std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pin = || {
        let mut command = Command::new(root.join("deploy/pin-images.sh"));
        let output = command.arg(copy.path()).env("DOCKER", &docker).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        FILES.map(|file| text(&copy.path().join(file).display().to_string()))
    };
    let pinned = pin();
    assert_eq!(pin(), pinned, "nothing changes the second time");
    let faults = rules::faults(&pinned[1], &pinned[2], &rules::Settings::of_the_program());
    assert!(faults.is_empty(), "{faults:#?}");
    for (file, content) in FILES.iter().zip(&pinned) {
        let named = ["image: ", "_IMAGE=", "_IMAGE:-"].map(|start| content.split(start).skip(1));
        let images = named.into_iter().flatten().filter_map(|rest| rest.split(['\n', '}', ' ']).next());
        for image in images.filter(|image| !image.starts_with("${") && !image.starts_with("ferrite:")) {
            assert!(image.contains("@sha256:"), "{file}: {image}");
        }
    }
}

#[test]
fn variables_are_replaced_as_compose_does() {
    let variables = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())]);
    for (text, expected) in [
        ("plain", Ok("plain")),
        ("${A}-${A:-2}", Ok("1-1")),
        ("${B:-two}:${EMPTY:-three}:${EMPTY-}", Ok("two:three:")),
        ("$$(cat /x) $$A", Ok("$(cat /x) $A")),
        ("${B}", Err("B has no value")),
        ("$A", Err("`$` is followed by neither `{` nor `$`")),
        ("${A", Err("`${` without `}`")),
    ] {
        let result = file::interpolate(text, &variables);
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

/// Starts what the file says with the variables of an operator, and runs the tour.
#[test]
fn the_topology_starts_and_runs_the_tour() {
    let topology = topology::Topology::start(&ComposeFile::read(&text(COMPOSE_FILE), &BTreeMap::new()).unwrap());
    let responses = tour::run(&topology.public_address(), topology.folder());
    tour::check(&responses);
    topology.check_accounts();
    // A second `docker compose up` creates nothing twice.
    let output = topology.run_to_end("administrator");
    assert!(output.contains("an account already exists"), "{output}");
}
