//! Reads packets from a capture file. The first bytes distinguish pcap and pcapng.
//!
//! pcap-parser decodes headers and blocks; the lengths that it trusts are validated here first.

#[cfg(test)]
pub(super) mod tests;

use pcap_parser::{
    pcap::{
        LegacyPcapBlock, PcapHeader, parse_pcap_frame, parse_pcap_frame_be,
        parse_pcap_frame_modified, parse_pcap_header,
    },
    pcapng::{Block, parse_block_be, parse_block_le, parse_sectionheaderblock},
};
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
    is_pcapng(bytes) || is_pcap(bytes)
}

/// Reads the first `packets_max` packets of a capture file; `packets_max` should not be 0. Fails if
/// the bytes are not a capture file, or it has no packets, is damaged, or has unusable packets.
pub fn parse(bytes: &[u8], packets_max: usize) -> Result<Capture<'_>, CaptureError> {
    let mut collector = Collector::new(packets_max);
    if is_pcapng(bytes) {
        read_pcapng(bytes, &mut collector)?;
    } else if is_pcap(bytes) {
        read_pcap(bytes, &mut collector)?;
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

// pcapng, the newer format: sections of blocks, each section with its own byte order, packets of
// several interfaces (draft-ietf-opsawg-pcapng).
//
// Passes only complete blocks of relevant types to pcap-parser: version 0.17 panics at a process
// information block of less than 12 bytes.

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, but written by old programs.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Third word of a section header, defines the byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Type, length, and trailing length.
const BLOCK_MIN: usize = 12;

const PCAPNG_VERSION_MAJOR: u16 = 1;

fn is_pcapng(bytes: &[u8]) -> bool {
    // The first word alone might be line ends of a text.
    word(bytes, 0, false) == Some(SECTION_HEADER) && section_order(bytes).is_some()
}

fn read_pcapng<'a>(bytes: &'a [u8], collector: &mut Collector<'a>) -> Result<(), CaptureError> {
    let mut section = Section::default();
    let mut offset = 0;
    while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
        let Some(block) = section.next_block(rest, offset, collector)? else {
            collector.capture.is_cut_off = true;
            break;
        };
        section.take(block, offset, collector)?;
        offset += block.len();
    }
    Ok(())
}

/// State of the current section.
#[derive(Debug, Default)]
struct Section {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u32,
    /// 0 for no limit.
    captured_max: u32,
}

impl Section {
    /// The block at the beginning of `rest`; `None` if the file ends within it.
    fn next_block<'a>(
        &self,
        rest: &'a [u8],
        offset: usize,
        collector: &Collector,
    ) -> Result<Option<&'a [u8]>, CaptureError> {
        let is_header = word(rest, 0, false) == Some(SECTION_HEADER);
        let order = if is_header { section_order(rest) } else { Some(self.is_big_endian) };
        let (Some(len), true) = (word(rest, 4, order == Some(true)), rest.len() >= BLOCK_MIN)
        else {
            return Ok(None);
        };
        let Some(order) = order else {
            return Err(collector.damaged(offset, "a section without a byte order"));
        };
        let Some(len) = usize::try_from(len).ok().filter(|len| *len >= BLOCK_MIN && len % 4 == 0)
        else {
            return Err(collector.damaged(offset, "a block of impossible length"));
        };
        let Some(block) = rest.get(..len) else { return Ok(None) };
        if word(block, len - 4, order).is_some_and(|again| usize::try_from(again) != Ok(len)) {
            return Err(collector.damaged(offset, "a block with two different lengths"));
        }
        Ok(Some(block))
    }

    /// Processes a whole block, and its packet if it has one.
    fn take<'a>(
        &mut self,
        block: &'a [u8],
        offset: usize,
        collector: &mut Collector<'a>,
    ) -> Result<(), CaptureError> {
        match word(block, 0, self.is_big_endian) {
            Some(SECTION_HEADER) => {
                let (_, header) =
                    parse_sectionheaderblock(block).map_err(|_| CaptureError::Header)?;
                if header.major_version != PCAPNG_VERSION_MAJOR {
                    return Err(CaptureError::Header);
                }
                *self = Self { is_big_endian: header.big_endian(), interfaces: Vec::new() };
                return Ok(());
            }
            Some(INTERFACE_DESCRIPTION) => {
                let Some(Block::InterfaceDescription(description)) = self.decoded(block) else {
                    let what = "the description of an interface is incomplete";
                    return Err(collector.damaged(offset, what));
                };
                let link_type = description.linktype.0.cast_unsigned();
                let captured_max = description.snaplen;
                self.interfaces.push(Interface { link_type, captured_max });
                return Ok(());
            }
            Some(PACKET | SIMPLE_PACKET | ENHANCED_PACKET) => {}
            // Statistics, names, secrets: not visible to programs.
            _ => return Ok(()),
        }
        let Some((interface, data, original_bytes)) = self.packet(block) else {
            return Err(collector.damaged(offset, "a packet is longer than its block"));
        };
        let interface = usize::try_from(interface).ok().and_then(|at| self.interfaces.get(at));
        let Some(interface) = interface else {
            return Err(
                collector.damaged(offset, "a packet of an interface that was not described")
            );
        };
        collector.take(interface.link_type, data, original_bytes)
    }

    /// Decodes a whole block of a type that is safe for pcap-parser; `None` if it is damaged.
    fn decoded<'a>(&self, block: &'a [u8]) -> Option<Block<'a>> {
        let parse = if self.is_big_endian { parse_block_be } else { parse_block_le };
        Some(parse(block).ok()?.1)
    }

    /// Interface number, bytes, and length on the wire.
    fn packet<'a>(&self, block: &'a [u8]) -> Option<(u32, &'a [u8], u32)> {
        if word(block, 0, self.is_big_endian)? == PACKET {
            return self.obsolete_packet(block);
        }
        match self.decoded(block)? {
            Block::EnhancedPacket(packet) => {
                // The parser returns the data including padding.
                let data = packet.data.get(..usize::try_from(packet.caplen).ok()?)?;
                Some((packet.if_id, data, packet.origlen))
            }
            Block::SimplePacket(packet) => {
                let limit = self.interfaces.first().map_or(0, |first| first.captured_max);
                let limit = if limit == 0 { u32::MAX } else { limit };
                let len = usize::try_from(packet.origlen.min(limit)).ok()?;
                Some((0, packet.data.get(..len)?, packet.origlen))
            }
            _ => None,
        }
    }

    fn obsolete_packet<'a>(&self, block: &'a [u8]) -> Option<(u32, &'a [u8], u32)> {
        let interface = block.get(8..)?.first_chunk()?;
        let interface = match self.is_big_endian {
            true => u16::from_be_bytes(*interface),
            false => u16::from_le_bytes(*interface),
        };
        let len = usize::try_from(word(block, 20, self.is_big_endian)?).ok()?;
        let data = block.get(28..block.len() - 4)?.get(..len)?;
        Some((u32::from(interface), data, word(block, 24, self.is_big_endian)?))
    }
}

