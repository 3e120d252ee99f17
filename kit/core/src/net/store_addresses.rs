//! Names and addresses of git stores: one address for all, a pattern with the store's name, or a
//! list by name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Address, BadAddress};

/// Stands for the name of a store in a pattern.
const PLACEHOLDER: &str = "{store}";
/// Longest DNS label.
const MAX_STORE_NAME_BYTES: usize = 63;
const MAX_STORES: usize = 1024;

/// The name of a git store: a DNS label in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreName(Arc<str>);

/// The text is not a [`StoreName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a store name must have 1 to {MAX_STORE_NAME_BYTES} characters of `a-z`, `0-9` and `-`, and must not start with `-`"
)]
pub struct BadStoreName;

impl StoreName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StoreName {
    type Err = BadStoreName;

    fn from_str(text: &str) -> Result<Self, BadStoreName> {
        if is_store_name(text) { Ok(Self(text.into())) } else { Err(BadStoreName) }
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

fn is_store_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_STORE_NAME_BYTES).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(is_part)
}

/// The addresses of the git stores by name. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddresses(Arc<Form>);

#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// The address of the only store, whatever its name.
    Single(Address),
    /// An address that contains [`PLACEHOLDER`].
    Pattern(Address),
    List(BTreeMap<String, Address>),
}

/// Why a text is not a valid [`StoreAddresses`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStoreAddresses {
    /// The text or a part of it is not an address.
    #[error("`{text}`: {source}")]
    Address {
        /// The text or part.
        text: String,
        /// The parse error.
        source: BadAddress,
    },
    /// A name in the list is invalid.
    #[error("`{text}`: {source}")]
    Name {
        /// The name.
        text: String,
        /// The parse error.
        source: BadStoreName,
    },
    /// The placeholder is not exactly once in the host or path.
    #[error(
        "a pattern must contain `{PLACEHOLDER}` exactly once, in the host or path, such as `{PLACEHOLDER}.git-svc:7004`"
    )]
    Pattern,
    /// One of several addresses has no store name.
    #[error("each of several addresses needs the name of its store: `git-0=HOST:PORT,git-1=HOST:PORT`")]
    Unnamed,
    /// A store is repeated.
    #[error("store `{0}` is repeated")]
    Repeated(String),
    /// There are too many stores.
    #[error("must have at most {MAX_STORES} stores; use a pattern for more")]
    TooMany,
}

/// Why a request cannot be sent to a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStoreAddress {
    /// The request names no store, and there are several.
    #[error("the request names no store, and FERRITE_GIT_ADDRESS has several")]
    Unnamed,
    /// The store has no address in the settings.
    #[error("FERRITE_GIT_ADDRESS has no address for store `{0}`")]
    Unknown(String),
}

impl StoreAddresses {
    /// Returns the address of a store. A single address serves every name.
    ///
    /// # Errors
    /// [`NoStoreAddress`] if the name is empty or has no address.
    pub fn of(&self, store: &str) -> Result<Address, NoStoreAddress> {
        match &*self.0 {
            Form::Single(address) => Ok(address.clone()),
            Form::Pattern(_) | Form::List(_) if store.is_empty() => Err(NoStoreAddress::Unnamed),
            Form::Pattern(pattern) if is_store_name(store) => Ok(filled_in(pattern, store)),
            Form::Pattern(_) => Err(NoStoreAddress::Unknown(store.to_owned())),
            Form::List(list) => list.get(store).cloned().ok_or_else(|| NoStoreAddress::Unknown(store.to_owned())),
        }
    }

    /// Returns all addresses, a pattern unexpanded. Used to check whether they need TLS.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        let (one, list) = match &*self.0 {
            Form::Single(address) | Form::Pattern(address) => (Some(address), None),
            Form::List(list) => (None, Some(list.values())),
        };
        one.into_iter().chain(list.into_iter().flatten())
    }

    /// Whether one address serves every store.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(&*self.0, Form::Single(_))
    }
}

fn filled_in(pattern: &Address, store: &str) -> Address {
    match pattern {
        Address::Tcp(authority) => Address::Tcp(authority.replace(PLACEHOLDER, store)),
        Address::Unix(path) => Address::Unix(path.to_string_lossy().replace(PLACEHOLDER, store).into()),
    }
}

fn parse_address(text: &str) -> Result<Address, BadStoreAddresses> {
    text.parse().map_err(|source| BadStoreAddresses::Address { text: text.to_owned(), source })
}

fn parse_pattern(text: &str) -> Result<Address, BadStoreAddresses> {
    let pattern = parse_address(text)?;
    let is_host_or_path = match &pattern {
        Address::Tcp(authority) => authority.rsplit_once(':').is_some_and(|(host, _)| host.contains(PLACEHOLDER)),
        Address::Unix(path) => path.to_str().is_some_and(|path| path.contains(PLACEHOLDER)),
    };
    let is_once = text.matches(PLACEHOLDER).count() == 1 && text.matches(['{', '}']).count() == 2;
    if is_host_or_path && is_once { Ok(pattern) } else { Err(BadStoreAddresses::Pattern) }
}

