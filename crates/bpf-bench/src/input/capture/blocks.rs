//! pcapng, the newer format: sections of blocks, each section with its own byte order, packets of
//! several interfaces (draft-ietf-opsawg-pcapng).
//!
//! Passes only complete blocks of relevant types to pcap-parser: version 0.17 panics at a process
//! information block of less than 12 bytes.

use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le, parse_sectionheaderblock};

use super::{CaptureError, Collector};

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

const VERSION_MAJOR: u16 = 1;

pub(super) fn is_pcapng(bytes: &[u8]) -> bool {
    // The first word alone might be line ends of a text.
    word(bytes, 0, false) == Some(SECTION_HEADER) && section_order(bytes).is_some()
}

pub(super) fn read<'a>(bytes: &'a [u8], collector: &mut Collector<'a>) -> Result<(), CaptureError> {
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
                if header.major_version != VERSION_MAJOR {
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
