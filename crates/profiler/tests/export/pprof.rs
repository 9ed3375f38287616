//! pprof profiles, read back by a protobuf parser that shares no code with the exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use flate2::read::GzDecoder;
use wingbeat_profiler::export::Format;

use crate::golden;
use crate::small::{export, small};

/// A message as field numbers and values, in order.
pub(crate) struct Message(Vec<(u64, Field)>);

enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    /// Parses the wire format; panics on types that the schema does not use.
    fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                2 => {
                    let len = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(len);
                    bytes = rest;
                    Field::Bytes(value.to_vec())
                }
                wire_type => panic!("wire type {wire_type}"),
            };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &Field> {
        self.0.iter().filter(move |(field, _)| *field == number).map(|(_, value)| value)
    }

    fn bytes(&self, number: u64) -> impl Iterator<Item = &[u8]> {
        self.all(number).map(|field| match field {
            Field::Bytes(bytes) => bytes.as_slice(),
            Field::Number(number) => panic!("number {number} instead of bytes"),
        })
    }

    fn messages(&self, number: u64) -> impl Iterator<Item = Message> {
        self.bytes(number).map(Message::parse)
    }

    /// An integer that occurs at most once; 0 if absent.
    fn number(&self, number: u64) -> u64 {
        let mut fields = self.all(number);
        let value = match fields.next() {
            Some(Field::Number(value)) => *value,
            Some(Field::Bytes(_)) => panic!("bytes instead of a number"),
            None => 0,
        };
        assert!(fields.next().is_none(), "field {number} occurs twice");
        value
    }

    /// Packed integers.
    fn numbers(&self, number: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for mut bytes in self.bytes(number) {
            while !bytes.is_empty() {
                numbers.push(varint(&mut bytes));
            }
        }
        numbers
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a varint goes on");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

/// A profile with its tables, checked as `go tool pprof` does.
pub(crate) struct Pprof {
    root: Message,
    strings: Vec<String>,
    mappings: BTreeMap<u64, Message>,
    locations: BTreeMap<u64, Message>,
    functions: BTreeMap<u64, Message>,
}

impl Pprof {
    /// Decompresses, parses and checks.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
        let root = Message::parse(&unpacked);
        let strings = root.bytes(6).map(|it| String::from_utf8(it.to_vec()).unwrap()).collect();
        let profile = Self {
            strings,
            mappings: by_id(root.messages(3)),
            locations: by_id(root.messages(4)),
            functions: by_id(root.messages(5)),
            root,
        };
        profile.check();
        profile
    }

    fn check(&self) {
        assert_eq!(self.strings[0], "");
        let types = self.root.messages(1).count();
        for location in self.locations.values() {
            let mapping = location.number(2);
            assert!(mapping == 0 || self.mappings.contains_key(&mapping));
            for line in location.messages(4) {
                assert!(self.functions.contains_key(&line.number(1)));
            }
        }
        for sample in self.root.messages(2) {
            assert_eq!(sample.numbers(2).len(), types);
            assert!(sample.numbers(1).iter().all(|id| self.locations.contains_key(id)));
        }
    }

    /// Sums of all samples' values, in the order of the sample types.
    pub(crate) fn totals(&self) -> Vec<u128> {
        let mut totals = vec![0; self.root.messages(1).count()];
        for sample in self.root.messages(2) {
            for (total, value) in totals.iter_mut().zip(sample.numbers(2)) {
                *total += u128::from(value);
            }
        }
        totals
    }

    fn string(&self, index: u64) -> &str {
        &self.strings[index as usize]
    }

    fn value_type(&self, message: &Message) -> String {
        format!("{}/{}", self.string(message.number(1)), self.string(message.number(2)))
    }

    fn label(&self, label: &Message) -> String {
        let key = self.string(label.number(1));
        match label.number(2) {
            0 => format!("{key}={} {}", label.number(3), self.string(label.number(4))),
            text => format!("{key}={}", self.string(text)),
        }
    }

    /// The complete contents, readable.
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        let root = &self.root;
        for value_type in root.messages(1) {
            let _ = writeln!(text, "sample_type {}", self.value_type(&value_type));
        }
        let period_type = root.messages(11).next().unwrap();
        let _ = writeln!(text, "period {} {}", root.number(12), self.value_type(&period_type));
        let _ = writeln!(text, "default {}", self.string(root.number(14)));
        let _ = writeln!(text, "time {} duration {}", root.number(9), root.number(10));
        for comment in root.numbers(13) {
            // The version changes with every release, but the file should not.
            let comment = self.string(comment).replace(env!("CARGO_PKG_VERSION"), "VERSION");
            let _ = writeln!(text, "comment {comment}");
        }
        for mapping in root.messages(3) {
            let _ = writeln!(
                text,
                "mapping {} {:#x}..{:#x} at {:#x} {} [{}] functions {} files {} lines {} inlines {}",
                mapping.number(1),
                mapping.number(2),
                mapping.number(3),
                mapping.number(4),
                self.string(mapping.number(5)),
                self.string(mapping.number(6)),
                mapping.number(7),
                mapping.number(8),
                mapping.number(9),
                mapping.number(10),
            );
        }
        for sample in root.messages(2) {
            let labels: Vec<String> = sample.messages(3).map(|it| self.label(&it)).collect();
            let _ = writeln!(text, "sample {:?} {}", sample.numbers(2), labels.join(", "));
            for location in sample.numbers(1) {
                let location = &self.locations[&location];
                let _ = writeln!(text, "  {:#x} in {}", location.number(3), location.number(2));
                for line in location.messages(4) {
                    let function = &self.functions[&line.number(1)];
                    let name = self.string(function.number(2));
                    assert_eq!(function.number(3), 0, "pprof would demangle {name} again");
                    let file = self.string(function.number(4));
                    let _ = writeln!(text, "    {name} {file}:{}", line.number(2));
                }
            }
        }
        text
    }
}

fn by_id(messages: impl Iterator<Item = Message>) -> BTreeMap<u64, Message> {
    let mut table = BTreeMap::new();
    for message in messages {
        let id = message.number(1);
        assert_ne!(id, 0, "ids are not 0");
        assert!(table.insert(id, message).is_none(), "id {id} is there twice");
    }
    table
}

#[test]
fn matches_the_golden_file() {
    let profile = Pprof::read(&export(&small(), Format::Pprof));
    golden::check("small.pprof.txt", &profile.dump());
}

#[test]
fn the_bytes_depend_on_the_profile_alone() {
    assert_eq!(export(&small(), Format::Pprof), export(&small(), Format::Pprof));
}
