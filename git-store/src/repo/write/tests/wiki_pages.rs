//! Pages of wikis.

use std::time::Duration;

use super::super::wiki::{NewPage, PageChange, PageRemoval, create_page, delete_page, update_page};
use super::*;
use crate::{
    repo::{
        read::{
            Deadline,
            wiki::{find_page, wiki_page, wiki_revisions},
        },
        refs::Page,
    },
    types::wiki::{PageName, PageTitle},
};

fn title(text: &str) -> PageTitle {
    PageTitle::parse(text).unwrap()
}

fn name(sent: &str) -> PageName {
    PageName::parse(sent).unwrap()
}

fn unnamed() -> CommitDraft {
    CommitDraft { message: String::new(), ..draft("m") }
}

fn new(text: &str, content: &str) -> NewPage {
    NewPage { title: title(text), content: content.to_owned().into(), draft: unnamed() }
}

fn change(sent: &str) -> PageChange {
    PageChange { name: name(sent), title: None, content: None, expected_blob: None, draft: unnamed() }
}

fn field(error: &GitError) -> (String, &'static str) {
    let violation = error.violations().remove(0);
    (violation.field, violation.code)
}

impl Fixture {
    fn found(&self, sent: &str) -> Option<String> {
        find_page(&self.repo, &name(sent)).unwrap().map(|page| page.path.to_string())
    }

    fn update(&self, change: &PageChange) -> Result<PreparedCommit, GitError> {
        update_page(&self.repo, change, &|_| Ok(()))
    }
}

#[test]
fn a_page_is_created_changed_renamed_and_deleted() {
    let f = fixture();
    assert_eq!(f.found("Home"), None);
    let made = f.apply(create_page(&f.repo, &new("Getting started", "one")).unwrap());
    assert_eq!(
        (made.commit.message.trim_end(), f.files("main").as_str()),
        ("Add Getting-started.md", "Getting-started.md\n")
    );
    assert_eq!(field(&create_page(&f.repo, &new("Getting started", "x")).unwrap_err()), ("title".into(), "taken"));
    let second = PageChange { content: Some("two".into()), ..change("Getting-started") };
    f.apply(f.update(&second).unwrap());
    assert_eq!(field(&f.update(&second).unwrap_err()), ("content_base64".into(), "invalid"));
    assert_eq!(field(&f.update(&change("Getting-started")).unwrap_err()), ("content_base64".into(), "invalid"));
    let stale = PageChange { expected_blob: Some(made.entries[0].id), content: Some("three".into()), ..second.clone() };
    assert!(matches!(f.update(&stale), Err(GitError::StaleBlob)));
    f.apply(create_page(&f.repo, &new("Other", "")).unwrap());
    let renamed = PageChange { title: Some(title("First-steps")), ..change("Getting started") };
    f.apply(f.update(&renamed).unwrap());
    assert_eq!(f.files("main"), "First-steps.-.md\nOther.md\n");
    let taken = PageChange { title: Some(title("Other")), ..change("First-steps.-") };
    assert_eq!(field(&f.update(&taken).unwrap_err()), ("title".into(), "taken"));
    let removal = PageRemoval { name: name("Other"), draft: unnamed() };
    let refused = delete_page(&f.repo, &removal, &|_| Err(PreconditionFailed));
    assert!(matches!(refused, Err(GitError::Precondition { branch }) if branch == b"main"));
    f.apply(delete_page(&f.repo, &removal, &|_| Ok(())).unwrap());
    assert!(matches!(delete_page(&f.repo, &removal, &|_| Ok(())), Err(GitError::WikiPageNotFound)));
    assert!(matches!(f.update(&change("Other")), Err(GitError::WikiPageNotFound)));
}

#[test]
fn pages_that_other_programs_wrote_are_found_and_keep_their_files() {
    let f = fixture();
    for path in ["hello world.md", "a-b.md", "dir/My-Page.md", "Über.md", "C++.md", "x.png"] {
        f.put(&file(path, path));
    }
    for (sent, path) in [
        ("hello-world", Some("hello world.md")),
        ("hello%20world", Some("hello world.md")),
        ("hello%20world.md", Some("hello world.md")),
        ("a-b", Some("a-b.md")),
        ("dir%2FMy-Page", Some("dir/My-Page.md")),
        ("%C3%9Cber", Some("Über.md")),
        ("C%2B%2B.md", Some("C++.md")),
        ("Hello-World", None),
        ("x.png", None),
        ("..%2Fx", None),
    ] {
        assert_eq!(f.found(sent).as_deref(), path, "{sent}");
    }
    f.apply(f.update(&PageChange { content: Some("new".into()), ..change("hello-world") }).unwrap());
    assert_eq!(f.git(&["show", "main:hello world.md"]), "new");
    // The file with the name of new pages comes first.
    f.put(&file("hello-world.md", "other"));
    assert_eq!(f.found("hello-world").as_deref(), Some("hello-world.md"));
    assert_eq!(f.found("hello%20world.md").as_deref(), Some("hello world.md"));
}

#[test]
fn a_page_is_shown_with_what_is_beside_it_and_its_commits() {
    let f = fixture();
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    assert!(matches!(wiki_page(&f.repo, &name("Home"), &deadline), Err(GitError::WikiPageNotFound)));
    let commits: Vec<_> = ["one", "two", "three"].map(|text| f.put(&file("Home.md", text)).new_commit).into();
    f.put(&file("_Sidebar.md", "side"));
    let page = wiki_page(&f.repo, &name("Home"), &deadline).unwrap();
    assert_eq!(page.content.as_deref(), Some(b"three".as_slice()));
    assert_eq!((page.sidebar.as_slice(), page.footer.as_slice()), (b"side".as_slice(), b"".as_slice()));
    assert_eq!((page.last_commit.map(|commit| commit.id), page.commit_count), (Some(commits[2]), 3));
    let second = wiki_revisions(&f.repo, &name("Home"), Page { number: 2, size: 2 }, &deadline).unwrap();
    assert_eq!(
        (second.commits.iter().map(|commit| commit.id).collect::<Vec<_>>(), second.count),
        (vec![commits[0]], 3)
    );
    f.put(&file("Long.md", &"x".repeat((1 << 20) + 1)));
    assert_eq!(wiki_page(&f.repo, &name("Long"), &deadline).unwrap().content, None);
}
