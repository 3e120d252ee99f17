//! The inspector finds violations of limits wherever the stream is cut.

use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};
use git_store::types::limits::PackLimits;
use proptest::prelude::*;

use super::*;
use crate::testing::push_limits;

fn inspector(objects: u64) -> PushInspector {
    PushInspector::new(push_limits(objects))
}

/// Inspects bytes that were sent without compression.
fn inspect(inspector: &mut PushInspector, bytes: &[u8]) -> Option<Vec<u8>> {
    inspector.inspect(bytes, u64::MAX)
}

fn push(capabilities: &str, count: u32) -> Vec<u8> {
    let (zero, one) = ("0".repeat(40), "1".repeat(40));
    let mut bytes = Vec::new();
    Packet::text(&format!("{zero} {one} refs/heads/a\0{capabilities}")).encode(&mut bytes).unwrap();
    Packet::text(&format!("{zero} {one} refs/heads/b\n")).encode(&mut bytes).unwrap();
    Packet::Flush.encode(&mut bytes).unwrap();
    if capabilities.contains("push-options") {
        Packet::text("x=y").encode(&mut bytes).unwrap();
        Packet::Flush.encode(&mut bytes).unwrap();
    }
    bytes.extend_from_slice(b"PACK\0\0\0\x02");
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes
}

#[test]
fn too_many_objects_are_reported_as_git_would() {
    let answer = inspect(&mut inspector(10), &push("report-status", 11)).unwrap();
    let (first, used) = Packet::decode(&answer).unwrap().unwrap();
    assert_eq!(first.line(), Some(&b"unpack the pack has 11 objects; the limit is 10"[..]));
    let (second, _) = Packet::decode(&answer[used..]).unwrap().unwrap();
    assert_eq!(second.line(), Some(&b"ng refs/heads/a too many objects"[..]));
    assert!(answer.ends_with(b"0000"));
    let answer =
        inspect(&mut inspector(10), &push("report-status-v2 side-band-64k push-options", 4_000_000_000)).unwrap();
    assert_eq!(answer[4], 1);
    assert_eq!(inspect(&mut inspector(10), &push("report-status", 10)), None);
    assert_eq!(inspect(&mut inspector(10), b"0000"), None);
}

#[test]
fn the_hooks_of_an_atomic_push_know_that_it_is() {
    for (capabilities, expected) in [
        ("report-status atomic", true),
        ("atomic push-options", true),
        ("report-status", false),
        ("agent=atomic", false),
    ] {
        let state = Arc::new(PushState::default());
        let mut inspector = inspector(10).with_push(Arc::clone(&state));
        assert_eq!(inspect(&mut inspector, &push(capabilities, 1)), None);
        assert_eq!(state.is_atomic(), expected, "{capabilities}");
    }
}

#[test]
fn the_hooks_of_a_push_know_of_its_objects_and_of_the_ends_of_a_shallow_clone() {
    let end = "1".repeat(40);
    for count in [0, 1] {
        let state = Arc::new(PushState::default());
        let mut bytes = Vec::new();
        Packet::text(&format!("shallow {end}")).encode(&mut bytes).unwrap();
        bytes.extend_from_slice(&push("report-status", count));
        assert_eq!(inspect(&mut inspector(10).with_push(Arc::clone(&state)), &bytes), None);
        assert_eq!((state.shallow(), state.has_objects()), (vec![end.parse().unwrap()], count > 0));
    }
}

#[test]
fn the_hooks_of_a_push_with_a_large_delta_know_that_it_has_one() {
    for (base, expected) in [(32_u32 << 20, false), ((32 << 20) + 1, true)] {
        let state = Arc::new(PushState::default());
        let mut inspector = inspector(10).with_push(Arc::clone(&state));
        // The size of the base, 7 bits a byte, and that of the object.
        let sizes = [base & 0x7f | 0x80, base >> 7 & 0x7f | 0x80, base >> 14 & 0x7f | 0x80, base >> 21, 1];
        let mut encoder = ZlibEncoder::new(vec![6 << 4 | 5, 9], Compression::fast());
        encoder.write_all(&sizes.map(|number| number as u8)).unwrap();
        let delta = encoder.finish().unwrap();
        assert_eq!(inspect(&mut inspector, &[push("report-status", 1), delta].concat()), None);
        assert_eq!(state.has_large_deltas(), expected, "{base}");
    }
}

