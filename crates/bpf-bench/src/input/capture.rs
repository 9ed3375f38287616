//! Reads packets from a capture file. The first bytes distinguish pcap and pcapng.
//!
//! pcap-parser decodes headers and blocks; the lengths that it trusts are validated here first.

mod blocks;
mod classic;
#[cfg(test)]
pub(super) mod tests;

use thiserror::Error;

use super::Link;

/// Contents of a capture file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture<'a> {
    /// In file order. Never empty.
    pub packets: Vec<Packet<'a>>,
    /// Number of packets skipped after those.
    pub left_out: u64,
    /// Whether the file ends within a packet, which is not counted.
    pub is_cut_off: bool,
    /// Bytes of the frame check sequence at the end of each packet, from the header; usually 0.
    pub check_sequence_bytes: u32,
}

/// A packet of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The captured bytes.
    pub data: &'a [u8],
    pub original_bytes: u32,
    /// Layer of its first byte.
    pub link: Link,
}

impl Packet<'_> {
    /// Whether its end was not captured.
    pub fn is_truncated(&self) -> bool {
        usize::try_from(self.original_bytes).is_ok_and(|original| self.data.len() < original)
    }
}

/// Why the packets of a file are unusable. Packet numbers start at 1, offsets at the beginning of the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CaptureError {
    #[error(
        "this is neither pcap nor pcapng; convert it with `editcap -F pcap FILE OUT.pcap`, or \
         change its suffix if it holds the bytes of one packet"
    )]
    NotACapture,
    #[error("its header is cut off, or of an unsupported version; convert it with `editcap`")]
    Header,
    #[error("it holds no packets; was the filter of the capture too narrow?")]
    NoPackets,
    #[error("it ends within its first packet; capture it again, and wait until tcpdump ends")]
    CutOff,
    #[error("it is damaged at byte {offset_bytes}, after {packets} packets: {what}")]
    Damaged { offset_bytes: u64, packets: u64, what: &'static str },
    #[error("packet {packet} has link type {link_type} ({}), {}", link_name(*.link_type), link_advice(*.link_type))]
    LinkType { packet: u64, link_type: u32 },
}

/// Link types of <https://www.tcpdump.org/linktypes.html>.
mod link_type {
    pub(super) const ETHERNET: u32 = 1;
    /// `DLT_RAW`, which old programs wrote instead of `RAW`; 14 is that of OpenBSD.
    pub(super) const OLD_RAW: [u32; 2] = [12, 14];
    pub(super) const RAW: u32 = 101;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const LINUX_SLL2: u32 = 276;
}

/// Detects a capture file by its first bytes.
pub fn is_capture(bytes: &[u8]) -> bool {
    blocks::is_pcapng(bytes) || classic::is_pcap(bytes)
}

/// Reads the first `packets_max` packets of a capture file; `packets_max` should not be 0. Fails if
/// the bytes are not a capture file, or it has no packets, is damaged, or has unusable packets.
pub fn parse(bytes: &[u8], packets_max: usize) -> Result<Capture<'_>, CaptureError> {
    let mut collector = Collector::new(packets_max);
    if blocks::is_pcapng(bytes) {
        blocks::read(bytes, &mut collector)?;
    } else if classic::is_pcap(bytes) {
        classic::read(bytes, &mut collector)?;
    } else {
        return Err(CaptureError::NotACapture);
    }
    collector.finish()
}

/// Collects packets up to a maximum, and counts the rest.
struct Collector<'a> {
    packets_max: usize,
    seen: u64,
    capture: Capture<'a>,
}

impl<'a> Collector<'a> {
    fn new(packets_max: usize) -> Self {
        let packets = Vec::new();
        let capture = Capture { packets, left_out: 0, is_cut_off: false, check_sequence_bytes: 0 };
        Self { packets_max, seen: 0, capture }
    }

    fn take(
        &mut self,
        link_type: u32,
        data: &'a [u8],
        original_bytes: u32,
    ) -> Result<(), CaptureError> {
        self.seen += 1;
        if self.capture.packets.len() >= self.packets_max {
            self.capture.left_out += 1;
            return Ok(());
        }
        let link =
            link(link_type).ok_or(CaptureError::LinkType { packet: self.seen, link_type })?;
        self.capture.packets.push(Packet { data, original_bytes, link });
        Ok(())
    }

    fn damaged(&self, offset: usize, what: &'static str) -> CaptureError {
        CaptureError::Damaged { offset_bytes: offset as u64, packets: self.seen, what }
    }

    fn finish(self) -> Result<Capture<'a>, CaptureError> {
        match (self.seen, self.capture.is_cut_off) {
            (0, true) => Err(CaptureError::CutOff),
            (0, false) => Err(CaptureError::NoPackets),
            _ => Ok(self.capture),
        }
    }
}

fn link(link_type: u32) -> Option<Link> {
    use link_type::{ETHERNET, IPV4, IPV6, RAW};
    match link_type {
        ETHERNET => Some(Link::Ethernet),
        RAW | IPV4 | IPV6 => Some(Link::RawIp),
        old if link_type::OLD_RAW.contains(&old) => Some(Link::RawIp),
        _ => None,
    }
}

fn link_name(link_type: u32) -> &'static str {
    match link_type {
        0 | 108 => "loopback of BSD",
        105 | 127 => "802.11",
        link_type::LINUX_SLL | link_type::LINUX_SLL2 => "Linux cooked",
        _ => "neither Ethernet nor IP",
    }
}

fn link_advice(link_type: u32) -> &'static str {
    match link_type {
        link_type::LINUX_SLL | link_type::LINUX_SLL2 => {
            "in which `tcpdump -i any` leaves out the Ethernet headers; capture on one \
             interface instead, for example `tcpdump -i eth0 -w FILE`"
        }
        _ => "which no program on Linux sees; capture on an Ethernet interface",
    }
}
