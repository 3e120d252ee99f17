//! Tells by the bytes of a small pack that none of its objects can be beyond a limit, so that no process has to look at them.
//!
//! Not here: the check of all other packs (`pack_check`).

use flate2::{Decompress, FlushDecompress, Status};

use crate::{
    git::pack_file::{base_bytes, delta_result_size, entry_header, is_delta},
    types::limits::{MAX_COMMIT_PARENTS, PARENT_LINE_BYTES},
};

/// Largest object of such a pack, in bytes: a commit of this size cannot have too many parents.
const MAX_OBJECT_BYTES: u64 = MAX_COMMIT_PARENTS as u64 * PARENT_LINE_BYTES;
/// Most bytes of all contents of such a pack, inflated: what takes a few milliseconds to read.
const MAX_CONTENT_BYTES: u64 = 1 << 20;
/// Bytes of the signature, the version and the number of objects.
const HEADER_BYTES: usize = 12;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 20;
/// Bytes of a delta that hold the sizes of its base and of its result.
const DELTA_SIZES_BYTES: usize = 20;
/// Bytes that are inflated at once.
const CHUNK_BYTES: usize = 8 << 10;

/// Returns whether `pack` is a whole pack, without anything behind it, whose objects are all known to be within the limits. False
/// says nothing about a pack, which may be damaged or only large.
pub(crate) fn needs_no_check(pack: &[u8]) -> bool {
    let Some((header, mut rest)) = pack.split_at_checked(HEADER_BYTES) else { return false };
    let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = header else { return false };
    let Ok(count) = count.try_into().map(u32::from_be_bytes) else { return false };
    let (mut inflate, mut budget) = (Decompress::new(true), MAX_CONTENT_BYTES);
    for _ in 0..count {
        let Some(after) = small_entry(rest, &mut inflate, &mut budget) else { return false };
        rest = after;
    }
    rest.len() == CHECKSUM_BYTES
}

/// Reads one entry, and returns the bytes behind it; `None` for one that is not small.
fn small_entry<'a>(bytes: &'a [u8], inflate: &mut Decompress, budget: &mut u64) -> Option<&'a [u8]> {
    let (kind, size, used) = entry_header(bytes)?;
    let rest = bytes.get(used..)?;
    let rest = rest.get(base_bytes(kind, rest)?..)?;
    *budget = budget.checked_sub(size).filter(|_| size <= MAX_OBJECT_BYTES)?;
    let (beginning, used) = inflated(rest, size, inflate)?;
    let is_small = !is_delta(kind) || delta_result_size(&beginning).is_some_and(|size| size <= MAX_OBJECT_BYTES);
    rest.get(used..).filter(|_| is_small)
}

/// Inflates a content of `size` bytes, and returns its beginning and the number of deflated bytes; `None` for one of another size.
fn inflated(deflated: &[u8], size: u64, inflate: &mut Decompress) -> Option<(Vec<u8>, usize)> {
    inflate.reset(true);
    let (mut chunk, mut beginning) = ([0; CHUNK_BYTES], Vec::new());
    loop {
        let (used, made) = (inflate.total_in(), inflate.total_out());
        let input = deflated.get(usize::try_from(used).ok()?..)?;
        let status = inflate.decompress(input, &mut chunk, FlushDecompress::None).ok()?;
        let new = usize::try_from(inflate.total_out() - made).ok()?;
        let missing = DELTA_SIZES_BYTES.saturating_sub(beginning.len());
        beginning.extend_from_slice(&chunk[..new.min(missing)]);
        if status == Status::StreamEnd {
            let used = usize::try_from(inflate.total_in()).ok()?;
            return (inflate.total_out() == size).then_some((beginning, used));
        }
        // Without progress the input is cut off.
        if inflate.total_out() > size || (inflate.total_in(), inflate.total_out()) == (used, made) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use git2::{Buf, Oid, Repository, Signature, Time};
    use proptest::prelude::*;

    use super::*;

    fn pack(make: impl Fn(&Repository) -> Vec<Oid>) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        let mut builder = repo.packbuilder().unwrap();
        make(&repo).into_iter().for_each(|id| builder.insert_object(id, None).unwrap());
        let mut bytes = Buf::new();
        builder.write_buf(&mut bytes).unwrap();
        bytes.to_vec()
    }

    fn commit(repo: &Repository, message: &str) -> Oid {
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = Signature::new("Ada", "ada@example.com", &Time::new(0, 0)).unwrap();
        repo.commit(None, &who, &who, message, &tree, &[]).unwrap()
    }

    fn small() -> Vec<u8> {
        let text = |end: &str| format!("{}{end}", "some text\n".repeat(500));
        pack(|repo| vec![commit(repo, &text("a")), commit(repo, &text("b")), repo.blob(b"x").unwrap()])
    }

    #[test]
    fn a_small_pack_needs_no_check_once_all_of_it_is_there() {
        let bytes = small();
        assert!(needs_no_check(&bytes));
        assert!(!needs_no_check(&bytes[..bytes.len() - 1]) && !needs_no_check(&bytes[..40]) && !needs_no_check(b""));
        assert!(!needs_no_check(&[bytes, vec![0]].concat()));
        assert!(needs_no_check(&[b"PACK\0\0\0\x02\0\0\0\0".as_slice(), &[0; 20]].concat()), "no objects");
    }

    #[test]
    fn objects_that_may_be_too_large_need_a_check() {
        assert!(!needs_no_check(&pack(|repo| vec![commit(repo, &"m".repeat(200_000))])), "few bytes when deflated");
        assert!(!needs_no_check(&pack(|repo| vec![repo.blob(&vec![b'x'; 200_000]).unwrap()])));
        let many = |repo: &Repository| (0..20_u8).map(|fill| repo.blob(&vec![fill; 100_000]).unwrap()).collect();
        assert!(!needs_no_check(&pack(many)), "in all");
    }

    #[test]
    fn a_delta_counts_as_the_object_that_it_makes() {
        // A REF_DELTA of 3 bytes: base of 5 bytes, result of 2^21.
        let delta = |sizes: &[u8]| {
            let mut deflated = Vec::new();
            let mut encoder = flate2::read::ZlibEncoder::new(sizes, flate2::Compression::default());
            std::io::Read::read_to_end(&mut encoder, &mut deflated).unwrap();
            let header = [0x70 | u8::try_from(sizes.len()).unwrap()];
            [b"PACK\0\0\0\x02\0\0\0\x01".as_slice(), &header, &[1; 20], &deflated, &[0; 20]].concat()
        };
        assert!(needs_no_check(&delta(&[5, 6])));
        assert!(!needs_no_check(&delta(&[5, 0x80, 0x80, 0x80, 0x01])));
        assert!(!needs_no_check(&delta(&[5])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(mut bytes in Just(small()), at in any::<prop::sample::Index>(), new in any::<u8>()) {
            let at = at.index(bytes.len());
            bytes[at] = new;
            let _ = needs_no_check(&bytes);
        }
    }
}
