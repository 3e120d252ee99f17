//! The transports of the public listeners: TLS, trusted proxies and the PROXY protocol.

use ferrite_core::startup::StartError;
use ferrite_core::tls::ServerTls;
use ferrite_listener::Transport;

use crate::config::Config;

#[derive(Clone, Debug)]
pub(crate) struct Transports {
    pub(crate) http: Transport,
    /// Redirects to https. The same as `http`, without TLS.
    pub(crate) redirect: Transport,
    pub(crate) ssh: Transport,
}

impl Transports {
    /// Reads the TLS files and checks that the settings fit together. Errors name the setting or
    /// the file.
    pub(crate) fn new(config: &Config) -> Result<Self, StartError> {
        let refused = |text: &str| Err(StartError::Other(text.to_owned()));
        let proxies = &config.trusted_proxies;
        if proxies.is_empty() && (config.proxy_protocol || config.ssh_proxy_protocol) {
            return refused(
                "FERRITE_GATEWAY_PROXY_PROTOCOL and FERRITE_GATEWAY_SSH_PROXY_PROTOCOL need FERRITE_GATEWAY_TRUSTED_PROXIES: \
                 the header is accepted from trusted proxies only",
            );
        }
        if config.http_redirect_listen.is_some() && !config.site.public_url.starts_with("https://") {
            return refused("FERRITE_GATEWAY_HTTP_REDIRECT_LISTEN needs an https FERRITE_PUBLIC_URL");
        }
        let tls = match (&config.tls_certificate_file, &config.tls_key_file) {
            (Some(certificate), Some(key)) => {
                let loaded = ServerTls::load(certificate, key, None);
                Some(loaded.map_err(|error| StartError::Other(error.to_string()))?)
            }
            _ => None,
        };
        let redirect = Transport::default().with_proxies(proxies.clone(), config.proxy_protocol);
        Ok(Self {
            http: redirect.clone().with_tls(tls),
            redirect,
            ssh: Transport::default().with_proxies(proxies.clone(), config.ssh_proxy_protocol),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn refusal(more: &[&str]) -> Option<String> {
        let keys = ["--service-key-file=key", "--service-public-keys=keys", "--grant-public-key-file=public"];
        let needed = ["gateway", "--listen=127.0.0.1:0", keys[0], keys[1], keys[2]];
        let config = Config::try_parse_from(needed.iter().chain(more)).unwrap();
        Transports::new(&config).err().map(|error| error.to_string())
    }

    #[test]
    fn settings_that_do_not_fit_together_are_named() {
        assert_eq!(refusal(&[]), None);
        assert_eq!(refusal(&["--proxy-protocol", "--ssh-proxy-protocol", "--trusted-proxies=10.0.0.1"]), None);
        assert_eq!(refusal(&["--http-redirect-listen=127.0.0.1:0", "--public-url=https://git.example.com"]), None);
        for (settings, named) in [
            (&["--proxy-protocol"][..], "FERRITE_GATEWAY_TRUSTED_PROXIES"),
            (&["--ssh-proxy-protocol"][..], "FERRITE_GATEWAY_TRUSTED_PROXIES"),
            (&["--http-redirect-listen=127.0.0.1:0", "--public-url=http://git.example.com"][..], "FERRITE_PUBLIC_URL"),
            (
                &["--tls-certificate-file=/nonexistent/c.pem", "--tls-key-file=/nonexistent/k.pem"][..],
                "/nonexistent/c.pem",
            ),
        ] {
            let refusal = refusal(settings).unwrap();
            assert!(refusal.contains(named) && !refusal.contains('\n'), "{refusal}");
        }
    }
}
