//! Handmade tables of each version, valid and damaged.

use super::*;

/// Two functions: `main.a` of 16 bytes, and `main.b` of 32, in `a.go` and `b.go`.
const A: u64 = 0x40_1000;
const B: u64 = A + 16;
const END: u64 = B + 32;

/// Steps of a value: the difference, and the number of instructions.
fn steps(steps: &[(i32, u8)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = steps
        .iter()
        .flat_map(|&(change, instructions)| {
            let number = (change << 1 ^ change >> 31) as u32;
            [number as u8 | 0x80, (number >> 7) as u8, instructions]
        })
        .collect();
    bytes.push(0);
    bytes
}

/// The parts of a table, before the header is added.
struct Parts {
    version: Version,
    bytes: Vec<u8>,
}

impl Parts {
    /// Adds a part, and returns its position.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.bytes.extend(bytes);
        (self.bytes.len() - bytes.len()) as u64
    }

    fn pc(&self, address: u64) -> Vec<u8> {
        match self.version.has_offsets() {
            true => ((address - A) as u32).to_le_bytes().to_vec(),
            false => address.to_le_bytes().to_vec(),
        }
    }

    fn number(&self, number: u64) -> Vec<u8> {
        number.to_le_bytes()[..if self.version.has_offsets() { 4 } else { 8 }].to_vec()
    }

    fn description(&self, start: u64, name: u64, values: [u64; 3], flags: u8) -> Vec<u8> {
        let [stack, file, line] = values.map(|value| value as u32);
        let mut words = vec![name as u32, 0, 0, stack, file, line, 0];
        if self.version >= Version::Go1_16 {
            words.push(0);
        }
        if self.version == Version::Go1_20 {
            words.push(1);
        }
        let mut bytes = self.pc(start);
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend([0, flags, 0, 0]);
        bytes
    }

    fn table(version: Version) -> Vec<u8> {
        let mut parts = Self { version, bytes: vec![0; 0x48] };
        let is_first = version == Version::Go1_2;
        // The list follows the header; in later versions it precedes the descriptions.
        let list_bytes = 5 * parts.pc(A).len() + 4;
        let list = if is_first { 16 } else { parts.add(&vec![0; list_bytes]) };
        parts.bytes.resize(parts.bytes.len().max(list as usize + list_bytes), 0);
        let names = parts.add(b"main.a\0main.b\0");
        let paths = parts.add(b"a.go\0b.go\0");
        // Offsets count from the start of their part; in the first version, from that of the table.
        let place = |base: u64, at: u64| if is_first { at } else { at - base };
        let files = match is_first {
            true => [2, paths as u32, paths as u32 + 5],
            // The second has no code.
            false => [0, u32::MAX, 5],
        };
        let files = parts.add(&files.map(u32::to_le_bytes).concat());
        let values = parts.add(&[0]);
        let stack = parts.add(&steps(&[(1, 4), (24, 10), (-24, 2)]));
        let lines = parts.add(&steps(&[(8, 4), (1, 28)]));
        let files_of_a = parts.add(&steps(&[(if is_first { 2 } else { 1 }, 16)]));
        let files_of_b = parts.add(&steps(&[(3, 32)]));
        let [stack, lines, files_of_a, files_of_b] =
            [stack, lines, files_of_a, files_of_b].map(|at| place(values, at));
        let name = place(names, names);
        let a = parts.description(A, name, [stack, files_of_a, lines], 0);
        let a = parts.add(&a);
        let b = parts.description(B, name + 7, [0, files_of_b, lines], 3);
        let b = parts.add(&b);
        let entries = [parts.pc(A), parts.number(place(list, a)), parts.pc(B)];
        let entries = [entries.concat(), parts.number(place(list, b)), parts.pc(END)].concat();
        let mut header = vec![magic(version), 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let words = match version {
            Version::Go1_2 => vec![2],
            Version::Go1_16 => vec![2, 2, names, files, paths, values, list],
            _ => vec![2, 2, A, names, files, paths, values, list],
        };
        header.extend(words.into_iter().flat_map(u64::to_le_bytes));
        parts.bytes[..header.len()].copy_from_slice(&header);
        parts.bytes[list as usize..][..entries.len()].copy_from_slice(&entries);
        if is_first {
            parts.bytes[list as usize + entries.len()..][..4]
                .copy_from_slice(&(files as u32).to_le_bytes());
        }
        parts.bytes
    }
}

fn magic(version: Version) -> u8 {
    match version {
        Version::Go1_2 => 0xfb,
        Version::Go1_16 => 0xfa,
        Version::Go1_18 => 0xf0,
        Version::Go1_20 => 0xf1,
    }
}

const VERSIONS: [Version; 4] = [Version::Go1_2, Version::Go1_16, Version::Go1_18, Version::Go1_20];

fn parse(bytes: &[u8]) -> Option<GoTable<&[u8]>> {
    GoTable::parse(bytes, 0, bytes.len() as u64)
}

#[test]
fn names_files_and_lines_by_address() {
    for version in VERSIONS {
        let bytes = Parts::table(version);
        let table = parse(&bytes).expect("a table");
        assert_eq!(table.range(), Some(A..END));
        let check = |address, expected: &str| {
            let found = table.place(address).map_or_else(String::new, |place| {
                let (file, line) = place.source.unwrap_or_default();
                format!("{} {file}:{line}", place.function)
            });
            assert_eq!(found, expected, "{version:?} {address:#x}");
        };
        check(A - 1, "");
        check(A, "main.a a.go:7");
        check(A + 3, "main.a a.go:7");
        check(A + 4, "main.a a.go:8");
        check(B - 1, "main.a a.go:8");
        check(B, "main.b b.go:7");
        check(END - 1, "main.b b.go:8");
        check(END, "");
        check(u64::MAX, "");
    }
}

#[test]
fn sizes_of_frames_and_flags() {
    for version in VERSIONS {
        let bytes = Parts::table(version);
        let table = parse(&bytes).expect("a table");
        let [a, b] = [0, 1].map(|number| table.function(number).expect("a function"));
        assert_eq!((table.flags(&a), table.flags(&b)), (Some(0), Some(3)), "{version:?}");
        let sizes: Vec<_> = table.stack_bytes(&a).expect("values").collect();
        assert_eq!(sizes, [(0, A + 4), (24, A + 14), (0, B)], "{version:?}");
        assert!(table.stack_bytes(&b).is_none() && table.function(2).is_none());
    }
}

/// With any byte changed or missing, there is a result or none, but no panic.
#[test]
fn damaged_tables() {
    for version in VERSIONS {
        let whole = Parts::table(version);
        let ask = |bytes: &[u8]| {
            let Some(table) = parse(bytes) else { return };
            for address in [A, A + 5, B, END - 1, END] {
                let _ = table.place(address);
            }
            for number in 0..table.functions().min(4) {
                let Some(function) = table.function(number) else { continue };
                let steps = table.stack_bytes(&function).into_iter().flatten().count() as u64;
                assert!(steps <= function.end.saturating_sub(function.start));
            }
        };
        for len in 0..whole.len() {
            ask(&whole[..len]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                ask(&bytes);
            }
        }
        for at in [4, 5, 6, 7] {
            let mut bytes = whole.clone();
            bytes[at] = 3;
            assert!(parse(&bytes).is_none(), "{version:?}");
        }
    }
}
