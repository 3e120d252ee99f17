//! Manages accounts and git stores without a running service, for the launcher's first start and
//! the command line.

mod git_stores;

use ferrite_core::startup::StartError;
use ferrite_core::{Clock, Secret};
use ferrite_db::{Db, Tx};

pub use self::git_stores::GitStores;
pub use crate::model::{NewUser, User};
pub use crate::store::GitStore;

use crate::auth::Passwords;
use crate::error::RepoError;
use crate::model::CheckedUser;
use crate::store::{AccountTable, Action, Actor, Entry, Target, append, migrations};

#[derive(Clone, Debug)]
pub struct Accounts {
    db: Db,
    store: AccountTable,
    passwords: Passwords,
    clock: Clock,
}

/// Opens the database of repo-svc and migrates its schema. Fails if the schema is newer than this
/// program.
pub async fn open(database_url: &Secret) -> Result<Accounts, StartError> {
    Ok(Accounts::over(open_database(database_url).await?))
}

/// Checks the fields of a first administrator before the database exists.
pub fn check_first_administrator(username: &str, email: &str, password: &Secret) -> Result<(), RepoError> {
    CheckedUser::check_for_operator(&first_administrator(username, email, password)).map(drop)
}

fn first_administrator(username: &str, email: &str, password: &Secret) -> NewUser {
    NewUser {
        username: username.to_owned(),
        email: email.to_owned(),
        password: password.clone(),
        full_name: String::new(),
        is_admin: true,
    }
}

async fn open_database(database_url: &Secret) -> Result<Db, StartError> {
    // One attempt first, so that an unreachable server is reported right away, with the reason.
    Db::reach(database_url).await?;
    let db = Db::open(database_url, 2).await?;
    migrations().run(&db).await?;
    Ok(db)
}

impl Accounts {
    /// `db` must have the current schema.
    pub(crate) fn over(db: Db) -> Self {
        Self { store: AccountTable::new(db.clone()), db, passwords: Passwords::new(), clock: Clock::system() }
    }

    pub async fn create_user(&self, new: NewUser) -> Result<User, RepoError> {
        let checked = CheckedUser::check_for_operator(&new)?;
        let hash = self.passwords.hash(&checked.password).await?;
        let mut tx = self.db.begin().await?;
        let user = self.insert(&mut tx, &checked, &hash).await?;
        tx.commit().await?;
        Ok(user)
    }

    /// Creates a site administrator if there is no account yet. Returns whether it did; of several
    /// concurrent calls, only one does.
    pub async fn ensure_first_administrator(
        &self,
        username: &str,
        email: &str,
        password: &Secret,
    ) -> Result<bool, RepoError> {
        let mut tx = self.db.begin().await?;
        if !self.store.is_empty(&mut tx).await? {
            return Ok(false);
        }
        let checked = CheckedUser::check_for_operator(&first_administrator(username, email, password))?;
        let hash = self.passwords.hash(&checked.password).await?;
        self.insert(&mut tx, &checked, &hash).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Inserts an account and its audit log entry.
    async fn insert(&self, tx: &mut Tx, checked: &CheckedUser, hash: &str) -> Result<User, RepoError> {
        let now = self.clock.now_us();
        let user = self.store.insert(tx, checked, hash, now).await?;
        let entry = Entry {
            actor: &Actor::operator(),
            action: Action::UserCreate,
            target: Target::user(user.id, &user.username),
            details: &[("admin", user.is_admin.to_string())],
        };
        append(tx, entry, now).await?;
        Ok(user)
    }

    pub async fn close(self) {
        self.db.close().await;
    }
}
