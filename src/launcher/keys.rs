//! The keys of an installation: generated at the first start or by `ferrite keys`, synced to disk before use, never printed.
//!
//! ```text
//! grant.pem, grant.pub.pem        sign and verify grants
//! gateway.pem … git-svc.pem       by which each role proves itself
//! public/gateway.pub.pem …        the public keys of all roles
//! hook-sealing.key                seals URLs and secrets of webhooks in the database of hook-svc
//! git-sealing.key                 seals credentials of imports and mirrors in the database of git-svc
//! ```
//!
//! Not here: the host keys of SSH, which the gateway generates in the same folder.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey};
use rand::TryRngCore;
use rand::rngs::OsRng;

use ferrite_proto::ServiceRole;

use super::folder::{PRIVATE_FILE_MODE, create_private_folder};

/// File of the private key that signs grants.
pub(super) const GRANT_KEY_FILE: &str = "grant.pem";
/// File of the public key that verifies grants.
pub(super) const GRANT_PUBLIC_KEY_FILE: &str = "grant.pub.pem";
/// Folder of the public keys of all roles.
pub(crate) const SERVICE_PUBLIC_FOLDER: &str = "public";
/// File of a secret that all roles of earlier versions shared. Nothing uses it any more.
const FORMER_SERVICE_KEY_FILE: &str = "service.key";
/// File of the keys that seal what hook-svc keeps in its database. Without it that is lost.
pub(super) const HOOK_SEALING_KEY_FILE: &str = "hook-sealing.key";
/// File of the keys that seal what git-svc keeps in its database. Without it that is lost.
pub(super) const GIT_SEALING_KEY_FILE: &str = "git-sealing.key";
/// File of the key that hook-svc and git-svc shared in earlier versions. What it sealed still opens: their own files have it as a further
/// line. It stays for the way back to such a version.
const FORMER_SEALING_KEY_FILE: &str = "secret.key";

/// Returns the name of the file of a role's private key.
fn service_key_file(role: ServiceRole) -> String {
    format!("{role}.pem")
}

