//! The attacks, each repeated until the time is over, and their results.

mod answers;
mod bodies;
mod connections;
mod crawl;
mod transfers;
mod writes;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use ferrite_benches::Failure;
use ferrite_benches::receiver::Receiver;
use reqwest::{Client, Method, RequestBuilder};
use tokio::net::{TcpSocket, TcpStream};

use crate::material::ATTACKER;

pub(crate) use writes::SlowSource;

/// Address of all attacks. The honest client has another one.
pub(crate) const ATTACKER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 66, 0, 1));
/// Pause between rounds of an attack: there are enough attacks to keep the machine busy.
const ROUND_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of a round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(90);
/// Distinct responses printed per attack.
const MAX_PRINTED_ANSWERS: usize = 6;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Attack {
    /// Archives with expanding placeholders, over REST.
    SubstArchive,
    /// The same over SSH.
    SubstArchiveSsh,
    /// `git archive --remote` of a tree of 10^6 files.
    WideArchiveSsh,
    /// Pushes of a commit with a message of 60 MiB.
    LongMessage,
    /// Pushes of a commit with 200,000 parents.
    ManyParents,
    /// Four concurrent pushes of a file of zeros: 128 KiB each, inflated to 128 MiB.
    ZerosPack,
    /// Lists of commits with long messages.
    LongLog,
    /// `git/trees` and `contents` of large folders.
    Folders,
    /// Lists of issues with long bodies.
    LongIssues,
    /// The same, read slowly by 19 connections.
    SlowReaders,
    /// 300 concurrent bodies without credentials.
    AnonymousBodies,
    /// 1,024 streams of one HTTP/2 connection.
    Streams,
    /// 1,500 connections without a request.
    IdleConnections,
    /// 500 connections that each send a byte a second.
    DrippingConnections,
    /// 16 slow uploads.
    SlowUploads,
    /// Fetches with a filter of 60,000 patterns.
    SparseFilter,
    /// Wrong passwords for another user's account.
    Passwords,
    /// Markdown texts of 1 MiB of `&`, without credentials; half of the clients disconnect soon.
    Markdown,
    /// Release notes of 1 MB, rewritten with a new idempotency key each time.
    ReleaseNotes,
    /// Replays of all deliveries of a webhook.
    Replays,
    /// Imports from a source that sends a byte a second.
    SlowImports,
    /// 300 web pages a second without credentials from 5,000 addresses: blames, diffs and archives.
    Crawl,
}

pub(crate) struct Attacker {
    pub(crate) url: String,
    /// SSH URL of the first repository, which has the host and port.
    pub(crate) ssh: String,
    pub(crate) client: Client,
    pub(crate) folder: PathBuf,
    pub(crate) key: PathBuf,
    /// Process id of the launcher.
    pub(crate) launcher: u32,
    pub(crate) token: String,
    /// Id of the account.
    pub(crate) user: i64,
    /// Ids of a release and of a webhook, both in the repository `issues`.
    pub(crate) release: i64,
    pub(crate) hook: i64,
    /// The receiver of the webhook.
    pub(crate) receiver: Option<Receiver>,
    /// A remote that sends a byte a second.
    pub(crate) slow_source: Option<SlowSource>,
    /// Ids of the commits of the repository whose pages are crawled.
    pub(crate) commits: Arc<Vec<String>>,
    authority: SocketAddr,
}

impl Attacker {
    pub(crate) fn new(
        url: String,
        token: String,
        client: Client,
        folder: PathBuf,
        key: PathBuf,
        launcher: u32,
    ) -> Self {
        let authority = url.trim_start_matches("http://").parse().unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            url,
            ssh: String::new(),
            client,
            folder,
            key,
            launcher,
            token,
            user: 0,
            release: 0,
            hook: 0,
            receiver: None,
            slow_source: None,
            commits: Arc::default(),
            authority,
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}/api/v1{path}", self.url));
        request.header("authorization", format!("token {}", self.token))
    }

    /// URL of one of its repositories, with the token.
    pub(crate) fn remote(&self, name: &str) -> String {
        let url = self.url.replacen("http://", &format!("http://{ATTACKER}:{}@", self.token), 1);
        format!("{url}/{ATTACKER}/{name}.git")
    }

    /// Connects from the attackers' address.
    pub(crate) async fn connect(&self) -> Result<TcpStream, Failure> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(ATTACKER_ADDRESS, 0))?;
        Ok(socket.connect(self.authority).await?)
    }

    /// The header of a request, including the empty line.
    pub(crate) fn head(&self, method: &str, path: &str, length: Option<usize>, is_signed_in: bool) -> String {
        let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
        let token = if is_signed_in { format!("Authorization: token {}\r\n", self.token) } else { String::new() };
        format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: {}\r\n{token}Content-Type: application/json\r\n{length}\r\n",
            self.authority
        )
    }
}

