//! A pack as it comes in: the sizes of its objects, checked before git gets them. The format is that of git's `gitformat-pack`.
//!
//! A pack does not say where an entry ends. So every entry is inflated, and its bytes are dropped. No more is inflated than the limits
//! allow. What an entry may inflate to follows from the bytes so far, because how many follow is not known: a bomb begins like a pack that
//! would be within the limit as a whole. Not here: packs on disk (`pack_file`).

use flate2::{Decompress, FlushDecompress, Status};

use super::pack_file::{ID_BYTES, MAX_DELTA_SIZES_BYTES, OFS_DELTA, REF_DELTA, delta_sizes, object_type};
use crate::types::limits::{
    BYTES_PER_DELTA_EXCESS, Expansion, MAX_DELTA_EXCESS_BYTES, MAX_DELTA_OBJECT_BYTES, MAX_LOADED_DELTA_OBJECT_BYTES,
    PackLimits,
};

/// Bytes of the header of a pack: `PACK`, version, number of entries.
const HEADER_BYTES: usize = 12;
/// Bytes of the checksum behind the last entry. git puts deltas together once it has it.
const CHECKSUM_BYTES: u64 = 20;
/// Bytes that are inflated at once.
const SCRATCH_BYTES: usize = 64 << 10;
/// Most bytes of a size or a distance.
const MAX_NUMBER_BYTES: u32 = 10;

/// The reason for which a pack is refused while it comes in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackRefusal {
    /// The pack cannot be read.
    #[error("the pack is malformed")]
    Malformed,
    /// An object above the limit.
    #[error("the pack has an object of {bytes} bytes, at most {limit} are taken")]
    LargeObject {
        /// Bytes of the object.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A delta of an object, or one that makes an object, of which git makes no deltas.
    #[error(
        "the pack has a delta of an object of {bytes} bytes, at most {limit} are taken: pack larger files whole (core.bigFileThreshold)"
    )]
    LargeDelta {
        /// Bytes of the object.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A delta that is longer than the object that it makes, which would be shorter as a whole.
    #[error("the pack has a delta of {bytes} bytes that makes an object of {result}, at most {limit} are taken")]
    LongDelta {
        /// Bytes of the delta.
        bytes: u64,
        /// Bytes of the object.
        result: u64,
        /// The limit for an object of this size.
        limit: u64,
    },
    /// Entries that inflate to too much.
    #[error("the pack inflates to more than {limit} bytes after {bytes} bytes, {} times these and {}", of.factor, of.base_bytes)]
    Inflated {
        /// The limit after so many bytes.
        limit: u64,
        /// Bytes of the pack so far, or of the request if that is compressed and has fewer.
        bytes: u64,
        /// The rule that it follows from.
        of: Expansion,
    },
    /// Deltas that make too much.
    #[error("the deltas of the pack make more than {limit} bytes, {} times its size and {}: push fewer commits at once", of.factor, of.base_bytes)]
    Deltas {
        /// The limit for a pack of this size.
        limit: u64,
        /// The rule that it follows from.
        of: Expansion,
    },
}

impl PackRefusal {
    /// Label in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::LargeObject { .. } => "object_bytes",
            Self::LargeDelta { .. } => "delta_object_bytes",
            Self::LongDelta { .. } => "long_delta",
            Self::Inflated { .. } => "inflated_bytes",
            Self::Deltas { .. } => "delta_bytes",
        }
    }
}

/// Sums of the sizes in one pack.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackSums {
    /// Bytes of all entries, inflated.
    pub inflated: u64,
    /// Bytes of the objects that deltas make, and of bases that are named by id, which may be outside of the pack.
    pub deltas: u64,
}

impl PackSums {
    /// Returns whether a pack of `pack_bytes` may have these sums.
    pub fn check(&self, limits: &PackLimits, pack_bytes: u64) -> Result<(), PackRefusal> {
        let PackLimits { inflated, deltas, .. } = *limits;
        if self.inflated > inflated.limit(pack_bytes) {
            let limit = inflated.limit(pack_bytes);
            return Err(PackRefusal::Inflated { limit, bytes: pack_bytes, of: inflated });
        }
        if self.deltas > deltas.limit(pack_bytes) {
            return Err(PackRefusal::Deltas { limit: deltas.limit(pack_bytes), of: deltas });
        }
        Ok(())
    }
}

/// Returns an error if one object has more bytes than are taken.
pub fn check_object(limits: &PackLimits, bytes: u64) -> Result<(), PackRefusal> {
    let limit = limits.object_bytes;
    if bytes > limit { Err(PackRefusal::LargeObject { bytes, limit }) } else { Ok(()) }
}

/// Sizes that a delta has to do with, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DeltaSizes {
    /// The delta itself, inflated.
    pub delta: u64,
    /// The object that it is made from.
    pub base: u64,
    /// The object that it makes.
    pub result: u64,
}

