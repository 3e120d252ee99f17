//! cgit behind lighttpd, both from Debian.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::installation::client;

const LIGHTTPD: &str = "/usr/sbin/lighttpd";
const CGIT_FOLDER: &str = "/usr/lib/cgit";
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running server. It ends on drop.
pub(crate) struct Cgit {
    pub(crate) url: String,
    server: Child,
}

impl Drop for Cgit {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Cgit {
    /// Serves a repository; `None` if a package is missing.
    pub(crate) async fn start(repository: &Path, folder: &Path) -> Result<Option<Self>, Failure> {
        if !Path::new(LIGHTTPD).exists() || !Path::new(CGIT_FOLDER).join("cgit.cgi").exists() {
            return Ok(None);
        }
        std::fs::create_dir_all(folder)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = folder.join("cgitrc");
        let readme = "readme=:README.md\nabout-filter=\nenable-blame=1\n";
        let listed = format!("repo.url=demo.git\nrepo.path={}\n", repository.display());
        std::fs::write(&settings, format!("virtual-root=/cgit.cgi\n{readme}{listed}"))?;
        let configuration = folder.join("lighttpd.conf");
        let text = format!(
            "server.bind = \"127.0.0.1\"\nserver.port = {port}\nserver.document-root = \"{CGIT_FOLDER}\"\n\
             server.modules = (\"mod_setenv\", \"mod_cgi\")\ncgi.assign = (\".cgi\" => \"\")\n\
             setenv.add-environment = (\"CGIT_CONFIG\" => \"{}\", \"HOME\" => \"{}\")\n",
            settings.display(),
            folder.display(),
        );
        std::fs::write(&configuration, text)?;
        let mut command = Command::new(LIGHTTPD);
        command.arg("-D").arg("-f").arg(&configuration).stdin(Stdio::null()).stdout(Stdio::null());
        let cgit = Self { url: format!("http://127.0.0.1:{port}"), server: command.spawn()? };
        let (client, begin) = (client()?, Instant::now());
        let url = format!("{}/cgit.cgi/", cgit.url);
        while !client.get(&url).send().await.is_ok_and(|answer| answer.status() == 200) {
            if begin.elapsed() > START_TIMEOUT {
                return Err("lighttpd with cgit does not respond".into());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(Some(cgit))
    }
}
