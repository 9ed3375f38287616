//! JSON for maps of several shapes: parsed values and error messages.

use proptest::prelude::*;

use super::*;

const fn shape(kind: MapKind, key_bytes: usize, value_bytes: usize) -> MapShape {
    MapShape { kind, key_bytes, value_bytes }
}

const HASH: MapShape = shape(MapKind::Hash, 4, 2);
const ARRAY: MapShape = shape(MapKind::Array, 4, 2);
const QUEUE: MapShape = shape(MapKind::Queue, 0, 4);

fn entry(key: &[u8], value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), value: EntryValue::Same(value.to_vec()) }
}

#[track_caller]
fn check(shape: MapShape, json: &str, expected: &[Entry]) {
    let contents = MapContents::parse(json.as_bytes(), shape);
    assert_eq!(contents.map(|contents| contents.entries).as_deref(), Ok(expected), "{json}");
}

#[track_caller]
fn check_error(shape: MapShape, json: &str, parts: &[&str]) {
    let error = MapContents::parse(json.as_bytes(), shape).expect_err(json).to_string();
    for part in parts {
        assert!(error.contains(part), "{json}: {error}");
    }
}

/// Checks a value with a size in bytes.
#[track_caller]
fn check_value(json: &str, expected: &[u8]) {
    let shape = shape(MapKind::Queue, 0, expected.len());
    check(shape, &format!("[{json}]"), &[entry(&[], expected)]);
}