impl DeltaSizes {
    /// Returns an error if git would make no such delta.
    pub fn check(&self) -> Result<(), PackRefusal> {
        let (bytes, limit) = (self.largest(), MAX_DELTA_OBJECT_BYTES);
        if bytes > limit {
            return Err(PackRefusal::LargeDelta { bytes, limit });
        }
        // A copy of one byte takes 8 bytes, so a delta could have 8 times the bytes of the object.
        let limit = self.result.saturating_add(self.result / BYTES_PER_DELTA_EXCESS + MAX_DELTA_EXCESS_BYTES);
        if self.delta > limit {
            return Err(PackRefusal::LongDelta { bytes: self.delta, result: self.result, limit });
        }
        Ok(())
    }

    /// Returns the bytes of the delta, its base or the object, whichever has the most.
    pub fn largest(&self) -> u64 {
        self.delta.max(self.base).max(self.result)
    }

    /// Returns whether one of them is too large for libgit2 to load.
    pub fn is_large(&self) -> bool {
        self.largest() > MAX_LOADED_DELTA_OBJECT_BYTES
    }

    /// Returns the bytes that are in memory at once while the object is made.
    pub fn sum(&self) -> u64 {
        self.delta.saturating_add(self.base).saturating_add(self.result)
    }
}

/// Reads one pack in pieces.
pub struct PackStream {
    limits: PackLimits,
    state: State,
    /// Entries that have not ended.
    entries: u32,
    inflater: Decompress,
    scratch: Box<[u8]>,
    /// The beginning of an inflated delta, until its sizes are known.
    delta_head: Vec<u8>,
    /// Bytes of that delta, inflated.
    delta_bytes: u64,
    pack_bytes: u64,
    sums: PackSums,
    has_large_deltas: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In the header of the pack, of which so many bytes were read.
    Header(usize),
    /// Before an entry.
    Kind,
    /// In the size of an entry.
    Size { kind: u8, size: u64, shift: u32 },
    /// In the distance to the base of a delta, of which so many bytes were read.
    Distance { size: u64, count: u32 },
    /// In the id of the base of a delta, of which so many bytes are left.
    BaseId { size: u64, left: usize },
    /// In the content of an entry, of which so many bytes are left once inflated.
    Content { kind: u8, left: u64 },
    /// In the checksum behind the last entry, of which so many bytes are left.
    Checksum { left: u64 },
    /// Behind the pack.
    End,
}

impl PackStream {
    /// Returns the reader of a pack that begins with the next bytes.
    pub fn new(limits: PackLimits) -> Self {
        Self {
            limits,
            state: State::Header(0),
            entries: 0,
            inflater: Decompress::new(true),
            scratch: vec![0; SCRATCH_BYTES].into(),
            delta_head: Vec::new(),
            delta_bytes: 0,
            pack_bytes: 0,
            sums: PackSums::default(),
            has_large_deltas: false,
        }
    }

    /// Returns whether a delta so far is [large](DeltaSizes::is_large).
    pub fn has_large_deltas(&self) -> bool {
        self.has_large_deltas
    }

