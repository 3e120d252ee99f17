use std::{io::Write as _, time::Duration};

use flate2::{Compression, write::ZlibEncoder};
use git2::Repository;
use proptest::prelude::*;

use super::*;
use crate::types::limits::CpuAllowance;

const BLOB: u8 = 3;

/// git-svc's default limits.
fn pack_limits() -> PackLimits {
    PackLimits {
        object_bytes: 4 << 30,
        inflated: Expansion { factor: 100, base_bytes: 64 << 20 },
        deltas: Expansion { factor: 1000, base_bytes: 1 << 30 },
        cpu: CpuAllowance { base: Duration::from_secs(60), per_mib: Duration::from_secs(3) },
    }
}

/// Limits that an ordinary pack of these tests meets.
fn limits() -> PackLimits {
    PackLimits {
        object_bytes: 1 << 20,
        inflated: Expansion { factor: 10, base_bytes: 1000 },
        deltas: Expansion { factor: 100, base_bytes: 10_000 },
        ..pack_limits()
    }
}

fn number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns an entry that declares `size` bytes of content, with the base reference `base`.
fn entry(kind: u8, size: u64, base: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind << 4 | (size & 15) as u8];
    if size >> 4 > 0 {
        bytes[0] |= 0x80;
        bytes.extend(number(size >> 4));
    }
    bytes.extend(base);
    let mut encoder = ZlibEncoder::new(bytes, Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn blob(content: &[u8]) -> Vec<u8> {
    entry(BLOB, content.len() as u64, b"", content)
}

/// Returns a delta that has only its sizes.
fn delta(kind: u8, base: &[u8], sizes: (u64, u64)) -> Vec<u8> {
    let content = [number(sizes.0), number(sizes.1)].concat();
    entry(kind, content.len() as u64, base, &content)
}

fn pack(entries: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(entries.len()).unwrap();
    [b"PACK\0\0\0\x02".as_slice(), &count.to_be_bytes(), &entries.concat(), &[0; 20]].concat()
}

fn read_in_pieces(limits: PackLimits, pack: &[u8], size: usize) -> Result<PackSums, PackRefusal> {
    let mut stream = PackStream::new(limits);
    pack.chunks(size).try_for_each(|piece| stream.read(piece, u64::MAX))?;
    Ok(stream.sums)
}

fn read(pack: &[u8]) -> Result<PackSums, PackRefusal> {
    read_in_pieces(limits(), pack, usize::MAX)
}

/// Returns a pack of libgit2: 50 versions of a text, most of them deltas.
fn texts() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    let mut builder = repo.packbuilder().unwrap();
    for version in 0..50 {
        let text: String = (0..2000).map(|line| format!("line {} of a text\n", line * (version % 7 + 1))).collect();
        builder.insert_object(repo.blob(format!("{version}\n{text}").as_bytes()).unwrap(), None).unwrap();
    }
    let mut bytes = git2::Buf::new();
    builder.write_buf(&mut bytes).unwrap();
    bytes.to_vec()
}

#[test]
fn a_pack_of_git_is_read_to_its_end_wherever_it_is_cut() {
    let pack = texts();
    let sums = read_in_pieces(pack_limits(), &pack, usize::MAX).unwrap();
    assert!(sums.inflated > pack.len() as u64 && sums.deltas > 50 * 30_000, "{sums:?} in {} bytes", pack.len());
    for size in [1, 7, 1000] {
        let pieces = read_in_pieces(pack_limits(), &pack, size).unwrap();
        assert_eq!((pieces.inflated, pieces.deltas), (sums.inflated, sums.deltas), "{size}");
    }
    let mut stream = PackStream::new(pack_limits());
    let (before, last) = pack.split_at(pack.len() - 1);
    stream.read(before, u64::MAX).unwrap();
    assert!(!stream.is_whole(), "a byte of the checksum is missing");
    stream.read(last, u64::MAX).unwrap();
    assert!(stream.is_whole());
    stream.read(&[0xff; 1000], u64::MAX).unwrap();
}

