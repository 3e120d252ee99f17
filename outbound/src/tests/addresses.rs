//! Every class of forbidden address, in every spelling.

use std::net::{IpAddr, Ipv4Addr};

use super::policy;
use crate::address::{classify, embedded_ipv4};
use crate::{AddressClass, Host, OutboundUrl, Policy, UrlRefusal, special_networks};

/// Addresses of each class: first, last and some in between.
const FORBIDDEN: &[(AddressClass, &[&str])] = &[
    (AddressClass::Unspecified, &["0.0.0.0", "0.0.0.1", "0.255.255.255", "::"]),
    (AddressClass::Loopback, &["127.0.0.0", "127.0.0.1", "127.1.2.3", "127.255.255.255", "::1"]),
    (
        AddressClass::Private,
        &[
            "10.0.0.0",
            "10.255.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.168.0.0",
            "192.168.255.255",
            "fc00::",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ],
    ),
    (AddressClass::LinkLocal, &["169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::", "fe80::1", "febf::1"]),
    (AddressClass::SiteLocal, &["fec0::", "feff:ffff::1"]),
    (AddressClass::Shared, &["100.64.0.0", "100.100.100.200", "100.127.255.255"]),
    (AddressClass::CloudService, &["168.63.129.16"]),
    (
        AddressClass::Documentation,
        &["192.0.2.1", "198.51.100.255", "203.0.113.0", "2001:db8::1", "2001:db8:ffff::1", "3fff::1", "3fff:fff::1"],
    ),
    (AddressClass::Benchmark, &["198.18.0.0", "198.19.255.255", "2001:2::1"]),
    (AddressClass::Discard, &["100::", "100::ffff:ffff:ffff:ffff", "100:0:0:1::1"]),
    (AddressClass::Multicast, &["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1", "ffff::1"]),
    (AddressClass::Broadcast, &["255.255.255.255"]),
    (
        AddressClass::Reserved,
        &[
            "192.0.0.0",
            "192.0.0.192",
            "192.88.99.1",
            "240.0.0.0",
            "255.255.255.254",
            "2001:1::1",
            "2001:20::1",
            "2001:1ff::1",
            "1::1",
            "5f00::1",
            "4000::1",
            "fe00::1",
            "0:0:1::1",
            "64:ff9b:2::1",
            "200::1",
        ],
    ),
];

/// IPv6 forms that embed an IPv4 address.
fn embeddings(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    vec![
        format!("::ffff:{high:x}:{low:x}"),
        format!("::ffff:0:{high:x}:{low:x}"),
        format!("64:ff9b::{high:x}:{low:x}"),
        format!("2002:{high:x}:{low:x}::1"),
        format!("2001:0:{high:x}:{low:x}:0:ffff:{:x}:{:x}", !high, !low),
        format!("2606:4700::200:5efe:{high:x}:{low:x}"),
        format!("2606:4700::5efe:{high:x}:{low:x}"),
        format!("64:ff9b:1::{high:x}:{low:x}"),
    ]
}

fn literal(address: IpAddr) -> String {
    format!("http://{}/", Host::Address(address))
}

fn parse(url: &str) -> Result<OutboundUrl, UrlRefusal> {
    OutboundUrl::parse(url, &Policy::default())
}

#[test]
fn forbidden_addresses_have_their_class_and_are_refused_in_urls() {
    for (class, addresses) in FORBIDDEN {
        for text in *addresses {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(classify(address), Some(*class), "{text}");
            assert_eq!(parse(&literal(address)), Err(UrlRefusal::Address(*class)), "{text}");
            assert_eq!(Policy::default().check(&Host::Name("a".to_owned()), address, 80), Err(*class), "{text}");
        }
    }
}

#[test]
fn networks_are_listed_by_their_first_addresses() {
    for network in special_networks() {
        assert_eq!(network.trunc(), network);
    }
}

#[test]
fn public_addresses_next_to_forbidden_ones_are_permitted() {
    for text in [
        "1.0.0.0",
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "203.0.114.0",
        "223.255.255.255",
        "2000::1",
        "2001:200::1",
        "2001:db7::1",
        "2001:db9::1",
        "2003::1",
        "2606:4700::1111",
        "3ffe::1",
        "3fff:1000::1",
    ] {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(classify(address), None, "{text}");
        assert!(parse(&literal(address)).is_ok(), "{text}");
    }
}

