//! Cost of a measurement: SQL statements of the services, and CPU time by process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ferrite_benches::Failure;
use ferrite_benches::cpu::{CpuMeter, CpuTimes};
use ferrite_benches::databases::ROLES_WITH_DATABASE;

use crate::site::Site;

const METRIC: &str = "ferrite_db_statements_total";
/// Ports of the private listeners of the roles with a database, in their order.
const PRIVATE_PORTS: [u16; 4] = [9001, 9002, 9003, 9004];
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The counters before a measurement.
pub(crate) struct Counters<'a> {
    site: &'a Site,
    statements: f64,
    redis: Duration,
    cpu: CpuMeter,
}

pub(crate) struct Used {
    pub(crate) statements: f64,
    redis: Duration,
    cpu: CpuTimes,
}

impl<'a> Counters<'a> {
    /// Waits until the installation is idle, and reads the counters.
    pub(crate) async fn start(site: &'a Site) -> Result<Self, Failure> {
        let cpu = CpuMeter::start(&site.installation).await?;
        Ok(Self { site, statements: statements(site)?, redis: redis_cpu(site)?, cpu })
    }

    /// The cost since the start.
    pub(crate) async fn since(self) -> Result<Used, Failure> {
        let statements = statements(self.site)? - self.statements;
        let redis = redis_cpu(self.site)?.saturating_sub(self.redis);
        let mut cpu = CpuTimes::default();
        self.cpu.finish(&mut cpu).await;
        Ok(Used { statements, redis, cpu })
    }
}

impl Used {
    /// CPU time per request by process, in microseconds.
    pub(crate) fn cpu_of_each(&self, requests: f64) -> String {
        let mut times = self.cpu.by_name();
        if self.redis > Duration::ZERO {
            times.push(("Redis", self.redis));
        }
        let of_each = |time: Duration| time.as_secs_f64() * 1e6 / requests.max(1.0);
        let sum: f64 = times.iter().map(|(_, time)| of_each(*time)).sum();
        let parts: Vec<_> = times.iter().map(|(name, time)| format!("{name} {:.0}", of_each(*time))).collect();
        format!("{sum:.0}: {}", parts.join(", "))
    }
}

/// Statements of all services so far.
fn statements(site: &Site) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for (role, port) in ROLES_WITH_DATABASE.iter().zip(PRIVATE_PORTS) {
        let text = if site.installation.databases.is_postgres() {
            let host = site.installation.url.trim_start_matches("http://").split(':').next().unwrap_or_default();
            answer(TcpStream::connect((host, port))?)?
        } else {
            let name = format!("run/{}.admin.sock", role.trim_end_matches("-svc"));
            answer(UnixStream::connect(site.folder.join(name))?)?
        };
        let values = text.lines().filter(|line| line.starts_with(METRIC)).filter_map(|line| line.rsplit_once(' '));
        sum += values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum::<f64>();
    }
    Ok(sum)
}

/// Requests the metrics of a private listener.
fn answer(mut stream: impl Read + Write) -> Result<String, Failure> {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// CPU time of Redis so far; zero without Redis.
fn redis_cpu(site: &Site) -> Result<Duration, Failure> {
    let Some(address) = &site.redis else { return Ok(Duration::ZERO) };
    let mut stream = TcpStream::connect(address.as_str())?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.write_all(b"INFO cpu\r\nQUIT\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let seconds = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or_default()
    };
    Ok(Duration::from_secs_f64(seconds("used_cpu_user") + seconds("used_cpu_sys")))
}
