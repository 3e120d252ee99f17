//! Idempotency keys of requests with secrets: the hash of a request is kept, from which a short secret could be guessed.

use std::collections::BTreeMap;

use ferrite_kit::idempotency::{IdempotencyError, IdempotencyKey};
use ferrite_kit::sealing::Sealer;
use prost::Message;
use tonic::Request;

/// Options that hold secrets.
const SECRET_OPTIONS: [&str; 2] = ["url", "secret"];

/// Returns the idempotency key of a request, as [`IdempotencyKey::of`], with fingerprints in place of the secrets in its options.
pub(super) fn key_of<T: Message + Clone>(
    request: &Request<T>,
    caller: i64,
    method: &str,
    sealer: &Sealer,
    options: impl FnOnce(&mut T) -> &mut BTreeMap<String, String>,
) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let mut redacted = Request::new(request.get_ref().clone());
    *redacted.metadata_mut() = request.metadata().clone();
    *redacted.extensions_mut() = request.extensions().clone();
    let options = options(redacted.get_mut());
    for name in SECRET_OPTIONS {
        if let Some(value) = options.get_mut(name) {
            *value = sealer.fingerprint(value);
        }
    }
    IdempotencyKey::of(&redacted, caller, method)
}