/// Byte order of the section that starts here: whether it is big-endian.
fn section_order(bytes: &[u8]) -> Option<bool> {
    [false, true].into_iter().find(|order| word(bytes, 8, *order) == Some(BYTE_ORDER))
}

/// Four bytes as a number.
fn word(bytes: &[u8], offset: usize, is_big_endian: bool) -> Option<u32> {
    let bytes = bytes.get(offset..)?.first_chunk()?;
    Some(if is_big_endian { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
}

// pcap, the older format: one file header, then packets with headers of 16 or 24 bytes (draft-ietf-opsawg-pcap).

/// First words: microseconds, nanoseconds, and a variant with longer headers, in both byte orders.
const MAGICS: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];

/// The version that all programs have written since 1998.
const PCAP_VERSION_MAJOR: u16 = 2;

/// Maximum packet length in libpcap (`MAXIMUM_SNAPLEN` of its pcap-int.h, 1.10).
const CAPTURED_MAX: u32 = 262_144;

/// Fields of the header's last word: flag for, and half the length of, the frame check sequence
/// (`LT_FCS_LENGTH_PRESENT` and others of libpcap's pcap-common.c, 1.10).
const CHECK_SEQUENCE_PRESENT: u32 = 0x0400_0000;
const LINK_TYPE_MASK: u32 = 0x03ff_ffff;

fn is_pcap(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|first| {
        MAGICS.contains(&u32::from_le_bytes(*first)) || MAGICS.contains(&u32::from_be_bytes(*first))
    })
}

fn read_pcap<'a>(bytes: &'a [u8], collector: &mut Collector<'a>) -> Result<(), CaptureError> {
    let (mut rest, header) = parse_pcap_header(bytes).map_err(|_| CaptureError::Header)?;
    if header.version_major != PCAP_VERSION_MAJOR {
        return Err(CaptureError::Header);
    }
    let network = header.network.0.cast_unsigned();
    if network & CHECK_SEQUENCE_PRESENT != 0 {
        collector.capture.check_sequence_bytes = 2 * (network >> 28);
    }
    while !rest.is_empty() {
        let Ok((next, packet)) = parse_packet(&header, rest) else {
            let offset = bytes.len() - rest.len();
            return check_cut_off(&header, rest, offset, collector);
        };
        collector.take(network & LINK_TYPE_MASK, packet.data, packet.origlen)?;
        rest = next;
    }
    Ok(())
}

/// The next packet and the rest. The header alone is 16 bytes, so the rest always gets shorter.
fn parse_packet<'a>(
    header: &PcapHeader,
    rest: &'a [u8],
) -> Result<(&'a [u8], LegacyPcapBlock<'a>), ()> {
    let parsed = match (header.is_modified_format(), header.is_bigendian()) {
        (true, _) => parse_pcap_frame_modified(rest),
        (false, true) => parse_pcap_frame_be(rest),
        (false, false) => parse_pcap_frame(rest),
    };
    parsed.map_err(drop)
}

/// Whether the last packet is merely incomplete, rather than its header invalid.
fn check_cut_off(
    header: &PcapHeader,
    rest: &[u8],
    offset: usize,
    collector: &mut Collector,
) -> Result<(), CaptureError> {
    let captured = rest.get(8..).and_then(<[u8]>::first_chunk).map(|word| {
        if header.is_bigendian() { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) }
    });
    if captured.is_some_and(|captured| captured > CAPTURED_MAX.max(header.snaplen)) {
        return Err(collector.damaged(offset, "a packet is longer than the format allows"));
    }
    collector.capture.is_cut_off = true;
    Ok(())
}
