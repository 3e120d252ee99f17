//! Idempotency keys of requests with secrets: the hash of a request is kept, from which a short secret could be guessed.

use std::collections::BTreeMap;

use ferrite_kit::idempotency::{IdempotencyError, IdempotencyKey};
use ferrite_kit::sealing::Sealer;
use prost::Message;
use tonic::Request;

/// Options that hold secrets.
const SECRET_OPTIONS: [&str; 2] = ["url", "secret"];

/// Returns the idempotency key of a request, as [`IdempotencyKey::of`], with fingerprints in place of the secrets in its options. A request
/// of before a change of the sealing key is the same one while the key that was replaced is there.
pub(super) fn key_of<T: Message + Clone>(
    request: &Request<T>,
    caller: i64,
    method: &str,
    sealer: &Sealer,
    options: impl Fn(&mut T) -> &mut BTreeMap<String, String>,
) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let mut key: Option<IdempotencyKey> = None;
    for fingerprint in sealer.fingerprints() {
        let mut redacted = Request::new(request.get_ref().clone());
        *redacted.metadata_mut() = request.metadata().clone();
        *redacted.extensions_mut() = request.extensions().clone();
        let options = options(redacted.get_mut());
        for name in SECRET_OPTIONS {
            if let Some(value) = options.get_mut(name) {
                *value = fingerprint(value);
            }
        }
        let Some(found) = IdempotencyKey::of(&redacted, caller, method)? else { return Ok(None) };
        key = Some(match key {
            Some(key) => key.or_for(found),
            None => found,
        });
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use ferrite_proto::hook::{CreateHookRequest, CreateHookResponse};
    use ferrite_proto::metadata::IDEMPOTENCY_KEY;

    use super::*;
    use crate::secrets;
    use crate::testing::on_each_schema;

    fn key(sealer: &Sealer, secret: &str) -> IdempotencyKey {
        let config = [("secret".to_owned(), secret.to_owned())].into();
        let mut request = Request::new(CreateHookRequest { config, ..Default::default() });
        request.metadata_mut().insert(IDEMPOTENCY_KEY, "k".parse().unwrap());
        key_of(&request, 7, "CreateHook", sealer, |request| &mut request.config).unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_request_is_the_same_after_a_change_of_the_sealing_key() {
        on_each_schema(&crate::migrations(), |db| async move {
            let [old, both, new] = [(1, vec![]), (2, vec![[1; 32]]), (2, vec![])]
                .map(|(key, former)| Sealer::new(&[key; 32], &former, secrets::SERVICE));
            let mut tx = db.begin().await.unwrap();
            key(&old, "hunter2").store(&mut tx, &CreateHookResponse::default(), 1).await.unwrap();
            tx.commit().await.unwrap();
            for (sealer, secret, is_same) in
                [(&old, "hunter2", true), (&both, "hunter2", true), (&both, "hunter3", false), (&new, "hunter2", false)]
            {
                let found = key(sealer, secret).replay::<CreateHookResponse>(&db).await;
                assert_eq!(found.is_ok_and(|found| found.is_some()), is_same, "{secret}");
            }
        })
        .await;
    }
}
