//! Tests with packs that libgit2 makes.

use super::*;

#[test]
fn a_delta_costs_its_base_and_its_result_and_a_whole_object_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    let text = |last: &str| format!("{}{last}", "a line of a text that is long\n".repeat(40_000));
    let ids = ["a", "b"].map(|last| repo.blob(text(last).as_bytes()).unwrap());
    assert_eq!(ids.map(|id| DeltaCost::of(&repo, id).unwrap()), [DeltaCost::default(); 2], "in files of their own");
    let mut builder = repo.packbuilder().unwrap();
    ids.iter().for_each(|id| builder.insert_object(*id, None).unwrap());
    builder.write(&repo.path().join("objects/pack"), 0).unwrap();
    let mut costs = ids.map(|id| DeltaCost::of(&repo, id).unwrap().bytes);
    costs.sort_unstable();
    let sizes = 2 * text("a").len() as u64;
    assert!(costs[0] == 0 && (sizes..sizes + 1000).contains(&costs[1]), "{costs:?}");
    assert!(is_loadable(&repo, ids[0]).unwrap() && is_loadable(&repo, ids[1]).unwrap());
    assert_eq!(DeltaCost::of(&repo, Oid::ZERO_SHA1).unwrap(), DeltaCost::default(), "no such object");
}
