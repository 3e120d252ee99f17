//! Files that are created or moved alone, trailers, and the names that are refused.

use super::*;

#[test]
fn a_commit_is_signed_off_by_its_committer() {
    let f = fixture();
    let author = Author::exact("author", "Grace", "grace@example.com", 86_400).unwrap();
    let signed = |message: &str| CommitDraft { author: author.clone(), signoff: true, ..draft(message) };
    let made = f.put(&PutFile { draft: signed("Subject\n\nBody."), ..file("a", "1") });
    assert_eq!(made.commit.message, "Subject\n\nBody.\n\nSigned-off-by: Ada <ada@example.com>\n");
    let gone = DeleteFile { draft: signed("Remove"), ..delete("a") };
    let gone = f.apply(delete_file(&f.repo, &gone).unwrap());
    assert_eq!(gone.commit.message, "Remove\n\nSigned-off-by: Ada <ada@example.com>\n");
    let error = put_file(&f.repo, &PutFile { draft: signed(" \n"), ..file("a", "1") }).unwrap_err();
    assert_eq!(error.violations()[0].code, "required");
}

#[test]
fn one_file_is_created_only_if_it_is_new() {
    let f = fixture();
    let made = f.put(&put(create("dir/a", "1")));
    assert_eq!((made.entries[0].size, f.files("main")), (1, "dir/a\n".to_owned()));
    let error = put_file(&f.repo, &put(create("dir/a", "2"))).unwrap_err();
    assert_eq!((error.violations()[0].field.as_str(), error.violations()[0].code), ("path", "taken"));
    for obstacle in ["dir", "dir/a/b"] {
        let error = put_file(&f.repo, &put(create(obstacle, "2"))).unwrap_err();
        assert_eq!((error.violations()[0].field.as_str(), error.violations()[0].code), ("path", "invalid"));
    }
}

#[test]
fn one_file_moves_with_its_content_and_mode_or_with_a_new_one() {
    let f = fixture();
    let mut root = f.repo.treebuilder(None).unwrap();
    let blob = f.repo.blob(b"#!").unwrap();
    root.insert("run", blob, 0o100_755).unwrap();
    let tree = f.repo.find_tree(root.write().unwrap()).unwrap();
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
    f.repo.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[]).unwrap();
    f.put(&file("other", "o"));
    let moved = f.put(&expecting(Some(blob), put(rename("run", "bin/run"))));
    assert_eq!((moved.entries.len(), moved.entries[0].id, moved.entries[0].size), (1, blob, 2));
    assert!(f.git(&["ls-tree", "main", "bin/run"]).starts_with("100755 "));
    let with_content = |from: &str, to: &str| FileChange {
        operation: Operation::Move(path(from), Some("new".to_owned().into())),
        ..rename(from, to)
    };
    // Also to below its own path.
    f.put(&put(with_content("other", "other/below")));
    assert_eq!(
        (f.files("main"), f.git(&["show", "main:other/below"])),
        ("bin/run\nother/below\n".into(), "new".into())
    );
    let refused = |put: PutFile| put_file(&f.repo, &put).unwrap_err();
    let error = refused(put(rename("bin/run", "other/below")));
    assert_eq!((error.violations()[0].field.as_str(), error.violations()[0].code), ("path", "taken"));
    assert_eq!(refused(put(rename("none", "x"))).violations()[0].field, "from_path");
    assert_eq!(refused(put(rename("bin", "x"))).violations()[0].field, "from_path");
    assert!(matches!(refused(expecting(Some(f.tip("main")), put(rename("bin/run", "x")))), GitError::StaleBlob));
    let fail = |_: Option<(read::EntryKind, Oid)>| Err(PreconditionFailed);
    let error = crate::repo::write::put_file(&f.repo, &put(rename("bin/run", "x")), &fail).unwrap_err();
    assert!(matches!(error, GitError::Precondition { .. }));
    f.git(&["fsck", "--strict"]);
}

#[test]
fn new_names_have_no_bidirectional_characters() {
    let f = fixture();
    let odd = "a\u{202e}b";
    let mut root = f.repo.treebuilder(None).unwrap();
    root.insert(odd, f.repo.blob(b"1").unwrap(), 0o100_644).unwrap();
    let tree = f.repo.find_tree(root.write().unwrap()).unwrap();
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
    let tip = f.repo.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[]).unwrap();
    f.repo.reference(&format!("refs/heads/{odd}"), tip, false, "").unwrap();
    let message = "must not contain control or bidirectional characters";
    let new = "c\u{202e}d";
    let from_main = |draft: CommitDraft| PutFile { draft, ..file("x", "1") };
    let cases = [
        (put_file(&f.repo, &file(new, "1")), "path"),
        (put_file(&f.repo, &put(create(&format!("{new}/x"), "1"))), "path"),
        (put_file(&f.repo, &put(rename(odd, new))), "path"),
        (change_files(&f.repo, &change(vec![create("x", "1"), create(new, "1")])), "files[1].path"),
        (put_file(&f.repo, &on(new, file("x", "1"))), "branch"),
        (put_file(&f.repo, &from_main(onto_new(new, draft("m")))), "new_branch"),
    ];
    for (refused, field) in cases {
        let violation = refused.unwrap_err().violations().remove(0);
        assert_eq!((violation.field.as_str(), violation.message.as_str()), (field, message));
    }
    // Pushed names can be used and removed, and messages have them in texts from right to left.
    f.put(&on(odd, file(odd, "2")));
    f.put(&put(rename(odd, "plain")));
    f.put(&PutFile { draft: draft("\u{202b}עברית\u{202c}"), ..file("x", "1") });
    let gone = DeleteFile { draft: on(odd, file("x", "")).draft, ..delete(odd) };
    f.apply(delete_file(&f.repo, &gone).unwrap());
}