#[test]
fn an_object_is_refused_by_its_header() {
    let large = entry(BLOB, (1 << 20) + 1, b"", b"");
    let refusal = PackRefusal::LargeObject { bytes: (1 << 20) + 1, limit: 1 << 20 };
    assert_eq!(read(&pack(&[blob(b"x"), large.clone()])[..12 + blob(b"x").len() + 4]).unwrap_err(), refusal);
    let made = delta(OFS_DELTA, &[9], (1, (1 << 20) + 1));
    assert_eq!(read(&pack(&[blob(b"x"), made])).unwrap_err(), refusal);
    assert!(matches!(read(&pack(&[entry(BLOB, u64::MAX >> 4, b"", b"x")])), Err(PackRefusal::LargeObject { .. })));
}

#[test]
fn a_delta_of_an_object_that_git_makes_none_of_is_refused_by_its_header() {
    let limit = MAX_DELTA_OBJECT_BYTES;
    let any = PackLimits { object_bytes: u64::MAX, ..pack_limits() };
    let read = |entry: Vec<u8>| {
        let mut stream = PackStream::new(any);
        stream.read(&pack(&[blob(b"x"), entry]), u64::MAX).map(|()| stream.has_large_deltas())
    };
    let refusal = || PackRefusal::LargeDelta { bytes: limit + 1, limit };
    assert_eq!(read(delta(OFS_DELTA, &[9], (1, limit + 1))), Err(refusal()));
    assert_eq!(read(delta(REF_DELTA, &[5; 20], (limit + 1, 1))), Err(refusal()));
    assert_eq!(read(entry(OFS_DELTA, limit + 1, &[9], b"")), Err(refusal()));
    assert_eq!(read(delta(OFS_DELTA, &[9], (1, limit))), Ok(true));
    let loaded = MAX_LOADED_DELTA_OBJECT_BYTES;
    assert_eq!(read(delta(OFS_DELTA, &[9], (loaded + 1, 1))), Ok(true));
    assert_eq!(read(delta(OFS_DELTA, &[9], (loaded, loaded))), Ok(false));
    let text = refusal().to_string();
    assert!(text.contains("536870913 bytes; the limit is 536870912"), "{text}");
    // A whole file may be of any size.
    assert!(matches!(read(entry(BLOB, limit + 1, b"", b"")), Err(PackRefusal::Malformed)));
}

#[test]
fn a_delta_that_is_longer_than_its_object_is_refused_by_its_header() {
    let any = PackLimits { object_bytes: u64::MAX, ..pack_limits() };
    // If accepted, the deltas fail later because they end after their sizes.
    let read = |bytes: u64, result: u64, piece: usize| {
        let content = [number(1), number(result)].concat();
        let pack = pack(&[blob(b"x"), entry(OFS_DELTA, bytes, &[9], &content)]);
        let mut stream = PackStream::new(any);
        let read = pack.chunks(piece).try_for_each(|piece| stream.read(piece, u64::MAX));
        (read.unwrap_err(), stream.has_large_deltas())
    };
    let refusal = |bytes, result, limit| (PackRefusal::LongDelta { bytes, result, limit }, false);
    for piece in [1, 1000] {
        assert_eq!(read(1034, 10, piece), (PackRefusal::Malformed, false));
        assert_eq!(read(1035, 10, piece), refusal(1035, 10, 1034));
    }
    let mib = 1 << 20;
    assert_eq!(read(256 * mib, 32 * mib, 1000), refusal(256 * mib, 32 * mib, 32 * mib + mib / 2 + 1024));
    assert_eq!(read(32 * mib, 32 * mib, 1000), (PackRefusal::Malformed, false));
    assert_eq!(read(32 * mib + 1, 32 * mib, 1000), (PackRefusal::Malformed, true), "the delta itself is large");
    let text = refusal(1035, 10, 1034).0.to_string();
    assert_eq!(text, "the pack has a delta of 1035 bytes for an object of 10 bytes; the limit is 1034");
}

#[test]
fn contents_that_inflate_to_too_much_are_refused_before_their_end() {
    let zeros = pack(&[blob(&[0; 200_000])]);
    assert!(zeros.len() < 300, "{}", zeros.len());
    let Err(PackRefusal::Inflated { limit, bytes, of }) = read(&zeros) else { panic!("taken") };
    assert!(bytes < zeros.len() as u64 && of == limits().inflated, "{bytes}");
    assert_eq!(limit, 10 * bytes + 1000);
    let mut stream = PackStream::new(limits());
    assert!(stream.read(&zeros, u64::MAX).is_err());
    assert!(stream.sums.inflated <= limit + SCRATCH_BYTES as u64, "{:?}", stream.sums);
    // Many contents count together.
    let small: Vec<_> = (0..100).map(|_| blob(&[0; 900])).collect();
    assert!(matches!(read(&pack(&small)), Err(PackRefusal::Inflated { .. })));
    assert!(read(&pack(&small[..1])).is_ok());
}

