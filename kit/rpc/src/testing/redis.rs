use std::path::Path;
use std::process::Stdio;

use ferrite_core::Secret;
use ferrite_core::testing::{eventually, setting};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A Redis server for one test. Killed when dropped.
pub struct Redis {
    folder: TempDir,
    server: Child,
}

impl Redis {
    /// Starts a server. If `redis-server` is not installed, prints a message and returns `None`, or
    /// panics in CI.
    pub async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let Some(server) = spawn(folder.path()) else {
            assert!(setting("CI").is_none_or(|ci| ci != "true"), "`redis-server` must be installed in CI");
            eprintln!("`redis-server` is not installed: nothing in it is tested");
            return None;
        };
        let redis = Self { folder, server };
        redis.wait_until_ready().await;
        Some(redis)
    }

    async fn wait_until_ready(&self) {
        let client = redis::Client::open(self.url().expose()).unwrap();
        eventually("redis answers", || async { client.get_multiplexed_async_connection().await.is_ok() }).await;
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> Secret {
        Secret::new(format!("redis+unix://{}/redis.sock", self.folder.path().display()))
    }

    /// Stops the server.
    pub async fn stop(&mut self) {
        self.server.kill().await.unwrap();
    }

    /// Starts the server again.
    pub async fn restart(&mut self) {
        self.server = spawn(self.folder.path()).unwrap();
        self.wait_until_ready().await;
    }

    /// Sets a key to any value, without expiry.
    pub async fn write(&self, key: &str, value: &[u8]) {
        redis::cmd("SET").arg(key).arg(value).exec_async(&mut self.connection().await).await.unwrap();
    }

    /// Returns the value of a key; empty if it does not exist.
    pub async fn read(&self, key: &str) -> Vec<u8> {
        redis::cmd("GET").arg(key).query_async(&mut self.connection().await).await.unwrap()
    }

    /// Returns the milliseconds until a key expires; -2 if it does not exist, -1 if it does not
    /// expire.
    pub async fn lifetime_ms(&self, key: &str) -> i64 {
        redis::cmd("PTTL").arg(key).query_async(&mut self.connection().await).await.unwrap()
    }

    /// Returns all keys.
    pub async fn keys(&self) -> Vec<String> {
        redis::cmd("KEYS").arg("*").query_async(&mut self.connection().await).await.unwrap()
    }

    async fn connection(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.url().expose()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }
}

fn spawn(folder: &Path) -> Option<Child> {
    Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(folder.join("redis.sock"))
        .current_dir(folder)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()
}
