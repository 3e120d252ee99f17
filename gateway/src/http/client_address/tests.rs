use proptest::prelude::*;

use super::*;

const PROXIES: &str = "10.0.0.0/8,2001:db8:ffff::/48,unix";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for &(name, value) in pairs {
        headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// Returns the client's address as text for a request over a connection from `peer`; `-` stands for
/// none.
fn client(peer: &str, pairs: &[(&'static str, &str)]) -> String {
    let resolved = resolve(peer.parse().ok(), &headers(pairs), &PROXIES.parse().unwrap());
    resolved.map_or("-".to_owned(), |ClientAddress(address)| address.to_string())
}

#[test]
fn a_client_is_counted_by_its_address_or_its_network() {
    for (address, expected) in [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::1", "::"),
    ] {
        assert_eq!(client_address(address.parse().unwrap()).unwrap(), expected);
    }
}

#[test]
fn nothing_is_believed_from_peers_that_are_not_trusted() {
    for peer in ["192.0.2.1", "2001:db8::1", "11.0.0.1", "127.0.0.1"] {
        for pair in [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=203.0.113.9"), ("x-real-ip", "203.0.113.9")]
        {
            assert_eq!(client(peer, &[pair]), peer, "{pair:?}");
        }
    }
    let nobody = TrustedProxies::default();
    assert_eq!(resolve(None, &headers(&[("x-forwarded-for", "203.0.113.9")]), &nobody), None);
}

#[test]
fn the_rightmost_address_that_is_not_trusted_is_the_client() {
    for (sent, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("1.1.1.1,203.0.113.9 , 10.2.3.4,10.0.0.9", "203.0.113.9"),
        ("nonsense, 203.0.113.9, 10.2.3.4", "203.0.113.9"),
        ("203.0.113.9:51234", "203.0.113.9"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, ,", "203.0.113.9"),
        ("203.0.113.9, 2001:db8:ffff::5", "203.0.113.9"),
        // All are trusted: the farthest is the client.
        ("10.7.7.7, 10.8.8.8", "10.7.7.7"),
    ] {
        assert_eq!(client("10.0.0.1", &[("x-forwarded-for", sent)]), expected, "{sent}");
    }
    assert_eq!(client("::ffff:10.0.0.1", &[("x-forwarded-for", "203.0.113.9")]), "203.0.113.9");
    assert_eq!(client("-", &[("x-forwarded-for", "203.0.113.9")]), "203.0.113.9");
    assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
    assert_eq!(client("-", &[]), "-");
}

#[test]
fn an_entry_that_is_no_address_ends_the_search() {
    for (sent, expected) in [
        ("203.0.113.9, unknown", "10.0.0.1"),
        ("203.0.113.9, unknown, 10.2.2.2", "10.2.2.2"),
        ("203.0.113.9 198.51.100.1", "10.0.0.1"),
        ("203.0.113.9, 10.2.2", "10.0.0.1"),
        ("203.0.113.9, fe80::1%eth0", "10.0.0.1"),
        ("203.0.113.9, \u{e9}", "10.0.0.1"),
        ("", "10.0.0.1"),
    ] {
        assert_eq!(client("10.0.0.1", &[("x-forwarded-for", sent)]), expected, "{sent}");
    }
}

#[test]
fn several_header_lines_are_one_list() {
    let lines =
        [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "10.2.2.2")];
    assert_eq!(client("10.0.0.1", &lines), "198.51.100.1");
    let lines = [("forwarded", "for=203.0.113.9"), ("forwarded", "for=198.51.100.1, for=10.2.2.2")];
    assert_eq!(client("10.0.0.1", &lines), "198.51.100.1");
}

#[test]
fn the_standard_header_is_read_with_quotes_ports_and_parameters() {
    for (sent, expected) in [
        ("for=203.0.113.9", "203.0.113.9"),
        ("For=\"203.0.113.9:47011\";proto=https;by=10.0.0.2", "203.0.113.9"),
        ("for=1.1.1.1, proto=https;FOR=\"[2001:db8::7]:4711\"", "2001:db8::7"),
        ("for=\"[2001:db8::7]\" ; host=\"a,b;c\" , for=10.3.3.3", "2001:db8::7"),
        ("for=203.0.113.9,, ;", "203.0.113.9"),
        ("for=203.0.113.9, for=unknown", "10.0.0.1"),
        ("for=203.0.113.9, for=_hidden, for=10.3.3.3", "10.3.3.3"),
        ("for=203.0.113.9, proto=https", "10.0.0.1"),
        // The client left a quote open, or closed one so that it hides what the proxy appended.
        ("for=\"1.1.1.1, for=203.0.113.9", "10.0.0.1"),
        ("for=1.1.1.1;x=\", for=\"203.0.113.9\"", "10.0.0.1"),
        ("for=1.1.1.1;x=\"\\\", for=\"203.0.113.9\"", "10.0.0.1"),
        ("for", "10.0.0.1"),
        ("203.0.113.9", "10.0.0.1"),
    ] {
        assert_eq!(client("10.0.0.1", &[("forwarded", sent)]), expected, "{sent}");
    }
}

#[test]
fn headers_that_name_different_clients_are_not_believed() {
    let agreeing = [("x-forwarded-for", "1.1.1.1, 203.0.113.9"), ("forwarded", "for=203.0.113.9")];
    assert_eq!(client("10.0.0.1", &agreeing), "203.0.113.9");
    for forged in [
        [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=1.1.1.1")],
        [("x-forwarded-for", "203.0.113.9"), ("forwarded", "nonsense")],
        [("x-forwarded-for", ""), ("forwarded", "for=203.0.113.9")],
    ] {
        assert_eq!(client("10.0.0.1", &forged), "10.0.0.1", "{forged:?}");
    }
}

proptest! {
    #[test]
    fn no_header_breaks_the_parsers(text in "[ -~\\t]{0,60}|(for=|\"|,|;|\\[|\\]|10\\.0\\.0\\.1|=| ){0,12}") {
        let proxies: TrustedProxies = "0.0.0.0/0".parse().unwrap();
        for name in ["x-forwarded-for", "forwarded"] {
            let _ = resolve(Some("10.0.0.1".parse().unwrap()), &headers(&[(name, text.as_str())]), &proxies);
        }
    }

    /// A client sends `forged`; the proxy appends its address.
    #[test]
    fn a_client_cannot_forge_past_the_word_of_a_trusted_proxy(forged in "[ -~]{0,60}") {
        for (name, appended) in [
            ("x-forwarded-for", format!("{forged}, 203.0.113.9")),
            ("forwarded", format!("{forged}, for=203.0.113.9")),
            ("forwarded", format!("{forged}, for=\"203.0.113.9:80\";proto=http")),
        ] {
            let found = client("10.0.0.1", &[(name, appended.as_str())]);
            prop_assert!(found == "203.0.113.9" || found == "10.0.0.1", "{appended}: {found}");
        }
    }
}
