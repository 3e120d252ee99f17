//! Which requests count as plain clones, and how the pack is split into packets.

use std::io::Write as _;

use git_store::git::pktline::Packet;

use super::*;
use crate::http::protocol_v2::{Parser, Step};

fn asked(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in [&["command=fetch", "agent=x", "object-format=sha1", ""], arguments].concat() {
        let packet = if line.is_empty() { Packet::Delimiter } else { Packet::text(line) };
        packet.encode(&mut bytes).unwrap();
    }
    [bytes.as_slice(), b"0000"].concat()
}

#[test]
fn only_plain_clones_are_understood() {
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    let (first, second) = (format!("want {one}"), format!("want {two}"));
    let mut parser = Parser::<CloneRequest>::default();
    let arguments = ["thin-pack", "no-progress", "include-tag", "ofs-delta", &second, &first, &second, "done"];
    assert_eq!(parser.read(&asked(&arguments)), Step::Done);
    let ids = [&two, &one, &two].map(|id| Oid::from_str(id).unwrap());
    let all = CloneRequest {
        thin_pack: true,
        ofs_delta: true,
        include_tag: true,
        no_progress: true,
        ..parser.command.clone()
    };
    assert_eq!((&parser.command, parser.command.wants.as_slice(), all.is_done), (&all, &ids[..], true));
    let mut parser = Parser::<CloneRequest>::default();
    assert_eq!((parser.read(&asked(&[&first])), parser.command.is_done), (Step::Done, false));
    let have = format!("have {one}");
    for other in [
        have.as_str(),
        "deepen 1",
        "filter blob:none",
        "shallow 1",
        "sideband-all",
        "want-ref refs/heads/main",
        "wait-for-done",
        "packfile-uris https",
        "want",
        "want 12",
        &format!("{first} x"),
        &format!("{first}1"),
        &format!("want {}", "x".repeat(40)),
        "done\0",
        "",
    ] {
        assert_eq!(Parser::<CloneRequest>::default().read(&asked(&[&first, other, "done"])), Step::Other, "{other}");
    }
    assert_eq!(Parser::<CloneRequest>::default().read(&asked(&["done", &first])), Step::Other);
}

#[tokio::test]
async fn a_file_is_read_in_packets() {
    let mut file = tempfile::tempfile().unwrap();
    let content: Vec<_> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    file.write_all(&content).unwrap();
    let file = Arc::new(file);
    let (mut at, mut copied, mut lengths) = (0, Vec::new(), Vec::new());
    loop {
        let (chunk, count) = read(&file, at, PACKETS_PER_CHUNK).await.unwrap();
        if count == 0 {
            assert!(chunk.is_empty());
            break;
        }
        let (mut rest, mut carried) = (&chunk[..], 0);
        while let Some((Packet::Data(data), used)) = Packet::decode(rest).unwrap() {
            assert_eq!(data[0], BAND_PACK);
            copied.extend_from_slice(&data[1..]);
            lengths.push(used);
            (rest, carried) = (&rest[used..], carried + data.len() - 1);
        }
        assert_eq!((carried, rest.len()), (count, 0));
        at += count as u64;
    }
    assert!(copied == content);
    assert_eq!(lengths[..4], [MAX_PACKET; 4]);
    assert_eq!(lengths[4..], [300_000 - 4 * (MAX_PACKET - HEADER_BYTES) + HEADER_BYTES]);
}
