//! Ed25519 (RFC 8037) for the JWTs between Ferrite's processes: grants and service tokens.
//!
//! `jsonwebtoken` has its own cryptography, of which this is a small part; the rest would be
//! compiled into every process.

use ed25519_dalek::ed25519::signature::{Signer as _, Verifier as _};
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _};
use ed25519_dalek::{SigningKey, VerifyingKey};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use signature::{Error as SignatureError, Signer, Verifier};

/// A text is not an Ed25519 key in PEM form.
#[derive(Debug, thiserror::Error)]
#[error("key is not an Ed25519 key in PEM form")]
pub struct BadKey;

static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory: signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

/// Makes `jsonwebtoken` use this module's cryptography. Call it before a key is used.
pub fn install() {
    // Only fails if the provider is already installed.
    let _ = PROVIDER.install_default();
}

/// Reads an Ed25519 private key in PEM form (PKCS#8).
///
/// # Errors
/// If `pem` is not such a key.
pub fn ed25519_private_key(pem: &[u8]) -> Result<EncodingKey, BadKey> {
    install();
    let key = str::from_utf8(pem).ok().and_then(|pem| SigningKey::from_pkcs8_pem(pem).ok()).ok_or(BadKey)?;
    let der = key.to_pkcs8_der().map_err(|_| BadKey)?;
    Ok(EncodingKey::from_ed_der(der.as_bytes()))
}

/// Reads an Ed25519 public key in PEM form (SubjectPublicKeyInfo).
///
/// # Errors
/// If `pem` is not such a key.
pub fn ed25519_public_key(pem: &[u8]) -> Result<DecodingKey, BadKey> {
    install();
    let key = str::from_utf8(pem).ok().and_then(|pem| VerifyingKey::from_public_key_pem(pem).ok()).ok_or(BadKey)?;
    Ok(DecodingKey::from_ed_der(key.as_bytes()))
}

/// Signs a message that is not a JWT.
///
/// # Panics
/// Never: [`ed25519_private_key`] checked the key.
pub(crate) fn sign(key: &EncodingKey, message: &[u8]) -> Vec<u8> {
    let signer = signer(&Algorithm::EdDSA, key).expect("the key was checked when it was read");
    signer.try_sign(message).expect("Ed25519 signs every message")
}

/// Whether a message that is not a JWT has this signature.
pub(crate) fn is_signed(key: &DecodingKey, message: &[u8], signature: &[u8]) -> bool {
    verifier(&Algorithm::EdDSA, key).is_ok_and(|verifier| verifier.verify(message, &signature.to_vec()).is_ok())
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    match (algorithm, key.family()) {
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => {
            let key = SigningKey::from_pkcs8_der(key.as_bytes()).map_err(|_| ErrorKind::InvalidEddsaKey)?;
            Ok(Box::new(Ed25519Signer(key)))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let bytes = key.try_get_as_bytes()?;
    match (algorithm, key.family()) {
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => {
            let bytes = bytes.try_into().map_err(|_| ErrorKind::InvalidEddsaKey)?;
            let key = VerifyingKey::from_bytes(bytes).map_err(|_| ErrorKind::InvalidEddsaKey)?;
            Ok(Box::new(Ed25519Verifier(key)))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Ed25519Signer(SigningKey);

impl Signer<Vec<u8>> for Ed25519Signer {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, SignatureError> {
        let signature = self.0.try_sign(message).map_err(|_| SignatureError::new())?;
        Ok(signature.to_bytes().to_vec())
    }
}

impl JwtSigner for Ed25519Signer {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct Ed25519Verifier(VerifyingKey);

impl Verifier<Vec<u8>> for Ed25519Verifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| SignatureError::new())?;
        self.0.verify(message, &signature).map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Ed25519Verifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}
