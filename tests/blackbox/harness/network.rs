//! The network of an installation, with a separate namespace for one store, which a test can cut
//! off. Needs root and `ip`.

use std::time::{Duration, Instant};

use super::process::{Lines, Process};

const TIMEOUT: Duration = Duration::from_secs(20);
/// Last part of the address in the namespace, and of those on this machine's side.
const INSIDE: u32 = 10;
const OUTSIDE: std::ops::RangeInclusive<u32> = 1..=8;
/// $0 is the name of the namespace, $1 the first three parts of the addresses. Obeys the lines
/// `cut` and `join`, and removes everything at the end of its input. A cut link silently drops
/// packets in both directions.
const SCRIPT: &str = r#"
set -e
prefix=$1
for last in 1 2 3 4 5 6 7 8; do ip address add "$1.$last/32" dev lo; done
ip netns add "$0"
ip link add "$0" type veth peer name inside netns "$0"
ip address add "$1.254/32" dev "$0"
ip link set "$0" up
ip route add "$1.10/32" dev "$0" src "$1.1"
ip -n "$0" address add "$1.10/32" dev inside
join() {
    ip -n "$0" link set lo up
    ip -n "$0" link set inside up
    ip -n "$0" route replace "$prefix.0/24" dev inside src "$prefix.10"
}
join
echo ready
set +e
while read -r word; do
    case "$word" in
        cut) ip -n "$0" link set inside down ;;
        join) join ;;
    esac
    echo "done"
done
ip netns delete "$0"
ip link delete "$0"
for last in 1 2 3 4 5 6 7 8; do ip address delete "$1.$last/32" dev lo; done
"#;

pub(crate) struct Network {
    /// The name of its namespace.
    pub(super) namespace: String,
    prefix: String,
    process: Process,
    orders: usize,
}

impl Network {
    pub(crate) fn is_possible() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        is_root && std::process::Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success())
    }

    pub(crate) fn start() -> Self {
        let id = std::process::id();
        let (namespace, prefix) =
            (format!("ferrite{}", id % 1_000_000), format!("10.{}.{}", 200 + id / 250 % 50, id % 250));
        let mut command = std::process::Command::new("sh");
        let log = Lines::default();
        let process = Process::start(command.args(["-c", SCRIPT, &namespace, &prefix]), &log);
        let ready = process.out.wait_for(TIMEOUT, |line| line == "ready");
        assert!(ready.is_some(), "no network: {:?}", log.all());
        Self { namespace, prefix, process, orders: 0 }
    }

    /// Address of the store that can be cut off.
    pub(crate) fn inside(&self) -> String {
        format!("{}.{INSIDE}", self.prefix)
    }

    /// One of the eight addresses of this machine's side.
    pub(crate) fn outside(&self, number: u32) -> String {
        assert!(OUTSIDE.contains(&number), "no address {number}");
        format!("{}.{number}", self.prefix)
    }

    pub(crate) fn cut(&mut self) {
        self.order("cut");
    }

    pub(crate) fn join(&mut self) {
        self.order("join");
    }

    fn order(&mut self, word: &str) {
        self.orders += 1;
        self.process.tell(word);
        let deadline = Instant::now() + TIMEOUT;
        while self.process.out.all().iter().filter(|line| *line == "done").count() < self.orders {
            assert!(Instant::now() < deadline, "the network script did not respond");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
