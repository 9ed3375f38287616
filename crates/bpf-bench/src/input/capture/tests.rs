//! Capture files built byte by byte, in both byte orders, valid and damaged.

use proptest::prelude::*;

use super::*;

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

use Order::{Big, Little};

impl Order {
    fn words(self, words: &[u32]) -> Vec<u8> {
        let bytes = |word: &u32| match self {
            Little => word.to_le_bytes(),
            Big => word.to_be_bytes(),
        };
        words.iter().flat_map(bytes).collect()
    }

    /// Two 16-bit numbers, as one word.
    fn halves(self, first: u16, second: u16) -> u32 {
        match self {
            Little => u32::from(first) | u32::from(second) << 16,
            Big => u32::from(first) << 16 | u32::from(second),
        }
    }
}

pub(crate) fn pcap(order: Order, magic: u32, link: u32, packets: &[(&[u8], u32)]) -> Vec<u8> {
    let mut bytes = order.words(&[magic, order.halves(2, 4), 0, 0, 262_144, link]);
    for (data, original_bytes) in packets {
        bytes.extend(order.words(&[1_700_000_000, 5, data.len() as u32, *original_bytes]));
        if magic == 0xa1b2_cd34 {
            bytes.extend(order.words(&[0, 0]));
        }
        bytes.extend(*data);
    }
    bytes
}

fn block(order: Order, kind: u32, words: &[u32], data: &[u8]) -> Vec<u8> {
    let filled = data.len().next_multiple_of(4);
    let len = (12 + 4 * words.len() + filled) as u32;
    let mut bytes = order.words(&[&[kind, len], words].concat());
    bytes.extend(data);
    bytes.resize(bytes.len() + filled - data.len(), 0);
    bytes.extend(order.words(&[len]));
    bytes
}

fn section(order: Order) -> Vec<u8> {
    block(order, 0x0a0d_0d0a, &[0x1a2b_3c4d, order.halves(1, 0), u32::MAX, u32::MAX], &[])
}

fn interface(order: Order, link: u16, captured_max: u32) -> Vec<u8> {
    // With a name, which must be ignored: option 2, and the end of options.
    let name = order.words(&[order.halves(2, 4)]);
    let options = [name.as_slice(), b"eth0", &[0; 4]].concat();
    block(order, 1, &[order.halves(link, 0), captured_max], &options)
}

fn enhanced(order: Order, interface: u32, data: &[u8], original_bytes: u32) -> Vec<u8> {
    block(order, 6, &[interface, 0, 5, data.len() as u32, original_bytes], data)
}

pub(crate) fn pcapng(order: Order, link: u16, packets: &[(&[u8], u32)]) -> Vec<u8> {
    let mut bytes = [section(order), interface(order, link, 0)].concat();
    for (data, original_bytes) in packets {
        bytes.extend(enhanced(order, 0, data, *original_bytes));
    }
    bytes
}

fn packet(data: &[u8], original_bytes: u32, link: Link) -> Packet<'_> {
    Packet { data, original_bytes, link }
}

#[track_caller]
fn check(bytes: &[u8], expected: &[Packet]) {
    assert!(is_capture(bytes));
    let capture = parse(bytes, 100).expect("a capture");
    assert_eq!(capture.packets, expected);
    assert_eq!((capture.left_out, capture.is_cut_off), (0, false));
}

#[track_caller]
fn check_error(bytes: &[u8], expected: CaptureError) {
    assert_eq!(parse(bytes, 100), Err(expected));
}

#[test]
fn reads_pcap_of_all_variants() {
    let packets: [(&[u8], u32); 2] = [(b"abcde", 5), (b"fg", 9)];
    let expected = |link| [packet(b"abcde", 5, link), packet(b"fg", 9, link)];
    for order in [Little, Big] {
        for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
            for (number, link) in [(1, Link::Ethernet), (101, Link::RawIp), (12, Link::RawIp)] {
                check(&pcap(order, magic, number, &packets), &expected(link));
            }
        }
    }
    check(&pcap(Little, 0xa1b2_cd34, 1, &packets), &expected(Link::Ethernet));
    // pcap-parser does not support the variant in this byte order.
    check_error(&pcap(Big, 0xa1b2_cd34, 1, &packets), CaptureError::Header);
}

