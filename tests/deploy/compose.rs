//! `docker-compose.yml`: the rules that it holds to, and the topology that it describes, started without containers.

mod file;
mod postgres;
mod rules;
mod topology;
mod tour;

use std::collections::BTreeMap;

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

/// Starts what the file says with the variables of an operator, and does what the tour in the README does.
#[test]
fn the_topology_starts_and_runs_the_tour() {
    let topology = topology::Topology::start(&ComposeFile::read(&text(COMPOSE_FILE), &BTreeMap::new()).unwrap());
    let answers = tour::run(&topology.public_address(), topology.folder());
    tour::check(&answers);
    topology.check_accounts();
    // Started again, as by a second `docker compose up`, nothing is made twice.
    let output = topology.run_to_end("administrator");
    assert!(output.contains("there is an account already"), "{output}");
}
