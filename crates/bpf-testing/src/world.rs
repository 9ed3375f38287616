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
