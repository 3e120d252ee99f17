//! `ferrite secrets`: keys, passwords and the files derived from them, for roles in containers.
//!
//! ```text
//! keys/                        as made by `ferrite keys`
//! postgres-password            of PostgreSQL's superuser
//! ROLE-database-password       of the login `ferrite_ROLE`, for repo, issue, hook and git
//! ROLE-database-url            URL with that password
//! ROLE-redis-password          of the Redis user of a role, for gateway, repo, issue, hook and git
//! ROLE-redis-url               URL with that password
//! redis-operator-password      of the Redis user `operator`, for people
//! redis-users.acl              Redis users with their permissions and password hashes
//! admin-password               of the first administrator
//! grafana-password             of Grafana's administrator
//! ```
//!
//! The folder is closed to other users but the files are not: Compose mounts each file into a
//! container that runs as another user. Existing files are never overwritten.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ferrite_core::Secret;
use ferrite_core::net::Address;
use ferrite_proto::ServiceRole;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::launcher::{self, KEY_FOLDER, SERVICE_PUBLIC_FOLDER};
use crate::output::{exit_code, print_line};
use crate::password;

/// Containers read the files as another user.
const MOUNTED_FILE_MODE: u32 = 0o644;
/// Mode of the folder of public keys, which is mounted as a whole.
const MOUNTED_FOLDER_MODE: u32 = 0o755;
const DATABASES: [&str; 4] = ["repo", "issue", "hook", "git"];
/// Redis commands of the roles, in ACL syntax.
const REDIS_COMMANDS: &str = "+ping +select +multi +exec +getrange +set +incrby +pttl +del";
/// Redis keys of each role, in ACL syntax (`%R`: read only). Only repo-svc writes validated tokens;
/// all services write shared counters, and each role its own.
const REDIS_KEYS: [(ServiceRole, &str); 5] = [
    (ServiceRole::Gateway, "~ferrite:limit:gateway:*"),
    (ServiceRole::RepoSvc, "~ferrite:token:* ~ferrite:count:* ~ferrite:limit:repo-svc:*"),
    (ServiceRole::IssueSvc, "%R~ferrite:token:* ~ferrite:count:* ~ferrite:limit:issue-svc:*"),
    (ServiceRole::HookSvc, "%R~ferrite:token:* ~ferrite:count:* ~ferrite:limit:hook-svc:*"),
    (ServiceRole::GitSvc, "%R~ferrite:token:* ~ferrite:count:* ~ferrite:limit:git-svc:*"),
];
/// The Redis user for people, which cannot access any key.
const REDIS_OPERATOR: &str = "operator";
const REDIS_OPERATOR_COMMANDS: &str = "+acl +info +ping +config|get +client +latency +slowlog";
/// Passwords without derived files.
const PLAIN_PASSWORDS: [&str; 3] = ["postgres-password", "admin-password", "grafana-password"];

#[derive(Args, Debug)]
pub(crate) struct SecretsArgs {
    /// Folder of the files, created if missing and closed to other users.
    folder: PathBuf,

    /// Address of PostgreSQL in the database URLs.
    #[arg(long, value_name = "HOST:PORT", default_value = "postgres:5432", value_parser = host_and_port)]
    postgres: String,

    /// Address of Redis in its URLs.
    #[arg(long, value_name = "HOST:PORT", default_value = "redis:6379", value_parser = host_and_port)]
    redis: String,

    /// Use TLS for Redis (`rediss://`).
    #[arg(long)]
    redis_tls: bool,
}

fn host_and_port(text: &str) -> Result<String, &'static str> {
    match text.parse::<Address>() {
        Ok(Address::Tcp(authority)) if authority == text && !text.contains('@') => Ok(authority),
        _ => Err("must be HOST:PORT"),
    }
}

pub(crate) fn start(args: &SecretsArgs) -> ExitCode {
    let made = make(args).map(|folder| {
        if folder.made.is_empty() {
            print_line(&format!("{} is complete: nothing to generate", args.folder.display()));
        }
        for name in &folder.made {
            print_line(&format!("created {}", args.folder.join(name).display()));
        }
        for name in &folder.different {
            print_line(&format!(
                "kept {}, which differs from what would be generated now",
                args.folder.join(name).display()
            ));
        }
    });
    exit_code("secrets", made)
}

