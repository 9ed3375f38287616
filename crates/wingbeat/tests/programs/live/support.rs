//! Test lock, programs to measure, and running wingbeat.

use std::{fs, path::Path, process::Command, sync::MutexGuard};

use aya::{
    Ebpf,
    programs::{Xdp, xdp::XdpMode},
};
use serde_json::Value;
use wingbeat_bpf_bench::live::check_rights;
use wingbeat_bpf_loader::{
    code::{Insn, op},
    empty_baseline::Baseline,
    fd_holders::Owners,
};
use wingbeat_bpf_testing::object::typed::Program;

use crate::live::network::RECEIVER;
pub(crate) use crate::ran::{Ran, result, started, wait_for};

/// Arguments of `wingbeat live`.
pub(crate) const LIVE: &[&str] = &["live"];

/// Acquires the test lock; `None` without privileges.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    crate::ran::turn(check_rights())
}

const MOV: u8 = op::ALU64 | op::MOV;
const EXIT: Insn = Insn::new(op::EXIT, 0, 0, 0, 0);

/// An XDP program that drops every packet, with its full name in BTF.
pub(crate) fn dropper(name: &str) -> Vec<u8> {
    // XDP_DROP
    program(name, "xdp", &[Insn::new(MOV, 0, 0, 0, 1), EXIT]).object()
}

/// A program that loops this many times and returns 0.
pub(crate) fn looping(turns: i32) -> Vec<Insn> {
    [&[Insn::new(MOV, 6, 0, 0, turns)][..], &COUNT_DOWN].concat()
}

/// A raw tracepoint program that loops `turns` times if its first argument is small, as a test run may set it, and ten
/// times if it is an address, as in the kernel's events.
pub(crate) fn long_on_demand(turns: i32) -> Vec<Insn> {
    let choice = [
        Insn::new(op::LDX | op::MEM | op::DW, 7, 1, 0, 0),
        Insn::new(MOV, 6, 0, 0, turns),
        Insn::new(op::JMP | op::JLT, 7, 0, 1, 1 << 20),
        Insn::new(MOV, 6, 0, 0, 10),
    ];
    [choice, COUNT_DOWN].concat()
}

/// Loops r6 times.
const COUNT_DOWN: [Insn; 4] = [
    Insn::new(op::ALU64 | op::ADD, 6, 0, 0, -1),
    Insn::new(op::JMP | op::JNE, 6, 0, -2, 0),
    Insn::new(MOV, 0, 0, 0, 0),
    EXIT,
];

/// A program with one line.
pub(crate) fn program<'a>(name: &'a str, section: &'a str, insns: &'a [Insn]) -> Program<'a> {
    Program { name, section, insns, lines: &[(0, 1, "")], statics: &[] }
}

/// A program that drops every packet.
pub(crate) struct Dropper {
    pub(crate) id: u32,
    ebpf: Ebpf,
    name: String,
}

impl Dropper {
    pub(crate) fn load(name: &str) -> Self {
        let mut ebpf = Ebpf::load(&dropper(name)).expect("it loads");
        let program: &mut Xdp = xdp(&mut ebpf, name);
        program.load().expect("the verifier takes it");
        let id = program.info().expect("info").id();
        Self { id, ebpf, name: name.to_owned() }
    }

    /// Loads it and attaches it to the receiving interface, until dropped.
    pub(crate) fn attached(name: &str) -> Self {
        let mut loaded = Self::load(name);
        let attached = xdp(&mut loaded.ebpf, name).attach(RECEIVER, XdpMode::Skb);
        attached.expect("it is attached");
        loaded
    }

    /// Pins it at a path in bpffs.
    pub(crate) fn pin(&mut self, path: &Path) {
        xdp(&mut self.ebpf, &self.name).pin(path).expect("pinned");
    }
}

fn xdp<'a>(ebpf: &'a mut Ebpf, name: &str) -> &'a mut Xdp {
    ebpf.program_mut(name).expect("it is in the object").try_into().expect("it is of type XDP")
}

pub(crate) fn wingbeat(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.args(arguments);
    command
}

pub(crate) fn live(arguments: &[&str]) -> Command {
    let mut command = wingbeat(LIVE);
    command.args(arguments);
    command
}

/// Runs it to completion.
pub(crate) fn run(mut command: Command) -> Ran {
    Ran::of(&mut command)
}

/// The program with this id in a report.
pub(crate) fn program_in(report: &Value, id: u32) -> Value {
    let programs = report["programs"].as_array().expect("programs");
    let found = programs.iter().find(|program| program["id"] == id);
    found.unwrap_or_else(|| panic!("no program {id} in {report}")).clone()
}

/// Checks that it is attached to the test network.
#[track_caller]
pub(crate) fn check_attached(program: &Value) {
    let attached = program["attached"][0].as_str().expect("a link");
    let is_here = attached.starts_with("xdp on interface ") && attached.contains("(wing1 here)");
    assert!(is_here, "{attached}");
}

/// Whether statistics are on: the sysctl, and the actual state.
pub(crate) fn statistics() -> (String, bool) {
    let path = "/proc/sys/kernel/bpf_stats_enabled";
    let switch = fs::read_to_string(path).expect("the switch");
    (
        switch,
        Baseline::load().and_then(|baseline| baseline.are_statistics_on()).expect("a baseline"),
    )
}

/// Asserts that statistics are as they were `before`. Others may use this machine: if statistics are on now and were
/// not, another process must hold them on.
pub(crate) fn check_statistics(before: &(String, bool), ended: u32) {
    let now = statistics();
    let holders = Owners::scan().expect("/proc").keep_statistics_on;
    assert_eq!(now.0, before.0, "kernel.bpf_stats_enabled");
    assert!(holders.iter().all(|owner| owner.pid != ended), "{holders:?}");
    assert!(now.1 == before.1 || !holders.is_empty(), "statistics are {now:?}, were {before:?}");
}
