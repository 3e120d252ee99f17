use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<OutboundUrl, UrlRefusal> {
    OutboundUrl::parse(text, &Policy::default())
}

#[test]
fn absolute_http_urls_are_kept_as_they_were_sent() {
    for (text, scheme, host, port, target) in [
        ("http://example.com", Scheme::Http, "example.com", 80, "/"),
        ("https://example.com/a/b?c=d#e", Scheme::Https, "example.com", 443, "/a/b?c=d"),
        ("HTTP://Example.COM:8080/Path", Scheme::Http, "example.com", 8080, "/Path"),
        ("https://example.com?token=a%20b", Scheme::Https, "example.com", 443, "/?token=a%20b"),
        ("http://1.1.1.1:3000/hook", Scheme::Http, "1.1.1.1", 3000, "/hook"),
        ("http://[2606:4700::1]/", Scheme::Http, "[2606:4700::1]", 80, "/"),
        ("http://a.example:80/x@y:z//../[q]", Scheme::Http, "a.example", 80, "/x@y:z//../[q]"),
        ("http://hook_1.example:65535/", Scheme::Http, "hook_1.example", 65535, "/"),
        ("http://a.example/?x=/y?z@w", Scheme::Http, "a.example", 80, "/?x=/y?z@w"),
        ("http://localhost/", Scheme::Http, "localhost", 80, "/"),
    ] {
        let url = parse(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!((url.expose(), url.shown()), (text, text));
        assert_eq!((url.scheme(), url.host().to_string().as_str(), url.port()), (scheme, host, port), "{text}");
        assert_eq!(url.target().as_str(), target, "{text}");
        assert!(url.credentials().is_none(), "{text}");
    }
}

#[test]
fn other_texts_are_refused() {
    for (text, refusal) in [
        ("", UrlRefusal::Empty),
        ("nope", UrlRefusal::Scheme),
        ("/path", UrlRefusal::Scheme),
        ("//example.com/", UrlRefusal::Scheme),
        ("example.com/hook", UrlRefusal::Scheme),
        ("ftp://example.com/", UrlRefusal::Scheme),
        ("file:///etc/passwd", UrlRefusal::Scheme),
        ("git@example.com:a/b.git", UrlRefusal::Scheme),
        ("ext::sh -c date", UrlRefusal::Character),
        ("ssh://example.com/", UrlRefusal::Scheme),
        ("javascript:alert(1)", UrlRefusal::Scheme),
        ("-http://example.com/", UrlRefusal::Scheme),
        ("http:", UrlRefusal::Scheme),
        ("http:/example.com", UrlRefusal::Scheme),
        ("http:example.com", UrlRefusal::Scheme),
        ("http://", UrlRefusal::Host),
        ("http:///path", UrlRefusal::Host),
        ("http://?q", UrlRefusal::Host),
        ("http://#f", UrlRefusal::Host),
        ("http://:80/", UrlRefusal::Host),
        ("http://user@/", UrlRefusal::Host),
        ("http://@example.com/", UrlRefusal::Credentials),
        ("http://:@example.com/", UrlRefusal::Credentials),
        ("http://a%3Ab:c@example.com/", UrlRefusal::Credentials),
        ("http://a%:b@example.com/", UrlRefusal::Credentials),
        ("http://a:b%4@example.com/", UrlRefusal::Credentials),
        ("http://a:b%zz@example.com/", UrlRefusal::Credentials),
        ("http://a%0d%0aX-Evil:1@example.com/", UrlRefusal::Credentials),
        ("http://a:b%00@example.com/", UrlRefusal::Credentials),
        ("http://a@b@c.example/", UrlRefusal::Host),
        ("http://a:b@c:d@e.example/", UrlRefusal::Port),
        (" http://example.com", UrlRefusal::Character),
        ("http://example.com ", UrlRefusal::Character),
        ("\thttp://example.com", UrlRefusal::Character),
        ("http://exam ple.com", UrlRefusal::Character),
        ("http://example.com/\n", UrlRefusal::Character),
        ("http://example.com/\r\nX-Evil: 1", UrlRefusal::Character),
        ("http://example.com/ HTTP/1.1", UrlRefusal::Character),
        ("http://example.com\\@evil.example", UrlRefusal::Character),
        ("http://a\0b/", UrlRefusal::Character),
        ("http://b\u{fc}cher.example/", UrlRefusal::Character),
        ("http://\u{ff11}27.0.0.1/", UrlRefusal::Character),
        ("http://a.example/\u{fc}", UrlRefusal::Character),
        ("http://example.com:0/", UrlRefusal::Port),
        ("http://example.com:/", UrlRefusal::Port),
        ("http://example.com:080/", UrlRefusal::Port),
        ("http://example.com:65536/", UrlRefusal::Port),
        ("http://example.com:99999999999999999999/", UrlRefusal::Port),
        ("http://example.com:x/", UrlRefusal::Port),
        ("http://example.com:+80/", UrlRefusal::Port),
        ("http://example.com:80:81/", UrlRefusal::Port),
        ("http://[2606:4700::1]80/", UrlRefusal::Host),
        ("http://2606:4700::1/", UrlRefusal::Port),
        ("http://[2606:4700::0001]/", UrlRefusal::Host),
        ("http://[2606:4700::1%25eth0]/", UrlRefusal::Host),
        ("http://%6cocalhost/", UrlRefusal::Host),
        ("http://a,b/", UrlRefusal::Host),
        ("http://a.example./", UrlRefusal::Host),
        ("http://-oProxyCommand=x/", UrlRefusal::Host),
        ("http://xn--a/", UrlRefusal::Ambiguous),
        ("http://a.example#@127.0.0.1/", UrlRefusal::Ambiguous),
        ("http://a.example?@127.0.0.1/", UrlRefusal::Ambiguous),
        ("http://127.0.0.1?@a.example/", UrlRefusal::Ambiguous),
    ] {
        assert_eq!(parse(text).map(|url| url.expose().to_owned()), Err(refusal), "{text:?}");
    }
    let longest = format!("http://a.example/{}", "a".repeat(2048 - 17));
    assert!(parse(&longest).is_ok());
    assert_eq!(parse(&format!("{longest}a")), Err(UrlRefusal::TooLong));
}

#[test]
fn passwords_are_decoded_for_use_and_masked_where_shown() {
    for (text, shown, user, password) in [
        ("https://ada:s3cret@a.example/x?y#z", "https://ada:***@a.example/x?y#z", "ada", "s3cret"),
        ("https://ada:p%40s%3As@a.example:8443", "https://ada:***@a.example:8443", "ada", "p@s:s"),
        ("https://ada:a:b@a.example/", "https://ada:***@a.example/", "ada", "a:b"),
        ("https://t0ken@a.example/", "https://***@a.example/", "t0ken", ""),
        ("https://t0ken:@a.example/", "https://***@a.example/", "t0ken", ""),
        ("https://:s3cret@a.example/", "https://:***@a.example/", "", "s3cret"),
        ("https://a.example/ada:word@b", "https://a.example/ada:word@b", "", ""),
    ] {
        let url = parse(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!((url.expose(), url.shown(), url.to_string().as_str()), (text, shown, shown));
        assert_eq!(format!("{url:?}"), format!("OutboundUrl({shown:?})"));
        let credentials = url.credentials().map(|own| (own.user.as_slice(), own.password.as_slice()));
        assert_eq!(credentials.unwrap_or_default(), (user.as_bytes(), password.as_bytes()), "{text}");
        assert!(parse(shown).is_ok(), "{shown}");
    }
}

/// Texts close to the boundary between valid and invalid URLs.
#[test]
fn credentials_are_split_off_and_nothing_else_changes() {
    for (text, url, user, password) in [
        ("https://example.com/a@b.git", "https://example.com/a@b.git", "", ""),
        ("https://ada:se%3acret@example.com:8443/a.git", "https://example.com:8443/a.git", "ada", "se:cret"),
        ("HTTP://token@example.com", "HTTP://example.com", "token", ""),
        ("http://:x@1.1.1.1/", "http://1.1.1.1/", "", "x"),
    ] {
        let split = parse(text).unwrap().split_credentials();
        assert_eq!(split, Ok((url.to_owned(), user.to_owned(), password.to_owned())), "{text}");
    }
    assert_eq!(parse("http://a:%ff@example.com/").unwrap().split_credentials(), Err(UrlRefusal::Credentials));
}

fn near_urls() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![8 => Just("http://"), 4 => Just("HttpS://"), 1 => Just("http:/"), 1 => Just("ftp://")];
    let userinfo = prop_oneof![3 => Just(String::new()), 1 => "[a%4:@/.?#-]{0,6}@", 1 => "[a-c]{1,3}:[a-c%40]{0,4}@"];
    let host = prop_oneof![
        2 => "[a-z0-9.-]{1,12}",
        2 => "[0-9a-fx]{1,4}(\\.[0-9a-fx]{1,4}){0,4}",
        1 => "[0-9]{1,3}(\\.[0-9]{1,3}){3}",
        1 => "\\[[0-9a-f:.%]{2,20}\\]",
        1 => "(xn--)?[a-z0-9-]{1,6}",
        1 => "[!-~]{1,10}",
    ];
    let port = prop_oneof![2 => Just(String::new()), 1 => ":[0-9]{0,6}", 1 => ":[!-~]{0,3}"];
    (scheme, userinfo, host, port, "[/?#@:.%a-c\\[\\]]{0,6}")
        .prop_map(|(scheme, userinfo, host, port, rest)| format!("{scheme}{userinfo}{host}{port}{rest}"))
}

/// Compares this crate's parser, without the second one used by `OutboundUrl::parse`, with other
/// parsers.
fn agrees_with_other_parsers(text: &str) -> Result<(), TestCaseError> {
    let Ok(parts) = Parts::parse(text) else { return Ok(()) };
    match url::Url::parse(text) {
        Ok(_) => prop_assert!(parts.is_confirmed(text), "{text}: {parts:?}"),
        Err(_) => prop_assert!(parts.host.to_string().contains("xn--"), "{text}: {parts:?}"),
    }
    if let Ok(uri) = text.parse::<http::Uri>() {
        prop_assert_eq!(uri.host().map(str::to_ascii_lowercase), Some(parts.host.to_string().to_ascii_lowercase()));
        prop_assert_eq!(uri.port_u16().unwrap_or(parts.scheme.default_port()), parts.port);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn other_parsers_read_the_same_destination_from_urls_near_the_border(text in near_urls()) {
        agrees_with_other_parsers(&text)?;
    }

    #[test]
    fn other_parsers_read_the_same_destination_from_any_text(text in "(http|HTTPS)://.{0,30}") {
        agrees_with_other_parsers(&text)?;
    }

    #[test]
    fn what_is_shown_has_no_password(user in "[a-z]{0,4}", password in "[A-Z]{4,8}", rest in "(/[a-z]{0,5})?(\\?[a-z]{0,5})?") {
        let url = parse(&format!("https://{user}:{password}@a.example{rest}")).unwrap();
        let debug = format!("{url:?}");
        prop_assert!(!url.shown().contains(&password) && !debug.contains(&password));
        prop_assert_eq!(url.shown(), format!("https://{user}:***@a.example{rest}"));
    }
}
