//! Tracks the output of a push that its client already has, to decide whether our own report may
//! follow. git may have sent progress by then.

use git_store::git::pktline;

/// Length prefix of a packet.
const LENGTH_BYTES: usize = 4;
/// The side band of the report.
const REPORT_BAND: u8 = 1;

/// Follows the packets of an output.
#[derive(Debug, Default)]
pub(crate) struct SentOutput {
    /// Digits of the length of the next packet.
    length: Vec<u8>,
    /// Bytes left of the current packet.
    left: usize,
    /// Whether the next byte is the first of a packet, which names its band.
    is_at_band: bool,
    band: u8,
    /// Set once part of git's report, or anything that is not in packets, was sent.
    has_report: bool,
}

impl SentOutput {
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left == 0 {
                bytes = rest;
                self.length.push(*first);
                if self.length.len() == LENGTH_BYTES {
                    self.begin_packet();
                }
            } else if std::mem::take(&mut self.is_at_band) {
                (self.band, self.left, bytes) = (*first, self.left - 1, rest);
            } else {
                let count = self.left.min(bytes.len());
                self.has_report |= self.band == REPORT_BAND;
                self.left -= count;
                bytes = &bytes[count..];
            }
        }
    }

    /// Returns whether a report in packets may follow.
    pub(crate) fn may_report(&self) -> bool {
        !self.has_report && self.left == 0 && self.length.is_empty()
    }

    fn begin_packet(&mut self) {
        let digits = std::mem::take(&mut self.length);
        let length = std::str::from_utf8(&digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
        match length {
            Some(length) if (LENGTH_BYTES + 1..=pktline::MAX_PACKET).contains(&length) => {
                (self.left, self.is_at_band) = (length - LENGTH_BYTES, true);
            }
            // The flush packet ends a report.
            _ => self.has_report = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_report_after(bytes: &[u8]) -> bool {
        let mut outputs = [SentOutput::default(), SentOutput::default()];
        outputs[0].add(bytes);
        bytes.iter().for_each(|byte| outputs[1].add(&[*byte]));
        assert_eq!(outputs[0].may_report(), outputs[1].may_report());
        outputs[0].may_report()
    }

    #[test]
    fn a_report_may_follow_progress_and_signs_of_life_only() {
        assert!(may_report_after(b""));
        assert!(may_report_after(b"0009\x02abcd0005\x010005\x01"));
        assert!(!may_report_after(b"0009\x02abcd0005\x01000"), "in the length of a packet");
        assert!(!may_report_after(b"0009\x02abc"), "in a packet");
        assert!(!may_report_after(b"0009\x01abcd"), "a part of git's report");
        assert!(!may_report_after(b"0009\x02abcd0000"));
        assert!(!may_report_after(b"garbage"));
    }
}
