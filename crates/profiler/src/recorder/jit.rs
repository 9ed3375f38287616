//! Unwind rules of JIT-compiled code, from jitdump files that are read while they grow.
//!
//! Changes are queued until the samples of their time arrive: an address has the rule of the code that was there then.

use std::{collections::VecDeque, fs::File, os::unix::fs::FileExt as _, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};
use wingbeat_profiler_abi::unwind::Rule;
use wingbeat_unwind::Rules;

use super::binaries::{Binaries, Binary, BinaryId};
use crate::{
    jitdump::{HEADER, Header, Prefix},
    untrusted_file::trust,
    unwind::jitdump::{Change, EH_FRAME_BYTES_MAX, Pieces, Reader, needs_rules},
};

/// Of longer records only the start is read: code is long, and its bytes do not matter.
const CHUNK: usize = 2 * EH_FRAME_BYTES_MAX;
/// Maximum bytes to read of one file.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes of one file per turn, so that many records do not delay the samples.
const TURN_BYTES_MAX: u64 = 64 << 20;
/// Maximum queued changes, over all files. Further ones take effect at once.
const WAITING_MAX: usize = 1 << 16;

/// State of the code of all processes.
#[derive(Debug, Default)]
pub(crate) struct JitRules {
    /// Rules are not used.
    pub is_off: bool,
    dumps: Vec<Dump>,
    by_pid: FxHashMap<u32, Arc<Pieces>>,
    /// Process, time and change.
    waiting: VecDeque<(u32, u64, Change)>,
    rules: Rules,
    /// Processes in which frame pointer walks go wrong.
    unframed: FxHashSet<u32>,
    /// Processes newly added to these.
    pub changed: Vec<u32>,
    chunk: Vec<u8>,
}

/// A file that a compiler writes.
#[derive(Debug)]
struct Dump {
    pid: u32,
    binary: BinaryId,
    reader: Option<Reader>,
    /// Offset of the next record.
    at: u64,
    /// The process has exited.
    has_ended: bool,
}

impl JitRules {
    /// Handles a process of this user mapping a jitdump file.
    pub(super) fn shown(
        &mut self,
        pid: u32,
        binary: BinaryId,
        user: Option<u32>,
        binaries: &Binaries,
    ) {
        let is_known =
            self.is_off || self.dumps.iter().any(|dump| (dump.pid, dump.binary) == (pid, binary));
        let file = binaries.get(binary).and_then(Binary::file);
        if !is_known && file.is_some_and(|file| trust(file, user).is_ok()) {
            self.dumps.push(Dump { pid, binary, reader: None, at: 0, has_ended: false });
            self.read(binaries);
        }
    }

    /// Reads what was written since the last call.
    pub(super) fn read(&mut self, binaries: &Binaries) {
        let waited = self.waiting.len();
        let mut dumps = std::mem::take(&mut self.dumps);
        dumps.retain_mut(|dump| {
            let from = dump.at;
            let file = binaries.get(dump.binary).and_then(Binary::file);
            let is_sound = file.is_some_and(|file| self.read_dump(dump, file).is_some());
            is_sound && dump.at < FILE_BYTES_MAX && !(dump.has_ended && dump.at == from)
        });
        self.dumps = dumps;
        if self.waiting.len() > waited {
            self.waiting.make_contiguous().sort_by_key(|(_, time_ns, _)| *time_ns);
        }
    }

    /// `None` if the file is finished.
    fn read_dump(&mut self, dump: &mut Dump, file: &File) -> Option<()> {
        let until = dump.at.saturating_add(TURN_BYTES_MAX);
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(CHUNK, 0);
        let mut done = Some(1);
        while dump.at < until && done.is_some_and(|len| len > 0) {
            done = file.read_at(&mut chunk, dump.at).ok().and_then(|got| {
                let available = file.metadata().ok()?.len().saturating_sub(dump.at);
                self.read_chunk(dump, chunk.get(..got)?, available)
            });
            dump.at = dump.at.saturating_add(done.unwrap_or(0));
        }
        self.chunk = chunk;
        done.map(|_| ())
    }

    /// Bytes processed from the next record on, of `available` in the file; `None` if they are invalid.
    fn read_chunk(&mut self, dump: &mut Dump, bytes: &[u8], available: u64) -> Option<u64> {
        let Some(reader) = &mut dump.reader else {
            if bytes.len() < HEADER {
                return Some(0);
            }
            let header = Header::parse(bytes).ok()?;
            dump.reader = Some(Reader::new(header));
            return Some(header.size as u64);
        };
        let mut found = Vec::new();
        let mut take = |time_ns, change| found.push((time_ns, change));
        let mut len = reader.read(bytes, &mut self.rules, &mut take) as u64;
        if len == 0 && bytes.len() == CHUNK {
            let size = Prefix::parse(bytes)?.size as u64;
            if size <= available {
                reader.read_long(bytes, &mut self.rules, &mut take);
                len = size;
            }
        }
        found.into_iter().for_each(|(time_ns, change)| self.wait(dump.pid, time_ns, change));
        Some(len)
    }

    fn wait(&mut self, pid: u32, time_ns: u64, change: Change) {
        if let Change::Load { size, rows, .. } = &change
            && needs_rules(rows, *size, &self.rules)
            && self.unframed.insert(pid)
        {
            self.changed.push(pid);
        }
        self.waiting.push_back((pid, time_ns, change));
        if self.waiting.len() > WAITING_MAX {
            self.take_first();
        }
    }

    /// Applies changes up to the time of the next samples.
    pub(crate) fn advance(&mut self, time_ns: u64) {
        while self.waiting.front().is_some_and(|(_, since_ns, _)| *since_ns <= time_ns) {
            self.take_first();
        }
    }

    fn take_first(&mut self) {
        if let Some((pid, _, change)) = self.waiting.pop_front() {
            Arc::make_mut(self.by_pid.entry(pid).or_default()).take(change);
        }
    }

    /// The rule for an address of a process, if code with rules is there.
    pub(super) fn rule(&self, pid: u32, address: u64) -> Option<Rule> {
        let id = self.by_pid.get(&pid)?.rule_at(address)?;
        Some(self.rules.get(id))
    }

    /// Whether frame pointer walks go wrong in JIT-compiled code of a process.
    pub(crate) fn is_unframed(&self, pid: u32) -> bool {
        self.unframed.contains(&pid)
    }

    /// Copies the parent's code to a child.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        self.clear(child);
        if let Some(pieces) = self.by_pid.get(&parent) {
            self.by_pid.insert(child, Arc::clone(pieces));
        }
        if self.unframed.contains(&parent) {
            self.unframed.insert(child);
        }
    }

    /// Removes the code of a process after `exec`, or when its number is reused.
    pub(super) fn clear(&mut self, pid: u32) {
        self.dumps.retain(|dump| dump.pid != pid);
        self.waiting.retain(|(of, ..)| *of != pid);
        self.by_pid.remove(&pid);
        self.unframed.remove(&pid);
    }

    /// Marks a process as exited: its file is read once more.
    pub(super) fn ended(&mut self, pid: u32) {
        let of_pid = self.dumps.iter_mut().filter(|dump| dump.pid == pid);
        of_pid.for_each(|dump| dump.has_ended = true);
    }
}

/// Growing files, and code that appears and disappears.
#[cfg(test)]
mod tests {
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
        let mut compiler =
            Compiler::new(&[header(), code(5, 0x1000), load(8, 0x1000, 16)].concat());
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
}
