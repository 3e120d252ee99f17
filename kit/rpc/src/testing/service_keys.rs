use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use ferrite_core::Clock;
use ferrite_core::net::Address;
use ferrite_proto::ServiceRole;
use ferrite_proto::callers::emitter;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event};
use tonic::Status;

use crate::grpc::{Channel, ChannelCredentials, channel};
use crate::service_key::{ServiceKey, ServicePublicKeys, ServiceTokenSource};

/// The key pairs of all roles, in a folder: `ROLE.pem` and `public/ROLE.pub.pem`.
#[derive(Clone, Debug)]
pub struct ServiceKeys {
    folder: PathBuf,
}

impl ServiceKeys {
    /// Creates new key pairs in `folder`.
    ///
    /// # Panics
    /// If a file cannot be written.
    #[must_use]
    pub fn write(folder: &Path) -> Self {
        std::fs::create_dir_all(folder.join("public")).unwrap();
        for role in ServiceRole::ALL {
            let pair = SigningKey::from_bytes(&rand::random());
            let private = pair.to_pkcs8_pem(LineEnding::LF).unwrap();
            let public = pair.verifying_key().to_public_key_pem(LineEnding::LF).unwrap();
            std::fs::write(folder.join(format!("{role}.pem")), private.as_bytes()).unwrap();
            std::fs::write(folder.join(format!("public/{role}.pub.pem")), public).unwrap();
        }
        Self { folder: folder.to_owned() }
    }

    /// Returns the file of a role's private key.
    #[must_use]
    pub fn private_file(&self, role: ServiceRole) -> PathBuf {
        self.folder.join(format!("{role}.pem"))
    }

    /// Returns the folder of the public keys.
    #[must_use]
    pub fn public_folder(&self) -> PathBuf {
        self.folder.join("public")
    }

    /// Returns the public keys.
    ///
    /// # Panics
    /// If they are unreadable.
    #[must_use]
    pub fn public(&self) -> ServicePublicKeys {
        ServicePublicKeys::open(&self.public_folder()).unwrap()
    }

    /// Returns the flags that name the keys of a role.
    #[must_use]
    pub fn flags(&self, role: ServiceRole) -> [String; 2] {
        [
            format!("--service-key-file={}", self.private_file(role).display()),
            format!("--service-public-keys={}", self.public_folder().display()),
        ]
    }

    /// Returns the token source of a role.
    ///
    /// # Panics
    /// If its key is unreadable.
    #[must_use]
    pub fn token_source(&self, role: ServiceRole, clock: &Clock) -> Arc<ServiceTokenSource> {
        let key = ServiceKey::read(&self.private_file(role)).unwrap();
        Arc::new(ServiceTokenSource::new(key, role, clock.clone()))
    }

    /// Returns a channel from a process with the role `from` to one with the role `to`.
    ///
    /// # Panics
    /// If the key of `from` is unreadable.
    #[must_use]
    pub fn channel(&self, from: ServiceRole, to: ServiceRole, address: &Address) -> Channel {
        let credentials = ChannelCredentials::new(self.token_source(from, &Clock::system()), to);
        channel(address, Some(credentials))
    }

    /// Delivers events to the service with the role `to`, each as the role that emits it.
    /// Consecutive events of a role are delivered together.
    ///
    /// # Errors
    /// The first rejection.
    ///
    /// # Panics
    /// If a key is unreadable.
    pub async fn deliver(&self, to: ServiceRole, address: &Address, events: Vec<Event>) -> Result<(), Status> {
        let mut requests: Vec<(Option<ServiceRole>, Vec<Event>)> = vec![(None, Vec::new())];
        for event in events {
            let from = event.fact.as_ref().map(emitter);
            let (role, last) = requests.last_mut().unwrap();
            if role.is_none() || from.is_none() || *role == from {
                *role = role.or(from);
                last.push(event);
            } else {
                requests.push((from, vec![event]));
            }
        }
        for (from, events) in requests {
            let channel = self.channel(from.unwrap_or(ServiceRole::RepoSvc), to, address);
            EventSinkClient::new(channel).deliver(DeliverRequest { events, ..Default::default() }).await?;
        }
        Ok(())
    }
}
