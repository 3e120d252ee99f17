//! A test's own certificate authority, and its certificates as PEM files.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

pub(crate) struct Authority {
    root: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = pem("CERTIFICATE", params.self_signed(&key).unwrap().der());
        Self { root, issuer: Issuer::new(params, key) }
    }

    /// Writes `ca.pem`, and `NAME.pem` and `NAME.key.pem` for the hosts, into `folder`.
    pub(crate) fn write(&self, folder: &Path, name: &str, hosts: &[String]) {
        std::fs::create_dir_all(folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(hosts).unwrap().signed_by(&key, &self.issuer).unwrap();
        std::fs::write(folder.join("ca.pem"), &self.root).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), pem("CERTIFICATE", certificate.der())).unwrap();
        std::fs::write(folder.join(format!("{name}.key.pem")), pem("PRIVATE KEY", &key.serialize_der())).unwrap();
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let lines: Vec<_> = base64.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
