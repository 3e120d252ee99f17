//! Servers and folders of a test process: PostgreSQL for all installations, and a Redis for each
//! that uses one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::Connection;

use super::certificates::Authority;
use super::process::{Lines, Process};

const START_TIMEOUT: Duration = Duration::from_secs(90);

/// Addresses of one test process. Those from 127.100 to 127.199 are for the servers of
/// `tests/servers.sh`.
const MAX_ADDRESSES: u32 = 480;

/// A loopback address that no other call and no other process gets.
pub(crate) fn address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    assert!(number < MAX_ADDRESSES, "out of loopback addresses");
    numbered_address(number)
}

/// All addresses that [`address`] can return, for certificates.
pub(crate) fn possible_addresses() -> Vec<String> {
    (0..MAX_ADDRESSES).map(numbered_address).collect()
}

/// The process id determines the second part and two adjacent third parts; the number selects one
/// of these and the fourth part.
fn numbered_address(number: u32) -> String {
    let id = std::process::id();
    let block = id / 125 % 153;
    let second = if block < 98 { block + 2 } else { block + 102 };
    let third = id % 125 * 2 + number / 240;
    format!("127.{second}.{third}.{}", number % 240 + 10)
}

/// A folder that a helper process removes after the test process.
type Folder = OnceLock<(PathBuf, Process)>;

/// Folder of this test process, in memory if `tests/servers.sh` found room.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: Folder = OnceLock::new();
    folder_in(&FOLDER, &std::env::temp_dir())
}

/// Folder of this test process on a disk.
pub(crate) fn folder_on_disk() -> &'static Path {
    static FOLDER: Folder = OnceLock::new();
    let disk = std::env::vars_os().find(|(name, _)| name == "FERRITE_TEST_DISK");
    folder_in(&FOLDER, &disk.map_or_else(std::env::temp_dir, |(_, path)| path.into()))
}

fn folder_in(folder: &'static Folder, parent: &Path) -> &'static Path {
    &folder
        .get_or_init(|| {
            let path = tempfile::Builder::new().prefix("ferrite-test-").tempdir_in(parent).unwrap().keep();
            let script = "cat; sleep 2; rm -rf -- \"$0\"; sleep 8; rm -rf -- \"$0\"";
            let janitor = Process::start(Command::new("sh").arg("-c").arg(script).arg(&path), &Lines::default());
            (path, janitor)
        })
        .0
}

pub(crate) fn postgres() -> &'static str {
    static SERVER: OnceLock<(String, Option<Process>)> = OnceLock::new();
    &SERVER
        .get_or_init(|| {
            if let Some(url) = std::env::vars().find(|(name, _)| name == "FERRITE_TEST_POSTGRES_URL") {
                return (url.1, None);
            }
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers.sh");
            let log = Lines::default();
            let hold = "echo \"$FERRITE_TEST_POSTGRES_URL\"; cat";
            let process = Process::start(Command::new(script).args(["sh", "-c", hold]), &log);
            let url = process.out.wait_for(START_TIMEOUT, |line| line.starts_with("postgres://"));
            (url.unwrap_or_else(|| panic!("PostgreSQL did not start: {:?}", log.all())), Some(process))
        })
        .0
}

/// Creates an empty database on the shared server, and returns its URL.
pub(crate) fn database(name: &str) -> String {
    database_on(postgres(), name)
}

/// Creates an empty database on the server with this URL, and returns its URL.
pub(crate) fn database_on(server: &str, name: &str) -> String {
    let statement = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
    let make = async {
        let mut connection = sqlx::PgConnection::connect(server).await.unwrap();
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(make);
    format!("{}/{name}", server.rsplit_once('/').unwrap().0)
}

pub(crate) struct Redis {
    address: String,
    /// Folder with the server's users and certificate, if it has any.
    secrets: Option<PathBuf>,
    process: Option<Process>,
}

impl Redis {
    /// The user for tests, with all permissions, and its password.
    const TESTS: &str = "tests";

    pub(crate) fn start() -> Self {
        Self::start_at(address(), None)
    }

    /// Starts a server with TLS and the users that `ferrite secrets` creates in `secrets`.
    pub(crate) fn start_with_users(address: String, secrets: &Path) -> Self {
        let made = super::cluster::ferrite()
            .arg("secrets")
            .arg(secrets)
            .args(["--redis", &format!("{address}:6380"), "--redis-tls"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let users = std::fs::read_to_string(secrets.join("redis-users.acl")).unwrap();
        let tests = format!("{users}user {0} on >{0} allkeys allcommands\n", Self::TESTS);
        std::fs::write(secrets.join("test-users.acl"), tests).unwrap();
        Authority::new().write(&secrets.join("tls"), "redis", std::slice::from_ref(&address));
        Self::start_at(address, Some(secrets.to_owned()))
    }

    fn start_at(address: String, secrets: Option<PathBuf>) -> Self {
        let mut redis = Self { address, secrets, process: None };
        redis.start_again();
        redis
    }

    pub(crate) fn url(&self) -> String {
        let user = self.secrets.as_ref().map_or_else(String::new, |_| format!("{0}:{0}@", Self::TESTS));
        format!("redis://{user}{}:6379", self.address)
    }

    /// The flags of a role, given by its short name.
    pub(crate) fn flags(&self, role: &str) -> Vec<String> {
        match &self.secrets {
            None => vec!["--redis-url".to_owned(), self.url()],
            Some(secrets) => vec![
                format!("--redis-url-file={}", secrets.join(format!("{role}-redis-url")).display()),
                format!("--redis-ca-file={}", secrets.join("tls/ca.pem").display()),
            ],
        }
    }

    /// Stops the server: its port refuses connections, and its data is lost.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }

    pub(crate) fn start_again(&mut self) {
        // The shell ends the server when standard input ends.
        let script = "redis-server --bind \"$0\" --port 6379 --save '' --appendonly no --dir /tmp --protected-mode no \"$@\" \
                      </dev/null & pid=$!; cat >/dev/null; kill -KILL $pid; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script, &self.address]);
        if let Some(secrets) = &self.secrets {
            let files = [
                ("--aclfile", "test-users.acl"),
                ("--tls-cert-file", "tls/redis.pem"),
                ("--tls-key-file", "tls/redis.key.pem"),
                ("--tls-ca-cert-file", "tls/ca.pem"),
            ];
            command.args(["--tls-port", "6380", "--tls-auth-clients", "no"]);
            command.args(files.iter().flat_map(|(flag, file)| [PathBuf::from(flag), secrets.join(file)]));
        }
        let process = Process::start(&mut command, &Lines::default());
        let ready = process.out.wait_for(START_TIMEOUT, |line| line.contains("Ready to accept connections"));
        assert!(ready.is_some(), "Redis did not start: {:?}", process.out.all());
        self.process = Some(process);
    }
}
