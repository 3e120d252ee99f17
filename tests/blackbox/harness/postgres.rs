//! A separate PostgreSQL server for one installation, which its test can stop and start.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sqlx::Connection;

use super::process::{Lines, Process};

const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Obeys the lines `start` and `stop`. At the end of its input it stops the server and removes its
/// folder. PostgreSQL refuses to run as root. Like the server of `tests/servers.sh`, it does not
/// wait for the disk.
const SCRIPT: &str = r#"
for postgres in "$(command -v postgres)" /usr/lib/postgresql/*/bin/postgres /usr/local/pgsql/bin/postgres; do
    [ -x "$postgres" ] && break
done
as=""
chmod 755 "$1"
mkdir "$1/server"
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    as="setpriv --reuid=$user --regid=$(id -gn "$user") --clear-groups"
    chown "$user" "$1/server"
fi
cd "$1"
$as "$(dirname "$postgres")/initdb" -D "$1/server/data" -A trust -U ferrite -E UTF8 --locale=C --no-sync </dev/null
echo "host all all 0.0.0.0/0 trust" >>"$1/server/data/pg_hba.conf"
pid=""
finish() {
    [ -z "$pid" ] || { kill -QUIT "$pid"; wait "$pid"; }
    pid=""
}
while read -r word; do
    case "$word" in
        start)
            $as "$postgres" -D "$1/server/data" -c listen_addresses="$0" -c port=5432 -c unix_socket_directories= \
                -c max_connections=500 -c shared_buffers=64MB -c fsync=off -c full_page_writes=off </dev/null &
            pid=$!
            ;;
        stop)
            finish
            echo stopped
            ;;
    esac
done
finish
cd /
rm -rf -- "$1"
"#;

pub(crate) struct Postgres {
    address: String,
    process: Process,
    stops: usize,
}

impl Postgres {
    /// Starts a new server at this address and waits until it accepts connections.
    pub(crate) fn start_at(address: String) -> Self {
        let folder = tempfile::Builder::new().prefix("ferrite-postgres-").tempdir().unwrap().keep();
        Self::start_in(address, &folder)
    }

    fn start_in(address: String, folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, &address]).arg(folder).stderr(std::process::Stdio::null());
        let process = Process::start(&mut command, &Lines::default());
        let mut own = Self { address, process, stops: 0 };
        own.start_again();
        own
    }

    /// URL of a database that always exists.
    pub(crate) fn url(&self) -> String {
        format!("postgres://ferrite@{}:5432/postgres", self.address)
    }

    /// Stops the server like a crash: connections break, and new ones are refused.
    pub(crate) fn stop(&mut self) {
        self.stops += 1;
        self.process.tell("stop");
        let deadline = Instant::now() + START_TIMEOUT;
        while self.process.out.all().iter().filter(|line| *line == "stopped").count() < self.stops {
            assert!(Instant::now() < deadline, "PostgreSQL did not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts the server with its existing data, and waits until it accepts connections.
    pub(crate) fn start_again(&mut self) {
        self.process.tell("start");
        let (url, deadline) = (self.url(), Instant::now() + START_TIMEOUT);
        // In a thread, because the caller may be in a runtime.
        let wait = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            while runtime.block_on(sqlx::PgConnection::connect(&url)).is_err() {
                assert!(Instant::now() < deadline, "PostgreSQL did not start");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        std::thread::spawn(wait).join().unwrap();
    }
}
