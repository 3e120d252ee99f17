//! Compiles the contracts in pure Rust, without `protoc`, and generates the permission table from
//! the options of their methods.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use protox::prost_reflect::{DescriptorPool, DynamicMessage, ExtensionDescriptor, Kind, MethodDescriptor, Value};

/// The option that says who may call a method.
const RULE: &str = "ferrite.access.v1.rule";

#[expect(clippy::disallowed_methods, reason = "cargo passes settings to build scripts in variables")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=ferrite");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(contracts(&root.join("ferrite"))?)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let (names, rows) = operations(&compiler.descriptor_pool())?;
    std::fs::write(out.join("operation_names.rs"), names)?;
    std::fs::write(out.join("operation_rows.rs"), rows)?;
    let descriptors = compiler.file_descriptor_set();
    std::fs::write(out.join("documented.bin"), prost::Message::encode_to_vec(&descriptors))?;
    let mut bare = descriptors.clone();
    bare.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&bare))?;
    prost_build::Config::new()
        // Sorted maps give equal messages equal bytes: idempotency compares hashes of encoded
        // requests.
        .btree_map(["."])
        .bytes([
            ".ferrite.git.v1.TreeEntry.content",
            ".ferrite.git.v1.GetBlobResponse.content",
            ".ferrite.git.v1.CreateContentsRequest.content",
            ".ferrite.git.v1.PutContentsRequest.content",
            ".ferrite.git.v1.FileChange.content",
            ".ferrite.git.v1.CreateWikiPageRequest.content",
            ".ferrite.git.v1.UpdateWikiPageRequest.content",
        ])
        .compile_fds(descriptors)?;
    for (package, services) in services(&compiler.descriptor_pool())? {
        let file = out.join(format!("{package}.rs"));
        let generated = std::fs::read_to_string(&file)?;
        std::fs::write(&file, generated + &services)?;
    }
    Ok(())
}

/// Returns the contracts in a folder, sorted by path.
fn contracts(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(contracts(&path)?);
        } else if path.extension().is_some_and(|end| end == "proto") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The client of a service. Placeholders: `TRAIT` is the name of the service, `FULL_NAME` the name
/// with its package, `MODULE` the name as a module, and `CALLS` a function for each method.
const CLIENT: &str = r#"
/// Generated client implementations.
pub mod MODULE_client {
    use tonic::codegen::*;

    /// Client of `FULL_NAME`.
    #[derive(Debug, Clone)]
    pub struct TRAITClient<T> {
        inner: tonic::client::Grpc<T>,
    }

    impl<T> TRAITClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        /// Returns a client that calls through `inner`.
        pub fn new(inner: T) -> Self {
            Self { inner: tonic::client::Grpc::new(inner) }
        }

        /// Limits the size of a decoded message, by default to 4 MiB.
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
CALLS    }
}
"#;

/// The trait and server of a service. Same placeholders, plus `METHODS`, the methods of the trait,
/// and `PATHS`, how each is served.
const SERVER: &str = r#"
/// Generated server implementations.
pub mod MODULE_server {
    use tonic::codegen::*;

    /// The methods of `FULL_NAME`.
    #[async_trait]
    pub trait TRAIT: std::marker::Send + std::marker::Sync + 'static {METHODS    }

    /// Server of `FULL_NAME`.
    #[derive(Debug)]
    pub struct TRAITServer<T> {
        inner: Arc<T>,
        max_decoding_message_size: Option<usize>,
    }

    impl<T> TRAITServer<T> {
        /// Returns a server whose calls are served by `inner`.
        pub fn new(inner: T) -> Self {
            Self { inner: Arc::new(inner), max_decoding_message_size: None }
        }

        /// Limits the size of a decoded message, by default to 4 MiB.
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
    }

    impl<T> Clone for TRAITServer<T> {
        fn clone(&self) -> Self {
            Self { inner: Arc::clone(&self.inner), max_decoding_message_size: self.max_decoding_message_size }
        }
    }

    /// The name of the service.
    pub const SERVICE_NAME: &str = "FULL_NAME";

    impl<T> tonic::server::NamedService for TRAITServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }

    impl<T: TRAIT> Service<http::Request<tonic::body::Body>> for TRAITServer<T> {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
            let (service, limit) = (&self.inner, self.max_decoding_message_size);
            match request.uri().path() {PATHS                _ => crate::serve::unknown(),
            }
        }
    }
}
"#;

/// How a message passes through clients and servers.
const MESSAGE: &str = r#"
impl crate::message::CallMessage for TYPE {
    fn encoded(self) -> crate::message::Encoded {
        Box::new(self)
    }