#[test]
fn reads_entries_of_all_kinds_of_maps() {
    check(HASH, "[]", &[]);
    check(
        HASH,
        r#"[{"key": "0x0a000001", "value": 1}, {"key": [10, 0, 0, 2], "value": -1}]"#,
        &[entry(&[10, 0, 0, 1], &[1, 0]), entry(&[10, 0, 0, 2], &[255, 255])],
    );
    check(
        ARRAY,
        "[7, \"00 01\", {\"be16\": 2}]",
        &[
            entry(&[0, 0, 0, 0], &[7, 0]),
            entry(&[1, 0, 0, 0], &[0, 1]),
            entry(&[2, 0, 0, 0], &[0, 2]),
        ],
    );
    check(ARRAY, r#"[{"key": 300, "value": 1}]"#, &[entry(&[44, 1, 0, 0], &[1, 0])]);
    check(QUEUE, r#"[1, {"value": 1}]"#, &[entry(&[], &[1, 0, 0, 0]), entry(&[], &[1, 0, 0, 0])]);
    let per_cpu = shape(MapKind::PerCpuHash, 1, 1);
    let value = EntryValue::PerCpu(vec![vec![1], vec![2]]);
    check(
        per_cpu,
        r#"[{"key": 0, "values": [1, "02"]}, {"key": 1, "value": 3}]"#,
        &[Entry { key: vec![0], value }, entry(&[1], &[3])],
    );
    check(shape(MapKind::PerCpuArray, 4, 1), "[9]", &[entry(&[0; 4], &[9])]);
}

#[test]
fn reads_all_spellings_of_bytes() {
    check_value("\"0a 00 00 01\"", &[10, 0, 0, 1]);
    check_value("\"0x0A000001\"", &[10, 0, 0, 1]);
    check_value("255", &[255]);
    check_value("-128", &[128]);
    check_value("258", &[2, 1, 0]);
    check_value("-2", &[254, 255, 255, 255, 255, 255, 255, 255, 255]);
    check_value("-1", &[255; 20]);
    check_value("18446744073709551615", &[255; 8]);
    check_value("[1, -1, 255]", &[1, 255, 255]);
    check_value("[]", &[]);
    check_value(r#"{"u32": 5}"#, &[5, 0, 0, 0]);
    check_value(r#"[{"u8": 1}, {"i16": -2}, 0, {"be32": 3}]"#, &[1, 254, 255, 0, 0, 0, 0, 3]);
    check_value(r#"[{"u16": [1, 2]}, {"zeros": 2}, {"hex": "ff"}]"#, &[1, 0, 2, 0, 0, 0, 255]);
    check_value(r#"[{"i64": -9223372036854775808}]"#, &[0, 0, 0, 0, 0, 0, 0, 128]);
    check_value(r#"[{"be64": 1}, {"be16": 80}]"#, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 80]);
    check_value(r#"{"ipv4": "192.0.2.1"}"#, &[192, 0, 2, 1]);
    check_value(r#"{"ipv6": "::1"}"#, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    check_value(r#"{"prefix": "192.0.2.0/24"}"#, &[24, 0, 0, 0, 192, 0, 2, 0]);
    check_value(r#"[{"text": "sh"}, {"zeros": 1}]"#, b"sh\0");
}

#[test]
fn says_which_entry_and_what_was_expected() {
    check_error(HASH, "", &["not JSON", "line 1"]);
    check_error(HASH, "[1,\n}", &["not JSON", "line 2 column 1"]);
    check_error(HASH, "{}", &["found an object where the list", "[{\"key\": 1"]);
    check_error(HASH, "[1]", &["entry 0", "no \"key\"", "{\"key\": …, \"value\": …}"]);
    let good = r#"{"key": 0, "value": 0}"#;
    let second = |entry: &str| format!("[{good}, {entry}]");
    let check_second = |entry: &str, parts: &[&str]| {
        let parts = [&["entry 1"], parts].concat();
        check_error(HASH, &second(entry), &parts);
    };
    check_second(r#"{"key": 1}"#, &["no \"value\""]);
    check_second(r#"{"value": 1}"#, &["no \"key\""]);
    check_second(r#"{"key": 1, "vlaue": 1}"#, &["\"vlaue\" does not belong"]);
    check_second(r#"{"key": 1, "values": [1]}"#, &["\"values\" does not belong"]);
    check_second(r#"{"key": 0, "value": 1}"#, &["entry 0 has the same key"]);
    check_second(r#"{"key": "0a 00 01", "value": 1}"#, &["key", "expected 4 bytes, found 3"]);
    check_second(r#"{"key": 1, "value": [1, 2, 3]}"#, &["value", "expected 2 bytes, found 3"]);
    check_second(r#"{"key": 1, "value": 65536}"#, &["65536 does not fit into 2 bytes"]);
    check_second(r#"{"key": 1, "value": -32769}"#, &["-32769 does not fit"]);
    check_second(r#"{"key": 1, "value": 1.5}"#, &["1.5 is not a whole number"]);
    check_second(r#"{"key": 1, "value": "tcp"}"#, &["not hexadecimal", "column 1", "\"text\""]);
    check_second(r#"{"key": 1, "value": null}"#, &["found null"]);
    check_second(r#"{"key": 1, "value": [256, 0]}"#, &["256 does not fit into 1 bytes"]);
    check_second(r#"{"key": 1, "value": ["0g", 0]}"#, &["not hexadecimal"]);
    check_second(r#"{"key": 1, "value": [null, 0]}"#, &["found null"]);
    check_second(r#"{"key": 1, "value": {"u12": 1}}"#, &["no type u12", "be16"]);
    check_second(r#"{"key": 1, "value": {}}"#, &["one type", "found 0"]);
    check_second(r#"{"key": 1, "value": {"u8": 1, "i8": 2}}"#, &["found 2"]);
    check_second(r#"{"key": 1, "value": {"u16": -1}}"#, &["-1 does not fit into 2 bytes"]);
    check_second(r#"{"key": 1, "value": {"i16": 40000}}"#, &["40000 does not fit into 2"]);
    check_second(r#"{"key": {"i32": 18446744073709551615}, "value": 1}"#, &["does not fit into 4"]);
    let unsigned = r#"[{"i64": 18446744073709551615}]"#;
    check_error(shape(MapKind::Queue, 0, 8), unsigned, &["does not fit into 8 bytes"]);
    check_second(r#"{"key": 1, "value": {"u16": "1"}}"#, &["u16 takes a number", "\"1\""]);
    check_second(r#"{"key": {"ipv4": "192.0.2"}, "value": 1}"#, &["ipv4 takes", "\"192.0.2\""]);
    check_second(r#"{"key": {"prefix": "192.0.2.0/33"}, "value": 1}"#, &["prefix takes"]);
    check_second(r#"{"key": 1, "value": {"zeros": 4000000000}}"#, &["found 4000000000"]);
    check_error(
        QUEUE,
        r#"[{"key": 0, "value": 0}]"#,
        &["\"key\" does not belong", "without a key"],
    );
    let per_cpu = shape(MapKind::PerCpuHash, 1, 1);
    let both = r#"[{"key": 0, "value": 0, "values": [0]}]"#;
    check_error(per_cpu, both, &["\"values\" does not belong"]);
    let error = r#"[{"key": 0, "values": 1}]"#;
    check_error(per_cpu, error, &["list with a value for each CPU, found a number"]);
    check_error(per_cpu, r#"[{"key": 0, "values": [1, 256]}]"#, &["value of CPU 1", "256"]);
}

#[test]
fn tables_take_programs_by_name() {
    let table = shape(MapKind::ProgramTable, 4, 4);
    let at = |slot: u8, name: &str| Entry {
        key: vec![slot, 0, 0, 0],
        value: EntryValue::Program(name.to_owned()),
    };
    check(
        table,
        r#"[{"key": 7, "value": {"program": "a"}}, {"key": ["0x01", "0x00", "0x00", "0x00"], "value": {"program": "b"}}]"#,
        &[at(7, "a"), at(1, "b")],
    );
    check(table, r#"[{"program": "a"}]"#, &[at(0, "a")]);
    let foreign =
        ["entry 0, value", "number of a program in the machine", "{\"program\": \"NAME\"}"];
    for value in ["17", "\"NAME\"", r#"["0x11", "0x00", "0x00", "0x00"]"#, r#"{"program": 1}"#] {
        check_error(table, &format!("[{{\"key\": 0, \"value\": {value}}}]"), &foreign);
    }
    check_error(table, r#"[{"key": 0}]"#, &["no \"value\"", "{\"program\": \"NAME\"}"]);
}

/// Output of bpftool 7.1, of maps with and without type information.
#[test]
fn reads_what_bpftool_dumps() {
    let dumped = r#"[{"key":["0x0a","0x00","0x00","0x01"],"value":["0x05","0x00"],"formatted":{"key":16777226,"value":5}}]"#;
    check(HASH, dumped, &[entry(&[10, 0, 0, 1], &[5, 0])]);
    let pretty = r#"[{
        "key": ["0x00","0x00","0x00","0x00"
        ],
        "value": ["0xff","0xff"
        ]
    }
]"#;
    check(ARRAY, pretty, &[entry(&[0; 4], &[255, 255])]);
    let per_cpu = shape(MapKind::PerCpuArray, 4, 1);
    let of_cpus = |cpus: [u32; 2]| {
        let [a, b] = cpus;
        format!(
            r#"[{{"key":["0x00","0x00","0x00","0x00"],"values":[{{"cpu":{a},"value":["0x01"]}},{{"cpu":{b},"value":["0x02"]}}],"formatted":{{}}}}]"#
        )
    };
    let value = EntryValue::PerCpu(vec![vec![1], vec![2]]);
    check(per_cpu, &of_cpus([0, 1]), &[Entry { key: vec![0; 4], value }]);
    check_error(per_cpu, &of_cpus([0, 0]), &["value of CPU 1", "expected the value of CPU 1"]);
    check_error(per_cpu, &of_cpus([1, 0]), &["value of CPU 0", "expected the value of CPU 0"]);
    let inner =
        r#"[{"key":["0x00","0x00","0x00","0x00"],"value":["0x07","0x00"],"inner_map_id":7}]"#;
    check_error(HASH, inner, &["number of a map in the machine", "write {\"map\": \"NAME\"}"]);
    let unread = r#"[{"key":["0x00","0x00","0x00","0x00"],"value":{"error":"No such file"}}]"#;
    check_error(HASH, unread, &["bpftool could not read it: No such file", "remove the entry"]);
}

#[test]
fn tables_of_maps_hold_maps_by_name() {
    let of = |name: &str| EntryValue::Map(name.to_owned());
    let hash = shape(MapKind::MapHash, 2, 4);
    let found = [Entry { key: vec![7, 0], value: of("in1") }];
    check(hash, r#"[{"key": 7, "value": {"map": "in1"}}]"#, &found);
    let found = [Entry { key: vec![0; 4], value: of("in1") }];
    check(shape(MapKind::MapTable, 4, 4), r#"[{"map": "in1"}]"#, &found);
    check_error(
        hash,
        r#"[{"key": 7, "value": 3}]"#,
        &["entry 0, value", "write {\"map\": \"NAME\"}"],
    );
    check_error(hash, r#"[{"map": "in1"}]"#, &["no \"key\"", "{\"map\": \"NAME\"}"]);
}

#[test]
fn indices_beyond_an_array() {
    let check = |kind: MapKind, key: &[u8], entries, expected| {
        assert_eq!(kind.index_beyond(key, entries), expected, "{kind:?} {key:?}");
    };
    check(MapKind::Array, &[99, 0, 0, 0], 4, Some(99));
    check(MapKind::ProgramTable, &[4, 0, 0, 0], 4, Some(4));
    check(MapKind::MapTable, &[3, 0, 0, 0], 4, None);
    check(MapKind::Hash, &[99, 0, 0, 0], 4, None);
}

#[test]
fn large_values_do_not_fill_the_memory() {
    check_error(shape(MapKind::Queue, 0, BYTES_MAX + 1), "[0]", &["entry 0", "256 MiB"]);
    check_error(shape(MapKind::Queue, 0, usize::MAX), "[0]", &["entry 0", "256 MiB"]);
    // All keys and values count, including per-CPU values.
    #[track_caller]
    fn check(kind: MapKind, json: &str, bytes_max: usize, expected: Option<usize>) {
        let contents = MapContents::parse_within(json.as_bytes(), shape(kind, 4, 10), bytes_max);
        let index = match contents {
            Ok(_) => None,
            Err(MapError::TooLarge { index }) => Some(index),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(index, expected, "{json}");
    }
    check(MapKind::Array, "[0, 0]", 28, None);
    check(MapKind::Array, "[0, 0]", 27, Some(1));
    check(MapKind::Array, "[0, 0]", 13, Some(0));
    check(MapKind::PerCpuArray, r#"[{"key": 0, "values": [0, 0]}]"#, 24, None);
    check(MapKind::PerCpuArray, r#"[{"key": 0, "values": [0, 0]}]"#, 23, Some(0));
}

#[test]
fn values_per_cpu_are_laid_out_for_the_kernel() {
    let same = entry(&[], &[1, 2, 3]);
    assert_eq!(same.value_for_kernel(MapKind::Hash, 2), Ok(vec![1, 2, 3]));
    let filled = [1, 2, 3, 0, 0, 0, 0, 0];
    assert_eq!(same.value_for_kernel(MapKind::PerCpuArray, 2), Ok(filled.repeat(2)));
    let value = EntryValue::PerCpu(vec![vec![1], vec![2]]);
    let each = Entry { key: Vec::new(), value };
    let expected = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(each.value_for_kernel(MapKind::PerCpuHash, 2), Ok(expected));
    let error = MapError::CpuCount { found: 2, cpus: 4 };
    assert_eq!(each.value_for_kernel(MapKind::PerCpuHash, 4), Err(error));
}

#[test]
fn only_maps_of_bytes_or_names_can_be_filled() {
    let fillable: Vec<_> = (0..40)
        .filter_map(|number| MapKind::of_map_type(number).map(|kind| (number, kind)))
        .collect();
    use MapKind::{Array, Hash, MapHash, MapTable, PerCpuArray, PerCpuHash, ProgramTable, Queue};
    let expected = [
        (1, Hash),
        (2, Array),
        (3, ProgramTable),
        (5, PerCpuHash),
        (6, PerCpuArray),
        (9, Hash),
        (10, PerCpuHash),
        (11, Hash),
        (12, MapTable),
        (13, MapHash),
        (14, Array),
        (16, Array),
        (22, Queue),
        (23, Queue),
        (25, Hash),
        (30, Queue),
    ];
    assert_eq!(fillable, expected);
}

proptest! {
    #[test]
    fn all_spellings_of_a_number_agree(number: i64) {
        let bytes = number.to_le_bytes();
        let list: Vec<_> = bytes.iter().map(u8::to_string).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let spellings = [
            number.to_string(),
            format!("[{}]", list.join(",")),
            format!("\"{hex}\""),
            format!("{{\"i64\": {number}}}"),
            format!("{{\"be64\": {}}}", u64::from_be_bytes(bytes)),
            format!("[{{\"u32\": [{}, {}]}}]", number as u32, (number >> 32) as u32),
        ];
        for spelling in spellings {
            check_value(&spelling, &bytes);
        }
    }

    #[test]
    fn numbers_fit_or_not(number: i64, size in 1..8_usize) {
        let json = format!("[{number}]");
        let contents = MapContents::parse(json.as_bytes(), shape(MapKind::Queue, 0, size));
        let bits = 8 * size;
        let fits = number >= -(1 << (bits - 1)) && number < 1 << bits;
        prop_assert_eq!(contents.is_ok(), fits);
    }

    #[test]
    fn entries_have_the_sizes_of_the_map(
        json in r#"\[(\{"key": [0-9]{1,3}, "value": ("[0-9a-f ]{2,9}"|\[[0-9]{1,3}\]|\{"[u-v]8": 1\})\},?){0,3}\]"#,
        key_bytes in 0..4_usize,
        value_bytes in 0..4_usize,
    ) {
        let shape = shape(MapKind::Hash, key_bytes, value_bytes);
        if let Ok(contents) = MapContents::parse(json.as_bytes(), shape) {
            for entry in contents.entries {
                prop_assert_eq!(entry.key.len(), key_bytes);
                let value = entry.value_for_kernel(MapKind::Hash, 1);
                prop_assert_eq!(value.map(|value| value.len()), Ok(value_bytes));
            }
        }
    }
}
