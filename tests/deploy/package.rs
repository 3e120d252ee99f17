//! The Debian package and its systemd unit: installed into a folder, inspected, removed and purged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rootfs::{PROJECT, Rootfs, ended, in_namespace, script, succeeds};

/// Highest allowed exposure, on the 0 to 10 scale of `systemd-analyze security`.
const MAX_EXPOSURE: f32 = 2.0;

/// A Debian root file system with an empty package database.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn new(rootfs: &Rootfs, folder: &Path) -> Self {
        let root = folder.join("root");
        succeeds(Command::new("cp").arg("-a").arg(rootfs.root()).arg(&root));
        fs::remove_file(root.join("usr/bin/ferrite")).unwrap();
        fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
        fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
        fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        Self { root }
    }

    /// Runs dpkg. It ignores dependencies, because nothing else is installed.
    fn dpkg(&self, words: &[&str]) -> String {
        let mut command = in_namespace();
        command.args(["dpkg", "--force-depends", "--root"]).arg(&self.root).args(words);
        succeeds(&mut command)
    }

    fn run(&self, words: &[&str]) -> Command {
        let mut command = in_namespace();
        command.arg("chroot").arg(&self.root).args(words);
        command
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// Builds both packages and returns their paths: program and debug symbols.
fn packages(rootfs: &Rootfs, folder: &Path) -> (String, String) {
    let built = succeeds(script("deploy/deb/build.sh").env("DEB_COMPRESSION", "none").arg(rootfs.dist()).arg(folder));
    let mut paths = built.lines().map(str::to_owned);
    let both = (paths.next().unwrap(), paths.next().unwrap());
    assert!(both.0.contains("/ferrite_") && both.1.contains("/ferrite-dbgsym_") && paths.next().is_none(), "{both:?}");
    both
}

#[test]
fn the_package_is_installed_runs_and_goes_again() {
    let Some(rootfs) = Rootfs::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (package, symbols) = packages(&rootfs, folder.path());
    let field = |name: &str| succeeds(Command::new("dpkg-deb").args(["--field", &package, name])).trim().to_owned();
    let depends = field("Depends");
    for needed in ["libc6 (>= 2.", "git (>= 1:2.39)", "ca-certificates", "systemd"] {
        assert!(depends.contains(needed), "{depends}");
    }
    assert!(read("Cargo.toml").contains(&format!("version = \"{}\"", field("Version").trim_end_matches("-1"))));

    let machine = Machine::new(&rootfs, folder.path());
    let said = machine.dpkg(&["--install", &package, &symbols]);
    assert!(said.contains("systemctl enable --now ferrite"), "{said}");
    let files = machine.dpkg(&["--listfiles", "ferrite"]);
    for path in [
        "/usr/bin/ferrite",
        "/usr/lib/systemd/system/ferrite.service",
        "/usr/lib/sysusers.d/ferrite.conf",
        "/etc/ferrite/ferrite.env",
        "/usr/share/doc/ferrite/copyright",
        "/usr/share/doc/ferrite/operations.md",
    ] {
        assert!(files.lines().any(|line| line == path), "{path} is not in\n{files}");
        assert!(machine.path(path).is_file(), "{path}");
    }
    assert_eq!(machine.path("/etc/ferrite/ferrite.env").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(machine.path("/usr/lib/debug/usr/bin/ferrite.debug").is_file());
    let users = fs::read_to_string(machine.path("/etc/passwd")).unwrap();
    let user = users.lines().find(|line| line.starts_with("ferrite:")).expect("the user is there");
    assert!(user.contains(":/var/lib/ferrite:") && user.ends_with("nologin"), "{user}");
    let version = succeeds(&mut machine.run(&["ferrite", "--version"]));
    assert!(version.starts_with("ferrite "), "{version}");
    assert_settings_are_known(&machine);

    fs::create_dir_all(machine.path("/var/lib/ferrite/git")).unwrap();
    fs::write(machine.path("/etc/ferrite/ferrite.env"), "FERRITE_LOG=debug\n").unwrap();
    machine.dpkg(&["--install", &package]);
    assert_eq!(fs::read_to_string(machine.path("/etc/ferrite/ferrite.env")).unwrap(), "FERRITE_LOG=debug\n");
    machine.dpkg(&["--remove", "ferrite-dbgsym", "ferrite"]);
    assert!(!machine.path("/usr/bin/ferrite").exists());
    assert!(machine.path("/etc/ferrite/ferrite.env").exists(), "settings stay until the package is purged");
    let said = machine.dpkg(&["--purge", "ferrite"]);
    assert!(said.contains("in /var/lib/ferrite were kept"), "{said}");
    assert!(!machine.path("/etc/ferrite/ferrite.env").exists());
    assert!(machine.path("/var/lib/ferrite/git").is_dir(), "the package manager must not remove repositories");
}

/// `ferrite up` or a role knows every variable in the settings file.
#[track_caller]
fn assert_settings_are_known(machine: &Machine) {
    let settings = fs::read_to_string(machine.path("/etc/ferrite/ferrite.env")).unwrap();
    let help = succeeds(&mut machine.run(&["ferrite", "up", "--help-all"])) + "FERRITE_ADMIN_PASSWORD ";
    let names = settings.lines().filter_map(|line| line.trim_start_matches('#').split_once('=')).map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| name.starts_with("FERRITE_")).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert!(help.contains(name), "{name}");
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(PROJECT).join(path)).unwrap()
}