#[test]
fn reads_pcapng_of_all_kinds_of_packets() {
    for order in [Little, Big] {
        let obsolete_interface = order.halves(1, 0);
        let file = [
            section(order),
            interface(order, 1, 4),
            interface(order, 228, 0),
            enhanced(order, 0, b"abcde", 5),
            // Statistics, with an invalid body.
            block(order, 5, &[7], b"?"),
            block(order, 3, &[9], b"fghi"),
            enhanced(order, 1, b"jk", 60),
            block(order, 2, &[obsolete_interface, 0, 5, 3, 3], b"lmn"),
        ]
        .concat();
        check(
            &file,
            &[
                packet(b"abcde", 5, Link::Ethernet),
                packet(b"fghi", 9, Link::Ethernet),
                packet(b"jk", 60, Link::RawIp),
                packet(b"lmn", 3, Link::RawIp),
            ],
        );
    }
}

#[test]
fn sections_begin_anew() {
    let packets: [(&[u8], u32); 1] = [(b"ab", 2)];
    let file = [pcapng(Little, 1, &packets), pcapng(Big, 101, &packets)].concat();
    check(&file, &[packet(b"ab", 2, Link::Ethernet), packet(b"ab", 2, Link::RawIp)]);
    // A new section discards the interfaces of the previous one.
    let file = [pcapng(Little, 1, &packets), section(Big), enhanced(Big, 0, b"ab", 2)].concat();
    let what = "a packet of an interface that was not described";
    let offset_bytes = (file.len() - enhanced(Big, 0, b"ab", 2).len()) as u64;
    check_error(&file, CaptureError::Damaged { offset_bytes, packets: 1, what });
}

/// pcap-parser 0.17 panics at this block; it must be skipped.
#[test]
fn a_tiny_block_of_process_information_does_no_harm() {
    let packets: [(&[u8], u32); 1] = [(b"ab", 2)];
    for len in [0_u32, 4, 8] {
        let tiny = Little.words(&[0x8000_0001, len, 0, 0]);
        let file = [pcapng(Little, 1, &packets), tiny].concat();
        let offset_bytes = pcapng(Little, 1, &packets).len() as u64;
        let what = "a block of impossible length";
        check_error(&file, CaptureError::Damaged { offset_bytes, packets: 1, what });
    }
    let file = [pcapng(Little, 1, &packets), block(Little, 0x8000_0001, &[], &[])].concat();
    check(&file, &[packet(b"ab", 2, Link::Ethernet)]);
}

#[test]
fn counts_what_is_left_out_and_cut_off() {
    let packets: [(&[u8], u32); 3] = [(b"a", 1), (b"b", 1), (b"c", 1)];
    for file in [pcap(Big, 0xa1b2_c3d4, 1, &packets), pcapng(Big, 1, &packets)] {
        let capture = parse(&file, 2).expect("a capture");
        assert_eq!((capture.packets.len(), capture.left_out), (2, 1));
        for cut in 1..4 {
            let capture = parse(&file[..file.len() - cut], 100);
            let cut_off = capture.map(|capture| (capture.packets.len(), capture.is_cut_off));
            // The last byte of a pcap file belongs to the packet.
            assert_eq!(cut_off, Ok((2, true)), "{cut}");
        }
    }
    // Skipped packets may have any link type.
    let file = [
        section(Little),
        interface(Little, 1, 0),
        interface(Little, 113, 0),
        enhanced(Little, 0, b"a", 1),
        enhanced(Little, 1, b"b", 1),
    ]
    .concat();
    assert_eq!(parse(&file, 1).map(|capture| capture.left_out), Ok(1));
    check_error(&file, CaptureError::LinkType { packet: 2, link_type: 113 });
}

#[test]
fn tells_check_sequences_from_link_types() {
    let file = pcap(Big, 0xa1b2_c3d4, 0x2400_0001, &[(b"abcdefgh", 8)]);
    let capture = parse(&file, 1).expect("a capture");
    assert_eq!(capture.check_sequence_bytes, 4);
    assert_eq!(capture.packets[0].link, Link::Ethernet);
}

