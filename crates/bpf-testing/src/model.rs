//! Environment of generated programs: a packet, and the value of one map.
//!
//! Two calls differ from the kernel's, so that some calls do not return: the kfunc [`KFUNC_THROW`] ends the program if
//! the low bits of r1 are clear, and a tail call succeeds if those of r3 are.

use wingbeat_bpf_loader::code::{Code, Insn, op};

pub use crate::memory::Write;
use crate::{
    Fault, Step,
    machine::{self, Answer, Arguments, Host},
    memory::{Area, Memory},
};

pub use crate::machine::HELPER_LOOP;

/// Number of the throwing kfunc.
pub const KFUNC_THROW: i32 = 1;
/// Result of a program that throws or tail-calls.
pub const RESULT_ESCAPED: u64 = 1;
/// Helper number of `bpf_skb_load_bytes`.
pub const HELPER_SKB_LOAD_BYTES: i32 = 26;

/// Address of the context.
const CONTEXT: u64 = 0x1000_0000;
/// Address of the packet.
const PACKET: u64 = 0x2000_0000;
/// Address of the map's value.
const VALUE: u64 = 0x3000_0000;

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOutcome {
    pub result: u64,
    /// Executions of each instruction; an `ldimm64` counts at its first half.
    pub counts: Vec<u64>,
    /// Stack writes, in order.
    pub writes: Vec<Write>,
    /// Value of the map afterwards.
    pub value: Vec<u8>,
}

/// Environment of a generated program.
#[derive(Debug, Clone)]
pub struct Model {
    context: Vec<u8>,
    packet: Vec<u8>,
    value_size: usize,
}

impl Model {
    /// For a socket filter: its context starts with the packet length.
    pub fn of_socket_filter(packet: &[u8], value_size: usize) -> Self {
        let context = (packet.len() as u32).to_le_bytes().to_vec();
        Self { context, packet: packet.to_vec(), value_size }
    }

    /// For an XDP program: its context starts with the addresses of the packet's start and end.
    pub fn of_xdp(packet: &[u8], value_size: usize) -> Self {
        let end = PACKET + packet.len() as u64;
        let context = [PACKET, end].map(|address| (address as u32).to_le_bytes()).concat();
        Self { context, packet: packet.to_vec(), value_size }
    }
}

/// Runs a generated program.
///
/// # Errors
///
/// If the verifier would reject the program, or the model does not support it.
pub fn run(code: &Code, model: Model) -> Result<ModelOutcome, Fault> {
    let mut memory = Memory::default();
    memory.place(CONTEXT, Area::new(model.context.clone(), false));
    memory.place(PACKET, Area::new(model.packet.clone(), false));
    memory.place(VALUE, Area::new(vec![0; model.value_size], true));
    let ended = machine::run(code, &mut memory, &mut Outside(model.packet), CONTEXT)?;
    let value = memory.area(VALUE).map(|area| area.bytes.clone()).unwrap_or_default();
    Ok(ModelOutcome { result: ended.result, counts: ended.counts, writes: ended.writes, value })
}

/// The packet.
struct Outside(Vec<u8>);

impl Host for Outside {
    fn name(&mut self, _: &mut Memory, kind: u8, halves: [i32; 2]) -> Step<u64> {
        match kind {
            op::PSEUDO_MAP_VALUE => Ok(VALUE + u64::from(halves[1] as u32)),
            _ => Err("an unknown kind of load".into()),
        }
    }

    fn call(&mut self, memory: &mut Memory, insn: Insn, arguments: &Arguments) -> Step<Answer> {
        Ok(match (insn.src(), insn.immediate) {
            (op::PSEUDO_KFUNC_CALL, KFUNC_THROW) => match arguments.get(1)? {
                thrown if thrown & 7 == 0 => Answer::End(RESULT_ESCAPED),
                value => Answer::Value(value),
            },
            (0, op::HELPER_TAIL_CALL) => match arguments.get(3)? & 3 {
                0 => Answer::Leave(RESULT_ESCAPED),
                _ => Answer::Value(-22_i64 as u64),
            },
            (0, HELPER_SKB_LOAD_BYTES) => {
                let [offset, to, len] =
                    [arguments.get(2)?, arguments.get(3)?, arguments.get(4)?].map(|it| it as usize);
                let end = offset.checked_add(len);
                let found = end.and_then(|end| self.0.get(offset..end));
                // The kernel zero-fills on failure.
                let bytes = found.map_or_else(|| vec![0; len], <[u8]>::to_vec);
                for (at, byte) in bytes.into_iter().enumerate() {
                    memory.write((to + at) as u64, 1, u64::from(byte))?;
                }
                Answer::Value(if found.is_some() { 0 } else { -14_i64 as u64 })
            }
            _ => return Err("an unknown call".into()),
        })
    }

    fn packet(&self, _: &Memory, offset: u64, size: usize) -> Step<Option<u64>> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.get(start..start.checked_add(size)?));
        Ok(bytes.map(|bytes| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))))
    }
}
