use std::time::Instant;

use tokio::io::AsyncReadExt as _;

use super::{
    maintenance_task::{MaintenanceTask, NICENESS},
    *,
};

fn bare(folder: &Path) -> PathBuf {
    let path = folder.join("r.git");
    git2::Repository::init_bare(&path).unwrap();
    path
}

/// Writes a script that replaces git.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("git");
    ferrite_core::testing::script(&path, text);
    path
}

fn with_program(program: PathBuf) -> GitOptions {
    GitOptions { program: Some(program), ..GitOptions::default() }
}

fn is_alive(pid: i32) -> bool {
    rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_ok()
}

#[test]
fn versions_are_read() {
    assert_eq!(parse_version("git version 2.47.3"), Some((2, 47)));
    assert_eq!(parse_version("git version 2.50-rc1"), Some((2, 50)));
    assert_eq!(parse_version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
    assert_eq!(parse_version("hello"), None);
}

#[tokio::test]
async fn a_missing_or_old_program_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let error = Git::find(with_program(folder.path().join("git"))).await.unwrap_err();
    assert!(error.to_string().contains("cannot be run"), "{error}");
    let old = script(folder.path(), "echo git version 2.38.9");
    let error = Git::find(with_program(old.clone())).await.unwrap_err().to_string();
    for part in [old.to_str().unwrap(), "2.38.9", "2.39 or newer"] {
        assert!(error.contains(part), "{error}");
    }
    let error = Git::find(with_program(script(folder.path(), "echo something else"))).await.unwrap_err();
    assert!(error.to_string().contains("is not git"), "{error}");
}

#[tokio::test]
async fn a_name_is_searched_for_and_a_path_is_taken_as_it_is() {
    let (found, version) = find_program(Some(Path::new("git"))).await.unwrap();
    assert!(found.is_absolute() && version >= MIN_VERSION);
    assert_eq!(find_program(None).await.unwrap(), (found, version));
    let error = find_program(Some(Path::new("git-of-nobody"))).await.unwrap_err().to_string();
    assert!(error.contains("`git-of-nobody` was not found in /usr/local/bin:"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path(), "echo git version 2.39.5");
    let found = find_program(Some(path.as_path())).await.unwrap();
    assert_eq!(found, (path, (2, 39)));
}

/// git 2.39 to 2.43 die of `pack.allowPackReuse=single`, and git 2.39 does not know `archive --mtime`.
#[tokio::test]
async fn an_older_git_gets_only_options_that_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    let text = async |version: &str| {
        let script =
            script(folder.path(), &format!("[ \"$1\" = --version ] && echo git version {version} || echo \"$@\""));
        let git = Git::find(with_program(script)).await.unwrap();
        let prefix = Prefix::parse(b"x").unwrap();
        let archive = git.archive(&path, Format::Zip, &prefix, git2::Oid::ZERO_SHA1, 1_500_000_000).unwrap();
        String::from_utf8(archive.finish(b"", Duration::from_secs(10)).await.unwrap()).unwrap()
    };
    for (version, reuse, has_time) in [
        ("2.39.5", "pack.allowPackReuse=true", false),
        ("2.43.0", "pack.allowPackReuse=true", true),
        ("2.44.0", "pack.allowPackReuse=single", true),
    ] {
        let text = text(version).await;
        assert!(text.contains(reuse), "{version}: {text}");
        assert_eq!(text.contains("--mtime=@1500000000"), has_time, "{version}: {text}");
    }
}

#[tokio::test]
async fn both_transports_advertise() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    let git = Git::find(GitOptions::default()).await.unwrap();
    assert!(git.version() >= MIN_VERSION);
    let v2 = GitProtocol::parse(b"version=2");
    let fetch = git.upload_pack(&path, Exchange::Advertise, v2.as_ref(), None).unwrap();
    let text = fetch.finish(b"", Duration::from_secs(10)).await.unwrap();
    assert!(text.starts_with(b"000eversion 2\n"), "{}", String::from_utf8_lossy(&text));
    let push = git.receive_pack(&path, Exchange::Advertise, None, None).unwrap();
    let text = push.finish(b"", Duration::from_secs(10)).await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("report-status") && text.contains("atomic") && text.contains("push-options"), "{text}");
}

