//! The rules that all objects of an overlay keep, beside the schemas of their kinds.

mod availability;
mod pods;
mod wiring;

use serde_json::Value;

use super::{mounts, network, schema};

/// Returns what is wrong with the objects of an overlay, one sentence each.
type Rule = fn(&[Value]) -> Vec<String>;

/// All rules with their names.
pub(crate) const RULES: [(&str, Rule); 20] = [
    ("schema", |objects| objects.iter().flat_map(schema::errors).collect()),
    ("namespace", wiring::namespace),
    ("image", pods::image),
    ("resources", pods::resources),
    ("probes", pods::probes),
    ("security", pods::security),
    ("read-only root", pods::read_only_root),
    ("token", pods::token),
    ("grace", pods::grace),
    ("disruption", availability::disruption),
    ("spread", availability::spread),
    ("replicas", availability::replicas),
    ("stores", availability::stores),
    ("selectors", wiring::selectors),
    ("ports", wiring::ports),
    ("settings", wiring::settings),
    ("transport", wiring::transport),
    ("references", mounts::references),
    ("paths", mounts::paths),
    ("network", |objects| [network::arrows(objects), network::internet(objects)].concat()),
];

/// Returns what the rules say of the objects of an overlay, each with the name of its rule.
pub(crate) fn violations(objects: &[Value]) -> Vec<String> {
    let named = |(name, rule): &(&str, Rule)| {
        rule(objects).into_iter().map(|error| format!("{name}: {error}")).collect::<Vec<_>>()
    };
    RULES.iter().flat_map(named).collect()
}
