//! Settings of `ferrite up`. Doc comments are the text of `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ferrite_core::Secret;
use ferrite_core::config::{TelemetryArgs, host_and_port, seconds_within};
use ferrite_outbound::{AllowList, AllowListError};

#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    /// Data folder, created if missing.
    #[arg(long, env = "FERRITE_DATA", value_name = "FOLDER", default_value = "./ferrite-data")]
    pub(super) data: PathBuf,

    /// Listen address of the REST API and git over HTTP; port 0: any free port.
    #[arg(long, env = "FERRITE_HTTP", value_name = "HOST:PORT", default_value = "127.0.0.1:3000", value_parser = host_and_port)]
    pub(super) http: String,

    /// Listen address of git over SSH; port 0: any free port.
    #[arg(long, env = "FERRITE_SSH", value_name = "HOST:PORT", default_value = "127.0.0.1:2222", value_parser = host_and_port)]
    pub(super) ssh: String,

    /// Public address of SSH, used in clone URLs; the SSH address by default.
    #[arg(long, env = "FERRITE_PUBLIC_SSH", value_name = "HOST:PORT", value_parser = host_and_port)]
    pub(super) public_ssh: Option<String>,

    /// Public URL of the site, used in all links; the HTTP address by default.
    #[arg(long, env = "FERRITE_PUBLIC_URL", value_name = "URL")]
    pub(super) public_url: Option<String>,

    /// Private hosts that webhooks, imports and mirrors may reach, such as `10.0.0.0/8,host:8080`.
    #[arg(long, env = "FERRITE_OUTBOUND_ALLOW", value_name = "LIST", default_value = "", hide_default_value = true, value_parser = outbound_allow)]
    pub(super) outbound_allow: String,

    /// Git executable: a path, or a name in /usr/local/bin, /usr/bin or /bin; `git` by default.
    #[arg(long, env = "FERRITE_GIT_PROGRAM", value_name = "FILE", value_parser = git_svc::git_program)]
    pub(super) git_program: Option<PathBuf>,

    /// Open the loopback ports 7001 to 7004 for gRPC.
    #[arg(long, env = "FERRITE_GRPC_TCP")]
    pub(super) grpc_tcp: bool,

    /// Time limit for the shutdown, in seconds.
    #[arg(long, env = "FERRITE_GRACE_SECONDS", default_value = "20", value_parser = seconds_within(0..))]
    pub(super) grace: Duration,

    /// User name of the first administrator.
    #[arg(long, env = "FERRITE_ADMIN_USERNAME", value_name = "NAME", default_value = "admin")]
    pub(super) admin_username: String,

    /// E-mail address of the first administrator.
    #[arg(long, env = "FERRITE_ADMIN_EMAIL", value_name = "ADDRESS", default_value = "admin@example.com")]
    pub(super) admin_email: String,

    /// Password of the first administrator.
    #[arg(
        long = "admin-password-from-environment",
        env = "FERRITE_ADMIN_PASSWORD",
        hide = true,
        hide_env_values = true,
        conflicts_with = "admin_password_file"
    )]
    admin_password: Option<Secret>,

    /// File with the first administrator's password (or `FERRITE_ADMIN_PASSWORD`); else generated.
    #[arg(long, env = "FERRITE_ADMIN_PASSWORD_FILE", value_name = "FILE", value_parser = ferrite_core::config::secret_file)]
    admin_password_file: Option<Secret>,

    /// Stop when standard input ends.
    #[arg(long, env = "FERRITE_STOP_WITH_STDIN", hide = true)]
    pub(super) stop_with_stdin: bool,

    #[command(flatten)]
    pub(super) telemetry: TelemetryArgs,
}

impl UpArgs {
    pub(super) fn admin_password(&self) -> Option<&Secret> {
        let given = self.admin_password.as_ref().filter(|password| !password.expose().is_empty());
        given.or(self.admin_password_file.as_ref())
    }
}

/// Checks the list. The services get it unchanged.
fn outbound_allow(text: &str) -> Result<String, AllowListError> {
    text.parse::<AllowList>().map(|_| text.to_owned())
}