/// Result of a round: a short word for the response, such as a status, and its bytes.
pub(crate) struct Outcome {
    pub(crate) answer: String,
    pub(crate) bytes: u64,
}

impl Outcome {
    pub(crate) fn new(answer: impl Into<String>, bytes: u64) -> Self {
        Self { answer: answer.into(), bytes }
    }
}

/// Results of all rounds of an attack.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rounds: usize,
    answers: BTreeMap<String, usize>,
    largest: u64,
    longest: Duration,
}

impl Attack {
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    async fn round(self, attacker: &Attacker, number: usize) -> Result<Vec<Outcome>, Failure> {
        match self {
            Self::SubstArchive => transfers::subst_archive(attacker, number).await,
            Self::SubstArchiveSsh => transfers::archive_over_ssh(attacker, "subst").await,
            Self::WideArchiveSsh => transfers::archive_over_ssh(attacker, "wide").await,
            Self::LongMessage => transfers::push_long_message(attacker, number).await,
            Self::ManyParents => transfers::push_many_parents(attacker, number).await,
            Self::ZerosPack => transfers::push_zeros(attacker).await,
            Self::SparseFilter => transfers::sparse_filter(attacker, number).await,
            Self::ReleaseNotes => writes::release_notes(attacker, number).await,
            Self::Replays => writes::replays(attacker).await,
            Self::SlowImports => writes::slow_imports(attacker, number).await,
            Self::LongLog => answers::long_log(attacker).await,
            Self::Folders => answers::folders(attacker).await,
            Self::LongIssues => answers::long_issues(attacker).await,
            Self::SlowReaders => answers::slow_readers(attacker).await,
            Self::AnonymousBodies => bodies::anonymous(attacker).await,
            Self::SlowUploads => bodies::slow_uploads(attacker).await,
            Self::Passwords => bodies::passwords(attacker).await,
            Self::Markdown => bodies::markdown(attacker).await,
            Self::Streams => connections::streams(attacker).await,
            Self::IdleConnections => connections::idle(attacker).await,
            Self::DrippingConnections => connections::dripping(attacker).await,
            Self::Crawl => crawl::crawl(attacker, number).await,
        }
    }
}

/// Attacks until `end`.
pub(crate) async fn run(attack: Attack, attacker: Arc<Attacker>, end: tokio::time::Instant) -> (Attack, Tally) {
    let mut tally = Tally::default();
    while tokio::time::Instant::now() < end {
        let begin = Instant::now();
        let limit = end.min(tokio::time::Instant::now() + ROUND_TIMEOUT);
        let outcomes = match tokio::time::timeout_at(limit, attack.round(&attacker, tally.rounds)).await {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(failure)) => {
                let text = failure.to_string();
                let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                vec![Outcome::new(line.chars().take(80).collect::<String>(), 0)]
            }
            Err(_) => vec![Outcome::new("timeout", 0)],
        };
        tally.rounds += 1;
        tally.longest = tally.longest.max(begin.elapsed());
        for outcome in outcomes {
            *tally.answers.entry(outcome.answer).or_default() += 1;
            tally.largest = tally.largest.max(outcome.bytes);
        }
        tokio::time::sleep(ROUND_INTERVAL).await;
    }
    (attack, tally)
}

pub(crate) fn print(tallies: &[(Attack, Tally)]) {
    println!("| attack | rounds | longest s | largest response MiB | responses |");
    println!("|---|---:|---:|---:|---|");
    for (attack, tally) in tallies {
        let mut answers: Vec<_> = tally.answers.iter().collect();
        answers.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let text: Vec<_> =
            answers.iter().take(MAX_PRINTED_ANSWERS).map(|(answer, count)| format!("{count} x {answer}")).collect();
        let name = attack.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        println!(
            "| {name} | {} | {:.1} | {:.1} | {} |",
            tally.rounds,
            tally.longest.as_secs_f64(),
            tally.largest as f64 / f64::from(1 << 20),
            text.join("; ")
        );
    }
}