#[test]
fn ipv6_forms_that_embed_ipv4_are_refused_whatever_they_embed() {
    for inner in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8"] {
        for text in
            embeddings(inner.parse().unwrap()).into_iter().chain([format!("::{inner}"), format!("::ffff:{inner}")])
        {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(classify(address), Some(AddressClass::EmbedsIpv4), "{text}");
            assert_eq!(parse(&literal(address)), Err(UrlRefusal::Address(AddressClass::EmbedsIpv4)), "{text}");
            assert!(parse(&format!("http://[{text}]/")).is_err(), "{text}");
        }
    }
}

#[test]
fn spellings_of_loopback_and_metadata_that_are_not_canonical_are_refused() {
    for host in [
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "0X7F000001",
        "2130706433",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.1.",
        "127.000.000.001",
        "127.0.0.1%00",
        "0",
        "00",
        "0x0",
        "%31%32%37.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "\u{2460}\u{2461}\u{2466}.0.0.1",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.16689662",
        "425.510.425.510",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:0:0:1]",
        "[::01]",
        "[0000::1]",
        "[::1%25lo]",
        "[::1%lo]",
        "[::ffff:a9fe:a9fe]",
        "[::FFFF:A9FE:A9FE]",
        "[FE80::1]",
        "[::127.0.0.1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "127.0.0.1:80\\",
        "a@127.0.0.1",
        "a:b@[::1]",
        "8.8.8.8@127.0.0.1",
        "localhost.",
        "%6cocalhost",
        "127.0.0.1#@a.example",
        "127.0.0.1\\@a.example",
        "a.example\\@127.0.0.1",
        "a.example:80@127.0.0.1",
    ] {
        assert!(parse(&format!("http://{host}/")).is_err(), "{host}");
        assert!(parse(&format!("https://{host}:8080/x")).is_err(), "{host}");
    }
}

#[test]
fn the_list_permits_its_networks_and_names_for_its_ports_only() {
    let listed = policy("127.0.0.0/8:9000,fd00::/8,ci.internal,metrics:8080");
    let check = |host: &str, address: &str, port| {
        listed.check(&Host::parse(host).unwrap(), address.parse().unwrap(), port).is_ok()
    };
    assert!(OutboundUrl::parse("http://127.0.0.1:9000/", &listed).is_ok());
    assert!(OutboundUrl::parse("http://[fd00::1]/", &listed).is_ok());
    assert!(OutboundUrl::parse("http://127.0.0.1:9001/", &listed).is_err());
    assert!(OutboundUrl::parse("http://10.0.0.1:9000/", &listed).is_err());
    assert!(check("a", "127.0.0.1", 9000) && !check("a", "127.0.0.1", 80) && check("a", "8.8.8.8", 80));
    assert!(check("ci.internal", "10.0.0.1", 80) && !check("b.ci.internal", "10.0.0.1", 80));
    assert!(check("metrics", "10.0.0.1", 8080) && !check("metrics", "10.0.0.1", 80));
    assert!(!check("a", "::ffff:127.0.0.1", 9000) && !check("a", "::1", 9000));
}

#[test]
fn a_listed_translation_prefix_permits_public_ipv4_addresses_only() {
    for (prefix, is_public) in [("::ffff:0:0/96", 0), ("64:ff9b::/96", 2), ("2002::/16", 3), ("2001::/32", 4)] {
        let both = format!("{prefix},10.0.0.0/8");
        for (inner, with_prefix, with_both) in
            [("8.8.8.8", true, true), ("10.0.0.1", false, true), ("127.0.0.1", false, false)]
        {
            let text = &embeddings(inner.parse().unwrap())[is_public];
            let address: IpAddr = text.parse().unwrap();
            let check = |list: &str| policy(list).check(&Host::Name("a".to_owned()), address, 80).is_ok();
            assert_eq!((check(prefix), check(&both)), (with_prefix, with_both), "{text}");
            assert!(!check("10.0.0.0/8,127.0.0.0/8"), "{text}");
        }
    }
}

#[test]
fn the_embedded_address_is_found_where_its_place_is_fixed() {
    let inner = Ipv4Addr::new(169, 254, 1, 2);
    let found: Vec<_> = embeddings(inner).iter().map(|text| embedded_ipv4(text.parse().unwrap())).collect();
    assert_eq!(found[..7], [Some(inner); 7]);
    assert_eq!(found[7], None);
    assert_eq!(embedded_ipv4("2606:4700::1".parse().unwrap()), None);
    assert_eq!(embedded_ipv4("fe80::1".parse().unwrap()), None);
}
