//! Network policies allow exactly the connections that the code makes.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_proto::callers::callers;
use ferrite_proto::{DESCRIPTORS, ServiceRole};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use serde_json::{Map, Value, json};

use super::object::{COMPONENT, fits, items, labels, name, of_kind, ports, roles, settings, text, workloads};

/// Global unicast addresses of IPv6.
const IPV6_GLOBAL: &str = "2000::/3";
/// The port of PostgreSQL and its clients.
const POSTGRES: (&str, &[&str]) = ("postgres", &["repo-svc", "issue-svc", "hook-svc"]);

/// Connections between pods of the namespace: from, to, port.
type Arrows = BTreeSet<(String, String, u64)>;

/// Caller and callee of each call that the code permits.
pub(crate) fn calls() -> BTreeSet<(ServiceRole, ServiceRole)> {
    let set = FileDescriptorSet::decode(DESCRIPTORS).expect("the descriptors are those of our build");
    let mut calls = BTreeSet::new();
    let is_ours = |file: &&FileDescriptorProto| file.package().starts_with("ferrite.") && !file.service.is_empty();
    for file in set.file.iter().filter(is_ours) {
        let callees: &[ServiceRole] = match file.package() {
            "ferrite.repo.v1" => &[ServiceRole::RepoSvc],
            "ferrite.issue.v1" => &[ServiceRole::IssueSvc],
            "ferrite.hook.v1" => &[ServiceRole::HookSvc],
            "ferrite.git.v1" => &[ServiceRole::GitSvc],
            "ferrite.events.v1" => {
                &[ServiceRole::RepoSvc, ServiceRole::IssueSvc, ServiceRole::HookSvc, ServiceRole::GitSvc]
            }
            other => panic!("no service of {other}"),
        };
        for service in &file.service {
            for method in &service.method {
                let operation = format!("{}.{}/{}", file.package(), service.name(), method.name());
                for callee in callees {
                    calls.extend(callers(&operation, *callee).iter().map(|caller| (*caller, *callee)));
                }
            }
        }
    }
    calls
}

/// The connections that an overlay needs: calls between roles, and to the databases that it
/// includes.
fn needed(objects: &[Value]) -> Arrows {
    let listen = |workload: &Value| {
        let settings = settings(objects, workload);
        let port = settings.get("FERRITE_LISTEN").and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        port.unwrap_or_default()
    };
    let ports: BTreeMap<&str, u64> = roles(objects).map(|(workload, role)| (role, listen(workload))).collect();
    let mut arrows = Arrows::new();
    for (caller, callee) in calls() {
        let port = ports.get(callee.as_str()).copied().unwrap_or_default();
        arrows.insert((caller.to_string(), callee.to_string(), port));
    }
    for role in ports.keys() {
        if POSTGRES.1.contains(role) {
            arrows.insert(((*role).to_owned(), POSTGRES.0.to_owned(), 5432));
        }
        arrows.insert(((*role).to_owned(), "redis".to_owned(), 6379));
    }
    let is_here =
        |name: &str| ports.contains_key(name) || workloads(objects).any(|workload| self::name(workload) == name);
    arrows.into_iter().filter(|(_, to, _)| is_here(to)).collect()
}

/// Connections between pods that the policies of one direction allow: `Egress` of the client,
/// `Ingress` of the server.
fn open(objects: &[Value], direction: &str) -> Arrows {
    let mut arrows = Arrows::new();
    for from in workloads(objects) {
        for to in workloads(objects) {
            let (pods, peer) = if direction == "Egress" { (from, to) } else { (to, from) };
            let mut numbers: BTreeSet<u64> = ports(to).into_values().collect();
            // Any other port stands for all ports without a listener.
            numbers.insert(1);
            let open = numbers.into_iter().filter(|port| is_open(objects, pods, peer, *port, direction));
            arrows.extend(open.map(|port| (endpoint(from), endpoint(to), port)));
        }
    }
    arrows
}

/// The role of the pods, or the name of their workload.
fn endpoint(workload: &Value) -> String {
    labels(workload).get(COMPONENT).copied().unwrap_or_else(|| name(workload)).to_owned()
}

/// Whether the policies of `pods` allow connections with `peer`. Without a policy for the
/// direction, all are allowed.
fn is_open(objects: &[Value], pods: &Value, peer: &Value, port: u64, direction: &str) -> bool {
    let labels = labels(pods);
    let mut policies = of_kind(objects, "NetworkPolicy")
        .filter(|policy| fits(&policy["spec"]["podSelector"], &labels))
        .filter(|policy| items(policy, "/spec/policyTypes").iter().any(|kind| kind == direction))
        .peekable();
    policies.peek().is_none() || policies.any(|policy| rules(policy, direction).any(|rule| admits(rule, peer, port)))
}

fn rules<'a>(policy: &'a Value, direction: &str) -> impl Iterator<Item = &'a Value> {
    items(policy, if direction == "Ingress" { "/spec/ingress" } else { "/spec/egress" }).iter()
}

/// Whether a rule allows a port and a peer in the same namespace.
fn admits(rule: &Value, peer: &Value, port: u64) -> bool {
    let is_port = |entry: &Value| entry.get("port").is_none_or(|number| *number == port) && entry["protocol"] == "TCP";
    let is_any_port = items(rule, "/ports").is_empty();
    let labels = labels(peer);
    let is_peer = |entry: &Value| {
        let is_this_namespace =
            entry.get("namespaceSelector").is_none_or(|selector| selector.as_object().is_some_and(Map::is_empty));
        let is_pod = entry.get("podSelector").map(|selector| fits(selector, &labels));
        entry.get("ipBlock").is_none() && is_this_namespace && is_pod.unwrap_or(true)
    };
    let peers: Vec<&Value> = items(rule, "/from").iter().chain(items(rule, "/to")).collect();
    let is_any_peer = peers.is_empty();
    (is_any_port || items(rule, "/ports").iter().any(is_port)) && (is_any_peer || peers.into_iter().any(is_peer))
}

