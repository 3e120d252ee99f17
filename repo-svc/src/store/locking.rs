use ferrite_kit::db::Tx;

/// A statement that locks the rows that it reads. On SQLite it locks nothing, because there is a single writer anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locking {
    pub(super) postgres: &'static str,
    /// The statement without the lock.
    pub(super) plain: &'static str,
}

impl Locking {
    /// Returns the statement for the database of a transaction.
    pub(super) fn sql(self, tx: &Tx) -> &'static str {
        tx.pick(self.postgres, self.plain)
    }
}

/// Makes a [`Locking`] of a statement and of the clause that locks on PostgreSQL.
macro_rules! locking {
    ($plain:expr, $clause:literal) => {
        $crate::store::locking::Locking { postgres: concat!($plain, $clause), plain: $plain }
    };
}
pub(super) use locking;
