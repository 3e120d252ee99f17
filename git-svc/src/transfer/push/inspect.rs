//! Inspects a push on its way to git: the commands, the push options, the object count in the pack
//! header, and the sizes of the objects. git itself has no limits for these, and reads exactly as
//! many objects as the header says.

use std::sync::Arc;

use ferrite_proto::grant::ByteQuota;
use git_store::{
    git::{
        pack_stream::PackStream,
        pktline::{MAX_DATA, Packet},
    },
    repo::objects::full_id,
    types::{error::quota_exceeded, limits::PushLimits, push_options::PushOptions},
};

use super::{push::PushState, status_report::StatusReport};

/// Limit on the ref names kept for the rejection report. A push with more names changes more refs
/// than allowed anyway.
const MAX_KEPT_NAME_BYTES: usize = 4 << 20;

pub(crate) struct PushInspector {
    limits: PushLimits,
    state: State,
    /// Bytes of an incomplete packet or pack header.
    buffer: Vec<u8>,
    /// Refs in the commands. `kept` is the sum of their lengths in bytes.
    names: Vec<Vec<u8>>,
    kept: usize,
    capabilities: ClientCapabilities,
    options: PushOptions,
    /// Whether a command needs objects. Otherwise git reads no pack.
    wants_pack: bool,
    /// Number of objects in the pack, once known.
    objects: Option<u64>,
    /// State of the push, which receives its capabilities.
    push: Option<Arc<PushState>>,
    /// The owner's quota, into which the pack has to fit.
    quota: Option<ByteQuota>,
    /// Bytes of the pack so far. Only counted if there is a quota.
    pack_bytes: u64,
    /// Reads the pack, once it has started.
    pack: Option<PackStream>,
}

/// Capabilities that the client sends after its commands. git accepts them after any command, with
/// or without a value.
#[derive(Clone, Copy, Debug, Default)]
struct ClientCapabilities {
    has_options: bool,
    has_report: bool,
    has_bands: bool,
    is_atomic: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Commands,
    Options,
    Pack,
    /// The inspection is complete, or git itself rejects the input.
    Done,
}

impl PushInspector {
    pub(crate) fn new(limits: PushLimits) -> Self {
        Self {
            limits,
            state: State::default(),
            buffer: Vec::new(),
            names: Vec::new(),
            kept: 0,
            capabilities: ClientCapabilities::default(),
            options: PushOptions::default(),
            wants_pack: false,
            objects: None,
            push: None,
            quota: None,
            pack_bytes: 0,
            pack: None,
        }
    }

    pub(super) fn limits(&self) -> &PushLimits {
        &self.limits
    }

    /// Makes the pack fit into a quota, if there is one.
    pub(crate) fn within(self, quota: Option<ByteQuota>) -> Self {
        Self { quota, ..self }
    }

    /// Sets the state of the push, which receives what git does not tell its hooks.
    pub(crate) fn with_push(self, push: Arc<PushState>) -> Self {
        Self { push: Some(push), ..self }
    }

    /// Inspects the next bytes. Returns the response for the client if the push is rejected; git
    /// must not get these bytes then. `received` counts the bytes sent so far, before they are
    /// decompressed.
    ///
    /// Rejects input that git would read differently than this parser, so that nothing passes
    /// uninspected.
    pub(crate) fn inspect(&mut self, bytes: &[u8], received: u64) -> Option<Vec<u8>> {
        if self.state == State::Done {
            return self.inspect_pack(bytes, received);
        }
        self.buffer.extend_from_slice(bytes);
        let refusal = self.step();
        if refusal.is_none() && self.state != State::Done {
            return None;
        }
        self.state = State::Done;
        let buffer = std::mem::take(&mut self.buffer);
        refusal.or_else(|| self.inspect_pack(&buffer, received))
    }

