//! Rules for the objects of an overlay, in addition to the schemas.

mod availability;
mod pods;
mod wiring;

use serde_json::Value;

use super::{mounts, network, schema};

/// Returns the violations, one sentence each.
type Rule = fn(&[Value]) -> Vec<String>;

/// All rules, by name.
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

pub(crate) fn violations(objects: &[Value]) -> Vec<String> {
    let named = |(name, rule): &(&str, Rule)| {
        rule(objects).into_iter().map(|error| format!("{name}: {error}")).collect::<Vec<_>>()
    };
    RULES.iter().flat_map(named).collect()
}