#[tokio::test]
async fn failures_carry_the_message_of_git() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    let git = Git::find(GitOptions::default()).await.unwrap();
    let missing = git2::Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    let error = git.cat_file(&path, missing).unwrap().finish(b"", Duration::from_secs(10)).await.unwrap_err();
    assert!(matches!(&error, GitError::Command { command: "cat-file", stderr, .. } if !stderr.is_empty()), "{error:?}");
    let gone = git.cat_file(&folder.path().join("none.git"), missing);
    assert!(matches!(gone, Err(GitError::RepositoryNotFound)), "{gone:?}");
}

#[tokio::test]
async fn the_environment_is_ours_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    let program = script(folder.path(), "[ \"$1\" = --version ] && echo git version 2.47.0 || env");
    let git = Git::find(with_program(program)).await.unwrap();
    let text = git.cat_file(&path, git2::Oid::ZERO_SHA1).unwrap().finish(b"", Duration::from_secs(10)).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    let expected = ["GIT_", "HOME=", "LC_ALL=", "PATH=", "PWD=", "SHLVL=", "_=", "OLDPWD="];
    for line in text.lines() {
        assert!(expected.iter().any(|name| line.starts_with(name)), "{line}");
    }
    assert!(text.contains("HOME=/nonexistent\n") && text.contains("GIT_CONFIG_NOSYSTEM=1\n"), "{text}");
}

#[tokio::test]
async fn a_dropped_process_takes_its_group_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    // The leader and its child ignore TERM.
    let text = "[ \"$1\" = --version ] && { echo git version 2.47.0; exit; }; trap '' TERM; sleep 60 & echo $$ $!; wait; sleep 60";
    let git = Git::find(with_program(script(folder.path(), text))).await.unwrap();
    let mut child = git.cat_file(&path, git2::Oid::ZERO_SHA1).unwrap();
    let mut bytes = [0; 64];
    let count = child.stdout.as_mut().unwrap().read(&mut bytes).await.unwrap();
    let pids: Vec<i32> =
        std::str::from_utf8(&bytes[..count]).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    drop(child);
    let deadline = Instant::now() + Duration::from_secs(10);
    // init reaps the orphaned `sleep`, if there is an init; a zombie counts as ended.
    while is_alive(pids[0])
        || std::fs::read_to_string(format!("/proc/{}/stat", pids[1])).is_ok_and(|stat| !stat.contains(") Z"))
    {
        assert!(Instant::now() < deadline, "both end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_deadline_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    let text = "[ \"$1\" = --version ] && { echo git version 2.47.0; exit; }; exec sleep 60";
    let git = Git::find(with_program(script(folder.path(), text))).await.unwrap();
    let child = git.cat_file(&path, git2::Oid::ZERO_SHA1).unwrap();
    let pid = i32::try_from(child.child.as_ref().unwrap().id().unwrap()).unwrap();
    let error = child.finish(b"", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }));
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "it ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn maintenance_runs_at_low_priority() {
    let folder = tempfile::tempdir().unwrap();
    let path = bare(folder.path());
    // The script ends once its nice value is 15.
    let text = "[ \"$1\" = --version ] && { echo git version 2.47.0; exit; }; while [ \"$(nice)\" != 15 ]; do sleep 0.02; done";
    let git = Git::find(with_program(script(folder.path(), text))).await.unwrap();
    let lock = std::fs::File::create(folder.path().join("hold")).unwrap();
    let child = git.run_task(&path, MaintenanceTask::Check, &lock, NICENESS).unwrap();
    assert!(child.output_unless(&[], std::future::pending(), Duration::from_secs(30)).await.unwrap().is_some());
}