fn make(args: &SecretsArgs) -> Result<Folder<'_>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", args.folder.display());
    launcher::create_private_folder(&args.folder).map_err(failed)?;
    let mut folder = Folder { path: &args.folder, made: make_keys(&args.folder)?, different: Vec::new() };
    for name in PLAIN_PASSWORDS {
        folder.password(name)?;
    }
    for service in DATABASES {
        let source = format!("{service}-database-password");
        let password = encoded(&folder.password(&source)?);
        let url = format!("postgres://ferrite_{service}:{password}@{}/ferrite_{service}", args.postgres);
        folder.derived(&format!("{service}-database-url"), &url, &[(source, password)])?;
    }
    let scheme = if args.redis_tls { "rediss" } else { "redis" };
    let operator = hash(&folder.password("redis-operator-password")?);
    let mut users = format!(
        "user default reset off\nuser {REDIS_OPERATOR} reset on #{operator} resetchannels -@all {REDIS_OPERATOR_COMMANDS}"
    );
    let mut proofs = Vec::new();
    for (role, keys) in REDIS_KEYS {
        let name = role.as_str().trim_end_matches("-svc");
        let source = format!("{name}-redis-password");
        let password = folder.password(&source)?;
        let hash = hash(&password);
        users.push_str(&format!("\nuser {role} reset on #{hash} resetchannels {keys} -@all {REDIS_COMMANDS}"));
        proofs.push((source.clone(), hash));
        let password = encoded(&password);
        let url = format!("{scheme}://{role}:{password}@{}", args.redis);
        folder.derived(&format!("{name}-redis-url"), &url, &[(source, password)])?;
    }
    // Earlier versions generated no operator, so its password is not checked.
    folder.derived("redis-users.acl", &users, &proofs)?;
    Ok(folder)
}

/// Returns the password hash as Redis stores it.
fn hash(password: &Secret) -> String {
    hex::encode(Sha256::digest(password.expose()))
}

fn encoded(password: &Secret) -> String {
    utf8_percent_encode(password.expose(), NON_ALPHANUMERIC).to_string()
}