#[test]
fn refuses_what_cannot_be() {
    check_error(b"", CaptureError::NotACapture);
    check_error(b"\n\r\r\n some text", CaptureError::NotACapture);
    check_error(&0xa1b2_c3d4_u32.to_le_bytes(), CaptureError::Header);
    check_error(&section(Big)[..20], CaptureError::CutOff);
    let mut old = pcap(Little, 0xa1b2_c3d4, 1, &[]);
    old[4] = 1;
    check_error(&old, CaptureError::Header);
    check_error(&pcap(Little, 0xa1b2_c3d4, 1, &[]), CaptureError::NoPackets);
    check_error(&pcapng(Little, 1, &[]), CaptureError::NoPackets);
    check_error(&pcap(Little, 0xa1b2_c3d4, 1, &[(b"abc", 3)])[..42], CaptureError::CutOff);
    let mut long = pcap(Little, 0xa1b2_c3d4, 1, &[(b"abc", 3), (b"def", 3)]);
    long[24 + 19 + 8 + 3] = 0x80;
    let what = "a packet is longer than the format allows";
    check_error(&long, CaptureError::Damaged { offset_bytes: 43, packets: 1, what });
    let mut torn = pcapng(Little, 1, &[(b"abc", 3)]);
    let len = torn.len();
    torn[len - 4] += 4;
    let offset_bytes = (len - enhanced(Little, 0, b"abc", 3).len()) as u64;
    let what = "a block with two different lengths";
    check_error(&torn, CaptureError::Damaged { offset_bytes, packets: 0, what });
    let overlong = block(Big, 6, &[0, 0, 0, 9, 9], b"abcd");
    let file = [pcapng(Big, 1, &[]), overlong].concat();
    let what = "a packet is longer than its block";
    let offset_bytes = pcapng(Big, 1, &[]).len() as u64;
    check_error(&file, CaptureError::Damaged { offset_bytes, packets: 0, what });
}

#[test]
fn says_what_to_do_about_link_types() {
    #[track_caller]
    fn check(link_type: u16, parts: &[&str]) {
        let bytes = pcapng(Little, link_type, &[(b"ab", 2)]);
        let text = parse(&bytes, 1).expect_err("refused").to_string();
        for part in parts {
            assert!(text.contains(part), "{text}");
        }
    }
    check(113, &["packet 1", "113 (Linux cooked)", "tcpdump -i eth0"]);
    check(276, &["276 (Linux cooked)", "tcpdump -i eth0"]);
    check(127, &["802.11", "Ethernet interface"]);
    check(0, &["loopback of BSD"]);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        is_big: bool,
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), 0..9_u32), 1..9),
        packets_max in 1..12_usize,
    ) {
        let order = if is_big { Big } else { Little };
        let packets: Vec<(&[u8], u32)> = packets
            .iter()
            .map(|(data, more)| (data.as_slice(), data.len() as u32 + more))
            .collect();
        let files = [pcap(order, 0xa1b2_3c4d, 1, &packets), pcapng(order, 1, &packets)];
        for file in files {
            let capture = parse(&file, packets_max);
            let capture = capture.expect("a capture");
            let kept = packets.len().min(packets_max);
            let expected: Vec<_> = packets[..kept]
                .iter()
                .map(|(data, original)| packet(data, *original, Link::Ethernet))
                .collect();
            prop_assert_eq!(capture.packets, expected);
            prop_assert_eq!(capture.left_out, (packets.len() - kept) as u64);
        }
    }

    /// Valid files with some bytes changed or cut off, which get further than random bytes.
    #[test]
    fn damage_is_an_error_or_other_packets(
        is_big: bool,
        changes in prop::collection::vec((0..200_usize, any::<u8>()), 0..4),
        len in 0..200_usize,
    ) {
        let order = if is_big { Big } else { Little };
        let packets: [(&[u8], u32); 3] = [(b"abcdef", 6), (b"g", 9), (b"", 0)];
        for mut file in [pcap(order, 0xa1b2_c3d4, 1, &packets), pcapng(order, 1, &packets)] {
            for (at, byte) in &changes {
                let at = at % file.len();
                file[at] = *byte;
            }
            file.truncate(len.max(1));
            if let Ok(capture) = parse(&file, 2) {
                prop_assert!((1..=2).contains(&capture.packets.len()));
                let data: usize = capture.packets.iter().map(|packet| packet.data.len()).sum();
                prop_assert!(data < file.len());
            }
        }
    }
}
