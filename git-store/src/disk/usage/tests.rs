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

#[test]
fn what_writes_report_is_added_to_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (path, usages, id) = (folder.path(), DiskUsageCache::default(), RepositoryId(1));
    let (first, same_folder, other) = ("ab".repeat(20), "ab".to_owned() + &"1".repeat(38), "2".repeat(40));
    let add = |objects, bytes| usages.add_loose(id, LooseObjects { objects, bytes });
    let write_object = |id: &str| write(&path.join("objects").join(&id[..2]).join(&id[2..]), 10);
    write_object(&first);
    add(1, 10);
    assert_eq!(usages.get(id, path).loose, 1, "once, because it was not measured before");
    write_object(&same_folder);
    write_object(&other);
    assert_eq!(usages.get(id, path).loose, 1, "nothing was reported");
    add(1, 10);
    assert_eq!((usages.get(id, path).loose, usages.get(id, path).bytes), (2, 20));
    // For a commit whose objects all existed.
    add(0, 0);
    add(1, 10);
    write(&path.join("objects/pack/pack-a.idx"), usize::try_from(index_bytes(3)).unwrap());
    assert_eq!(usages.get(id, path).recent, PackCount::default());
    usages.update_packs(id, path);
    let known = usages.get(id, path);
    assert_eq!((known.loose, known.bytes, known.recent.objects), (3, 30 + index_bytes(3), 3));
    assert_eq!(known, DiskUsageCache::default().get(id, path), "as measured");
    fs::remove_dir_all(path.join("objects")).unwrap();
    assert_eq!(usages.get(id, path), known);
    usages.forget(id);
    assert_eq!(usages.get(id, path), DiskUsage::default());
}

#[test]
fn a_repository_is_measured_anew_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (path, id, interval) = (folder.path(), RepositoryId(1), Duration::from_millis(50));
    let (short, long) = (DiskUsageCache::new(interval), DiskUsageCache::default());
    assert_eq!((short.get(id, path).bytes, long.get(id, path).bytes), (0, 0));
    write(&path.join("objects/ab").join("0".repeat(38)), 10);
    std::thread::sleep(2 * interval);
    assert_eq!((short.get(id, path).bytes, long.get(id, path).bytes), (10, 0));
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
    let usage = DiskUsageCache::default().get(RepositoryId(1), folder.path());
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
    let usage = DiskUsageCache::default().get(RepositoryId(1), folder.path());
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
    let usage = DiskUsageCache::default().get(RepositoryId(1), folder.path());
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
