//! pcap, the older format: one file header, then packets with headers of 16 or 24 bytes (draft-ietf-opsawg-pcap).

use pcap_parser::pcap::{
    LegacyPcapBlock, PcapHeader, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header,
};

use super::{CaptureError, Collector};

/// First words: microseconds, nanoseconds, and a variant with longer headers, in both byte orders.
const MAGICS: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34];

/// The version that all programs have written since 1998.
const VERSION_MAJOR: u16 = 2;

/// Maximum packet length in libpcap (`MAXIMUM_SNAPLEN` of its pcap-int.h, 1.10).
const CAPTURED_MAX: u32 = 262_144;

/// Fields of the header's last word: flag for, and half the length of, the frame check sequence
/// (`LT_FCS_LENGTH_PRESENT` and others of libpcap's pcap-common.c, 1.10).
const CHECK_SEQUENCE_PRESENT: u32 = 0x0400_0000;
const LINK_TYPE_MASK: u32 = 0x03ff_ffff;

pub(super) fn is_pcap(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|first| {
        MAGICS.contains(&u32::from_le_bytes(*first)) || MAGICS.contains(&u32::from_be_bytes(*first))
    })
}

pub(super) fn read<'a>(bytes: &'a [u8], collector: &mut Collector<'a>) -> Result<(), CaptureError> {
    let (mut rest, header) = parse_pcap_header(bytes).map_err(|_| CaptureError::Header)?;
    if header.version_major != VERSION_MAJOR {
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