/// Compares the connections that both sides' policies allow with the calls of the code.
pub(crate) fn arrows(objects: &[Value]) -> Vec<String> {
    let needed = needed(objects);
    let mut errors = Vec::new();
    for direction in ["Egress", "Ingress"] {
        let mut open = open(objects, direction);
        // Clients can be anywhere: `outside` checks them.
        open.retain(|(_, to, port)| direction == "Egress" || to != "gateway" || ![3000, 2222].contains(port));
        let show = |(from, to, port): &(String, String, u64)| format!("{from} to {to}:{port} ({direction})");
        let closed =
            needed.difference(&open).map(|arrow| format!("the policies block {}, which the code needs", show(arrow)));
        let extra = open
            .difference(&needed)
            .map(|arrow| format!("the policies allow {}, which the code does not use", show(arrow)));
        errors.extend(closed.chain(extra));
    }
    let denies = |policy: &Value| {
        let spec = &policy["spec"];
        *spec == json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    };
    if !of_kind(objects, "NetworkPolicy").any(denies) {
        errors.push("nothing is denied by default".to_owned());
    }
    errors
}

/// Connections with peers outside the namespace that each role's policies allow, one per line.
pub(crate) fn outside(objects: &[Value]) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (workload, role) in roles(objects) {
        let labels = labels(workload);
        for policy in of_kind(objects, "NetworkPolicy").filter(|policy| fits(&policy["spec"]["podSelector"], &labels)) {
            for (direction, key) in [("Ingress", "/from"), ("Egress", "/to")] {
                for rule in rules(policy, direction) {
                    let all_ports = items(rule, "/ports").iter().map(port).collect::<Vec<_>>().join(" ");
                    let peers =
                        if items(rule, key).is_empty() { vec!["everywhere".to_owned()] } else { peers(rule, key) };
                    let word = if direction == "Ingress" { "from" } else { "to" };
                    lines.extend(peers.iter().map(|peer| format!("{role} {all_ports} {word} {peer}")));
                }
            }
        }
    }
    lines
}

fn port(entry: &Value) -> String {
    let number = entry.get("port").map_or("*".to_owned(), ToString::to_string);
    format!("{}:{number}", text(entry, "/protocol"))
}

/// Peers of a rule outside the namespace.
fn peers(rule: &Value, key: &str) -> Vec<String> {
    let described = |entry: &Value| {
        if let Some(block) = entry.get("ipBlock") {
            let rest = if block.get("except").is_some() { " with exceptions" } else { "" };
            return Some(format!("{}{rest}", text(block, "/cidr")));
        }
        let namespace = entry.get("namespaceSelector")?;
        let namespace = text(namespace, "/matchLabels/kubernetes.io~1metadata.name");
        let pods = entry.pointer("/podSelector/matchLabels").and_then(Value::as_object);
        let pods = pods.into_iter().flatten().map(|(_, value)| format!(" {}", value.as_str().unwrap_or_default()));
        let namespace = if namespace.is_empty() { "every namespace" } else { namespace };
        Some(format!("{namespace}{}", pods.collect::<String>()))
    };
    items(rule, key).iter().filter_map(described).collect()
}

/// Checks that pods can reach only public addresses of the Internet: a policy excludes the networks
/// that `outbound` rejects.
pub(crate) fn internet(objects: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for policy in of_kind(objects, "NetworkPolicy") {
        let blocks = items(policy, "/spec/egress").iter().flat_map(|rule| items(rule, "/to"));
        for block in blocks.filter_map(|peer| peer.get("ipBlock")) {
            let Ok(network) = text(block, "/cidr").parse::<IpNet>() else {
                errors.push(format!("{}: {block} is not a network", name(policy)));
                continue;
            };
            if network.prefix_len() > 3 {
                continue;
            }
            let except = items(block, "/except").iter().filter_map(|entry| entry.as_str()?.parse().ok());
            let (except, refused) = (aggregate(except), aggregate(refused_in(network)));
            let missing = refused.iter().filter(|network| !except.contains(network)).map(|net| ("leaves in", net));
            let extra = except.iter().filter(|network| !refused.contains(network)).map(|net| ("leaves out", net));
            errors
                .extend(missing.chain(extra).map(|(verb, net)| format!("{}: the Internet {verb} {net}", name(policy))));
            let is_whole = matches!(network, IpNet::V4(_)) || network.to_string() == IPV6_GLOBAL;
            if !is_whole {
                errors.push(format!("{}: {network} contains more than the Internet", name(policy)));
            }
        }
    }
    errors
}

/// The networks in `network` that `outbound` rejects.
fn refused_in(network: IpNet) -> impl Iterator<Item = IpNet> {
    ferrite_outbound::special_networks().filter(move |special| network.contains(special))
}

/// Merges networks into as few as possible.
fn aggregate(networks: impl Iterator<Item = IpNet>) -> BTreeSet<IpNet> {
    let (mut ipv4, mut ipv6) = (Vec::<Ipv4Net>::new(), Vec::<Ipv6Net>::new());
    for network in networks {
        match network {
            IpNet::V4(network) => ipv4.push(network),
            IpNet::V6(network) => ipv6.push(network),
        }
    }
    let ipv4 = Ipv4Net::aggregate(&ipv4).into_iter().map(IpNet::V4);
    ipv4.chain(Ipv6Net::aggregate(&ipv6).into_iter().map(IpNet::V6)).collect()
}
