//! The Compose file as Compose reads it: variables replaced, and for each service its command,
//! mounts and dependencies.

use std::collections::BTreeMap;

use serde_json::Value;

/// Variables that Compose itself reads.
pub(super) const OWN_VARIABLES: [&str; 1] = ["COMPOSE_PROFILES"];

pub(super) struct ComposeFile {
    pub(super) root: Value,
    pub(super) services: BTreeMap<String, Service>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    pub(super) image: String,
    pub(super) command: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    /// The command of the health check.
    pub(super) health: Option<Vec<String>>,
    /// By path in the container.
    pub(super) mounts: BTreeMap<String, Mount>,
    pub(super) secrets: Vec<String>,
    pub(super) networks: Vec<String>,
    /// Services to wait for, each with its condition.
    pub(super) depends_on: BTreeMap<String, String>,
    pub(super) profiles: Vec<String>,
}

/// Where the content of a mount comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    Host(String),
    Volume(String),
    Memory,
}

impl ComposeFile {
    /// Parses the file. A variable that `variables` lacks gets its default from the file.
    pub(super) fn read(text: &str, variables: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut root: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for_each_text(&mut root, &mut |text| {
            *text = interpolate(text, variables)?;
            Ok(())
        })?;
        let files = secret_files(&root)?;
        let mut services = BTreeMap::new();
        for (name, value) in object(&root["services"]) {
            let service = Service::read(value, &files).map_err(|error| format!("{name}: {error}"))?;
            services.insert(name.clone(), service);
        }
        Ok(Self { root, services })
    }

    /// Services without a profile, each after its dependencies.
    pub(super) fn start_order(&self) -> Result<Vec<String>, String> {
        let mut waiting: Vec<_> =
            self.services.iter().filter(|(_, service)| service.profiles.is_empty()).map(|(name, _)| name).collect();
        let mut order: Vec<String> = Vec::new();
        while !waiting.is_empty() {
            let is_next = |name: &&&String| self.services[**name].depends_on.keys().all(|other| order.contains(other));
            let Some(next) = waiting.iter().find(is_next).map(|name| (*name).clone()) else {
                return Err(format!("circular or missing dependencies: {waiting:?}"));
            };
            waiting.retain(|name| **name != next);
            order.push(next);
        }
        Ok(order)
    }
}

impl Service {
    fn read(value: &Value, secret_files: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut service = Self {
            image: scalar(&value["image"]),
            command: [texts(&value["entrypoint"]), texts(&value["command"])].concat(),
            health: health(&value["healthcheck"]),
            networks: texts(&value["networks"]),
            profiles: texts(&value["profiles"]),
            ..Self::default()
        };
        for (name, value) in object(&value["environment"]) {
            service.environment.insert(name.clone(), scalar(value));
        }
        for (name, value) in object(&value["depends_on"]) {
            service.depends_on.insert(name.clone(), scalar(&value["condition"]));
        }
        for secret in value["secrets"].as_array().into_iter().flatten() {
            let (source, target) = match secret {
                Value::String(name) => (name.clone(), name.clone()),
                long => (scalar(&long["source"]), scalar(&long["target"])),
            };
            let file = secret_files.get(&source).ok_or_else(|| format!("the secret {source} is not declared"))?;
            service.mounts.insert(format!("/run/secrets/{target}"), Mount::Host(file.clone()));
            service.secrets.push(source);
        }
        for volume in value["volumes"].as_array().into_iter().flatten() {
            let (target, mount) = mount(volume)?;
            service.mounts.insert(target, mount);
        }
        for memory in texts(&value["tmpfs"]) {
            let target = memory.split(':').next().unwrap_or_default();
            service.mounts.insert(target.to_owned(), Mount::Memory);
        }
        Ok(service)
    }
}

/// `None` if the health check is disabled.
fn health(value: &Value) -> Option<Vec<String>> {
    let words = texts(&value["test"]);
    (!words.is_empty() && value["disable"] != true).then_some(words)
}

fn mount(volume: &Value) -> Result<(String, Mount), String> {
    let (source, target) = match volume {
        Value::String(short) => {
            let mut parts = short.split(':');
            let (Some(source), Some(target)) = (parts.next(), parts.next()) else {
                return Err(format!("the volume {short} has no name"));
            };
            (source.to_owned(), target.to_owned())
        }
        long => (scalar(&long["source"]), scalar(&long["target"])),
    };
    let is_path = source.starts_with('.') || source.starts_with('/');
    Ok((target, if is_path { Mount::Host(source) } else { Mount::Volume(source) }))
}

fn secret_files(root: &Value) -> Result<BTreeMap<String, String>, String> {
    let file = |(name, value): (&String, &Value)| {
        let file = value["file"].as_str().ok_or_else(|| format!("the secret {name} is not a file"))?;
        Ok((name.clone(), file.to_owned()))
    };
    object(&root["secrets"]).map(file).collect()
}

/// Expands `${NAME}`, `${NAME:-default}`, `${NAME-default}` and `$$`.
pub(super) fn interpolate(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut result = String::new();
    for piece in pieces(text)? {
        match piece {
            Piece::Text(text) => result.push_str(text),
            Piece::Variable { name, default, replaces_empty } => {
                let value = variables.get(name).map(String::as_str);
                let value = value.filter(|value| !(value.is_empty() && replaces_empty)).or(default);
                result.push_str(value.ok_or_else(|| format!("{name} has no value"))?);
            }
        }
    }
    Ok(result)
}

/// The variables that a file reads, each with its defaults.
pub(super) fn variables(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut root: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for_each_text(&mut root, &mut |text| {
        for piece in pieces(text)? {
            if let Piece::Variable { name, default, .. } = piece {
                found.entry(name.to_owned()).or_default().push(default.unwrap_or_default().to_owned());
            }
        }
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn variable_file(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

enum Piece<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str>, replaces_empty: bool },
}

fn pieces(mut text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    while let Some((before, after)) = text.split_once('$') {
        pieces.push(Piece::Text(before));
        if let Some(rest) = after.strip_prefix('$') {
            pieces.push(Piece::Text("$"));
            text = rest;
        } else if let Some(rest) = after.strip_prefix('{') {
            let (inner, rest) = rest.split_once('}').ok_or("`${` without `}`")?;
            pieces.push(variable(inner));
            text = rest;
        } else {
            return Err("`$` is followed by neither `{` nor `$`".to_owned());
        }
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}

fn variable(inner: &str) -> Piece<'_> {
    match inner.split_once('-') {
        None => Piece::Variable { name: inner, default: None, replaces_empty: false },
        Some((name, default)) => {
            let bare = name.trim_end_matches(':');
            Piece::Variable { name: bare, default: Some(default), replaces_empty: bare.len() < name.len() }
        }
    }
}

fn for_each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String) -> Result<(), String>) -> Result<(), String> {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter_mut().try_for_each(|value| for_each_text(value, visit)),
        Value::Object(values) => values.values_mut().try_for_each(|value| for_each_text(value, visit)),
        _ => Ok(()),
    }
}

pub(super) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The strings of a list, or the keys of an object.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().map(scalar).collect(),
        Value::Object(values) => values.keys().cloned().collect(),
        Value::String(text) => vec![text.clone()],
        _ => Vec::new(),
    }
}

pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        _ => String::new(),
    }
}
