//! Test lock, the object to measure, and running wingbeat.

use std::{fs, path::PathBuf, process::Command, sync::MutexGuard};

pub(crate) use crate::ran::{Ran, started};
use serde_json::Value;
use tempfile::TempDir;
use wingbeat_bpf_bench::live::check_rights;
use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_bpf_testing::object::typed::Program;

/// Acquires the test lock; `None` without privileges.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    crate::ran::turn(check_rights())
}

/// Name of the program of [`looping`].
pub(crate) const PROGRAM: &str = "count_down";

pub(crate) const PASS: u32 = 2;

/// Few repetitions on the object of [`Folder::with_object`].
pub(crate) const QUICK: [&str; 7] =
    ["bench", "looping.o", "--samples", "3", "--time", "20s", "--allow-stats"];

/// Default iterations of the loop.
pub(crate) const TURNS: u16 = 300;

/// Instructions that one run of [`looping`] executes on an IPv4 packet.
pub(crate) fn executed(turns: u16) -> u64 {
    11 + 2 * u64::from(turns)
}

/// Line of [`looping`] that IPv4 packets do not reach.
pub(crate) const NEVER_LINE: u32 = 16;

pub(crate) const LOOP_LINE: u32 = 13;

/// An object with one XDP program, which loops `turns` times and passes IPv4 packets.
pub(crate) fn looping(turns: u16) -> Vec<u8> {
    let plain = |opcode, dst, offset, immediate| Insn::new(opcode, dst, 0, offset, immediate);
    let load = |size, dst, src, offset| Insn::new(op::LDX | op::MEM | size, dst, src, offset, 0);
    let mov = op::ALU64 | op::MOV;
    let insns = [
        // r2 and r3 are the packet's start and end.
        load(op::W, 2, 1, 0),
        load(op::W, 3, 1, 4),
        Insn::new(mov | op::X, 4, 2, 0, 0),
        plain(op::ALU64 | op::ADD, 4, 0, 14),
        plain(mov, 0, 0, 1),
        Insn::new(op::JMP | op::JGT | op::X, 4, 3, 7, 0),
        load(op::B, 5, 2, 12),
        plain(mov, 6, 0, turns.into()),
        plain(op::ALU64 | op::ADD, 6, 0, -1),
        plain(op::JMP | op::JNE, 6, -2, 0),
        plain(mov, 0, 0, PASS as i32),
        plain(op::JMP | op::JEQ, 5, 1, 8),
        plain(mov, 0, 0, 0),
        plain(op::EXIT, 0, 0, 0),
    ];
    let lines = [
        (0, 10, "if (packet + 14 > end)"),
        (6, 11, "int type = packet[12];"),
        (7, 12, "int turns = TURNS;"),
        (8, LOOP_LINE, "while (--turns) {}"),
        (10, 14, "int verdict = XDP_PASS;"),
        (11, 15, "if (type != 8)"),
        (12, NEVER_LINE, "verdict = XDP_ABORTED;"),
        (13, 17, "return verdict;"),
    ];
    let statics = &[];
    Program { name: PROGRAM, section: "xdp", insns: &insns, lines: &lines, statics }.object()
}

/// An object with one program of a type that no kernel runs on demand. It returns its context's first word if
/// `is_sound`; otherwise it dereferences that word, which the verifier rejects.
pub(crate) fn probe(is_sound: bool) -> Vec<u8> {
    let load = |dst, src| Insn::new(op::LDX | op::MEM | op::DW, dst, src, 0, 0);
    let again = if is_sound { Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 0) } else { load(0, 1) };
    let insns = [load(1, 1), again, Insn::new(op::EXIT, 0, 0, 0, 0)];
    let lines = [(0, 20, "long *first = ctx->first;"), (1, 21, "return *first;")];
    let (name, section) = ("on_event", "kprobe/schedule");
    Program { name, section, insns: &insns, lines: &lines, statics: &[] }.object()
}

/// The test lock, and a folder with the object `looping.o`.
pub(crate) fn turn_with_object() -> Option<(MutexGuard<'static, ()>, Folder)> {
    turn().map(|turn| (turn, Folder::with_object()))
}

/// A temporary folder. World-readable, for tests without privileges.
pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary folder"))
    }

    /// A folder with the object `looping.o`.
    pub(crate) fn with_object() -> Self {
        let folder = Self::new();
        folder.file("looping.o", looping(TURNS));
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    /// Contents of a file written by wingbeat.
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// `wingbeat` with arguments in this folder.
    pub(crate) fn wingbeat(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Runs `wingbeat` in this folder to completion.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.wingbeat(arguments))
    }
}

impl Ran {
    /// All output, with each run of white space replaced by one space: tables wrap long texts.
    pub(crate) fn said(&self) -> String {
        let both = format!("{} {}", self.stdout, self.stderr);
        both.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON: {error}\n{text}"))
}
