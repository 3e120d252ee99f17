//! Host keys: created on the first start, then read from their files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::RsaKeypair;
use russh::keys::{Algorithm, PrivateKey};

const ED25519_FILE: &str = "ssh_host_ed25519_key";
const RSA_FILE: &str = "ssh_host_rsa_key";
const RSA_BITS: usize = 3072;

/// Returns the keys in `folder` and creates missing ones. Processes that start at the same time get
/// the same keys.
pub(super) fn ensure(folder: &Path) -> Result<Vec<PrivateKey>, String> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| format!("host keys in {}: {error}", folder.display()))?;
    let ed25519 = key(folder, ED25519_FILE, || PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519))?;
    let rsa = key(folder, RSA_FILE, || RsaKeypair::random(&mut safe_rng(), RSA_BITS).map(PrivateKey::from))?;
    if ed25519.algorithm() != Algorithm::Ed25519 || !matches!(rsa.algorithm(), Algorithm::Rsa { .. }) {
        return Err(format!(
            "host keys in {}: a file contains a key of a different type than its name says",
            folder.display()
        ));
    }
    Ok(vec![ed25519, rsa])
}

fn key(
    folder: &Path,
    name: &str,
    generate: impl FnOnce() -> russh::keys::ssh_key::Result<PrivateKey>,
) -> Result<PrivateKey, String> {
    let path = folder.join(name);
    let failed = |error: std::io::Error| format!("host key {}: {error}", path.display());
    if !path.exists() {
        let generated = generate().and_then(|key| key.to_openssh(LineEnding::LF));
        let text = generated.map_err(|error| format!("host key {}: {error}", path.display()))?;
        publish(folder, name, text.as_bytes()).map_err(failed)?;
    }
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let key = PrivateKey::from_openssh(text);
    key.ok()
        .filter(|key| !key.is_encrypted())
        .ok_or_else(|| format!("host key {}: not an unencrypted private key in OpenSSH format", path.display()))
}

/// Writes and syncs a private file, unless another process has created it in the meantime.
fn publish(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let temporary = folder.join(format!(".{name}.{}", uuid::Uuid::new_v4()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        match std::fs::hard_link(&temporary, folder.join(name)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    })();
    // A temporary file that cannot be removed is private and never read.
    let _ = std::fs::remove_file(&temporary);
    written?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn keys_are_created_once_private_and_the_same_for_all() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/keys");
        let all: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..2).map(|_| scope.spawn(|| ensure(&folder).unwrap())).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let public = |keys: &[PrivateKey]| keys.iter().map(|key| key.public_key().clone()).collect::<Vec<_>>();
        assert_eq!(public(&all[0]), public(&all[1]));
        assert_eq!(public(&all[0]), public(&ensure(&folder).unwrap()));
        assert_eq!(files(&folder), [ED25519_FILE, RSA_FILE]);
        for name in [ED25519_FILE, RSA_FILE] {
            assert_eq!(folder.join(name).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_key_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(ED25519_FILE), "damaged").unwrap();
        assert!(ensure(folder.path()).unwrap_err().contains(ED25519_FILE));
        assert_eq!(std::fs::read(folder.path().join(ED25519_FILE)).unwrap(), b"damaged");
    }
}
