//! Reading valid and broken jitdump files.

use proptest::prelude::*;

use super::*;
use crate::jitdump::{HEADER, PREFIX};

const ARCH_TIMESTAMP: u64 = 1;

fn header(flags: u64) -> Vec<u8> {
    let magic = u32::from_le_bytes(*b"DTiJ");
    let words = [magic, 1, HEADER as u32, 62, 0, 7].into_iter().flat_map(u32::to_le_bytes);
    words.chain([0, flags].into_iter().flat_map(u64::to_le_bytes)).collect()
}

fn with_prefix(id: u32, time_ns: u64, body: &[u8]) -> Vec<u8> {
    let size = (PREFIX + body.len()) as u32;
    let prefix = [id, size].into_iter().flat_map(u32::to_le_bytes);
    prefix.chain(time_ns.to_le_bytes()).chain(body.iter().copied()).collect()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn load(time_ns: u64, start: u64, size: u64, index: u64, name: &str) -> Vec<u8> {
    let code = [name.as_bytes(), b"\0", &vec![0x90; size as usize]].concat();
    with_prefix(0, time_ns, &[words(&[7, start, start, size, index]), code].concat())
}

fn moved(time_ns: u64, from: u64, to: u64, size: u64, index: u64) -> Vec<u8> {
    with_prefix(1, time_ns, &words(&[7, to, from, to, size, index]))
}

fn debug_info(start: u64, entries: &[(u64, u32, &[u8])]) -> Vec<u8> {
    let mut body = words(&[start, entries.len() as u64]);
    for (address, line, file) in entries {
        body.extend(words(&[*address, u64::from(*line)]));
        body.extend([file, b"\0".as_slice()].concat());
    }
    with_prefix(2, 1, &body)
}

/// `time start+size name`, in the order of writing.
fn texts(codes: &[Code]) -> Vec<String> {
    let text = |code: &Code| {
        let Code { start, size, since_ns, name, .. } = code;
        format!("{since_ns} {start:x}+{size:x} {name}")
    };
    codes.iter().map(text).collect()
}

#[test]
fn records_give_code_in_their_order() {
    let check = |flags, records: &[Vec<u8>], expected: &[&str]| {
        let bytes = [header(flags), records.concat()].concat();
        assert_eq!(texts(&parse(&bytes).expect("a jitdump file")), expected);
    };
    check(0, &[], &[]);
    let two = [load(5, 0x1000, 16, 0, "a"), load(6, 0x1000, 8, 1, "b c")];
    check(0, &two, &["5 1000+10 a", "6 1000+8 b c"]);
    check(ARCH_TIMESTAMP, &two, &["0 1000+10 a", "0 1000+8 b c"]);
    let moves =
        [load(5, 0x1000, 16, 3, "a"), moved(6, 0x1000, 0x2000, 16, 3), moved(7, 1, 2, 3, 4)];
    check(0, &moves, &["5 1000+10 a", "6 2000+10 a"]);
    // A close record, unwinding information, and an unknown type.
    let others = [with_prefix(3, 1, &[]), with_prefix(4, 1, &[0; 24]), with_prefix(99, 1, b"x")];
    check(0, &[others.concat(), load(5, 1, 1, 0, "a")], &["5 1+1 a"]);
    // Without a name, with a short body, and truncated.
    let short = [load(5, 1, 1, 0, ""), with_prefix(0, 1, &[0; 30]), load(6, 2, 1, 0, "a")];
    check(0, &short, &["6 2+1 a"]);
    check(0, &[load(5, 1, 1, 0, "a"), load(6, 2, 1, 0, "b")[..40].to_vec()], &["5 1+1 a"]);
    check(0, &[[0; 16].to_vec(), load(5, 1, 1, 0, "a")], &[]);
}

#[test]
fn lines_hold_up_to_the_next() {
    let entries: [(u64, u32, &[u8]); 4] =
        [(0x1008, 7, b"b.js"), (0x1004, 6, SAME_FILE), (0x1002, 5, b"a.js"), (0xfff, 1, b"c.js")];
    let records = [
        debug_info(0x1000, &entries),
        load(5, 0x1000, 16, 0, "a"),
        moved(6, 0x1000, 0x2000, 16, 0),
        load(7, 0x1000, 16, 1, "later"),
    ];
    let codes = parse(&[header(0), records.concat()].concat()).expect("a jitdump file");
    let check = |code: usize, address, expected| {
        assert_eq!(codes[code].line(address), expected, "{address:x}");
    };
    check(0, 0x1001, None);
    check(0, 0x1002, Some(("a.js", 5)));
    check(0, 0x1004, Some(("b.js", 6)));
    check(0, 0x100f, Some(("b.js", 7)));
    check(1, 0x2003, Some(("a.js", 5)));
    check(2, 0x1004, None);
}

#[test]
fn lines_of_v8_lie_behind_an_elf_header() {
    let check = |first, address, expected| {
        let records = [
            debug_info(0x1000, &[(first, 5, b"a.js"), (0x1048, 6, b"a.js")]),
            load(5, 0x1000, 16, 0, "a"),
        ];
        let codes = parse(&[header(0), records.concat()].concat()).expect("a jitdump file");
        assert_eq!(codes[0].line(address).map(|(_, line)| line), expected, "{address:x}");
    };
    check(0x1040, 0x1000, Some(5));
    check(0x1040, 0x1008, Some(6));
    check(0x1041, 0x1000, None);
    check(0x103f, 0x1008, None);
}

#[test]
fn an_address_has_all_code_that_was_there() {
    let records = [
        load(5, 0x1000, 0x100, 0, "long"),
        load(6, 0x1010, 8, 1, "within"),
        load(4, 0x1010, 4, 2, "before"),
        load(7, u64::MAX, 0, 3, "none"),
    ];
    let codes = parse(&[header(0), records.concat()].concat()).expect("a jitdump file");
    let code = JitCode::new(codes);
    let check = |address, expected: &[&str]| {
        let names = code.at(address).into_iter().filter_map(|id| code.get(id));
        let names: Vec<&str> = names.map(|code| &*code.name).collect();
        assert_eq!(names, expected, "{address:x}");
    };
    check(0xfff, &[]);
    check(0x1000, &["long"]);
    check(0x1010, &["before", "long", "within"]);
    check(0x1017, &["long", "within"]);
    check(0x10ff, &["long"]);
    check(0x1100, &[]);
    check(u64::MAX, &[]);
    // Without times, the last one written is the newest.
    let records = [
        load(5, 0x1010, 8, 0, "within"),
        load(9, 0x1000, 0x100, 1, "long"),
        load(7, 0x1010, 8, 2, "again"),
    ];
    let bytes = [header(ARCH_TIMESTAMP), records.concat()].concat();
    let code = JitCode::new(parse(&bytes).expect("a jitdump file"));
    let last = code.at(0x1010).last().and_then(|&id| code.get(id));
    assert_eq!(last.map(|code| &*code.name), Some("again"));
}

proptest! {
    #[test]
    fn any_bytes_are_read(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        len in any::<prop::sample::Index>(),
    ) {
        let records = [
            debug_info(0x1000, &[(0x1002, 5, b"a.js"), (0x1004, 6, SAME_FILE)]),
            load(5, 0x1000, 16, 0, "a"),
            moved(6, 0x1000, 0x2000, 16, 0),
        ];
        let mut bytes = [header(0), records.concat()].concat();
        for (at, byte) in damage {
            *at.get_mut(&mut bytes) = byte;
        }
        bytes.truncate(len.index(bytes.len() + 1));
        let code = JitCode::new(parse(&bytes).unwrap_or_default());
        for address in [0, 0x1000, 0x1004, 0x2003, u64::MAX] {
            for id in code.at(address) {
                let found = code.get(id).expect("a known id");
                prop_assert!(found.contains(address));
                let _ = found.line(address);
            }
        }
    }
}