#[test]
fn the_limit_holds_at_every_point_of_a_pack() {
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..1000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        })
        .collect();
    let (zeros, noise) = (blob(&[0; 3000]), blob(&noise));
    // The whole pack may inflate to some 11,000 bytes, but when the zeros come, what follows is
    // unknown.
    let (first, last) = ([zeros.clone(), noise.clone()], [noise, zeros]);
    assert!(read(&pack(&last)).is_ok());
    let refused = read(&pack(&first)).unwrap_err();
    let PackRefusal::Inflated { limit, bytes, .. } = refused else { panic!("{refused}") };
    assert!(bytes < 100, "{bytes}");
    let told =
        format!("the pack inflates to more than {limit} bytes after {bytes} bytes (limit: 10 times that plus 1000)");
    assert_eq!(refused.to_string(), told);
}

#[test]
fn the_objects_that_deltas_make_are_counted() {
    let sums = |kind, base: &[u8], count| {
        let deltas: Vec<_> = (0..count).map(|_| delta(kind, base, (9000, 10_000))).collect();
        read(&pack(&deltas)).map(|sums| sums.deltas)
    };
    assert_eq!(sums(OFS_DELTA, &[0x80, 1], 1), Ok(10_000));
    let refused = sums(OFS_DELTA, &[0x80, 1], 100);
    assert!(matches!(refused, Err(PackRefusal::Deltas { of, .. }) if of == limits().deltas), "{refused:?}");
    // A base named by id may be in the repository, where git has to read it.
    assert_eq!(
        sums(REF_DELTA, &[5; 20], 1),
        Err(refusal_of_deltas(&pack(&[delta(REF_DELTA, &[5; 20], (9000, 10_000))])))
    );
}

fn refusal_of_deltas(pack: &[u8]) -> PackRefusal {
    let of = limits().deltas;
    PackRefusal::Deltas { limit: of.limit(pack.len() as u64), of }
}

#[test]
fn the_bytes_that_were_sent_count_and_not_those_of_a_compressed_request() {
    let text: Vec<u8> = (0..5000_u32).map(|index| ((index * index) >> 3) as u8).collect();
    let pack = pack(&[blob(&text)]);
    let mut stream = PackStream::new(limits());
    stream.read(&pack, pack.len() as u64).unwrap();
    let mut stream = PackStream::new(limits());
    assert!(matches!(stream.read(&pack, 10), Err(PackRefusal::Inflated { limit: 1100, .. })));
}

#[test]
fn what_git_could_read_in_another_way_is_refused() {
    let other_size = |size| entry(BLOB, size, b"", &[7; 100]);
    let no_sizes = entry(OFS_DELTA, 1, &[9], &[0x85]);
    let cases = [
        ("no such kind", entry(5, 3, b"", b"abc")),
        ("the kind of nothing", entry(0, 3, b"", b"abc")),
        ("more bytes than said", other_size(99)),
        ("fewer bytes than said", other_size(101)),
        ("no zlib", [vec![BLOB << 4 | 3], b"garbage".to_vec()].concat()),
        ("a size without end", vec![0xbf; 12]),
        ("a distance without end", [vec![OFS_DELTA << 4 | 3], vec![0xff; 12]].concat()),
        ("a delta without sizes", no_sizes),
        ("a delta with an endless size", entry(OFS_DELTA, 30, &[9], &[0xff; 30])),
        ("an empty delta", entry(REF_DELTA, 0, &[7; 20], b"")),
    ];
    for (what, entry) in cases {
        assert_eq!(read(&pack(&[entry])).unwrap_err(), PackRefusal::Malformed, "{what}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
        let whole = [b"PACK\0\0\0\x02\0\0\0\x09".as_slice(), &bytes].concat();
        drop(read_in_pieces(limits(), &whole, size));
    }
}
