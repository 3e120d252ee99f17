use std::{os::unix::fs::PermissionsExt as _, process::Command, time::Duration};

use git2::Repository;
use proptest::prelude::*;

use super::*;

fn repository() -> (tempfile::TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    (folder, repo)
}

fn blob(content: &[u8]) -> NewObject {
    NewObject::new(ObjectType::Blob, content.to_vec()).unwrap()
}

fn file(objects: &Path, object: &NewObject) -> PathBuf {
    let id = object.id().to_string();
    objects.join(&id[..2]).join(&id[2..])
}

#[test]
fn git_and_libgit2_read_what_is_written() {
    let (folder, repo) = repository();
    let objects = folder.path().join("objects");
    let (empty, text) = (blob(b""), blob(b"some text\n"));
    let tree = NewObject::new(ObjectType::Tree, [b"100644 a\0", text.id().as_bytes()].concat()).unwrap();
    // With its header, `blob 4075` and NUL, the first is the longest that is not compressed.
    let (longest, longer) = (blob(&[b'y'; MAX_STORED_BYTES - 10]), blob(&[b'z'; MAX_STORED_BYTES - 9]));
    let noise: Vec<u8> = (0..300_000).map(|_| rand::random()).collect();
    let new = [empty, text, tree, longest, longer, blob(&vec![b'x'; 300_000]), blob(&noise)];
    let written = write_objects(&objects, &new).unwrap();
    let on_disk = new.iter().map(|object| fs::metadata(file(&objects, object)).unwrap().len()).sum();
    assert_eq!(written, Written { added: LooseObjects { objects: 7, bytes: on_disk }, has_new_folder: true });
    let odb = repo.odb().unwrap();
    for object in &new {
        let read = odb.read(object.id()).unwrap();
        assert_eq!((read.kind(), read.data()), (object.kind, &object.content[..]));
        assert_eq!(fs::metadata(file(&objects, object)).unwrap().permissions().mode() & 0o777, FILE_MODE);
    }
    let bytes = |object| fs::metadata(file(&objects, object)).unwrap().len() as usize;
    assert_eq!(bytes(&new[3]), BLOCK_BYTES);
    assert!(bytes(&new[4]) < 100);
    assert!((noise.len()..noise.len() + 100).contains(&bytes(&new[6])), "not compressed");
    let fsck = Command::new("git").arg("-C").arg(folder.path()).args(["fsck", "--strict", "--no-dangling"]).output();
    let fsck = fsck.unwrap();
    assert!(fsck.status.success() && !String::from_utf8_lossy(&fsck.stderr).contains("error"), "{fsck:?}");
    let left = Command::new("find").arg(&objects).args(["-name", "tmp_*"]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}

#[test]
fn an_object_that_is_there_stays_and_counts_as_new() {
    let (folder, _repo) = repository();
    let objects = folder.path().join("objects");
    let object = blob(b"content");
    assert!(write_objects(&objects, std::slice::from_ref(&object)).unwrap().has_new_folder);
    let path = file(&objects, &object);
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(write_objects(&objects, std::slice::from_ref(&object)).unwrap(), Written::default());
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > SystemTime::now() - Duration::from_secs(1000));
}

#[test]
fn a_failed_write_leaves_no_file() {
    let (folder, _repo) = repository();
    let objects = folder.path().join("objects");
    let object = blob(b"content");
    let path = file(&objects, &object);
    // A folder where the file is expected.
    fs::create_dir_all(path.join("below")).unwrap();
    let error = object.create(path.parent().unwrap(), &path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    // A file where a folder is expected.
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path.parent().unwrap(), "").unwrap();
    assert!(matches!(write_objects(&objects, &[object]), Err(GitError::Io { .. })));
}

proptest! {
    #[test]
    fn the_id_is_that_of_the_stored_object(content in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (folder, repo) = repository();
        let object = blob(&content);
        write_objects(&folder.path().join("objects"), std::slice::from_ref(&object)).unwrap();
        prop_assert_eq!(repo.blob(&content).unwrap(), object.id());
        let read = repo.find_blob(object.id()).unwrap();
        prop_assert_eq!(read.content(), &content[..]);
    }
}