fn parse_list(text: &str) -> Result<BTreeMap<String, Address>, BadStoreAddresses> {
    let mut list = BTreeMap::new();
    for item in text.split(',') {
        let (name, address) = item.trim().split_once('=').ok_or(BadStoreAddresses::Unnamed)?;
        let name = name.parse::<StoreName>();
        let name = name.map_err(|source| BadStoreAddresses::Name { text: item.trim().to_owned(), source })?;
        if list.insert(name.to_string(), parse_address(address)?).is_some() {
            return Err(BadStoreAddresses::Repeated(name.to_string()));
        }
    }
    if list.len() > MAX_STORES { Err(BadStoreAddresses::TooMany) } else { Ok(list) }
}

impl FromStr for StoreAddresses {
    type Err = BadStoreAddresses;

    fn from_str(text: &str) -> Result<Self, BadStoreAddresses> {
        // A path may contain `=`, too: `unix:/run/a=b.sock`.
        let is_list = text.split_once('=').is_some_and(|(before, _)| !before.contains([':', '/', ',']));
        let form = if is_list {
            Form::List(parse_list(text)?)
        } else if text.contains(',') {
            return Err(BadStoreAddresses::Unnamed);
        } else if text.contains(['{', '}']) {
            Form::Pattern(parse_pattern(text)?)
        } else {
            Form::Single(parse_address(text)?)
        };
        Ok(Self(Arc::new(form)))
    }
}

impl fmt::Display for StoreAddresses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Form::Single(address) | Form::Pattern(address) => address.fmt(out),
            Form::List(list) => {
                let items: Vec<_> = list.iter().map(|(name, address)| format!("{name}={address}")).collect();
                out.write_str(&items.join(","))
            }
        }
    }
}

impl From<Address> for StoreAddresses {
    fn from(address: Address) -> Self {
        Self(Arc::new(Form::Single(address)))
    }
}

impl From<&Address> for StoreAddresses {
    fn from(address: &Address) -> Self {
        address.clone().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GrpcTlsArgs;

    fn parse(text: &str) -> StoreAddresses {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn of(addresses: &str, store: &str) -> Result<String, NoStoreAddress> {
        parse(addresses).of(store).map(|address| address.to_string())
    }

    #[test]
    fn names_of_stores_are_labels_of_dns() {
        for name in ["a", "0", "default", "git-0", "a-", &"x".repeat(63)] {
            assert_eq!(name.parse::<StoreName>().unwrap().as_str(), name);
        }
        for name in ["", "-a", "A", "a.b", "a_b", "ä", "a b", "a\n", &"x".repeat(64)] {
            assert_eq!(name.parse::<StoreName>(), Err(BadStoreName), "{name:?}");
        }
    }

    #[test]
    fn one_address_is_that_of_every_store() {
        for text in ["git-svc:7004", "unix:/run/git.sock", "unix:/run/a=b.sock", "http://h:1"] {
            let address = parse(text).of("any").unwrap();
            assert_eq!((parse(text).of(""), parse(text).is_single()), (Ok(address), true), "{text}");
        }
    }

    #[test]
    fn a_pattern_takes_the_name_of_the_store() {
        assert_eq!(of("{store}.git-svc:7004", "git-0").unwrap(), "git-0.git-svc:7004");
        assert_eq!(of("unix:/run/{store}.sock", "a").unwrap(), "unix:/run/a.sock");
        for wrong in ["A", "a/b", "a.b", "../a", "a:1", "a@b"] {
            assert_eq!(of("{store}.git-svc:7004", wrong), Err(NoStoreAddress::Unknown(wrong.into())));
        }
        assert_eq!(of("{store}.git-svc:7004", ""), Err(NoStoreAddress::Unnamed));
    }

    #[test]
    fn a_list_has_the_stores_that_it_names() {
        let list = "git-0=127.0.0.1:1,git-1=unix:/x,c=h:3";
        let found = ["git-0", "git-1", "c"].map(|store| of(list, store).unwrap());
        assert_eq!(found, ["127.0.0.1:1", "unix:/x", "h:3"]);
        let error = of(list, "git-2").unwrap_err().to_string();
        assert_eq!(error, "FERRITE_GIT_ADDRESS has no address for store `git-2`");
        assert_eq!(parse(list).addresses().count(), 3);
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, part) in [
            ("", "HOST:PORT"),
            ("git-svc", "HOST:PORT"),
            ("a:1,b:2", "needs the name of its store"),
            ("a=h:1,h:2", "needs the name of its store"),
            ("a:1,b=h:2", "needs the name of its store"),
            ("a=h:1,a=h:2", "`a` is repeated"),
            ("Git_0=h:1", "`Git_0=h:1`: a store name"),
            ("a=h", "`h`: address must be"),
            ("{store}:{store}", "HOST:PORT"),
            ("{store}.{store}:1", "`{store}` exactly once"),
            ("{name}.git-svc:1", "`{store}` exactly once"),
            ("unix:/{store}/{x}", "`{store}` exactly once"),
            ("git-{store:1", "`{store}` exactly once"),
        ] {
            let error = text.parse::<StoreAddresses>().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    #[test]
    fn each_form_is_held_to_tls() {
        let check = |text: &str| GrpcTlsArgs::default().check(parse(text).addresses()).is_ok();
        for local in ["127.0.0.1:1", "unix:/run/{store}.sock", "a=127.0.0.1:1,b=[::1]:2"] {
            assert!(check(local), "{local}");
        }
        for elsewhere in ["git-svc:1", "{store}.git-svc:1", "127.0.0.{store}:1", "a=127.0.0.1:1,b=10.0.0.1:1"] {
            assert!(!check(elsewhere), "{elsewhere}");
        }
    }
}