fn seconds(unit: &str, name: &str) -> u64 {
    let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).expect(name);
    line.parse().expect(name)
}

#[test]
fn the_unit_gives_the_service_its_time_and_takes_its_rights() {
    let unit = read("deploy/systemd/ferrite.service");
    let help = succeeds(Command::new(env!("CARGO_BIN_EXE_ferrite")).args(["up", "--help-all"]).env_clear());
    // The help wraps long lines anywhere.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let grace = help.split("[env: FERRITE_GRACE_SECONDS=]").nth(1).unwrap();
    let grace: u64 = grace.split("[default: ").nth(1).unwrap().split(']').next().unwrap().parse().unwrap();
    assert!(seconds(&unit, "TimeoutStopSec") > grace, "systemd must not kill within the grace period of {grace} s");
    assert!(seconds(&unit, "TimeoutStartSec") > 60, "the launcher waits 60 s for its processes");
    for line in [
        "Type=notify",
        "RestartPreventExitStatus=2",
        "KillMode=mixed",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "User=ferrite",
    ] {
        assert!(unit.lines().any(|other| other == line), "{line}");
    }
}

#[test]
fn systemd_accepts_the_unit() {
    let version = Command::new("systemd-analyze").arg("--version").output();
    if version.is_err() {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("usr/lib/systemd/system");
    fs::create_dir_all(&units).unwrap();
    let unit = units.join("ferrite.service");
    fs::copy(Path::new(PROJECT).join("deploy/systemd/ferrite.service"), &unit).unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    fs::write(root.path().join("usr/bin/ferrite"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.path().join("usr/bin/ferrite"), fs::Permissions::from_mode(0o755)).unwrap();
    for target in ["basic.target", "sysinit.target", "network-online.target", "multi-user.target", "shutdown.target"] {
        fs::write(units.join(target), "[Unit]\nDescription=target\n").unwrap();
    }
    let analyze = |words: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        ended(command.args(words).arg(format!("--root={}", root.path().display())).arg("ferrite.service"))
    };
    let verified = analyze(&["verify"]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !said.contains("ferrite.service:"), "{said}");
    let security = analyze(&["security", "--offline=true", "--no-pager"]);
    let said = String::from_utf8_lossy(&security.stdout).into_owned();
    let exposure = said.lines().find_map(|line| line.split("exposure level for ferrite.service: ").nth(1));
    let exposure: f32 =
        exposure.and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    println!("exposure {exposure}");
    assert!(exposure <= MAX_EXPOSURE, "{said}");
}
