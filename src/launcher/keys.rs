//! The keys of an installation: generated at the first start, synced to disk before use, never printed.
//!
//! Not here: the host keys of SSH, which the gateway generates in the same folder.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey};
use rand::TryRngCore;
use rand::rngs::OsRng;

use super::folder::create_private_folder;

/// File of the private key that signs grants.
pub(super) const GRANT_KEY_FILE: &str = "grant.pem";
/// File of the public key that verifies grants.
pub(super) const GRANT_PUBLIC_KEY_FILE: &str = "grant.pub.pem";
/// File of the secret key that the processes of one installation share.
pub(super) const SERVICE_KEY_FILE: &str = "service.key";
/// File of the secret key that seals secrets of users in databases. Without it they are lost.
pub(super) const SECRET_KEY_FILE: &str = "secret.key";

/// Generates the keys that are missing in `folder`.
pub(super) fn ensure(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("keys in {}: {error}", folder.display());
    create_private_folder(folder).map_err(failed)?;
    let key = grant_key(folder)?;
    let public = key.verifying_key().to_public_key_pem(LineEnding::LF).map_err(|error| error.to_string())?;
    if std::fs::read_to_string(folder.join(GRANT_PUBLIC_KEY_FILE)).ok().as_deref() != Some(&public) {
        write(folder, GRANT_PUBLIC_KEY_FILE, public.as_bytes()).map_err(failed)?;
    }
    for name in [SERVICE_KEY_FILE, SECRET_KEY_FILE] {
        if !folder.join(name).exists() {
            write(folder, name, hex::encode(random()?).as_bytes()).map_err(failed)?;
        }
    }
    Ok(())
}

fn grant_key(folder: &Path) -> Result<SigningKey, String> {
    let path = folder.join(GRANT_KEY_FILE);
    match std::fs::read_to_string(&path) {
        Ok(pem) => SigningKey::from_pkcs8_pem(&pem)
            .map_err(|_| format!("{}: not an Ed25519 private key in PEM form", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SigningKey::from_bytes(&random()?);
            let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| error.to_string())?;
            write(folder, GRANT_KEY_FILE, pem.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))?;
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

/// Writes a private file atomically, and syncs it to disk before it returns.
fn write(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let unfinished = folder.join(format!(".{name}.new"));
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use ferrite_proto::grant::{Grant, IssueReach, Signer, Verifier};

    use super::*;

    #[test]
    fn keys_are_generated_once_and_match() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path()).unwrap();
        let read = |name| std::fs::read(folder.path().join(name)).unwrap();
        let first: Vec<_> = [GRANT_KEY_FILE, GRANT_PUBLIC_KEY_FILE, SERVICE_KEY_FILE, SECRET_KEY_FILE].map(read).into();
        ensure(folder.path()).unwrap();
        assert_eq!(
            first,
            Vec::from([GRANT_KEY_FILE, GRANT_PUBLIC_KEY_FILE, SERVICE_KEY_FILE, SECRET_KEY_FILE].map(read))
        );
        for name in [GRANT_KEY_FILE, GRANT_PUBLIC_KEY_FILE, SERVICE_KEY_FILE, SECRET_KEY_FILE] {
            assert_eq!(folder.path().join(name).metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        let grant = Grant {
            user: None,
            repository: 1,
            operation: String::new(),
            permission: ferrite_proto::Permission::Read,
            issues_enabled: true,
            is_mirror: false,
            store: "default".into(),
            epoch: 1,
            issue_reach: IssueReach::None,
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let token = Signer::from_pem(&first[0]).unwrap().sign(grant.clone(), now, Duration::from_secs(30));
        assert_eq!(Verifier::from_pem(&first[1]).unwrap().verify(&token).unwrap().0, grant);
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