    /// Returns whether the client has sent everything that git reads of an accepted push.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Done && self.pack.as_ref().map_or(!self.wants_pack, PackStream::is_whole)
    }

    /// Returns the filter of git's report for the client. Call it after the commands are inspected.
    pub(super) fn status_report(&self) -> StatusReport {
        // With side bands, the client reads the reasons in the output of the hook.
        StatusReport::new(self.push.clone().filter(|_| !self.capabilities.has_bands))
    }

    fn inspect_pack(&mut self, bytes: &[u8], received: u64) -> Option<Vec<u8>> {
        let refusal = self.count(bytes.len());
        if refusal.is_some() {
            self.pack = None;
            return refusal;
        }
        let pack = self.pack.as_mut()?;
        if let Err(error) = pack.read(bytes, received) {
            self.pack = None;
            count_refusal(error.label());
            return Some(self.report(&error.to_string(), "the pack was rejected"));
        }
        // Before git gets the delta, and so before it runs `pre-receive`.
        if let Some(push) = self.push.as_ref().filter(|_| pack.has_large_deltas()) {
            push.set_large_deltas();
        }
        None
    }

    fn step(&mut self) -> Option<Vec<u8>> {
        let mut used = 0;
        while matches!(self.state, State::Commands | State::Options) {
            match Packet::decode(&self.buffer[used..]) {
                Ok(Some((packet, count))) => {
                    used += count;
                    if packet.line().is_some_and(|line| line.split(|byte| *byte == 0).next() == Some(b"push-cert")) {
                        count_refusal("signed");
                        return Some(self.report("signed pushes are not supported", "signed pushes are not supported"));
                    }
                    if let Some(refusal) = self.packet(&packet) {
                        return Some(refusal);
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    count_refusal("malformed");
                    return Some(self.report("the request is malformed", "malformed request"));
                }
            }
        }
        self.buffer.drain(..used);
        let header = *self.buffer.first_chunk::<12>().filter(|_| self.state == State::Pack)?;
        self.state = State::Done;
        self.check(header)
    }

    fn packet(&mut self, packet: &Packet) -> Option<Vec<u8>> {
        match (packet.line(), self.state) {
            (Some(line), State::Commands) => self.command(line),
            (Some(line), _) => {
                let reason = self.options.add(line).err()?.to_string();
                count_refusal("options");
                return Some(self.report(&reason, &reason));
            }
            (None, State::Commands) if self.capabilities.has_options => self.state = State::Options,
            (None, _) if self.wants_pack => self.state = State::Pack,
            (None, _) => {
                self.objects = Some(0);
                self.state = State::Done;
            }
        }
        None
    }

    /// Parses `<old> <new> <name>`, with capabilities after a NUL. Reads them where git does: up to
    /// a second NUL, and never on a line about a shallow clone.
    fn command(&mut self, line: &[u8]) {
        if let Some(id) = line.strip_prefix(b"shallow ") {
            if let (Some(push), Some(id)) = (&self.push, id.get(..40).and_then(full_id)) {
                push.add_shallow(id);
            }
            return;
        }
        let mut parts = line.split(|byte| *byte == 0);
        let command = parts.next().unwrap_or_default();
        if let Some(capabilities) = parts.next() {
            self.capabilities.add(capabilities);
        }
        if let Some(push) = self.push.as_ref().filter(|_| self.capabilities.is_atomic) {
            push.set_atomic();
        }
        let (Some(b' '), Some(new), Some(b' '), Some(name)) =
            (command.get(40), command.get(41..81), command.get(81), command.get(82..))
        else {
            return;
        };
        self.wants_pack |= new.iter().any(|digit| *digit != b'0');
        if self.kept + name.len() <= MAX_KEPT_NAME_BYTES {
            self.kept += name.len();
            self.names.push(name.to_vec());
        }
    }

    fn check(&mut self, header: [u8; 12]) -> Option<Vec<u8>> {
        let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = header else {
            count_refusal("malformed");
            return Some(self.report("the pack is missing", "no pack"));
        };
        let (count, limit) = (u64::from(u32::from_be_bytes(count)), self.limits.objects);
        self.objects = Some(count);
        if count > limit {
            count_refusal("objects");
            let reason = format!("the pack has {count} objects; the limit is {limit}");
            return Some(self.report(&reason, "too many objects"));
        }
        if let Some(push) = self.push.as_ref().filter(|_| count > 0) {
            push.set_has_objects();
        }
        self.pack = Some(PackStream::new(self.limits.pack));
        None
    }

    /// Counts bytes of a pack with objects. Returns the response for the client if it does not fit
    /// into the quota.
    fn count(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let quota = self.quota.filter(|_| self.objects.is_some_and(|objects| objects > 0))?;
        self.pack_bytes = self.pack_bytes.saturating_add(bytes as u64);
        if self.pack_bytes <= quota.left() {
            return None;
        }
        self.quota = None;
        count_refusal("quota");
        let error = quota_exceeded(quota);
        Some(self.report(&error.to_string(), "storage quota exceeded"))
    }

    /// Returns the response that ends a push for `reason` before git has sent anything; `None` if
    /// the client has not sent its refs yet, or wants no report.
    pub(crate) fn rejection_report(&self, reason: &str) -> Option<Vec<u8>> {
        let answer = self.report(reason, "not done");
        (!self.names.is_empty() && answer.len() > b"0000".len()).then_some(answer)
    }

    /// Returns a `report-status` that rejects the push with `unpack <reason>`.
    fn report(&self, reason: &str, short: &str) -> Vec<u8> {
        let mut report = Vec::new();
        append(format!("unpack {reason}\n").into_bytes(), &mut report);
        for name in &self.names {
            append([b"ng ", name.as_slice(), b" ", short.as_bytes(), b"\n"].concat(), &mut report);
        }
        report.extend_from_slice(b"0000");
        if !self.capabilities.has_report {
            report.clear();
        }
        if !self.capabilities.has_bands {
            return report;
        }
        let mut answer = Vec::new();
        for (band, text) in [(1, report), (2, format!("{reason}\n").into_bytes())] {
            for chunk in text.chunks(MAX_DATA - 1) {
                append([&[band], chunk].concat(), &mut answer);
            }
        }
        answer.extend_from_slice(b"0000");
        answer
    }
}

impl ClientCapabilities {
    fn add(&mut self, capabilities: &[u8]) {
        // The spaces of git's `isspace`, which are fewer than those of ASCII.
        for feature in capabilities.split(|byte| b" \t\n\r".contains(byte)) {
            let name = feature.split(|byte| *byte == b'=').next().unwrap_or_default();
            self.has_options |= name == b"push-options";
            self.has_report |= matches!(name, b"report-status" | b"report-status-v2");
            self.has_bands |= name == b"side-band-64k";
            self.is_atomic |= name == b"atomic";
        }
    }
}

pub(crate) fn count_refusal(limit: &'static str) {
    metrics::counter!("ferrite_git_pushes_refused_total", "limit" => limit).increment(1);
}

/// Appends a packet. A line that is too long for one is omitted.
fn append(data: Vec<u8>, out: &mut Vec<u8>) {
    if let Err(error) = Packet::Data(data).encode(out) {
        tracing::debug!(%error, "a line of a report is too long and was omitted");
    }
}

#[cfg(test)]
mod tests;
