//! The root file system of the image, as `deploy/image/rootfs.sh` assembles it, and commands that
//! run in it.
//!
//! A command gets its own mount namespace. Without root, it also gets a user namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, Weak};

use tempfile::TempDir;

/// Root of the repository.
pub(crate) const PROJECT: &str = env!("CARGO_MANIFEST_DIR");
pub(crate) const USER: &str = "10001";

/// Mounts the file system read-only, with the few devices of a container and a folder on `/data`,
/// and runs a command in it: as the user of the image without capabilities, or as the only user of
/// the namespace. Arguments: file system, folder, user, command.
const ENTER: &str = r#"
set -eu
root=$1 data=$2 user=$3
shift 3
mount --rbind "$root" "$root"
mount --bind "$data" "$root/data"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount --rbind /proc "$root/proc"
mount -o remount,bind,ro "$root"
[ -z "$user" ] || set -- --reuid="$user" --regid="$user" --clear-groups -- "$@"
exec chroot "$root" setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"#;

/// The file system with the split binary. Removed when the last test drops it.
pub(crate) struct Rootfs {
    folder: TempDir,
}

impl Rootfs {
    /// Returns the file system shared by the tests of this process. If it cannot be created, prints
    /// the reason and returns `None`.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Rootfs>> = Mutex::new(Weak::new());
        if let Some(reason) = missing() {
            println!("left out: {reason}");
            return None;
        }
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(rootfs) = shared.upgrade() {
            return Some(rootfs);
        }
        let rootfs = Arc::new(Self { folder: tempfile::tempdir().unwrap() });
        let binary = env!("CARGO_BIN_EXE_ferrite");
        succeeds(script("deploy/dist.sh").arg(binary).arg(rootfs.dist()));
        // The Ferrite package creates its user with this; machines with systemd already have it.
        let users = "systemd-standalone-sysusers";
        succeeds(script("deploy/image/rootfs.sh").arg(rootfs.dist().join("ferrite")).arg(rootfs.root()).arg(users));
        *shared = Arc::downgrade(&rootfs);
        Some(rootfs)
    }

    /// Folder of the split binary.
    pub(crate) fn dist(&self) -> PathBuf {
        self.folder.path().join("dist")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Runs `words` in the file system, with `data` on `/data`.
    pub(crate) fn command(&self, data: &Path, words: &[&str]) -> Command {
        let mut command = in_namespace();
        command.args(["sh", "-c", ENTER, "sh"]).arg(self.root()).arg(data);
        command.arg(if is_root() { USER } else { "" }).args(words);
        command
    }
}

/// Why the file system cannot be created or entered on this machine.
fn missing() -> Option<String> {
    let has = |program: &str| Command::new("which").arg(program).output().is_ok_and(|output| output.status.success());
    if let Some(program) = ["apt-get", "dpkg-deb", "unshare", "objcopy"].into_iter().find(|program| !has(program)) {
        return Some(format!("the program {program} is not installed"));
    }
    let entered = in_namespace().args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    match entered {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("no namespaces for this user: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A command that is root in its own mount namespace.
pub(crate) fn in_namespace() -> Command {
    let mut command = Command::new("unshare");
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--mount");
    command
}

pub(crate) fn script(path: &str) -> Command {
    Command::new(Path::new(PROJECT).join(path))
}

#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = ended(command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[track_caller]
pub(crate) fn ended(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