    fn decoded(bytes: prost::bytes::Bytes) -> std::result::Result<Self, tonic::Status> {
        crate::message::decode(bytes)
    }
}
"#;

/// A method with one response: its call, its trait method, and how it is served.
const UNARY: [&str; 3] = [
    r#"
        /// Calls `METHOD`.
        pub async fn FUNCTION(
            &mut self,
            request: impl tonic::IntoRequest<super::REQUEST>,
        ) -> std::result::Result<tonic::Response<super::RESPONSE>, tonic::Status> {
            let method =
                crate::call::Method { service: "FULL_NAME", name: "METHOD", path: "/FULL_NAME/METHOD" };
            crate::call::unary(&mut self.inner, request.into_request(), method).await
        }
"#,
    r#"
        /// Serves `METHOD`.
        async fn FUNCTION(
            &self,
            request: tonic::Request<super::REQUEST>,
        ) -> std::result::Result<tonic::Response<super::RESPONSE>, tonic::Status>;
"#,
    r#"
                "/FULL_NAME/METHOD" => {
                    crate::serve::unary(service, limit, request, |service, request| service.FUNCTION(request))
                }
"#,
];

/// The same for a method with a stream of responses.
const STREAM: [&str; 3] = [
    r#"
        /// Calls `METHOD`.
        pub async fn FUNCTION(
            &mut self,
            request: impl tonic::IntoRequest<super::REQUEST>,
        ) -> std::result::Result<tonic::Response<tonic::codec::Streaming<super::RESPONSE>>, tonic::Status> {
            let ready = self.inner.ready().await;
            ready.map_err(|error| tonic::Status::unknown(format!("Service was not ready: {}", error.into())))?;
            let mut request = request.into_request();
            request.extensions_mut().insert(GrpcMethod::new("FULL_NAME", "METHOD"));
            let path = http::uri::PathAndQuery::from_static("/FULL_NAME/METHOD");
            self.inner.server_streaming(request, path, tonic_prost::ProstCodec::default()).await
        }
"#,
    r#"
        /// The responses of `METHOD`.
        type METHODStream: tokio_stream::Stream<Item = std::result::Result<super::RESPONSE, tonic::Status>>
            + std::marker::Send
            + 'static;

        /// Serves `METHOD`.
        async fn FUNCTION(
            &self,
            request: tonic::Request<super::REQUEST>,
        ) -> std::result::Result<tonic::Response<Self::METHODStream>, tonic::Status>;
"#,
    r#"
                "/FULL_NAME/METHOD" => {
                    crate::serve::stream(service, limit, request, |service, request| service.FUNCTION(request))
                }
"#,
];

/// Returns the clients and servers of each package. Those of `tonic-build` would be compiled again
/// for each method in each crate.
fn services(pool: &DescriptorPool) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut packages = BTreeMap::<String, String>::new();
    for service in pool.services() {
        let package = packages.entry(service.package_name().to_owned()).or_default();
        let mut filled = <[String; 3]>::default();
        for method in service.methods() {
            let (request, response) = (method.input(), method.output());
            let in_package = |name: &str| name == service.package_name();
            if method.is_client_streaming()
                || !in_package(request.package_name())
                || !in_package(response.package_name())
            {
                return Err(format!("{}: client and server code cannot be generated", method.full_name()).into());
            }
            for message in [&request, &response] {
                package.push_str(&MESSAGE.replace("TYPE", message.name()));
            }
            let templates = if method.is_server_streaming() { STREAM } else { UNARY };
            for (text, template) in filled.iter_mut().zip(templates) {
                let types = template.replace("REQUEST", request.name()).replace("RESPONSE", response.name());
                text.push_str(&types.replace("METHOD", method.name()).replace("FUNCTION", &snake(method.name())));
            }
        }
        let [calls, methods, paths] = filled;
        let text = CLIENT.replace("CALLS", &calls) + &SERVER.replace("METHODS", &methods).replace("PATHS", &paths);
        let text = text.replace("FULL_NAME", service.full_name()).replace("TRAIT", service.name());
        package.push_str(&text.replace("MODULE", &snake(service.name())));
    }
    Ok(packages)
}

/// Returns the name of a function or module: `list_branches` for `ListBranches`.
fn snake(name: &str) -> String {
    constant(name).to_lowercase()
}

