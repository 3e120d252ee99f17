use proptest::prelude::*;

use super::*;

#[test]
fn an_address_is_a_host_and_port_or_a_path() {
    let tcp = |text: &str| Ok(Address::Tcp(text.into()));
    assert_eq!("127.0.0.1:80".parse(), tcp("127.0.0.1:80"));
    assert_eq!("http://repo:7001/".parse(), tcp("repo:7001"));
    assert_eq!("[::1]:0".parse(), tcp("[::1]:0"));
    assert_eq!("unix:/run/x.sock".parse(), Ok(Address::Unix("/run/x.sock".into())));
    for wrong in [
        "",
        ":",
        ":80",
        "host",
        "host:",
        "host:x",
        "host:65536",
        "host:-1",
        "a/b:80",
        "unix:",
        "http://unix:80",
        "https://h:1",
    ] {
        assert_eq!(wrong.parse::<Address>(), Err(BadAddress), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn a_displayed_address_parses_to_the_same_address(text in "(http://|unix:)?[a-z0-9.:/\\[\\]]{0,20}(:[0-9]{1,5})?") {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in ".*") {
        let _ = text.parse::<Address>();
    }
}

#[tokio::test]
async fn an_unused_socket_file_is_replaced_and_any_other_file_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = Address::Unix(path.clone());
    drop(address.bind().await.unwrap());
    assert!(path.exists(), "the socket file outlives its listener");
    let listener = address.bind().await.unwrap();
    let (connected, accepted) = tokio::join!(address.connect(), listener.accept());
    connected.unwrap();
    accepted.unwrap();
    drop(listener);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let error = address.bind().await.unwrap_err();
    assert!(error.to_string().contains("socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn the_error_names_an_address_that_is_in_use() {
    let taken = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
    let address = taken.address().unwrap();
    let error = address.bind().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
