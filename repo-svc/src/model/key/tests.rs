use proptest::prelude::*;

use super::*;

const ED25519: &str = include_str!("examples/ed25519.pub");
const BLOCK: &str = "---- BEGIN SSH2 PUBLIC KEY ----\r\nSubject: ada\r\nComment: \"ada's \\\r\nkey\"\r\n\
     AAAAC3NzaC1lZDI1NTE5AAAAINXpT76PZKRbnwWTjkcxjqrCj6pZADy4\r\nY2KBvtDOR77z\r\n---- END SSH2 PUBLIC KEY ----\r\n";

fn code(text: &str) -> &'static str {
    let violation = SshKey::parse(text, "key").unwrap_err();
    assert_eq!(violation.field, "key");
    violation.code
}

fn base64_of(line: &str) -> &str {
    line.split_whitespace().nth(1).unwrap()
}

/// Returns a made-up RSA key with a modulus of `bits` bits.
fn rsa(bits: usize, exponent: &[u8]) -> String {
    let mut modulus = vec![0u8; bits.div_ceil(8)];
    modulus[0] = 1 << ((bits - 1) % 8);
    *modulus.last_mut().unwrap() |= 1;
    if modulus[0] & 0x80 != 0 {
        modulus.insert(0, 0);
    }
    let mut blob = Vec::new();
    for part in [b"ssh-rsa".as_slice(), exponent, &modulus] {
        blob.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
        blob.extend(part);
    }
    STANDARD.encode(blob)
}

#[test]
fn keys_of_openssh_are_read_and_have_its_fingerprints() {
    for (line, fingerprint) in [
        (ED25519, "SHA256:Kd5Ccart/zmaEi4ABkT5HkRIdMwr6BRF5c905i6LoLo"),
        (include_str!("examples/ecdsa-256.pub"), "SHA256:ETNl/vGpSroAtb+QFr/ewzfW3bDNx6TLWOpS9DC4hug"),
        (include_str!("examples/ecdsa-384.pub"), "SHA256:zZBMYjk57C3p+E87uto1eV5kwnuJMFZjUpSJ1RH+yaM"),
        (include_str!("examples/ecdsa-521.pub"), "SHA256:tBNxb2HjGJVeJ6epHZhzQg8kYmTOLgT2OCbu8bf7pis"),
        (include_str!("examples/rsa-2048.pub"), "SHA256:eV5Yq04woA+/eaBXwzWNZ8Slz74PFWtdUGgcn0xqCRM"),
    ] {
        let key = SshKey::parse(line, "key").unwrap();
        assert_eq!((key.as_str(), key.fingerprint()), (line.trim_end(), fingerprint));
        assert_eq!(SshKey::parse(key.as_str(), "key"), Ok(key));
    }
}

#[test]
fn type_and_comment_may_be_left_out_and_blocks_are_read() {
    let (name, bare) = ("ssh-ed25519", base64_of(ED25519));
    for (text, line) in [
        (format!("{name} {bare}"), format!("{name} {bare}")),
        (bare.to_owned(), format!("{name} {bare}")),
        (format!("{bare} at work\n"), format!("{name} {bare} at work")),
        (format!("  {name}\t{bare}  ada \t  at work \r\n"), format!("{name} {bare} ada at work")),
        (BLOCK.to_owned(), format!("{name} {bare} ada's key")),
        (BLOCK.replace("Comment: \"ada's \\\r\nkey\"\r\n", ""), format!("{name} {bare}")),
        (format!("{BLOCK}\n\n"), format!("{name} {bare} ada's key")),
    ] {
        let key = SshKey::parse(&text, "key").unwrap();
        assert_eq!(key.as_str(), line, "{text:?}");
        assert_eq!(key.fingerprint(), "SHA256:Kd5Ccart/zmaEi4ABkT5HkRIdMwr6BRF5c905i6LoLo");
    }
}

#[test]
fn other_sorts_of_keys_are_refused() {
    for line in [
        include_str!("examples/dsa.pub"),
        include_str!("examples/rsa-1024.pub"),
        include_str!("examples/certificate.pub"),
        include_str!("examples/security-key.pub"),
    ] {
        assert_eq!(code(line), "invalid", "{line}");
        assert_eq!(code(base64_of(line)), "invalid", "{line}");
    }
}

#[test]
fn keys_of_rsa_have_2048_to_16384_bits() {
    for (bits, is_accepted) in [(2047, false), (2048, true), (2049, true), (16_384, true), (16_385, false)] {
        assert_eq!(SshKey::parse(&rsa(bits, &[1, 0, 1]), "key").is_ok(), is_accepted, "{bits}");
    }
    for exponent in [&[][..], &[1], &[2], &[0x81]] {
        assert_eq!(code(&rsa(2048, exponent)), "invalid", "{exponent:?}");
    }
}

#[test]
fn texts_with_no_key_or_several_are_refused() {
    let (line, bare) = (ED25519.trim_end(), base64_of(ED25519));
    let short = STANDARD.encode(&STANDARD.decode(bare).unwrap()[..50]);
    let mut long = STANDARD.decode(bare).unwrap();
    long.push(0);
    for text in [
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "nonsense",
        "AAAA",
        &format!("{line}\n{line}"),
        &format!("{BLOCK}{BLOCK}"),
        &format!("{BLOCK}{line}"),
        &format!("ssh-rsa {bare}"),
        &format!("no-pty {line}"),
        &format!("command=\"x\",no-pty {line}"),
        &format!("command=\"a b\" {line}"),
        &format!("{line}\0"),
        &format!("{line}\x1b[2J"),
        &format!("{bare}="),
        &format!("{bare}%"),
        &short,
        &STANDARD.encode(long),
        BLOCK.trim_end().strip_suffix("---- END SSH2 PUBLIC KEY ----").unwrap(),
        "---- BEGIN SSH2 PUBLIC KEY ----\n---- END SSH2 PUBLIC KEY ----",
        "---- BEGIN SSH2 PUBLIC KEY ----\nComment: a\\",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    ] {
        assert_eq!(code(text), "invalid", "{text:?}");
    }
    assert_eq!(code(" \n"), "required");
    assert_eq!(code(&format!("{line}{}", " ".repeat(16 * 1024))), "too_long");
}

proptest! {
    #[test]
    fn a_parsed_key_parses_to_itself(text in any::<String>()) {
        if let Ok(key) = SshKey::parse(&text, "key") {
            prop_assert_eq!(SshKey::parse(key.as_str(), "key"), Ok(key.clone()));
        }
    }

    #[test]
    fn a_changed_byte_makes_a_key_invalid_or_another_key(place in 0usize..51, byte: u8) {
        let key = SshKey::parse(ED25519, "key").unwrap();
        let mut blob = STANDARD.decode(base64_of(ED25519)).unwrap();
        prop_assume!(blob[place] != byte);
        blob[place] = byte;
        if let Ok(other) = SshKey::parse(&STANDARD.encode(blob), "key") {
            prop_assert!(place >= 19 && other.fingerprint() != key.fingerprint());
        }
    }

    #[test]
    fn a_comment_never_leaves_its_line(comment in any::<String>()) {
        let line = format!("{} {comment}", base64_of(ED25519));
        if let Ok(key) = SshKey::parse(&line, "key") {
            prop_assert!(!key.as_str().chars().any(char::is_control));
        }
    }
}