/// Generates the keys that are missing in `folder`.
///
/// # Errors
/// When a file cannot be read or written, or holds no such key; the message names it.
pub(crate) fn ensure(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("keys in {}: {error}", folder.display());
    let public_folder = folder.join(SERVICE_PUBLIC_FOLDER);
    create_private_folder(folder).map_err(failed)?;
    // Public keys may be open to other users: the mode of a folder that is there stays.
    if !public_folder.is_dir() {
        create_private_folder(&public_folder).map_err(failed)?;
    }
    ensure_pair((folder, GRANT_KEY_FILE), (folder, GRANT_PUBLIC_KEY_FILE))?;
    for role in ServiceRole::ALL {
        ensure_pair((folder, &service_key_file(role)), (&public_folder, &format!("{role}.pub.pem")))?;
    }
    for name in [HOOK_SEALING_KEY_FILE, GIT_SEALING_KEY_FILE] {
        ensure_sealing_key(folder, name)?;
    }
    match std::fs::remove_file(folder.join(FORMER_SERVICE_KEY_FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Generates the private key of a pair if it is missing, and writes the public one if it is missing or another key's. Each is given by its
/// folder and name.
fn ensure_pair(private: (&Path, &str), public: (&Path, &str)) -> Result<(), String> {
    let key = private_key(private.0, private.1)?;
    let pem = key.verifying_key().to_public_key_pem(LineEnding::LF).map_err(|error| error.to_string())?;
    let path = public.0.join(public.1);
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&pem) {
        let written = write(public.0, public.1, pem.as_bytes(), PRIVATE_FILE_MODE);
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Generates the file of a key that seals if it is missing: a line with the new key, and one with the key of earlier versions if there is
/// one.
fn ensure_sealing_key(folder: &Path, name: &str) -> Result<(), String> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(());
    }
    let former = folder.join(FORMER_SEALING_KEY_FILE);
    let former = match std::fs::read_to_string(&former) {
        Ok(key) => format!("{}\n", key.trim()),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("{}: {error}", former.display())),
    };
    let content = format!("{}\n{former}", hex::encode(random()?));
    write(folder, name, content.as_bytes(), PRIVATE_FILE_MODE).map_err(|error| format!("{}: {error}", path.display()))
}

fn private_key(folder: &Path, name: &str) -> Result<SigningKey, String> {
    let path = folder.join(name);
    match std::fs::read_to_string(&path) {
        Ok(pem) => SigningKey::from_pkcs8_pem(&pem)
            .map_err(|_| format!("{}: not an Ed25519 private key in PEM form", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SigningKey::from_bytes(&random()?);
            let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| error.to_string())?;
            let written = write(folder, name, pem.as_bytes(), PRIVATE_FILE_MODE);
            written.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(key)
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn random() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes)
}

/// Writes a file of the given mode atomically, and syncs it to disk before it returns.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(folder: &Path, name: &str, content: &[u8], mode: u32) -> std::io::Result<()> {
    let unfinished = folder.join(format!(".{name}.new"));
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE_MODE).open(&unfinished)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrite_core::sealing::Sealer;
    use ferrite_proto::grant::{Grant, Signer, Verifier};

    use super::*;

    #[test]
    fn keys_are_generated_once_and_match() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path()).unwrap();
        let mut names = [GRANT_KEY_FILE, GRANT_PUBLIC_KEY_FILE, HOOK_SEALING_KEY_FILE, GIT_SEALING_KEY_FILE]
            .map(str::to_owned)
            .to_vec();
        for role in ServiceRole::ALL {
            names.extend([service_key_file(role), format!("{SERVICE_PUBLIC_FOLDER}/{role}.pub.pem")]);
        }
        let read_all =
            || -> Vec<_> { names.iter().map(|name| std::fs::read(folder.path().join(name)).unwrap()).collect() };
        let first = read_all();
        ensure(folder.path()).unwrap();
        assert_eq!(first, read_all());
        let distinct: std::collections::HashSet<_> = first.iter().collect();
        assert_eq!(distinct.len(), first.len(), "every role has a key of its own");
        for name in &names {
            assert_eq!(folder.path().join(name).metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        let grant = Grant {
            repository: 1,
            permission: ferrite_proto::Permission::Read,
            issues_enabled: true,
            store: "default".into(),
            epoch: 1,
            ..Grant::default()
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let token = Signer::from_pem(&first[0]).unwrap().sign(grant.clone(), now, Duration::from_secs(30));
        assert_eq!(Verifier::from_pem(&first[1]).unwrap().verify(&token).unwrap().0, grant);
    }

    #[test]
    fn the_shared_key_of_earlier_versions_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let former = folder.path().join(FORMER_SERVICE_KEY_FILE);
        std::fs::write(&former, "5e".repeat(32)).unwrap();
        ensure(folder.path()).unwrap();
        assert!(!former.exists());
    }

    #[test]
    fn what_was_sealed_with_the_shared_key_of_earlier_versions_opens_for_both_services() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join(FORMER_SEALING_KEY_FILE);
        std::fs::write(&shared, "5e".repeat(32)).unwrap();
        let sealed = Sealer::read(&shared, "svc").unwrap().seal(b"place", "hunter2").unwrap();
        ensure(folder.path()).unwrap();
        let sealers =
            [HOOK_SEALING_KEY_FILE, GIT_SEALING_KEY_FILE].map(|name| Sealer::read(&folder.path().join(name), "svc"));
        let [hook, git] = sealers.map(Result::unwrap);
        for sealer in [&hook, &git] {
            assert_eq!(sealer.open(b"place", &sealed).unwrap().expose(), "hunter2");
        }
        let sealed = hook.seal(b"place", "hunter2").unwrap();
        assert!(git.open(b"place", &sealed).is_err(), "each has a key of its own");
        assert_eq!(std::fs::read_to_string(shared).unwrap(), "5e".repeat(32), "kept for the way back");
    }

    #[test]
    fn a_lost_public_key_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path()).unwrap();
        let public = std::fs::read(folder.path().join(GRANT_PUBLIC_KEY_FILE)).unwrap();
        std::fs::remove_file(folder.path().join(GRANT_PUBLIC_KEY_FILE)).unwrap();
        ensure(folder.path()).unwrap();
        assert_eq!(std::fs::read(folder.path().join(GRANT_PUBLIC_KEY_FILE)).unwrap(), public);
    }

    #[test]
    fn a_damaged_key_is_refused_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(GRANT_KEY_FILE), "damaged").unwrap();
        assert!(ensure(folder.path()).unwrap_err().contains(GRANT_KEY_FILE));
        assert_eq!(std::fs::read(folder.path().join(GRANT_KEY_FILE)).unwrap(), b"damaged");
    }
}
