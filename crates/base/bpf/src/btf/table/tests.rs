//! Small tables, sound and broken.

use proptest::prelude::*;

use super::*;

/// Bytes of a table of these words and strings.
fn table(words: &[u32], strings: &[u8]) -> Vec<u8> {
    TypeTable { words: words.to_vec(), starts: Vec::new(), strings: strings.to_vec() }.to_bytes()
}

const INT: [u32; 4] = [1, 1 << 24, 4, 0x20];
const STRINGS: &[u8] = b"\0int\0x\0";

#[test]
fn types_are_found_by_id_and_name() {
    // 1: int; 2: array of 3 int; 3: array of 2 of those; 4: typedef of 3 "x"; 5: pointer to 4
    let words = [
        INT.as_slice(),
        &[0, 3 << 24, 0, 1, 1, 3],
        &[0, 3 << 24, 0, 2, 1, 2],
        &[5, 8 << 24, 3],
        &[0, 2 << 24, 4],
    ]
    .concat();
    let table = TypeTable::parse(&table(&words, STRINGS)).unwrap();
    assert_eq!(table.len(), 5);
    assert_eq!(table.find(TypeKind::INT, "int").map(|found| found.id), Some(1));
    assert_eq!(table.find(TypeKind::PTR, "int").map(|found| found.id), None);
    assert_eq!(table.resolve(4).map(|found| found.id), Some(3));
    let check = |id, expected| assert_eq!(table.size(id), expected, "{id}");
    check(0, None);
    check(1, Some(4));
    check(3, Some(24));
    check(4, Some(24));
    check(5, Some(8));
    check(6, None);
}

#[test]
fn what_is_changed_is_read_again() {
    let mut table = TypeTable::parse(&table(&INT, STRINGS)).unwrap();
    let name = table.add_text("data");
    let variable = table.add(TypeKind::VAR, name, 0, 1, &[EXTERN]);
    table.set_linkage(variable, GLOBAL);
    let section = table.add(TypeKind::DATASEC, name, 1, 8, &[variable, 0, 4]);
    table.set_tail(section, &[variable, 4, 4]);
    table.set_name(1, 5);
    let again = TypeTable::parse(&table.to_bytes()).unwrap();
    assert_eq!(again, table);
    assert_eq!(again.find(TypeKind::INT, "x").map(|found| found.id), Some(1));
    assert_eq!(again.get(variable).map(|found| found.linkage()), Some(GLOBAL));
    assert_eq!(again.get(section).map(|found| found.tail.to_vec()), Some(vec![variable, 4, 4]));
}

#[test]
fn a_broken_table_is_refused_with_the_reason() {
    let check = |bytes: &[u8], expected: &str| {
        let reason = TypeTable::parse(bytes).expect_err(expected);
        assert!(reason.contains(expected), "{reason}");
    };
    let changed = |at: usize, byte: u8| {
        let mut bytes = table(&INT, STRINGS);
        bytes[at] = byte;
        bytes
    };
    check(b"", "ends within its header");
    check(&changed(0, 0), "magic number");
    check(&changed(4, 23), "23 bytes");
    check(&changed(12, 255), "types reach beyond its end");
    check(&changed(20, 255), "strings reach beyond its end");
    check(&changed(12, 14), "not made of whole words");
    check(&changed(40, 1), "not begin and end");
    check(&table(&INT, b"\0int"), "not begin and end");
    check(&table(&INT, b""), "not begin and end");
    check(&table(&INT[..3], STRINGS), "type 1 reaches beyond");
    check(&table(&[0, 20 << 24, 0], STRINGS), "kind 20");
    check(&table(&[0, 0, 0], STRINGS), "kind 0");
    check(&table(&[99, 1 << 24, 4, 0], STRINGS), "name, at 99");
    check(&table(&[0, 2 << 24, 2], STRINGS), "refers to type 2, of 1");
    check(&table(&[0, 3 << 24, 0, 1, 7, 1], STRINGS), "refers to type 7");
    check(&table(&[0, 4 << 24 | 1, 0, 0, 9, 0], STRINGS), "refers to type 9");
    check(&table(&[0, 13 << 24 | 1, 0, 0, 9], STRINGS), "refers to type 9");
    check(&table(&[0, 12 << 24, 1], STRINGS), "wrong kind");
    check(&table(&[0, 14 << 24, 0, 3], STRINGS), "linkage is 3");
    check(&table(&[&INT[..], &[0, 15 << 24 | 1, 0, 1, 0, 4]].concat(), STRINGS), "wrong kind");
}

#[test]
fn strings_may_be_in_any_encoding() {
    let table = TypeTable::parse(&table(&INT, b"\0\xff\0")).unwrap();
    assert_eq!(table.text_bytes(1), Some([0xff].as_slice()));
    assert_eq!(table.text(1), None);
    assert_eq!(table.text_bytes(2), Some([].as_slice()));
    assert_eq!(table.text_bytes(3), None);
}

#[test]
fn types_that_go_round_in_circles_have_no_size() {
    // 1: array of itself; 2: const of itself
    let table =
        TypeTable::parse(&table(&[0, 3 << 24, 0, 1, 1, 1, 0, 10 << 24, 2], STRINGS)).unwrap();
    assert_eq!(table.size(1), None);
    assert_eq!(table.size(2), None);
    assert!(table.resolve(2).is_none());
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(words in prop::collection::vec(any::<u32>(), 0..64), strings: Vec<u8>) {
        if let Ok(table) = TypeTable::parse(&table(&words, &strings)) {
            for found in table.all() {
                _ = (table.size(found.id), table.name(found));
            }
            prop_assert_eq!(TypeTable::parse(&table.to_bytes()), Ok(table));
        }
    }
}
