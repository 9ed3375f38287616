//! Environment of real objects: a packet and its context, maps, kernel helpers.
//!
//! Helpers follow net/core/filter.c, kernel/bpf/helpers.c and net/bpf/test_run.c of Linux 6.18, as far as
//! `BPF_PROG_TEST_RUN` can observe. An unknown helper is an error that names it; its result is never guessed.
//!
//! Maps are shadows: the first access fetches an entry from the [`Contents`], and writes stay here. Hash tables never
//! fill up, and LRU tables evict nothing.

mod contexts;
mod helpers;
mod maps;
mod packet;

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Insn, op},
    helpers::name,
    spec::{Linked, MapSpec},
};

use self::{maps::Maps, packet::Packet};
use crate::{
    Fault, Step,
    machine::{self, Answer, Arguments, Host},
    memory::Memory,
};

/// Map contents before the run.
pub trait Contents {
    /// Value of `key` in a map, given by its index in the object, on the CPU of the run; `None` if absent. The error is
    /// a reason.
    fn lookup(&mut self, map: usize, key: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// Values of a queue or stack, oldest first. The error is a reason.
    fn queue(&mut self, map: usize) -> Result<Vec<Vec<u8>>, String>;
}

/// Time and place of a run.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    pub cpu: u32,
    /// Clock of `bpf_ktime_get_ns`; each read advances it by 1 ns.
    pub now_ns: u64,
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldOutcome {
    pub return_value: u32,
    /// Executions of each instruction; an `ldimm64` counts at its first half.
    pub counts: Vec<u64>,
    pub packet: Vec<u8>,
}

/// Why a program cannot run here.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error(
        "programs of type {0} are not known to the interpreter; xdp, sched_cls, sched_act, \
         socket_filter and cgroup_skb are"
    )]
    Type(ProgramType),
    #[error("the packet has {bytes} bytes; the interpreter takes from {min} to {max}")]
    Packet { bytes: usize, min: usize, max: usize },
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Runs a program of an object. `maps` are the object's maps, which the code references by index.
///
/// # Errors
///
/// If its type, one of its helpers, or a context field that it reads is not supported, or if the verifier would reject
/// it.
pub fn run(
    linked: &Linked,
    maps: &[MapSpec],
    contents: &mut dyn Contents,
    packet: &[u8],
    surroundings: Surroundings,
) -> Result<WorldOutcome, WorldError> {
    let mut memory = Memory::default();
    let packet = Packet::place(&mut memory, linked.program.r#type, packet)?;
    let mut world = World { linked, maps: Maps::new(maps, contents), packet, surroundings };
    let ended = machine::run(&linked.code, &mut memory, &mut world, packet::CONTEXT)?;
    Ok(WorldOutcome {
        return_value: ended.result as u32,
        counts: ended.counts,
        packet: world.packet.bytes(&memory),
    })
}

/// Environment of the program.
struct World<'a> {
    linked: &'a Linked,
    maps: Maps<'a>,
    packet: Packet,
    surroundings: Surroundings,
}

