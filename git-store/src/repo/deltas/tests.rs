use std::{io::Write as _, time::Duration};

use flate2::{Compression, write::ZlibEncoder};

use super::*;
use crate::types::name::BranchName;

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
    let loads = LoadCheck::new(&repo);
    assert!(loads.is_loadable(ids[0]).unwrap() && loads.is_loadable(ids[1]).unwrap());
    assert_eq!(DeltaCost::of(&repo, Oid::ZERO_SHA1).unwrap(), DeltaCost::default(), "no such object");
}

#[test]
fn the_packs_are_opened_once_for_all_files_of_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    let (packs, blob) = (pack_folder(repo.path()), repo.blob(b"x").unwrap());
    let loads = LoadCheck::new(&repo);
    assert!(loads.is_loadable(blob).unwrap());
    fs::remove_dir_all(packs).unwrap();
    assert!(loads.is_loadable(blob).unwrap());
    assert!(LoadCheck::new(&repo).is_loadable(blob).is_err(), "another request");
    delta_mark::set(repo.path()).unwrap();
    assert!(LoadCheck::new(&repo).is_loadable(blob).unwrap(), "no pack is opened");
}

/// Writes a pack with a one-byte blob, and a delta that claims to turn it into `result` bytes.
fn write_pack(packs: &Path, name: &str, result: u64) {
    let entry = |kind: u8, base: &[u8], content: &[u8]| {
        let mut bytes = vec![kind << 4 | u8::try_from(content.len()).unwrap()];
        bytes.extend(base);
        let mut encoder = ZlibEncoder::new(bytes, Compression::none());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    let number = (0..5).map(|index| (result >> (7 * index) & 0x7f) as u8 | if index < 4 { 0x80 } else { 0 });
    let delta: Vec<u8> = [1].into_iter().chain(number).collect();
    let blob = entry(3, b"", b"x");
    let distance = u8::try_from(blob.len()).unwrap();
    let pack = [b"PACK\0\0\0\x02\0\0\0\x02".as_slice(), &blob, &entry(6, &[distance], &delta), &[0; 20]].concat();
    // Magic, counts by first byte, ids, checksums, offsets.
    let offsets = [12_u32.to_be_bytes(), (12 + u32::from(distance)).to_be_bytes()].concat();
    let counts = 2_u32.to_be_bytes().repeat(256);
    let index = [b"\xfftOc\0\0\0\x02".as_slice(), &counts, &[0; 20], &[1; 20], &[0; 8], &offsets].concat();
    fs::write(packs.join(format!("{name}.pack")), pack).unwrap();
    fs::write(packs.join(format!("{name}.idx")), index).unwrap();
}

#[tokio::test]
async fn a_repository_is_marked_if_it_has_no_large_delta_and_none_is_on_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = RepositoryStore::open(folder.path(), "s", Duration::from_secs(10)).await.unwrap();
    let id = RepositoryId(1);
    store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    let path = store.path(id);
    let marks = || {
        delta_mark::remove(&path).unwrap();
        let marking = mark(&store, id, 2).unwrap();
        assert_eq!(delta_mark::is_set(&path), marking == Marking::Marked);
        marking
    };
    write_pack(&pack_folder(&path), "pack-1", 32 << 20);
    assert_eq!(marks(), Marking::Marked);
    let pushed = path.join("objects/tmp_objdir-incoming-x");
    fs::create_dir(&pushed).unwrap();
    assert_eq!(marks(), Marking::None, "a push");
    fs::remove_dir(&pushed).unwrap();
    let synced = store.begin_quarantine(id).unwrap();
    assert_eq!(marks(), Marking::None, "a sync");
    store.remove_incoming(&synced).unwrap();
    assert_eq!(marks(), Marking::Marked);
    write_pack(&pack_folder(&path), "pack-2", 10);
    assert_eq!(marks(), Marking::NotSearched, "too many objects");
    assert_eq!(mark(&store, id, 4).unwrap(), Marking::Marked);
    delta_mark::remove(&path).unwrap();
    let marking = store.begin_marking();
    assert_eq!(mark(&store, id, 4).unwrap(), Marking::NotSearched, "another one is being marked");
    drop(marking);
    write_pack(&pack_folder(&path), "pack-2", (32 << 20) + 1);
    assert_eq!(mark(&store, id, u64::MAX).unwrap(), Marking::Large, "a large delta");
    fs::remove_file(pack_folder(&path).join("pack-2.idx")).unwrap();
    delta_mark::clear(&path).unwrap();
    assert_eq!(mark(&store, id, 1000).unwrap(), Marking::Large, "it got one");
    assert_eq!(mark(&store, id, u64::MAX).unwrap(), Marking::Marked, "which is gone");
}
