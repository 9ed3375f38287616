//! Growing files, and code that appears and disappears.

use std::{io::Write as _, os::unix::fs::MetadataExt as _};

use super::*;
use crate::{
    recorder::event::MappedFile,
    unwind::jitdump::tests::{frames, load, moved, record, unwinding},
};

const PID: u32 = 7;
const FRAMELESS: &str = "cfa=r7+8 ra=c-8";

/// A file and its reader.
struct Compiler {
    file: tempfile::NamedTempFile,
    binaries: Binaries,
    binary: BinaryId,
    jit: JitRules,
}

impl Compiler {
    /// A file with these bytes.
    fn new(bytes: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().expect("temporary file");
        file.write_all(bytes).expect("write");
        let mapped = MappedFile {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            device: (0, 99),
            inode: file.as_file().metadata().expect("metadata").ino(),
            path: file.path().to_string_lossy().into_owned(),
        };
        let mut binaries = Binaries::default();
        // A nonexistent process, so that the path itself is opened.
        let binary = binaries.find_or_open(5_000_000, None, &mapped);
        let mut new = Self { file, binaries, binary, jit: JitRules::default() };
        new.show();
        new
    }

    fn show(&mut self) {
        let user = rustix::process::geteuid().as_raw();
        self.jit.shown(PID, self.binary, Some(user), &self.binaries);
    }

    fn writes(&mut self, bytes: &[u8]) {
        self.file.write_all(bytes).expect("write");
        self.jit.read(&self.binaries);
    }

    #[track_caller]
    fn check(&self, pid: u32, address: u64, expected: &str) {
        let found = self.jit.rule(pid, address).map(|rule| format!("{rule:?}"));
        assert_eq!(found.unwrap_or_default(), expected, "{pid}, {address:#x}");
    }
}

fn header() -> Vec<u8> {
    let mut header = b"DTiJ\x01\0\0\0\x28\0\0\0\x3e\0\0\0".to_vec();
    header.resize(HEADER, 0);
    header
}

/// Code of 16 bytes with rules.
fn code(time_ns: u64, start: u64) -> Vec<u8> {
    [unwinding(&frames(start + 16, &[(start, 16)])), load(time_ns, start, 16)].concat()
}

#[test]
fn a_file_may_end_anywhere_and_go_on() {
    let whole = [header(), code(5, 0x1000), load(6, 0x1000, 16), code(7, 0x2000)].concat();
    for cut in 0..whole.len() {
        let mut compiler = Compiler::new(&whole[..cut]);
        compiler.writes(&whole[cut..]);
        compiler.jit.advance(7);
        compiler.check(PID, 0x1000, "");
        compiler.check(PID, 0x2000, FRAMELESS);
    }
}

#[test]
fn an_address_has_the_rule_of_its_time() {
    let mut compiler = Compiler::new(&[header(), code(5, 0x1000), load(8, 0x1000, 16)].concat());
    let mut check = |time_ns, expected| {
        compiler.jit.advance(time_ns);
        compiler.check(PID, 0x1000, expected);
    };
    check(4, "");
    check(5, FRAMELESS);
    check(7, FRAMELESS);
    check(8, "");
    compiler.writes(&[code(12, 0x3000), moved(13, 0x3000, 0x1000), code(11, 0x1000)].concat());
    compiler.jit.advance(11);
    compiler.check(PID, 0x1000, FRAMELESS);
    compiler.check(PID, 0x3000, "");
    compiler.jit.advance(13);
    compiler.check(PID, 0x1000, FRAMELESS);
    compiler.check(PID, 0x3000, "");
}

#[test]
fn long_records_are_passed_over() {
    let (long, info) = (load(5, 0x10_0000, 2 * CHUNK as u64), unwinding(&vec![0; 2 * CHUNK]));
    let bytes = [header(), code(4, 0x10_1000), long, code(6, 0x1000), info, load(7, 0x1000, 4)];
    let mut compiler = Compiler::new(&bytes.concat());
    compiler.jit.advance(6);
    // The long code replaced what was there.
    compiler.check(PID, 0x10_1000, "");
    compiler.check(PID, 0x1000, FRAMELESS);
    compiler.jit.advance(7);
    compiler.check(PID, 0x1000, "");
}

#[test]
fn children_have_what_their_parents_have_until_they_are_another_program() {
    let mut compiler = Compiler::new(&[header(), code(5, 0x1000)].concat());
    compiler.jit.advance(5);
    assert_eq!(compiler.jit.changed, [PID]);
    compiler.jit.fork(PID, 8);
    compiler.writes(&load(6, 0x1000, 16));
    compiler.jit.advance(6);
    compiler.check(PID, 0x1000, "");
    compiler.check(8, 0x1000, FRAMELESS);
    assert!(compiler.jit.is_unframed(8));
    compiler.jit.clear(8);
    compiler.check(8, 0x1000, "");
    assert!(!compiler.jit.is_unframed(8));
    // A parent without such code.
    compiler.jit.fork(8, PID);
    assert!(!compiler.jit.is_unframed(PID));
    assert!(compiler.jit.dumps.is_empty());
}

#[test]
fn a_file_is_read_as_long_as_there_is_something_to_read() {
    let mut compiler = Compiler::new(&header());
    compiler.jit.ended(PID);
    compiler.writes(&code(5, 0x1000));
    assert_eq!(compiler.jit.dumps.len(), 1);
    compiler.writes(&[]);
    assert!(compiler.jit.dumps.is_empty());
    compiler.jit.advance(5);
    compiler.check(PID, 0x1000, FRAMELESS);
    // An invalid file.
    assert!(Compiler::new(&[0; HEADER]).jit.dumps.is_empty());
    assert_eq!(Compiler::new(&[]).jit.dumps.len(), 1);
    // Zeros, which may be filled later.
    let zeros = [header(), vec![0; 16]].concat();
    assert_eq!(Compiler::new(&zeros).jit.dumps.len(), 1);
    let other = [header(), record(99, 1, &[1; 8]), code(5, 0x1000)].concat();
    let mut compiler = Compiler::new(&other);
    compiler.jit.advance(5);
    compiler.check(PID, 0x1000, FRAMELESS);
}

#[test]
fn strangers_are_not_believed_and_nobody_is_when_rules_are_not_used() {
    let mut compiler = Compiler::new(&[header(), code(5, 0x1000)].concat());
    compiler.jit = JitRules { is_off: true, ..JitRules::default() };
    compiler.show();
    assert!(compiler.jit.dumps.is_empty());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(compiler.file.path(), Some(4242), None).expect("chown");
        compiler.jit.is_off = false;
        compiler.show();
        assert!(compiler.jit.dumps.is_empty());
    }
}
