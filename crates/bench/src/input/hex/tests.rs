//! Texts as people and tools write them, and those that must not be guessed at.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &[u8]) {
    assert_eq!(parse(text.as_bytes()).as_deref(), Ok(expected), "{text:?}");
}

#[track_caller]
fn check_error(text: &str, expected: HexError) {
    assert_eq!(parse(text.as_bytes()), Err(expected), "{text:?}");
}

#[test]
fn reads_plain_text() {
    check("0a0b", &[10, 11]);
    check("0A 0b\n0c", &[10, 11, 12]);
    check("  0x0a, 0x0B,\t0x5\r\n", &[10, 11, 5]);
    check("0x0a000001", &[10, 0, 0, 1]);
    check("# a comment\n0a # 0b\n\n#\n0c#0d", &[10, 12]);
    check("\u{feff}ff", &[255]);
    check("000000000000 00005e005301 0800 45", &[0, 0, 0, 0, 0, 0, 0, 0, 94, 0, 83, 1, 8, 0, 69]);
    check("00000000\n00000000", &[0; 8]);
    check("0000\n0002", &[0, 0, 0, 2]);
}

#[test]
fn reads_dumps_of_tools() {
    // xxd
    check("00000000: 4520 6162 6320 7c78                      E abc |x", b"E abc |x");
    check("00000000: 2061 62                                   ab", b" ab");
    check("00000000: 4142  AB\n00000002: 23    #\n", b"AB#");
    check("0000: 4142\n0002: 43", b"ABC");
    // Bars and brackets that are bytes.
    check("00000000: 7c7c  ||\n00000002: 3e3c  ><\n", b"||><");
    check("00000000  7c 7c  ||||\n00000002  7c  |||\n", b"|||");
    // hexdump -C
    check(
        "00000000  45 20 61 62 63 20 7c 78  23 30 31 32 33 34 35 36  |E abc |x#0123456|\n\
         00000010  37 38 39                                          |789|\n\
         00000013\n",
        b"E abc |x#0123456789",
    );
    check("00000000  41 00  |A.|", &[0x41, 0]);
    // od -A x -t x1z
    check("000000 61 62 63                                         >abc<\n000003\n", b"abc");
    // tcpdump -xx, with the comment that its first line must become
    check("# IP 192.0.2.1\n\t0x0000:  4500 0054\n\t0x0004:  0001\n", &[69, 0, 0, 84, 0, 1]);
    // Wireshark
    check("0000   45 00 41   E.A\n0003   0a\n", &[69, 0, 65, 10]);
    check("0000   45 00\n0002   0a\n", &[69, 0, 10]);
}

/// Two blanks and something that is not a text of the bytes: it is bytes itself.
#[test]
fn a_gap_alone_makes_no_column_of_text() {
    check("0000: 45 00  00 54", &[0x45, 0, 0, 0x54]);
    check("0000: 45  00", &[0x45, 0]);
    check("0000: 41 42  43", &[0x41, 0x42, 0x43]);
}

#[test]
fn says_where_and_what() {
    check_error("0a\n0b zz", HexError::NotHex { line: 2, column: 4, found: 'z' });
    check_error("0xg1", HexError::NotHex { line: 1, column: 3, found: 'g' });
    check_error("é0", HexError::NotHex { line: 1, column: 1, found: 'é' });
    check_error("0a é", HexError::NotHex { line: 1, column: 4, found: 'é' });
    check_error("00:11", HexError::NotHex { line: 1, column: 3, found: ':' });
    check_error("0a b", HexError::OddDigits { line: 1, column: 4, digits: 1 });
    check_error("0x123", HexError::OddDigits { line: 1, column: 3, digits: 3 });
    check_error("0x", HexError::OddDigits { line: 1, column: 3, digits: 0 });
    check_error("0000: 41\n0004: 42", HexError::WrongOffset { line: 2, found: 4, expected: 1 });
    check_error("0010: 41", HexError::WrongOffset { line: 1, found: 16, expected: 0 });
    check_error(
        "00000000  41  |A|\n00000008  42  |B|",
        HexError::WrongOffset { line: 2, found: 8, expected: 1 },
    );
    check_error("00000000  41  |A|\n42", HexError::NoOffset { line: 2, digits: 8 });
    check_error("0000 45 00", HexError::AmbiguousOffset { line: 1, word: "0000".to_owned() });
    check_error("00000000: 41\n*\n00000020: 42", HexError::Squeezed { line: 2 });
    check_error("0000000 6261 6463\n0000004\n", HexError::OldDump { line: 1 });
    check_error("000000 6261 6463\n000004\n", HexError::OldDump { line: 1 });
    check_error("", HexError::NoBytes);
    check_error("# nothing\n \n", HexError::NoBytes);
    assert_eq!(parse(b"\xff"), Err(HexError::NotHex { line: 1, column: 1, found: '\u{fffd}' }));
}

/// The text column of a dump, as xxd prints it.
fn shown(bytes: &[u8]) -> String {
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    bytes.iter().map(|byte| if printable(byte) { char::from(*byte) } else { '.' }).collect()
}

fn pairs(bytes: &[u8], between: &str) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
}

/// Any byte, above all those that mean something in a dump.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(b"|>< .#:*0,\n".to_vec())]
}

proptest! {
    #[test]
    fn what_is_written_is_read(bytes in prop::collection::vec(byte(), 1..70), width in 1..20_usize) {
        let mut xxd = String::new();
        let mut hexdump = String::new();
        for (index, line) in bytes.chunks(width).enumerate() {
            let offset = index * width;
            let (hex, text) = (pairs(line, " "), shown(line));
            // The shorter last line is filled up, so that the texts stand below each other.
            let fill = 3 * width;
            xxd += &format!("{offset:08x}: {hex:fill$} {text}\n");
            hexdump += &format!("{offset:08x}  {hex:fill$} |{text}|\n");
        }
        let texts = [pairs(&bytes, ""), pairs(&bytes, "\n"), pairs(&bytes, ", 0x"), xxd, hexdump];
        for (index, text) in texts.iter().enumerate() {
            // Four zeros and more may be an offset, and then it is refused.
            match parse(text.as_bytes()) {
                Err(HexError::AmbiguousOffset { .. } | HexError::OldDump { .. }) if index < 3 => {}
                read => prop_assert_eq!(read.as_ref(), Ok(&bytes), "{}", text),
            }
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "[0-9a-fx:#|>.* \n]{0,80}") {
        if let Ok(bytes) = parse(text.as_bytes()) {
            prop_assert!(!bytes.is_empty() && 2 * bytes.len() <= text.len());
        }
    }
}
