use std::time::Duration;

use clap::Args;
use ferrite_core::{
    Secret,
    config::{WriteLimitArgs, seconds_within, secret_file, within},
};

/// Delivered events must be kept for longer than deliveries can repeat after a crash.
const MIN_EVENT_RETENTION_SECONDS: u64 = 60;

/// The database of a service.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// Database URL: `postgres://…` or `sqlite://PATH`.
    #[arg(
        long,
        env = "FERRITE_DATABASE_URL",
        hide_env_values = true,
        conflicts_with = "database_url_file",
        required_unless_present = "database_url_file"
    )]
    pub database_url: Option<Secret>,

    /// File with the database URL.
    #[arg(long, env = "FERRITE_DATABASE_URL_FILE", value_name = "FILE", value_parser = secret_file)]
    pub database_url_file: Option<Secret>,

    /// Connections of this process to PostgreSQL.
    #[arg(long, env = "FERRITE_DATABASE_CONNECTIONS", default_value_t = 16, value_parser = within::<u32>(1..))]
    pub database_connections: u32,

    /// Retention of delivered events in the database, in seconds.
    #[arg(long, env = "FERRITE_EVENT_RETENTION_SECONDS", default_value = "1800", value_parser = seconds_within(MIN_EVENT_RETENTION_SECONDS..))]
    pub event_retention: Duration,

    /// Largest SQLite file of an older version to compact at start, in bytes; 0: none.
    #[arg(long, env = "FERRITE_SQLITE_VACUUM_BYTES", default_value_t = 268_435_456, value_parser = within::<u64>(0..))]
    pub sqlite_vacuum_bytes: u64,
    /// Limits on the writes of one account.
    #[command(flatten)]
    pub write_limit: WriteLimitArgs,

    /// Do not migrate the schema at start; fail if it is out of date.
    #[arg(long, env = "FERRITE_NO_MIGRATE")]
    pub no_migrate: bool,

    /// Start although a newer version has migrated the schema, to undo an upgrade.
    #[arg(long, env = "FERRITE_ALLOW_NEWER_SCHEMA")]
    pub allow_newer_schema: bool,
}

impl DatabaseArgs {
    /// Returns the database URL, from the setting or its file.
    #[must_use]
    pub fn url(&self) -> &Secret {
        let url = self.database_url.as_ref().or(self.database_url_file.as_ref());
        url.expect("the settings require one of the two")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        database: DatabaseArgs,
    }

    fn parse(flags: &[&str]) -> Result<DatabaseArgs, clap::Error> {
        Settings::try_parse_from(["test"].iter().chain(flags)).map(|settings| settings.database)
    }

    #[test]
    fn settings_are_parsed_and_secrets_not_shown() {
        let url = "--database-url=postgres://u:hunter2@h/d";
        let database = parse(&[url]).unwrap();
        assert_eq!(database.database_connections, 16);
        assert_eq!(database.event_retention, Duration::from_secs(1800));
        assert!(!format!("{database:?}").contains("hunter2"));
        for bad in ["--database-connections=0", "--event-retention=59", "--event-retention=315360001"] {
            assert!(parse(&[url, bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_url_comes_from_a_file_or_from_the_setting_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "postgres://u:hunter2@h/d\n").unwrap();
        let file = format!("--database-url-file={}", path.display());
        let database = parse(&[&file]).unwrap();
        assert_eq!(database.url().expose(), "postgres://u:hunter2@h/d");
        assert!(!format!("{database:?}").contains("hunter2"));
        let missing = parse(&[]).unwrap_err().to_string();
        assert!(missing.contains("--database-url"), "{missing}");
        let both = parse(&["--database-url=postgres://u:hunter2@h/d", &file]).unwrap_err().to_string();
        assert!(both.contains("-url-file") && both.contains("cannot be used with") && !both.contains("hunter2"));
        std::fs::write(&path, "\n").unwrap();
        let empty = parse(&[&file]).unwrap_err().to_string();
        assert!(empty.contains("--database-url-file") && empty.contains("the file is empty"), "{empty}");
    }
}
