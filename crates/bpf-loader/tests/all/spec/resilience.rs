//! Damage of every kind and place: an error or a result, never a panic, and in little time.

use std::time::{Duration, Instant};

use wingbeat_bpf_testing::object::{
    Object, field,
    insns::{EXIT, call, give},
    patch_section,
    sample::Sample,
};

use super::support::{exercise, kernel, parse};

/// Maximum time to read anything, far above the normal time.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn cut_at_every_length() {
    let (bytes, kernel) = (Sample::new().bytes(), kernel());
    for len in 0..bytes.len() {
        exercise(&bytes[..len], &kernel);
    }
}

#[test]
fn every_section_cut_at_every_length() {
    let (bytes, kernel) = (Sample::new().bytes(), kernel());
    let sections = u16::from_le_bytes([bytes[60], bytes[61]]);
    for section in 1..usize::from(sections) {
        for len in 0..600_u64 {
            let mut bytes = bytes.clone();
            patch_section(&mut bytes, section, field::SIZE, &len.to_le_bytes());
            exercise(&bytes, &kernel);
        }
    }
}

#[test]
fn every_byte_changed() {
    let (mut bytes, kernel) = (Sample::new().bytes(), kernel());
    for at in 0..bytes.len() {
        let sound = bytes[at];
        for value in [0, 1, 0x7f, 0x80, 0xff, sound.wrapping_add(1), sound ^ 0x10] {
            bytes[at] = value;
            exercise(&bytes, &kernel);
        }
        bytes[at] = sound;
    }
}

/// A deterministic random number generator (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

#[test]
fn several_places_changed_at_once() {
    let (sound, kernel) = (Sample::new().bytes(), kernel());
    let (mut numbers, start) = (Numbers(230), Instant::now());
    for _ in 0..8_000 {
        let mut bytes = sound.clone();
        for _ in 0..=numbers.below(6) {
            let at = numbers.below(bytes.len());
            match numbers.below(4) {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => bytes[at] = numbers.below(256) as u8,
                // A word, which is mostly a valid reference.
                2 => {
                    let word = (numbers.below(200) as u32).to_le_bytes();
                    let at = at / 4 * 4;
                    bytes[at..at + 4].copy_from_slice(&word);
                }
                _ => {
                    let (from, len) = (numbers.below(bytes.len()), numbers.below(64));
                    let len = len.min(bytes.len() - from.max(at));
                    bytes.copy_within(from..from + len, at);
                }
            }
        }
        exercise(&bytes, &kernel);
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[track_caller]
fn in_time(object: &Object) {
    let (bytes, start) = (object.write(), Instant::now());
    exercise(&bytes, &kernel());
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn as_many_sections_as_there_can_be() {
    let mut object = Object::new();
    for number in 0..0xfe00 {
        match number % 3 {
            0 => object.code("xdp"),
            1 => object.data("maps", &[0; 20]),
            _ => object.note("license.not", &[0; 8]),
        };
    }
    in_time(&object);
}

#[test]
fn a_program_in_each_of_many_sections() {
    let mut object = Object::new();
    for number in 0..20_000 {
        let section = object.code("xdp");
        object.function(section, &format!("p{number}"), &give(0));
    }
    let (bytes, start) = (object.write(), Instant::now());
    assert_eq!(parse(&bytes).programs().len(), 20_000);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn many_functions_with_many_lines() {
    let mut sample = Sample::new();
    sample.object = Object::new();
    let xdp = sample.object.code("xdp");
    let (name, line) = (sample.types.text("xdp"), sample.types.text("line"));
    let lines = (0..60_000).map(|insn| [8 * insn, line, line, 1 << 10]).collect();
    sample.extension.functions.clear();
    sample.extension.accesses.clear();
    sample.extension.lines = vec![(name, lines)];
    let callee = sample.object.static_function(xdp, "callee", &give(0));
    for number in 0..20_000 {
        let symbol = sample.object.static_function(xdp, &format!("f{number}"), &[call(-1), EXIT]);
        let at = sample.object.symbols[symbol].value / 8;
        sample.object.call(xdp, at, callee);
    }
    sample.object.function(xdp, "main", &[call(-3), EXIT]);
    sample.object.note(".BTF", &sample.types.bytes());
    sample.object.note(".BTF.ext", &sample.extension.bytes());
    let (bytes, start) = (sample.object.write(), Instant::now());
    let spec = parse(&bytes);
    assert_eq!(spec.link_program("main", None).unwrap().code.functions.len(), 3);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}
