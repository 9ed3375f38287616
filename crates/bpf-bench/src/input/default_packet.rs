//! The packet used if none is given: valid in every layer, so that programs which parse and
//! validate do not stop at the first header.

/// A frame of 64 bytes: Ethernet, IPv4, UDP, and 22 bytes of text.
///
/// Addresses are reserved for documentation: 00:00:5e:00:53:xx (RFC 7042, section 2.1.2),
/// 192.0.2.0/24 and 198.51.100.0/24 (RFC 5737). Both checksums are valid.
#[rustfmt::skip]
pub const DEFAULT_PACKET: [u8; 64] = [
    // Ethernet, 14 bytes.
    0x00, 0x00, 0x5e, 0x00, 0x53, 0x02, // destination 00:00:5e:00:53:02
    0x00, 0x00, 0x5e, 0x00, 0x53, 0x01, // source 00:00:5e:00:53:01
    0x08, 0x00,                         // type: IPv4
    // IPv4, 20 bytes.
    0x45,                               // version 4, header of 5 words
    0x00,                               // no class of service, no congestion mark
    0x00, 0x32,                         // length: 50 bytes from here to the end
    0x00, 0x00,                         // identification
    0x40, 0x00,                         // do not fragment; offset 0
    0x40,                               // time to live: 64 hops
    0x11,                               // protocol: UDP
    0x4d, 0xbe,                         // checksum of this header
    192, 0, 2, 200,                     // source 192.0.2.200
    198, 51, 100, 1,                    // destination 198.51.100.1
    // UDP, 8 bytes.
    0xc0, 0x00,                         // source port 49152, the first that nobody owns
    0x00, 0x09,                         // destination port 9, discard
    0x00, 0x1e,                         // length: 30 bytes from here to the end
    0x50, 0xfe,                         // checksum, addresses included
    // 22 bytes of text.
    b'w', b'i', b'n', b'g', b'b', b'e', b'a', b't', b' ',
    b'd', b'e', b'f', b'a', b'u', b'l', b't', b' ',
    b'i', b'n', b'p', b'u', b't',
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum of 16-bit words, all ones for a valid checksum (RFC 1071).
    fn sum(parts: &[&[u8]]) -> u16 {
        let mut sum: u32 = 0;
        for part in parts {
            let (words, rest) = part.as_chunks::<2>();
            assert!(rest.is_empty());
            sum += words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>();
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn both_checksums_and_all_lengths_are_right() {
        let (ethernet, ip) = DEFAULT_PACKET.split_at(14);
        assert_eq!(ethernet[12..], [8, 0]);
        let (header, udp) = ip.split_at(20);
        assert_eq!(usize::from(header[0] & 15) * 4, header.len());
        assert_eq!(u16::from_be_bytes([header[2], header[3]]), 50);
        assert_eq!(ip.len(), 50);
        assert_eq!(sum(&[header]), 0xffff);
        assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
        let pseudo_header = [&header[12..20], &[0, header[9]], &udp[4..6]].concat();
        assert_eq!(sum(&[&pseudo_header, udp]), 0xffff);
        assert_ne!(udp[6..8], [0, 0], "zero would mean that there is no checksum");
    }
}
