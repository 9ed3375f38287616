//! Small tables, valid and damaged.

use proptest::prelude::*;

use super::*;

/// Serializes a table with these words and strings.
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