/// Returns Rust code for the operations: constants with their names, and an array of table rows,
/// sorted by name.
fn operations(pool: &DescriptorPool) -> Result<(String, String), Box<dyn Error>> {
    let option = pool.get_extension_by_name(RULE).ok_or("the option for rules is missing")?;
    let (mut names, mut rows) = (String::new(), BTreeMap::<String, String>::new());
    for service in pool.services() {
        for method in service.methods() {
            let name = format!("{}/{}", service.full_name(), method.name());
            let rule = rule(&method, &option);
            let own = own(&rule).ok_or_else(|| format!("{name}: the option {RULE} is missing"))?;
            // Only services call these, so nobody asks for access to them.
            if own != "Rule::Service" {
                writeln!(names, "/// `{name}`.\npub const {}: &str = {name:?};", constant(method.name()))?;
            }
            add_rows(rows.entry(name.clone()).or_default(), &name, &own, &rule)?;
        }
    }
    Ok((names, format!("[\n{}]", rows.into_values().collect::<String>())))
}

/// Fields that are set, with their values as Rust code.
type Fields = BTreeMap<String, String>;

/// Returns the fields of a method's rule, and `idempotency_level`.
fn rule(method: &MethodDescriptor, option: &ExtensionDescriptor) -> Fields {
    let options = method.options();
    let mut found = fields(&options);
    found.extend(options.get_extension(option).as_message().map(fields).unwrap_or_default());
    found
}

fn fields(message: &DynamicMessage) -> Fields {
    message.fields().map(|(field, value)| (field.name().to_owned(), rust(&field.kind(), value))).collect()
}

/// Returns a value as Rust code: `true`, `Scope::RepoRead`, or several of these.
fn rust(kind: &Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::Bool(flag)) => flag.to_string(),
        (Kind::Enum(kind), Value::EnumNumber(number)) => {
            let name = kind.get_value(*number).map(|value| pascal(value.name())).unwrap_or_default();
            format!("{}::{}", kind.name(), name.strip_prefix(kind.name()).unwrap_or(&name))
        }
        (kind, Value::List(values)) => values.iter().map(|value| rust(kind, value)).collect::<Vec<_>>().join(", "),
        (_, other) => format!("{other:?}"),
    }
}

/// Returns the requirement on a caller who acts for their own account.
fn own(rule: &Fields) -> Option<String> {
    let anonymous = rule.contains_key("anonymous");
    rule.iter().find_map(|(field, value)| {
        let own = match field.as_str() {
            "service" | "anyone" | "password" | "administrator" => pascal(field),
            "any_token" => "User(None)".to_owned(),
            "user" => format!("User(Some({value}))"),
            "organization" => format!("Organization({value}, Scope::Org)"),
            "team" => format!("Team({value})"),
            "repository" | "issues" | "hooks" | "forks" => {
                format!("Repository {{ unit: Unit::{}, level: {value}, anonymous: {anonymous} }}", pascal(field))
            }
            _ => return None,
        };
        Some(format!("Rule::{own}"))
    })
}

/// Adds the rows of one operation, one for each capacity that may call it.
fn add_rows(rows: &mut String, name: &str, own: &str, rule: &Fields) -> std::fmt::Result {
    let level = rule.get("idempotency_level").map_or("", String::as_str);
    let is_write = level != "IdempotencyLevel::NoSideEffects";
    let is_idempotent = !is_write || level == "IdempotencyLevel::Idempotent";
    let is_repeatable = is_idempotent && !rule.contains_key("sent_once");
    let takes_access_away = rule.contains_key("takes_access_away");
    let callers = rule.get("callers").map_or("ServiceRole::Gateway", String::as_str);
    let mut add = |capacity: &str, rule: &str, further_scope: &str, changes_content: bool| {
        writeln!(
            rows,
            "Operation {{ name: {name:?}, capacity: Capacity::{capacity}, rule: {rule}, further_scope: {further_scope}, \
             changes_content: {changes_content}, callers: &[{callers}], is_write: {is_write}, \
             is_repeatable: {is_repeatable}, takes_access_away: {takes_access_away} }},"
        )
    };
    let further_scope = rule.get("further_scope").map_or("None".to_owned(), |scope| format!("Some({scope})"));
    add("Own", own, &further_scope, rule.contains_key("changes_content"))?;
    if let Some(scope) = rule.get("as_organization") {
        let role = rule.get("organization_role").map_or("RequiredRole::Owner", String::as_str);
        add("Organization", &format!("Rule::Organization({role}, {scope})"), "None", false)?;
    }
    if rule.contains_key("as_administrator") {
        add("Administrator", "Rule::Administrator", "None", false)?;
    }
    Ok(())
}

/// Returns the name of a Rust type or variant: `GitSvc` for `GIT_SVC`.
fn pascal(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..].to_lowercase();
    name.split('_').map(word).collect()
}

/// Returns the name of a method's constant: `LIST_BRANCHES` for `ListBranches`.
fn constant(method: &str) -> String {
    let mut name = String::new();
    for letter in method.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
