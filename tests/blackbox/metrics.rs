//! `/metrics` of running processes, its page, the dashboard and the alert rules name the same
//! metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ferrite_core::net::Address;
use serde_json::{Value, json};

use crate::harness::cluster::http_get;
use crate::harness::receiver::{LOOPBACK, Receiver};
use crate::harness::{Cluster, Git, Options, Profile, Role, run};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Folders whose code defines metrics.
const CRATES: [&str; 12] = [
    "kit/core",
    "kit/rpc",
    "kit/db",
    "kit/listener",
    "kit/events",
    "gateway",
    "repo-svc",
    "issue-svc",
    "hook-svc",
    "git-store",
    "git-svc",
    "outbound",
];
/// Metrics of Prometheus itself.
const FOREIGN: [&str; 1] = ["up"];
/// PromQL keywords that can appear in place of a name.
const KEYWORDS: [&str; 10] =
    ["by", "without", "and", "or", "unless", "on", "ignoring", "group_left", "group_right", "offset"];

#[derive(Debug)]
struct Row {
    /// The heading above its table.
    section: String,
    kind: String,
    labels: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Shown {
    kind: String,
    has_help: bool,
    labels: BTreeSet<String>,
}

#[test]
fn processes_the_page_the_dashboard_and_the_alerts_name_the_same_metrics() {
    let options = Options { settings: LOOPBACK.to_vec(), ..Options::default() };
    let cluster = Cluster::start(Profile::Production, &options);
    run(&cluster, async {
        make_traffic(&cluster).await;
        let page = page();
        let mut seen = BTreeMap::new();
        for role in Role::ALL {
            let shown = shown(&cluster, role);
            compare(role, &shown, &page);
            seen.extend(shown);
        }
        for (place, names) in named_by_operators() {
            for name in names {
                let is_known = page.contains_key(&name) || FOREIGN.contains(&name.as_str());
                assert!(is_known, "{place} names {name}, which no process has");
            }
        }
        let missing: Vec<_> = page.keys().filter(|name| !seen.contains_key(*name)).collect();
        println!("on the page but not seen after some traffic: {missing:?}");
        for name in ["ferrite_db_pool_connections", "ferrite_redis_commands_total", "ferrite_git_processes_total"] {
            assert!(seen.contains_key(name), "{name}");
        }
    });
}

/// Fails unless the page and the process list the same metrics.
fn compare(role: Role, shown: &BTreeMap<String, Shown>, page: &BTreeMap<String, Row>) {
    let role = role.command();
    for (name, metric) in shown {
        let Some(row) = page.get(name) else { panic!("{role} has {name}, which is not in docs/metrics.md") };
        assert_eq!(row.kind, metric.kind, "{name}");
        assert!(metric.has_help, "{name} of {role} has no help");
        assert_eq!(row.labels, metric.labels, "labels of {name} of {role}");
        let is_of_role = row.section == "Every process" || row.section == role;
        assert!(is_of_role, "{name} of {role} is in the section `{}`", row.section);
    }
    let promised = page.iter().filter(|(_, row)| row.labels.is_empty());
    for (name, _) in promised.filter(|(_, row)| row.section == "Every process" || row.section == role) {
        assert!(shown.contains_key(name), "{role} does not report {name} from the start");
    }
}

#[test]
fn every_name_in_the_code_is_on_the_page_and_the_other_way_round() {
    let mut counted = BTreeSet::new();
    for folder in CRATES {
        collect_names(&Path::new(ROOT).join(folder).join("src"), &mut counted);
    }
    let page: BTreeSet<String> = page().into_keys().filter(|name| name.starts_with("ferrite_")).collect();
    let unknown: Vec<_> = counted.difference(&page).collect();
    assert!(unknown.is_empty(), "in the code but not in docs/metrics.md: {unknown:?}");
    let invented: Vec<_> = page.difference(&counted).collect();
    assert!(invented.is_empty(), "in docs/metrics.md but not in the code: {invented:?}");
}

#[test]
fn names_are_found_in_promql() {
    let expression = "histogram_quantile(0.95, sum by (le, role) (rate(ferrite_a_seconds_bucket{x=~\"b_c|d\",y!=\"\"}[5m]))) \
        / on(role) ferrite_b > 1e3 or up{job=\"z\"} == 0 unless ferrite_c offset 5m";
    let expected = ["ferrite_a_seconds", "ferrite_b", "ferrite_c", "up"].map(str::to_owned);
    assert_eq!(names_in(expression), BTreeSet::from(expected));
}

async fn make_traffic(cluster: &Cluster) {
    let (ada, receiver) = (cluster.user("ada").await, Receiver::start().await);
    let repo = ada.new_tracker("counted", json!({"auto_init": true})).await;
    let config = json!({"url": receiver.url("/counted"), "content_type": "json"});
    let hook = json!({"type": "native", "config": config, "events": ["push"], "active": true});
    ada.post(&format!("{repo}/hooks"), &hook).await.expect(201);
    ada.new_issue(&repo, "One", json!({})).await;
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "counted"), "work"]).await;
    git.commit("work", "pushed.txt", "text\n").await;
    git.run("work", &["push", "-q", "origin", "HEAD:main"]).await;
    receiver.until(|all| !all.is_empty()).await;
    cluster.anonymous().get("/no/such/path").await.expect(404);
}

