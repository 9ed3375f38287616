//! Texts as people and tools write them, and ambiguous texts that must be rejected.

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
fn reads_dumps_of_xxd() {
    check("00000000: 4520 6162 6320 7c78                      E abc |x", b"E abc |x");
    check("00000000: 2061 62                                   ab", b" ab");
    check("00000000: 4142  AB\n00000002: 23    #\n", b"AB#");
    check("0000: 4142\n0002: 43", b"ABC");
    check("00000000: 7c7c  ||\n00000002: 3e3c  ><\n", b"||><");
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
    // Dumps of other tools: hexdump -C, hexdump, od -A x -t x1, Wireshark.
    let ambiguous = |word: &str| HexError::AmbiguousOffset { line: 1, word: word.to_owned() };
    check_error("00000000  41  |A|\n00000001\n", ambiguous("00000000"));
    check_error(
        "0000000 6261 6463\n0000004\n",
        HexError::OddDigits { line: 1, column: 1, digits: 7 },
    );
    check_error("000000 61 62 63\n000003\n", ambiguous("000000"));
    check_error("0000   45 00\n0002   0a\n", ambiguous("0000"));
    check_error("00000000: 41\n*", HexError::NotHex { line: 2, column: 1, found: '*' });
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

/// Any byte, mostly those with a meaning in dumps.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(b"|>< .#:*0,\n".to_vec())]
}

proptest! {
    #[test]
    fn what_is_written_is_read(bytes in prop::collection::vec(byte(), 1..70), width in 1..20_usize) {
        let mut xxd = String::new();
        for (index, line) in bytes.chunks(width).enumerate() {
            // The shorter last line is padded to align the text column.
            let (offset, hex, fill) = (index * width, pairs(line, " "), 3 * width);
            xxd += &format!("{offset:08x}: {hex:fill$} {}\n", shown(line));
        }
        let texts = [pairs(&bytes, ""), pairs(&bytes, "\n"), pairs(&bytes, ", 0x"), xxd];
        for text in &texts {
            let read = parse(text.as_bytes());
            prop_assert_eq!(read.as_ref(), Ok(&bytes), "{}", text);
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "[0-9a-fx:#|>.* \n]{0,80}") {
        if let Ok(bytes) = parse(text.as_bytes()) {
            prop_assert!(!bytes.is_empty() && 2 * bytes.len() <= text.len());
        }
    }
}
