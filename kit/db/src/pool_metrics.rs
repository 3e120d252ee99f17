//! The connections of a database, as metrics.

use std::time::Duration;

use ferrite_core::Lifecycle;

use super::handle::Db;
use super::measure::{POSTGRES, SQLITE};

/// Time between two looks at the connections of a pool.
const POOL_INTERVAL: Duration = Duration::from_secs(5);

impl Db {
    /// Measures the connections of this database until `life` stops.
    pub(crate) fn report_connections(&self, life: &Lifecycle) {
        let (db, watched) = (self.clone(), life.clone());
        life.spawn("pool metrics", async move {
            let pool = db.pick(POSTGRES, SQLITE);
            metrics::gauge!("ferrite_db_pool_max_connections", "pool" => pool).set(f64::from(db.max_connections()));
            while !watched.is_stopping() {
                let (open, in_use) = db.connections();
                metrics::gauge!("ferrite_db_pool_connections", "pool" => pool).set(f64::from(open));
                metrics::gauge!("ferrite_db_pool_connections_in_use", "pool" => pool).set(f64::from(in_use));
                watched.pause(POOL_INTERVAL).await;
            }
        });
    }
}