    /// Returns whether the pack was read to its end.
    pub fn is_whole(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Reads the next bytes. `received` is the number of bytes that the client has sent so far: fewer than those of the pack if the
    /// request is compressed.
    ///
    /// # Errors
    /// The reason to refuse the pack. Nothing can be read after it.
    pub fn read(&mut self, mut bytes: &[u8], received: u64) -> Result<(), PackRefusal> {
        loop {
            bytes = match self.state {
                State::End => return Ok(()),
                State::Content { kind, left } => match self.inflate(bytes, (kind, left), received)? {
                    Some(rest) => rest,
                    None => return Ok(()),
                },
                state => {
                    let Some((byte, rest)) = bytes.split_first() else { return Ok(()) };
                    self.pack_bytes += 1;
                    self.state = self.next(state, *byte, received)?;
                    rest
                }
            }
        }
    }

    /// Reads one byte outside of a content.
    fn next(&mut self, state: State, byte: u8, received: u64) -> Result<State, PackRefusal> {
        let low_bits = u64::from(byte & 0x7f);
        let has_more = byte & 0x80 != 0;
        match state {
            State::Header(count) => {
                if count >= HEADER_BYTES - 4 {
                    self.entries = self.entries << 8 | u32::from(byte);
                }
                if count + 1 < HEADER_BYTES { Ok(State::Header(count + 1)) } else { self.begin_entry(received) }
            }
            State::Kind => {
                let (kind, size) = (byte >> 4 & 7, u64::from(byte & 0x0f));
                if has_more { Ok(State::Size { kind, size, shift: 4 }) } else { self.begin(kind, size) }
            }
            State::Size { kind, size, shift } => {
                if shift >= 4 + 7 * (MAX_NUMBER_BYTES - 2) {
                    return Err(PackRefusal::Malformed);
                }
                let size = size | low_bits << shift;
                if has_more { Ok(State::Size { kind, size, shift: shift + 7 }) } else { self.begin(kind, size) }
            }
            State::Distance { size, count } if has_more && count < MAX_NUMBER_BYTES => {
                Ok(State::Distance { size, count: count + 1 })
            }
            State::Distance { .. } if has_more => Err(PackRefusal::Malformed),
            State::Distance { size, .. } => Ok(State::Content { kind: OFS_DELTA, left: size }),
            State::BaseId { size, left: 1 } => Ok(State::Content { kind: REF_DELTA, left: size }),
            State::BaseId { size, left } => Ok(State::BaseId { size, left: left - 1 }),
            State::Checksum { left: 1 } => Ok(State::End),
            State::Checksum { left } => Ok(State::Checksum { left: left - 1 }),
            State::Content { .. } | State::End => Err(PackRefusal::Malformed),
        }
    }

    /// Begins the next entry, or the checksum behind the last one.
    fn begin_entry(&mut self, received: u64) -> Result<State, PackRefusal> {
        if self.entries > 0 {
            return Ok(State::Kind);
        }
        let pack_bytes = self.pack_bytes + CHECKSUM_BYTES;
        self.sums.check(&self.limits, pack_bytes.min(received.saturating_add(CHECKSUM_BYTES)))?;
        Ok(State::Checksum { left: CHECKSUM_BYTES })
    }

    /// Begins an entry of this kind and size.
    fn begin(&mut self, kind: u8, size: u64) -> Result<State, PackRefusal> {
        check_object(&self.limits, size)?;
        if matches!(kind, OFS_DELTA | REF_DELTA) {
            // The other sizes are not known yet.
            DeltaSizes { delta: size, base: 0, result: size }.check()?;
            self.delta_bytes = size;
        }
        match kind {
            OFS_DELTA => Ok(State::Distance { size, count: 1 }),
            REF_DELTA => Ok(State::BaseId { size, left: ID_BYTES }),
            kind if object_type(kind).is_some() => Ok(State::Content { kind, left: size }),
            _ => Err(PackRefusal::Malformed),
        }
    }

    /// Inflates the content of an entry, and returns the bytes behind it; `None` if they have not come yet.
    fn inflate<'a>(
        &mut self,
        mut bytes: &'a [u8],
        (kind, mut left): (u8, u64),
        received: u64,
    ) -> Result<Option<&'a [u8]>, PackRefusal> {
        loop {
            let before = (self.inflater.total_in(), self.inflater.total_out());
            let status = self.inflater.decompress(bytes, &mut self.scratch, FlushDecompress::None);
            let status = status.map_err(|_| PackRefusal::Malformed)?;
            let (used, made) = (self.inflater.total_in() - before.0, self.inflater.total_out() - before.1);
            bytes = usize::try_from(used).ok().and_then(|used| bytes.get(used..)).unwrap_or_default();
            left = left.checked_sub(made).ok_or(PackRefusal::Malformed)?;
            self.state = State::Content { kind, left };
            self.pack_bytes += used;
            self.sums.inflated = self.sums.inflated.saturating_add(made);
            let (of, so_far) = (self.limits.inflated, self.pack_bytes.min(received));
            let limit = of.limit(so_far);
            if self.sums.inflated > limit {
                return Err(PackRefusal::Inflated { limit, bytes: so_far, of });
            }
            if matches!(kind, OFS_DELTA | REF_DELTA) && self.delta_head.len() < MAX_DELTA_SIZES_BYTES {
                let has_ended = status == Status::StreamEnd;
                self.read_delta(kind, usize::try_from(made).unwrap_or(usize::MAX), has_ended)?;
            }
            match status {
                Status::StreamEnd if left > 0 => return Err(PackRefusal::Malformed),
                Status::StreamEnd => {
                    self.inflater.reset(true);
                    self.delta_head.clear();
                    self.entries -= 1;
                    self.state = self.begin_entry(received)?;
                    return Ok(Some(bytes));
                }
                // The inflater has more than the scratch had room for.
                Status::Ok | Status::BufError if made == self.scratch.len() as u64 => {}
                Status::Ok | Status::BufError if bytes.is_empty() => return Ok(None),
                Status::Ok if used > 0 => {}
                Status::Ok | Status::BufError => return Err(PackRefusal::Malformed),
            }
        }
    }

    /// Reads the sizes at the beginning of a delta from the `made` bytes in the scratch.
    fn read_delta(&mut self, kind: u8, made: usize, has_ended: bool) -> Result<(), PackRefusal> {
        let room = MAX_DELTA_SIZES_BYTES - self.delta_head.len();
        self.delta_head.extend_from_slice(self.scratch.get(..made.min(room)).unwrap_or_default());
        let Some((base, result)) = delta_sizes(&self.delta_head) else {
            let is_whole = has_ended || self.delta_head.len() >= MAX_DELTA_SIZES_BYTES;
            return if is_whole { Err(PackRefusal::Malformed) } else { Ok(()) };
        };
        // Not read again for this entry.
        self.delta_head.resize(MAX_DELTA_SIZES_BYTES, 0);
        check_object(&self.limits, base.max(result))?;
        let sizes = DeltaSizes { delta: self.delta_bytes, base, result };
        sizes.check()?;
        self.has_large_deltas |= sizes.is_large();
        let bytes = if kind == REF_DELTA { base.saturating_add(result) } else { result };
        self.sums.deltas = self.sums.deltas.saturating_add(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
