//! The keys of an installation: made at its first start, durable before anything uses them, never shown.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey};
use rand::TryRngCore;
use rand::rngs::OsRng;

use super::folder::private_folder;

/// The private key that signs grants.
pub(super) const GRANT: &str = "grant.pem";
/// Its public half.
pub(super) const GRANT_PUBLIC: &str = "grant.pub.pem";
/// The key that the processes of one installation share.
pub(super) const SERVICE: &str = "service.key";

/// Makes the keys in `folder` that are not there yet.
pub(super) fn ensure(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("keys in {}: {error}", folder.display());
    private_folder(folder).map_err(failed)?;
    let key = grant_key(folder)?;
    let public = key.verifying_key().to_public_key_pem(LineEnding::LF).map_err(|error| error.to_string())?;
    if std::fs::read_to_string(folder.join(GRANT_PUBLIC)).ok().as_deref() != Some(&public) {
        write(folder, GRANT_PUBLIC, public.as_bytes()).map_err(failed)?;
    }
    if !folder.join(SERVICE).exists() {
        write(folder, SERVICE, hex::encode(random()?).as_bytes()).map_err(failed)?;
    }
    Ok(())
}

fn grant_key(folder: &Path) -> Result<SigningKey, String> {
    let path = folder.join(GRANT);
    match std::fs::read_to_string(&path) {
        Ok(pem) => SigningKey::from_pkcs8_pem(&pem)
            .map_err(|_| format!("{}: not an Ed25519 private key in PEM form", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SigningKey::from_bytes(&random()?);
            let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| error.to_string())?;
            write(folder, GRANT, pem.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))?;
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

/// Writes a private file as a whole or not at all, on disk when this returns.
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

    use ferrite_proto::grant::{Grant, Signer, Verifier};

    use super::*;

    #[test]
    fn keys_are_made_once_and_fit_each_other() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path()).unwrap();
        let read = |name| std::fs::read(folder.path().join(name)).unwrap();
        let first: Vec<_> = [GRANT, GRANT_PUBLIC, SERVICE].map(read).into();
        ensure(folder.path()).unwrap();
        assert_eq!(first, Vec::from([GRANT, GRANT_PUBLIC, SERVICE].map(read)));
        for name in [GRANT, GRANT_PUBLIC, SERVICE] {
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
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let token = Signer::from_pem(&first[0]).unwrap().sign(grant.clone(), now, Duration::from_secs(30));
        assert_eq!(Verifier::from_pem(&first[1]).unwrap().verify(&token).unwrap().0, grant);
    }

    #[test]
    fn a_lost_public_half_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path()).unwrap();
        let public = std::fs::read(folder.path().join(GRANT_PUBLIC)).unwrap();
        std::fs::remove_file(folder.path().join(GRANT_PUBLIC)).unwrap();
        ensure(folder.path()).unwrap();
        assert_eq!(std::fs::read(folder.path().join(GRANT_PUBLIC)).unwrap(), public);
    }

    #[test]
    fn a_damaged_key_is_refused_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(GRANT), "damaged").unwrap();
        assert!(ensure(folder.path()).unwrap_err().contains(GRANT));
        assert_eq!(std::fs::read(folder.path().join(GRANT)).unwrap(), b"damaged");
    }
}