impl Host for World<'_> {
    fn name(&mut self, memory: &mut Memory, kind: u8, halves: [i32; 2]) -> Step<u64> {
        let position = halves[0] as u32 as usize;
        match kind {
            op::PSEUDO_MAP_FD => self.maps.handle(position),
            op::PSEUDO_MAP_VALUE => {
                let value = self.maps.value(memory, position, &0_u32.to_le_bytes())?;
                let value = value.ok_or("the address of a value that is not there")?;
                Ok(value + u64::from(halves[1] as u32))
            }
            op::PSEUDO_BTF_ID => Err("the address of a variable of the kernel".into()),
            _ => Err("a load of 64 bits of an unknown kind".into()),
        }
    }

    fn call(&mut self, memory: &mut Memory, insn: Insn, arguments: &Arguments) -> Step<Answer> {
        if insn.opcode != op::CALL {
            return Err("a call through a register".into());
        }
        match insn.src() {
            0 => {
                let number = u32::try_from(insn.immediate).ok();
                match number.and_then(name) {
                    Some(name) => helpers::call(self, memory, name, arguments),
                    None => {
                        Err(format!("helper {}, which Linux 6.18 has not", insn.immediate).into())
                    }
                }
            }
            op::PSEUDO_KFUNC_CALL => {
                let kfunc = self.linked.kfunc_at(memory.index);
                let name = kfunc.map_or("without a name", |kfunc| kfunc.name.as_str());
                Err(format!("the kernel's function {name} is not known to the interpreter").into())
            }
            kind => Err(format!("a call of an unknown kind, {kind}").into()),
        }
    }

    fn packet(&self, memory: &Memory, offset: u64, size: usize) -> Step<Option<u64>> {
        // Offsets beyond 2 GiB are ancillary data of classic BPF.
        if offset > i32::MAX as u64 {
            return Err("a classic load without a packet".into());
        }
        let bytes = self.packet.bytes(memory);
        let start = offset as usize;
        let bytes = bytes.get(start..start + size);
        Ok(bytes.map(|bytes| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))))
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_loader::code::Code;

    use super::*;
    use crate::{
        assemble::{Assembler, assembled, load},
        linked,
    };

    /// No maps.
    struct Nothing;

    impl Contents for Nothing {
        fn lookup(&mut self, _: usize, _: &[u8]) -> Result<Option<Vec<u8>>, String> {
            Ok(None)
        }

        fn queue(&mut self, _: usize) -> Result<Vec<Vec<u8>>, String> {
            Ok(Vec::new())
        }
    }

    /// Runs a program of this type on an all-zero packet; checks the outcome or the error.
    #[track_caller]
    fn check(r#type: ProgramType, code: Code, packet_len: usize, expected: &str) {
        let surroundings = Surroundings { cpu: 0, now_ns: 0 };
        let linked = linked("program", r#type, code);
        let outcome = run(&linked, &[], &mut Nothing, &vec![0; packet_len], surroundings);
        let found = outcome.map_or_else(|error| error.to_string(), |found| format!("{found:?}"));
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn what_cannot_be_known() {
        let xdp = |build: fn(&mut Assembler), expected| {
            check(ProgramType::XDP, assembled(build), 20, expected);
        };
        xdp(|it| it.mov(0, 0).exit(), "counts: [1, 1]");
        xdp(Assembler::exit, "instruction 0: the end of a function without a result");
        let unwritten = "instruction 0: stack that was never written";
        xdp(|it| it.emit(load(op::DW, 0, 10, -8)).exit(), unwritten);
        let unknown = "a part of the context that is not known here, at 20";
        xdp(|it| it.emit(load(op::W, 0, 1, 20)).exit(), unknown);
        xdp(
            |it| it.emit(load(op::W, 1, 1, 0)).emit(load(op::W, 0, 1, 17)).exit(),
            "instruction 1: a read out of bounds",
        );
        xdp(|it| it.call(7).exit(), "bpf_get_prandom_u32 gives another number each time");
        xdp(|it| it.call(69).exit(), "the helper bpf_fib_lookup is not known to the interpreter");
        xdp(|it| it.call(9999).exit(), "helper 9999, which Linux 6.18 has not");
        let endless = |it: &mut Assembler| _ = it.emit(Insn::new(op::JA, 0, 0, -1, 0));
        xdp(endless, "endless, or runs more than 10,000,000 instructions");
        xdp(|it| _ = it.mov(0, 0), "instruction 1: outside of the program");
    }

    #[test]
    fn what_cannot_be_run() {
        let check = |r#type, packet_len, expected: &str| {
            check(r#type, assembled(|it| it.mov(0, 0).exit()), packet_len, expected);
        };
        check(ProgramType::KPROBE, 20, "programs of type kprobe are not known");
        check(ProgramType::XDP, 13, "the packet has 13 bytes; the interpreter takes from 14");
        check(ProgramType::XDP, 3521, "the packet has 3521 bytes");
        check(ProgramType::SCHED_CLS, 3520, "return_value: 0");
    }
}