fn make_keys(folder: &Path) -> Result<Vec<String>, String> {
    let keys = folder.join(KEY_FOLDER);
    let public = keys.join(SERVICE_PUBLIC_FOLDER);
    let had_public = public.is_dir();
    let before = files_below(&keys)?;
    launcher::ensure_keys(&keys)?;
    let mut made = Vec::new();
    for path in files_below(&keys)?.difference(&before) {
        set_mode(path, MOUNTED_FILE_MODE)?;
        made.extend(path.strip_prefix(folder).map(|name| name.display().to_string()));
    }
    if !had_public {
        set_mode(&public, MOUNTED_FOLDER_MODE)?;
    }
    Ok(made)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the files in the folder and in its folder of public keys.
fn files_below(folder: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let mut found = BTreeSet::new();
    for folder in [folder.to_owned(), folder.join(SERVICE_PUBLIC_FOLDER)] {
        if !folder.is_dir() {
            continue;
        }
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

struct Folder<'a> {
    path: &'a Path,
    made: Vec<String>,
    /// Existing files that differ from what the settings or this version would generate.
    different: Vec<String>,
}

impl Folder<'_> {
    /// Returns the password in a file. Generates it if the file is missing.
    fn password(&mut self, name: &str) -> Result<Secret, String> {
        if let Some(password) = self.read(name)? {
            return Ok(password);
        }
        let password =
            password::generate().map_err(|error| format!("cannot get random bytes from the system: {error}"))?;
        self.write(name, &password)?;
        Ok(Secret::new(password))
    }

    /// Writes a file derived from passwords if it is missing. An existing file must contain all
    /// `proofs`, each derived from the password file beside it.
    fn derived(&mut self, name: &str, content: &str, proofs: &[(String, String)]) -> Result<(), String> {
        let Some(there) = self.read(name)? else { return self.write(name, content) };
        if let Some((source, _)) = proofs.iter().find(|(_, proof)| !there.expose().contains(proof)) {
            return Err(format!(
                "{} does not match the password in {source}: remove the outdated file",
                self.path.join(name).display()
            ));
        }
        if there.expose() != content {
            self.different.push(name.to_owned());
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Option<Secret>, String> {
        let path = self.path.join(name);
        if !path.exists() {
            return Ok(None);
        }
        Secret::read(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn write(&mut self, name: &str, content: &str) -> Result<(), String> {
        launcher::write_file(self.path, name, format!("{content}\n").as_bytes(), MOUNTED_FILE_MODE)
            .map_err(|error| format!("{}: {error}", self.path.join(name).display()))?;
        self.made.push(name.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(folder: &Path) -> SecretsArgs {
        let (postgres, redis) = ("postgres:5432".into(), "redis:6379".into());
        SecretsArgs { folder: folder.to_owned(), postgres, redis, redis_tls: false }
    }

    fn make(args: &SecretsArgs) -> Result<Vec<String>, String> {
        super::make(args).map(|folder| folder.made)
    }

    fn read(folder: &Path, name: &str) -> String {
        std::fs::read_to_string(folder.join(name)).unwrap().trim_end().to_owned()
    }

    #[test]
    fn secrets_are_made_once_and_fit_together() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("secrets");
        let made = make(&args(&folder)).unwrap();
        assert!(made.iter().any(|name| name == "keys/grant.pem"), "{made:?}");
        assert!(made.iter().any(|name| name == "keys/public/git-svc.pub.pem"), "{made:?}");
        let contents = || made.iter().map(|name| read(&folder, name)).collect::<Vec<_>>();
        let first = contents();
        let password = read(&folder, "hook-database-password");
        let url = format!("postgres://ferrite_hook:{password}@postgres:5432/ferrite_hook");
        assert_eq!(read(&folder, "hook-database-url"), url);
        let password = read(&folder, "issue-redis-password");
        assert_eq!(read(&folder, "issue-redis-url"), format!("redis://issue-svc:{password}@redis:6379"));
        let passwords: Vec<_> = made.iter().filter(|name| name.ends_with("-password")).collect();
        let distinct: BTreeSet<_> = passwords.iter().map(|name| read(&folder, name)).collect();
        assert_eq!((passwords.len(), distinct.len()), (13, 13));
        let users = read(&folder, "redis-users.acl");
        for role in ["gateway", "repo", "issue", "hook", "git"] {
            assert!(!users.contains(&read(&folder, &format!("{role}-redis-password"))), "{users}");
        }
        assert!(!users.contains(&read(&folder, "redis-operator-password")), "{users}");
        assert_eq!(make(&args(&folder)).unwrap(), Vec::<String>::new());
        assert_eq!(contents(), first);
    }

    #[test]
    fn the_folder_is_closed_and_what_containers_mount_is_readable() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("secrets");
        let made = make(&args(&folder)).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("keys"))), (0o700, 0o700));
        assert_eq!(mode(&folder.join("keys/public")), 0o755);
        for name in &made {
            assert_eq!(mode(&folder.join(name)), 0o644, "{name}");
        }
        let key = folder.join("keys/gateway.pem");
        set_mode(&key, 0o600).unwrap();
        assert_eq!(make(&args(&folder)).unwrap(), Vec::<String>::new());
        assert_eq!((mode(&key), mode(&folder.join("keys/public"))), (0o600, 0o755), "modes are not changed later");
    }

    #[test]
    fn each_role_has_its_own_user_in_redis_and_repo_svc_alone_writes_tokens() {
        let folder = tempfile::tempdir().unwrap();
        make(&SecretsArgs { redis_tls: true, ..args(folder.path()) }).unwrap();
        assert!(read(folder.path(), "git-redis-url").starts_with("rediss://git-svc:"));
        let users = read(folder.path(), "redis-users.acl");
        let rules: Vec<Vec<&str>> = users.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(rules[0], ["user", "default", "reset", "off"]);
        assert_eq!(rules[1][1], "operator");
        assert!(!rules[1].iter().any(|word| word.contains('~')), "the operator has no keys: {:?}", rules[1]);
        let named: Vec<_> = rules[2..].iter().map(|words| words[1]).collect();
        assert_eq!(named, ServiceRole::ALL.map(ServiceRole::as_str));
        for words in &rules[2..] {
            let tokens: Vec<_> = words.iter().filter(|word| word.contains("token")).collect();
            let expected: &[&&str] = match words[1] {
                "gateway" => &[],
                "repo-svc" => &[&"~ferrite:token:*"],
                _ => &[&"%R~ferrite:token:*"],
            };
            assert_eq!(tokens, expected, "{words:?}");
            let own = format!("~ferrite:limit:{}:*", words[1]);
            let limits: Vec<_> = words.iter().filter(|word| word.contains("ferrite:limit")).collect();
            assert_eq!(limits, [&own], "{words:?}");
        }
    }

    #[test]
    fn a_given_password_is_kept_and_used() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("repo-database-password"), "p@ss/w:rd\n").unwrap();
        let made = make(&args(folder)).unwrap();
        assert!(!made.iter().any(|name| name == "repo-database-password"), "{made:?}");
        assert_eq!(read(folder, "repo-database-password"), "p@ss/w:rd");
        assert!(
            read(folder, "repo-database-url").starts_with("postgres://ferrite_repo:p%40ss%2Fw%3Ard@postgres:5432/")
        );
    }

    #[test]
    fn a_file_that_does_not_fit_its_password_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        make(&args(folder)).unwrap();
        for (password, derived) in
            [("git-database-password", "git-database-url"), ("hook-redis-password", "hook-redis-url")]
        {
            let before = (read(folder, password), read(folder, derived));
            std::fs::remove_file(folder.join(password)).unwrap();
            let message = make(&args(folder)).unwrap_err();
            assert!(message.contains(derived) && message.contains(password), "{message}");
            assert!(!message.contains(&read(folder, password)), "{message}");
            assert_eq!(read(folder, derived), before.1);
            std::fs::write(folder.join(password), before.0).unwrap();
        }
        for name in ["git-redis-password", "git-redis-url"] {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
        let message = make(&args(folder)).unwrap_err();
        assert!(message.contains("redis-users.acl") && message.contains("git-redis-password"), "{message}");
        std::fs::write(folder.join("admin-password"), "\n").unwrap();
        let message = make(&args(folder)).unwrap_err();
        assert!(message.contains("admin-password: the file is empty"), "{message}");
    }

    #[test]
    fn files_that_would_be_different_are_kept_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        make(&args(folder)).unwrap();
        let different = |args: &SecretsArgs| super::make(args).unwrap().different;
        assert_eq!(different(&args(folder)), Vec::<String>::new());
        let moved = SecretsArgs { postgres: "other:5432".into(), ..args(folder) };
        assert_eq!(different(&moved), DATABASES.map(|service| format!("{service}-database-url")));
        assert!(read(folder, "repo-database-url").contains("@postgres:5432/"));
        // As generated by a version without the operator.
        let users = read(folder, "redis-users.acl");
        let roles: Vec<_> = users.lines().filter(|line| !line.contains("user operator ")).collect();
        std::fs::write(folder.join("redis-users.acl"), roles.join("\n")).unwrap();
        std::fs::remove_file(folder.join("redis-operator-password")).unwrap();
        let args = args(folder);
        let made = super::make(&args).unwrap();
        assert_eq!(made.made, ["redis-operator-password"]);
        assert_eq!(made.different, ["redis-users.acl"]);
    }

    #[test]
    fn hosts_without_a_port_are_refused() {
        for bad in ["postgres", "postgres:x", "user@postgres:5432", "unix:/run/x", "http://redis:6379", "a/b:1", ""] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
        assert_eq!(host_and_port("[::1]:5432").as_deref(), Ok("[::1]:5432"));
    }
}
