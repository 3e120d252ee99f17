//! Tests of the measured disk usage: what is counted, and when it is measured again.

use super::{
    super::packs::{INDEX_BASE, INDEX_OBJECT},
    *,
};

fn index_bytes(objects: u64) -> u64 {
    INDEX_BASE + objects * INDEX_OBJECT
}

fn write(path: &Path, bytes: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![b'x'; bytes]).unwrap();
}

fn age(path: &Path, seconds: u64) {
    fs::File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn folders_that_did_not_change_are_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, usages, id) = (folder.path().join("objects"), DiskUsageCache::default(), RepositoryId(1));
    let dir = objects.join("ab");
    write(&dir.join("0".repeat(38)), 10);
    // A change within the clock's grain is noticed.
    assert_eq!(usages.of(id, folder.path()).loose, 1);
    write(&dir.join("1".repeat(38)), 10);
    assert_eq!(usages.of(id, folder.path()).loose, 2);
    age(&dir, 60);
    assert_eq!(usages.of(id, folder.path()).bytes, 20);
    write(&dir.join("2".repeat(38)), 10);
    age(&dir, 60);
    let again = fs::metadata(&dir).unwrap().modified().unwrap();
    assert_eq!(usages.of(id, folder.path()).bytes, 30, "another time, another look");
    write(&dir.join("3".repeat(38)), 10);
    fs::File::open(&dir).unwrap().set_modified(again).unwrap();
    assert_eq!(usages.of(id, folder.path()).bytes, 30, "the same time, no look");
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(usages.of(id, folder.path()), DiskUsage::default());
}

#[test]
fn quarantines_and_temporary_files_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects");
    write(&objects.join("tmp_objdir-incoming-x/pack/pack-1.pack"), 1000);
    write(&objects.join("pack/tmp_pack_x"), 1000);
    write(&objects.join("pack/.tmp-1-pack-x.pack"), 1000);
    write(&objects.join("pack/pack-1.pack"), 5);
    write(&objects.join("info/commit-graph"), 7);
    let usage = DiskUsageCache::default().of(RepositoryId(1), folder.path());
    assert_eq!((usage.bytes, usage.loose, usage.recent), (12, 0, PackCount::default()));
}

#[test]
fn packs_are_counted_by_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("objects/pack");
    for (name, objects) in [("pack-a", 10), ("pack-b", 3), ("pack-base", 800), ("pack-kept", 5), ("pack-cruft", 5)] {
        let size = usize::try_from(index_bytes(objects)).unwrap();
        write(&pack.join(format!("{name}.idx")), size);
    }
    write(&pack.join("pack-kept.keep"), 0);
    write(&pack.join("pack-cruft.mtimes"), 0);
    write(&pack.join("pack-base.bitmap"), 0);
    let usage = DiskUsageCache::default().of(RepositoryId(1), folder.path());
    assert_eq!(usage.cruft, index_bytes(5));
    assert_eq!(usage.recent, PackCount { packs: 2, objects: 13 });
    assert_eq!(usage.base, PackCount { packs: 1, objects: 800 });
}

#[test]
fn a_base_is_made_anew_for_a_quarter_of_its_objects() {
    let is_outgrown = |base, recent, loose| {
        let (base, recent) = (PackCount { packs: 1, objects: base }, PackCount { packs: 2, objects: recent });
        DiskUsage { base, recent, loose, ..DiskUsage::default() }.has_outgrown_base()
    };
    assert!(!is_outgrown(0, 900, 99) && is_outgrown(0, 900, 100));
    assert!(!is_outgrown(100_000, 24_000, 999) && is_outgrown(100_000, 24_000, 1000));
}

#[test]
fn the_oldest_of_much_cruft_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("objects/pack");
    write(&pack.join("pack-a.pack"), 1000);
    write(&pack.join("pack-b.pack"), 300);
    let times = [b"MTME\0\0\0\x01\0\0\0\x01\0\0\0\x09\0\0\0\x07".as_slice(), &[0; 40]].concat();
    fs::write(pack.join("pack-b.mtimes"), times).unwrap();
    fs::write(pack.join("pack-c.mtimes"), "MTME").unwrap();
    let usage = DiskUsageCache::default().of(RepositoryId(1), folder.path());
    let dated = |percent| {
        let mut usage = usage.clone();
        usage.date_cruft(folder.path(), percent);
        usage.oldest_cruft_us
    };
    assert_eq!((dated(20), dated(40), dated(0)), (Some(7_000_000), None, None));
}

#[test]
fn counting_refs_stops_at_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..10 {
        write(&folder.path().join(format!("refs/heads/a/b{index}")), 1);
    }
    assert_eq!(loose_refs(folder.path(), 100), 10);
    assert_eq!(loose_refs(folder.path(), 4), 5);
}