fn page() -> BTreeMap<String, Row> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/metrics.md")).unwrap();
    let (mut rows, mut section) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, _meaning] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let labels = labels.split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| label != "\u{2014}").collect();
        let row = Row { section: section.clone(), kind: kind.to_owned(), labels };
        assert!(rows.insert(name.to_owned(), row).is_none(), "{name} stands twice");
    }
    rows
}

/// The metrics of a process, without the common label and the bucket label.
fn shown(cluster: &Cluster, role: Role) -> BTreeMap<String, Shown> {
    let Address::Tcp(authority) = cluster.address(role) else { panic!("the production profile uses TCP") };
    let (host, port) = authority.rsplit_once(':').unwrap();
    let private = Address::Tcp(format!("{host}:{}", port.parse::<u16>().unwrap() + 2000));
    let text = http_get(&private, "/metrics").expect("the private listener answers");
    let mut shown: BTreeMap<String, Shown> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name)) => shown.entry(name.to_owned()).or_default().has_help = true,
            (Some("#"), Some("TYPE"), Some(name)) => {
                words.next().unwrap().clone_into(&mut shown.entry(name.to_owned()).or_default().kind);
            }
            _ if line.starts_with("ferrite_") || line.starts_with("process_") => {
                let (series, _) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                assert!(labels.contains(&format!("role=\"{}\"", role.command())), "{line}");
                let name = if shown.contains_key(name) { name } else { base(name) };
                shown.get_mut(name).unwrap().labels.extend(label_names(labels));
            }
            _ => {}
        }
    }
    assert!(!shown.is_empty(), "{text}");
    shown
}

fn label_names(labels: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = labels.trim_end_matches('}');
    while let Some((name, after)) = rest.split_once("=\"") {
        names.push(name.trim_start_matches(',').to_owned());
        // Values are names of routes, methods and kinds, so they contain no quotes.
        rest = after.split_once('"').map_or("", |(_, rest)| rest);
    }
    names.retain(|name| name != "role" && name != "le");
    names
}

/// The histogram that a series belongs to.
fn base(name: &str) -> &str {
    let suffix = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    suffix.unwrap_or(name)
}

/// Names in the dashboard and in the alert rules, by place.
fn named_by_operators() -> Vec<(String, BTreeSet<String>)> {
    let folder = Path::new(ROOT).join("k8s/observability");
    let dashboard = std::fs::read_to_string(folder.join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let alerts = std::fs::read_to_string(folder.join("alerts.yaml")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    let mut named = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let names = names_in(target["expr"].as_str().unwrap());
            assert!(!names.is_empty(), "{target}");
            named.push((format!("the panel {}", panel["title"]), names));
        }
    }
    assert!(named.len() > 40, "a dashboard has more than {} queries", named.len());
    for rule in alerts["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()) {
        let names = names_in(rule["expr"].as_str().unwrap());
        let annotations = &rule["annotations"];
        let is_whole = annotations["summary"].is_string() && annotations["description"].is_string();
        assert!(!names.is_empty() && is_whole && rule["labels"]["severity"].is_string(), "{rule}");
        named.push((format!("the alert {}", rule["alert"]), names));
    }
    named
}

/// Metric names in a PromQL expression: words that are not functions, keywords, labels or numbers.
fn names_in(expression: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = expression;
    let mut is_grouping = false;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '{' => rest.find('}').unwrap() + 1,
            '[' => rest.find(']').unwrap() + 1,
            '(' if is_grouping => rest.find(')').unwrap() + 1,
            '"' => rest[1..].find('"').unwrap() + 2,
            first if first.is_ascii_alphanumeric() || first == '_' => {
                let end = rest.find(|next: char| !(next.is_ascii_alphanumeric() || next == '_')).unwrap_or(rest.len());
                let word = &rest[..end];
                let is_call = rest[end..].trim_start().starts_with('(');
                let is_keyword = KEYWORDS.contains(&word);
                let is_number = first.is_ascii_digit();
                if !is_call && !is_keyword && !is_number && !is_aggregation(word) {
                    names.insert(base(word).to_owned());
                }
                is_grouping = is_keyword && !matches!(word, "and" | "or" | "unless" | "offset");
                rest = &rest[end..];
                continue;
            }
            first => first.len_utf8(),
        };
        if !first.is_whitespace() {
            is_grouping = false;
        }
        rest = &rest[skipped..];
    }
    names
}

/// An aggregation can have its grouping between name and argument.
fn is_aggregation(word: &str) -> bool {
    ["sum", "max", "min", "avg", "count", "topk"].contains(&word)
}

/// What follows `ferrite_` in the names of cookies.
const COOKIES: [&str; 2] = ["form", "session"];

fn collect_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "testing" {
            collect_names(&path, names);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for rest in code.split("\"ferrite_").skip(1) {
                let end = rest.find(|next: char| !(next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_'));
                let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
                // Prefixes end with an underscore.
                if after.starts_with('"') && !name.is_empty() && !name.ends_with('_') && !COOKIES.contains(&name) {
                    names.insert(format!("ferrite_{name}"));
                }
            }
        }
    }
}