#[test]
fn a_push_is_complete_with_its_pack_or_with_its_commands_if_it_needs_none() {
    let mut with_pack = inspector(10);
    assert_eq!(inspect(&mut with_pack, &push("report-status", 0)), None);
    assert_eq!(inspect(&mut with_pack, &[0; 19]), None);
    assert!(!with_pack.is_complete(), "a byte of the checksum is missing");
    assert_eq!(inspect(&mut with_pack, &[0]), None);
    assert!(with_pack.is_complete());
    let mut removal = Vec::new();
    let line = format!("{} {} refs/heads/a\0report-status", "1".repeat(40), "0".repeat(40));
    Packet::text(&line).encode(&mut removal).unwrap();
    let mut without_pack = inspector(10);
    assert_eq!((inspect(&mut without_pack, &removal), without_pack.is_complete()), (None, false));
    assert_eq!((inspect(&mut without_pack, b"0000"), without_pack.is_complete()), (None, true));
}

#[test]
fn options_that_git_does_not_read_hide_no_pack() {
    let (zero, one) = ("0".repeat(40), "1".repeat(40));
    let command = format!("{zero} {one} refs/heads/a\0report-status");
    // After a second NUL, as part of another word, and on a line that is no command: git reads no
    // options and then the pack.
    for lines in [
        vec![format!("{command}\0 push-options")],
        vec![format!("{command} x\x0cpush-options")],
        vec![format!("shallow {one}\0push-options"), command.clone()],
    ] {
        let mut bytes = Vec::new();
        for line in &lines {
            Packet::text(line).encode(&mut bytes).unwrap();
        }
        Packet::Flush.encode(&mut bytes).unwrap();
        bytes.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\x0b");
        let answer = inspect(&mut inspector(10), &bytes).unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("the pack has 11 objects"), "{lines:?}");
    }
}

#[test]
fn what_is_no_packet_is_refused() {
    let whole = push("report-status push-options", 1);
    let without_options = [&whole[..whole.len() - 12 - 4 - 7], b"PACK\0\0\0\x02\0\0\0\x01"].concat();
    let answer = inspect(&mut inspector(10), &without_options).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("unpack the request is malformed"));
}

#[test]
fn a_pack_beyond_the_quota_is_refused_once_wherever_it_is_cut() {
    let quota = |left: u64| Some(ByteQuota { used: 1_000, limit: 1_000 + left });
    // The beginning of a blob of a thousand bytes, as an uncompressed zlib block.
    let begin = [0xb8, 62, 0x78, 1, 1, 0xe8, 3, 0x17, 0xfc];
    let (header, rest) = (push("report-status", 1), [begin.as_slice(), &[0; 91]].concat());
    let mut fits = inspector(10).within(quota(112));
    assert_eq!((inspect(&mut fits, &header), inspect(&mut fits, &rest)), (None, None));
    let whole = [header.as_slice(), &rest].concat();
    let expected = inspect(&mut inspector(10).within(quota(111)), &whole).unwrap();
    let text = String::from_utf8_lossy(&expected).into_owned();
    assert!(text.contains("unpack storage quota exceeded: 1000 of 1111 bytes used"), "{text}");
    assert_eq!(text.matches("storage quota exceeded").count(), 3, "{text}");
    for size in [1, 7, 64] {
        let mut inspector = inspector(10).within(quota(111));
        let refusals: Vec<_> = whole.chunks(size).filter_map(|chunk| inspect(&mut inspector, chunk)).collect();
        assert_eq!(refusals, [expected.as_slice()], "{size}");
    }
    // A pack without objects takes no room, nor does deleting a ref.
    assert_eq!(inspect(&mut inspector(10).within(quota(0)), &push("report-status", 0)), None);
    assert_eq!(inspect(&mut inspector(10).within(quota(0)), b"0000"), None);
    assert!(inspect(&mut inspector(10).within(quota(0)), &push("report-status", 1)).is_some());
}

