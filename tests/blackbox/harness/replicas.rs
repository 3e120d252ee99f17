//! Replicas and stores: started, stopped and addressed one by one. The functions block, so async
//! code calls them with `block_in_place` or `spawn_blocking`.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use ferrite_core::net::Address;
use rustix::process::Signal;

use super::cluster::{Cluster, PROCESS_TIMEOUT, Processes, Role, http_get};
use super::process::{Process, send};
use super::servers::Redis;

impl Cluster {
    /// Initial number of processes of a role.
    pub(crate) fn replicas(&self, role: Role) -> usize {
        if role == Role::Git { self.options.stores.max(1) } else { self.options.replicas.max(1) }
    }

    /// Role and number of all initial processes.
    pub(crate) fn processes(&self) -> Vec<(Role, usize)> {
        Role::ALL.into_iter().flat_map(|role| (0..self.replicas(role)).map(move |number| (role, number))).collect()
    }

    pub(crate) fn gateway_url(&self, number: usize) -> String {
        format!("http://{}:{}", self.hosts[number], Role::Gateway.port())
    }

    pub(crate) fn store_name(&self, number: usize) -> String {
        if self.options.stores == 0 { "default".to_owned() } else { format!("git-{number}") }
    }

    /// Folder of the store with this number, in the production profile.
    pub(crate) fn store_folder(&self, number: usize) -> PathBuf {
        self.folder.join(if self.options.stores == 0 { "git".to_owned() } else { format!("git-{number}") })
    }

    /// Addresses of a role, as in the settings of others.
    pub(super) fn addresses(&self, role: Role) -> String {
        let address = |number: usize| format!("{}:{}", self.hosts[number], role.port());
        if role == Role::Git && self.options.stores > 0 {
            let all =
                (0..=self.options.stores).map(|number| format!("{}={}", self.store_name(number), address(number)));
            return all.collect::<Vec<_>>().join(",");
        }
        (0..self.replicas(role)).map(address).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn start_replica(&self, role: Role, number: usize) {
        self.start_replica_with(role, number, &[]);
    }

    /// Like [`Self::start_replica`], with additional settings.
    pub(crate) fn start_replica_with(&self, role: Role, number: usize, settings: &[(&str, &str)]) {
        let Processes::Roles(processes) = &self.processes else { panic!("the launcher starts processes itself") };
        let mut command = self.replica_command(role, number, &self.hosts[number], &self.url);
        command.envs(settings.iter().copied());
        if self.network.is_some() && (role, number + 1) == (Role::Git, self.options.stores) {
            command = self.inside_network(&command);
        }
        let started = Process::start(&mut command, self.log());
        processes.lock().unwrap().insert((role, number), started);
    }

    /// The command inside the network namespace.
    fn inside_network(&self, command: &Command) -> Command {
        let network = self.network.as_ref().unwrap().lock().unwrap();
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &network.namespace]).arg(command.get_program()).args(command.get_args());
        let envs = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        inside.env_clear().envs(envs).current_dir(&self.folder);
        inside
    }

    /// Whether the last store can be cut off.
    pub(crate) fn has_own_network(&self) -> bool {
        self.network.is_some()
    }

    pub(crate) fn set_store_cut_off(&self, is_cut_off: bool) {
        let mut network = self.network.as_ref().unwrap().lock().unwrap();
        if is_cut_off { network.cut() } else { network.join() }
    }

    pub(crate) fn end_replica(&self, role: Role, number: usize, signal: Signal) -> ExitStatus {
        let Processes::Roles(processes) = &self.processes else { panic!("the launcher owns its processes") };
        let mut process = processes.lock().unwrap().remove(&(role, number)).unwrap();
        process.signal(signal);
        process.ended_within(PROCESS_TIMEOUT).unwrap_or_else(|| panic!("{role:?} {number} did not exit"))
    }

    /// Sends a signal that does not end the process.
    pub(crate) fn signal_replica(&self, role: Role, number: usize, signal: Signal) {
        match &self.processes {
            Processes::Launcher(_) => send(self.process_id(role).unwrap(), signal),
            Processes::Roles(processes) => processes.lock().unwrap()[&(role, number)].signal(signal),
        }
    }

    pub(crate) fn is_replica_ready(&self, role: Role, number: usize) -> bool {
        let address = Address::Tcp(format!("{}:{}", self.hosts[number], role.port() + 2000));
        http_get(&address, "/readyz").is_some_and(|response| response.starts_with("HTTP/1.1 200"))
    }

    pub(crate) fn wait_replica_ready(&self, role: Role, number: usize) {
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        while !self.is_replica_ready(role, number) {
            let log = || self.log().all().join("\n");
            assert!(Instant::now() < deadline, "{role:?} {number} does not become ready:\n{}", log());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Stops Redis until [`Self::start_redis_again`]: its port refuses connections, and its data is
    /// lost.
    pub(crate) fn stop_redis_for_now(&self) {
        self.redis.lock().unwrap().as_mut().map(Redis::stop).unwrap();
    }

    pub(crate) fn start_redis_again(&self) {
        self.redis.lock().unwrap().as_mut().map(Redis::start_again).unwrap();
    }

    pub(crate) fn stop_postgres(&self) {
        self.postgres.as_ref().unwrap().lock().unwrap().stop();
    }

    pub(crate) fn start_postgres(&self) {
        self.postgres.as_ref().unwrap().lock().unwrap().start_again();
    }
}
