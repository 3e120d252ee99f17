//! Checks the object sizes of a pack while it arrives, before git sees it. Format:
//! gitformat-pack(5).
//!
//! A pack does not say where an entry ends, so we inflate every entry and drop the bytes. The limit
//! grows with the bytes received so far, because nobody knows how many will follow: a bomb starts
//! like a pack that would be within the limit as a whole.

use flate2::{Decompress, FlushDecompress, Status};

use super::pack_file::{ID_BYTES, MAX_DELTA_SIZES_BYTES, OFS_DELTA, REF_DELTA, delta_sizes, object_type};
use crate::types::limits::{
    BYTES_PER_DELTA_EXCESS, Expansion, MAX_DELTA_EXCESS_BYTES, MAX_DELTA_OBJECT_BYTES, MAX_LOADED_DELTA_OBJECT_BYTES,
    PackLimits,
};

/// Pack header: `PACK`, version, number of entries.
const HEADER_BYTES: usize = 12;
/// The checksum after the last entry. git resolves deltas once it has it.
const CHECKSUM_BYTES: u64 = 20;
const SCRATCH_BYTES: usize = 64 << 10;
/// Maximum number of bytes that encode a size or a distance.
const MAX_NUMBER_BYTES: u32 = 10;

/// Why a pack is refused while it arrives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackRefusal {
    /// The pack cannot be read.
    #[error("the pack is malformed")]
    Malformed,
    /// An object is too large.
    #[error("the pack has an object of {bytes} bytes; the limit is {limit}")]
    LargeObject {
        /// Size of the object, in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The base or the result of a delta is so large that git itself would not make deltas of it.
    #[error(
        "the pack has a delta for an object of {bytes} bytes; the limit is {limit}: pack large files without deltas (core.bigFileThreshold)"
    )]
    LargeDelta {
        /// Size of the object, in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A delta is longer than its result.
    #[error("the pack has a delta of {bytes} bytes for an object of {result} bytes; the limit is {limit}")]
    LongDelta {
        /// Size of the delta.
        bytes: u64,
        /// Size of its result.
        result: u64,
        /// The limit for a result of this size.
        limit: u64,
    },
    /// The entries inflate to too much.
    #[error("the pack inflates to more than {limit} bytes after {bytes} bytes (limit: {} times that plus {})", of.factor, of.base_bytes)]
    Inflated {
        /// The limit at this point.
        limit: u64,
        /// Bytes of the pack so far, or of the request if that is compressed and shorter.
        bytes: u64,
        /// The rule behind the limit.
        of: Expansion,
    },
    /// The deltas build too much.
    #[error("the deltas of the pack expand to more than {limit} bytes ({} times its size plus {}): push fewer commits at once", of.factor, of.base_bytes)]
    Deltas {
        /// The limit for a pack of this size.
        limit: u64,
        /// The rule behind the limit.
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

/// Total sizes in one pack.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackSums {
    /// Inflated bytes of all entries.
    pub inflated: u64,
    /// Bytes built from deltas, and of bases named by id, which may be outside the pack.
    pub deltas: u64,
}

impl PackSums {
    /// Checks these sums against the limits for a pack of `pack_bytes`.
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

/// Checks the size of one object.
pub fn check_object(limits: &PackLimits, bytes: u64) -> Result<(), PackRefusal> {
    let limit = limits.object_bytes;
    if bytes > limit { Err(PackRefusal::LargeObject { bytes, limit }) } else { Ok(()) }
}

/// Sizes of a delta, its base and its result, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DeltaSizes {
    /// The inflated delta.
    pub delta: u64,
    /// The base.
    pub base: u64,
    /// The result.
    pub result: u64,
}

impl DeltaSizes {
    /// Fails if git would not make such a delta.
    pub fn check(&self) -> Result<(), PackRefusal> {
        let (bytes, limit) = (self.largest(), MAX_DELTA_OBJECT_BYTES);
        if bytes > limit {
            return Err(PackRefusal::LargeDelta { bytes, limit });
        }
        // A one-byte copy takes 8 bytes, so a delta could be 8 times as long as its result.
        let limit = self.result.saturating_add(self.result / BYTES_PER_DELTA_EXCESS + MAX_DELTA_EXCESS_BYTES);
        if self.delta > limit {
            return Err(PackRefusal::LongDelta { bytes: self.delta, result: self.result, limit });
        }
        Ok(())
    }

    /// Returns the largest of the three sizes.
    pub fn largest(&self) -> u64 {
        self.delta.max(self.base).max(self.result)
    }

    /// Returns whether any of them is too large for libgit2 to load.
    pub fn is_large(&self) -> bool {
        self.largest() > MAX_LOADED_DELTA_OBJECT_BYTES
    }

    /// Returns the memory needed to build the result, in bytes.
    pub fn sum(&self) -> u64 {
        self.delta.saturating_add(self.base).saturating_add(self.result)
    }
}

/// Reads a pack piece by piece.
pub struct PackStream {
    limits: PackLimits,
    state: State,
    /// Entries left.
    entries: u32,
    inflater: Decompress,
    scratch: Box<[u8]>,
    /// Start of an inflated delta, until its sizes are known.
    delta_head: Vec<u8>,
    /// Inflated size of that delta.
    delta_bytes: u64,
    pack_bytes: u64,
    sums: PackSums,
    has_large_deltas: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In the pack header; the value counts the bytes read.
    Header(usize),
    /// Before an entry.
    Kind,
    /// In the size of an entry.
    Size { kind: u8, size: u64, shift: u32 },
    /// In the distance to a delta's base; `count` bytes have been read.
    Distance { size: u64, count: u32 },
    /// In the id of a delta's base.
    BaseId { size: u64, left: usize },
    /// In the content of an entry; `left` counts inflated bytes.
    Content { kind: u8, left: u64 },
    /// In the checksum after the last entry.
    Checksum { left: u64 },
    /// After the pack.
    End,
}

impl PackStream {
    /// Creates a reader whose next bytes are the start of a pack.
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

    /// Returns whether any delta so far is [large](DeltaSizes::is_large).
    pub fn has_large_deltas(&self) -> bool {
        self.has_large_deltas
    }

    /// Returns whether the whole pack has been read.
    pub fn is_whole(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Reads the next bytes. `received` counts the bytes from the client so far, which are fewer
    /// than those of the pack if the request is compressed.
    ///
    /// # Errors
    /// Why the pack is refused. Read no further after an error.
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

    /// Starts the next entry, or the checksum after the last one.
    fn begin_entry(&mut self, received: u64) -> Result<State, PackRefusal> {
        if self.entries > 0 {
            return Ok(State::Kind);
        }
        let pack_bytes = self.pack_bytes + CHECKSUM_BYTES;
        self.sums.check(&self.limits, pack_bytes.min(received.saturating_add(CHECKSUM_BYTES)))?;
        Ok(State::Checksum { left: CHECKSUM_BYTES })
    }

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

    /// Inflates content and returns the input after it; `None` if the content goes on.
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
                // The scratch buffer is full, and more output is pending.
                Status::Ok | Status::BufError if made == self.scratch.len() as u64 => {}
                Status::Ok | Status::BufError if bytes.is_empty() => return Ok(None),
                Status::Ok if used > 0 => {}
                Status::Ok | Status::BufError => return Err(PackRefusal::Malformed),
            }
        }
    }

    /// Reads the sizes of a delta from the first `made` bytes of the scratch buffer.
    fn read_delta(&mut self, kind: u8, made: usize, has_ended: bool) -> Result<(), PackRefusal> {
        let room = MAX_DELTA_SIZES_BYTES - self.delta_head.len();
        self.delta_head.extend_from_slice(self.scratch.get(..made.min(room)).unwrap_or_default());
        let Some((base, result)) = delta_sizes(&self.delta_head) else {
            let is_whole = has_ended || self.delta_head.len() >= MAX_DELTA_SIZES_BYTES;
            return if is_whole { Err(PackRefusal::Malformed) } else { Ok(()) };
        };
        // So that this entry's sizes are not read again.
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