#[test]
fn objects_beyond_the_limits_are_refused_beside_every_ref() {
    let limits = push_limits(10);
    let limits = PushLimits { pack: PackLimits { object_bytes: 999, ..limits.pack }, ..limits };
    let whole = [push("report-status side-band-64k", 1).as_slice(), &[0xb8, 62, 0x78, 1]].concat();
    for size in [1, 7, 1000] {
        let mut inspector = PushInspector::new(limits);
        let answers: Vec<_> = whole.chunks(size).filter_map(|chunk| inspect(&mut inspector, chunk)).collect();
        let text = String::from_utf8_lossy(&answers.concat()).into_owned();
        assert_eq!(answers.len(), 1, "{size}");
        assert_eq!(text.matches("the pack has an object of 1000 bytes; the limit is 999").count(), 2, "{text}");
        assert_eq!(text.matches("the pack was rejected").count(), 2, "{text}");
    }
}

#[test]
fn unusual_input_does_not_pass_uninspected() {
    let limited = push("report-status", 11);
    let (commands, pack) = limited.split_at(limited.len() - 12);
    // git looks only for the name of a capability, after every command.
    for capabilities in ["push-options=1", "atomic push-options report-status", "push-options"] {
        let mut lines = Vec::new();
        for (name, capabilities) in [("a", capabilities), ("b", "report-status")] {
            let line = format!("{} {} refs/heads/{name}\0{capabilities}", "1".repeat(40), "0".repeat(40));
            Packet::text(&line).encode(&mut lines).unwrap();
        }
        Packet::Flush.encode(&mut lines).unwrap();
        Packet::text(&"x".repeat(2000)).encode(&mut lines).unwrap();
        assert!(inspect(&mut inspector(10), &lines).is_some(), "{capabilities}");
    }
    let mut line = Vec::new();
    Packet::text("push-cert\0report-status").encode(&mut line).unwrap();
    assert!(inspect(&mut inspector(10), &line).is_some());
    let delimited = [&commands[..commands.len() - 4], b"0001", pack].concat();
    assert!(inspect(&mut inspector(10), &delimited).is_some());
    assert!(inspect(&mut inspector(10), &[commands, b"0000", pack].concat()).is_some());
    // git reads no pack after deletions only.
    let mut deletion = Vec::new();
    let text = format!("{} {} refs/heads/a", "1".repeat(40), "0".repeat(40));
    Packet::text(&text).encode(&mut deletion).unwrap();
    assert_eq!(inspect(&mut inspector(10), &[&deletion, &b"0000"[..], &[0; 20]].concat()), None);
}

#[test]
fn options_beyond_the_limits_are_refused_beside_every_ref() {
    let mut bytes = push("report-status push-options", 1);
    let flush = bytes.windows(11).position(|window| window == b"0007x=y0000").unwrap();
    for (option, reason) in [(vec![b'x'; 1025], "the limit is 1024 bytes"), (b"a\x07".to_vec(), "control characters")] {
        let mut line = Vec::new();
        Packet::Data(option).encode(&mut line).unwrap();
        let answer = inspect(&mut inspector(10), &[&bytes[..flush], &line, &bytes[flush..]].concat()).unwrap();
        let text = String::from_utf8(answer).unwrap();
        assert!(text.contains("unpack ") && text.matches(reason).count() == 3, "{text}");
    }
    let many = b"0007x=y".repeat(64);
    bytes.splice(flush..flush, many);
    assert!(String::from_utf8(inspect(&mut inspector(10), &bytes).unwrap()).unwrap().contains("the limit is 64"));
}

proptest! {
    #[test]
    fn pieces_are_seen_as_the_whole_is(size in 1_usize..40, count in 9_u32..13) {
        let whole = push("report-status side-band-64k", count);
        let mut cut = inspector(10);
        let chunks: Vec<_> = whole.chunks(size).filter_map(|chunk| inspect(&mut cut, chunk)).collect();
        prop_assert_eq!(chunks.first().cloned(), inspect(&mut inspector(10), &whole));
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(inspect(&mut inspector(1), &bytes));
    }
}
