//! Times each run of a program from outside: one program at its entry (fentry) stores the time,
//! another at its exit (fexit) counts the difference. The measured program stays loaded and
//! attached.
//!
//! Several runs of one program may be active on a CPU: an interrupt may start one in the middle of
//! another, and so may another thread on a preemptible kernel, whose run may even end after the run
//! that it preempted. A stack of start times would mix those up. So a run is identified by the
//! address of the trampoline's frame on the kernel stack: it is the context of both programs, and
//! unique among active runs. Each CPU has [`SLOTS`] slots for active runs. A program ends on the
//! CPU on which it began, since the kernel keeps the thread there (`migrate_disable`).
//!
//! The time between the two clock reads includes the end of the first program, the trampoline, the
//! measured program and the beginning of the second. An empty program measures this overhead. Perf
//! counters are read before the first and after the second clock read, so that they do not add to
//! the time.
//!
//! The counts are plain additions: the kernel does not run a tracing program that is already
//! running on the CPU (`__bpf_prog_enter_recur` in kernel/bpf/trampoline.c, Linux 6.18), and counts
//! the skipped runs. The two programs may interrupt each other, and write to different locations.

mod map_layout;

pub use map_layout::{CounterSums, RunRecords, WrongLen, read_results};

use wingbeat_bpf_loader::code::{Insn, op};

use super::wrapper::{
    KTIME_GET_NS, alu, alu_immediate, call_helper, exit, load, record_at_r3, store,
};
use map_layout::Layout;

/// Maximum concurrent runs on one CPU. More can be distinguished as long as the oldest is not evicted.
pub const SLOTS: u16 = 8;

/// Maximum perf counters read around each run.
pub const COUNTERS_MAX: usize = 4;

/// Helper ids (include/uapi/linux/bpf.h, Linux 6.18).
const MAP_LOOKUP_ELEM: i32 = 1;
const PERF_EVENT_READ_VALUE: i32 = 55;

/// Size of a counter reading (`struct bpf_perf_event_value`, include/uapi/linux/bpf.h, Linux 6.18)
/// in bytes: the count, the time enabled, and the time running, in nanoseconds.
const READING_BYTES: i32 = 24;

/// Stack offsets of the key of the only entry, and of a counter reading.
const KEY: i16 = -4;
const READING: i16 = -32;

/// The two programs. Map 0 is a `BPF_MAP_TYPE_PERCPU_ARRAY` with one entry of [`value_len_bytes`];
/// maps from 1 on hold the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracers {
    pub entry: Vec<Insn>,
    pub exit: Vec<Insn>,
}

/// Value size of one CPU in bytes; a multiple of 8.
pub fn value_len_bytes(counters: usize) -> u32 {
    Layout::new(counters).len_bytes()
}

/// Generates the two programs for a number of counters, at most [`COUNTERS_MAX`].
pub fn tracers(counters: usize) -> Tracers {
    let layout = Layout::new(counters.min(COUNTERS_MAX));
    Tracers { entry: at_entry(layout), exit: at_exit(layout) }
}

/// r6 is the frame of the run, r7 the value of this CPU, r8 the slot.
fn at_entry(layout: Layout) -> Vec<Insn> {
    let mut draft = Draft::default();
    draft.put([alu(op::MOV, 6, 1)]);
    draft.find_value();
    draft.put(count_at(Layout::ENTRIES));
    let (mut found, mut taken) = (Vec::new(), Vec::new());
    draft.put(first_slot());
    for _ in 0..SLOTS {
        draft.put([load(1, 8, Layout::FRAME)]);
        found.push(draft.jump(Insn::new(op::JMP | op::JEQ, 1, 0, 0, 0)));
        // A run with the same frame left without an exit: reuse its slot.
        taken.push(draft.jump(Insn::new(op::JMP | op::JEQ | op::X, 1, 6, 0, 0)));
        draft.put([alu_immediate(op::ADD, 8, layout.slot_len())]);
    }
    // All slots are taken: evict a random one, so that slots of lost runs do not stay occupied.
    draft.put([call_helper(KTIME_GET_NS), alu_immediate(op::AND, 0, i32::from(SLOTS) - 1)]);
    draft.put([alu_immediate(op::MUL, 0, layout.slot_len())]);
    draft.put(first_slot());
    draft.put([alu(op::ADD, 8, 0)]);
    draft.land(taken);
    draft.put(count_at(Layout::DISPLACED));
    draft.land(found);
    for number in 0..layout.counters {
        draft.read_counter(number);
        for word in 0..3 {
            draft
                .put([load(1, 10, READING + 8 * word), store(8, Layout::counter(number, word), 1)]);
        }
    }
    draft.put([call_helper(KTIME_GET_NS), store(8, Layout::START, 0), store(8, Layout::FRAME, 6)]);
    draft.leave()
}

/// As above; r9 is the end time of the run, and then its duration.
fn at_exit(layout: Layout) -> Vec<Insn> {
    let mut draft = Draft::default();
    draft.put([alu(op::MOV, 6, 1), call_helper(KTIME_GET_NS), alu(op::MOV, 9, 0)]);
    draft.find_value();
    let mut found = Vec::new();
    draft.put(first_slot());
    for _ in 0..SLOTS {
        draft.put([load(1, 8, Layout::FRAME)]);
        found.push(draft.jump(Insn::new(op::JMP | op::JEQ | op::X, 1, 6, 0, 0)));
        draft.put([alu_immediate(op::ADD, 8, layout.slot_len())]);
    }
    draft.put(count_at(Layout::UNMATCHED));
    draft.put([alu_immediate(op::MOV, 0, 0), exit()]);
    draft.land(found);
    for number in 0..layout.counters {
        draft.add_counter(layout, number);
    }
    draft.put([load(1, 8, Layout::START), alu(op::SUB, 9, 1)]);
    // The clock may seem to go backwards when read by an NMI.
    draft.put([Insn::new(op::JMP | op::JSGE, 9, 0, 1, 0), alu_immediate(op::MOV, 9, 0)]);
    draft.put([alu_immediate(op::MOV, 1, 0), store(8, Layout::FRAME, 1)]);
    draft.put([alu(op::MOV, 0, 9), alu(op::MOV, 3, 7)]);
    draft.put(record_at_r3());
    draft.leave()
}

/// r8 = the first slot.
fn first_slot() -> [Insn; 2] {
    [alu(op::MOV, 8, 7), alu_immediate(op::ADD, 8, i32::from(Layout::SLOTS_START))]
}

/// Increments a word of the value. Clobbers r1.
fn count_at(offset: i16) -> [Insn; 3] {
    [load(1, 7, offset), alu_immediate(op::ADD, 1, 1), store(7, offset, 1)]
}

/// Instructions with forward jumps.
#[derive(Debug, Default)]
struct Draft {
    insns: Vec<Insn>,
}

impl Draft {
    fn put(&mut self, insns: impl IntoIterator<Item = Insn>) {
        self.insns.extend(insns);
    }

    /// Emits a jump whose target is set by [`Self::land`].
    fn jump(&mut self, jump: Insn) -> usize {
        self.insns.push(jump);
        self.insns.len() - 1
    }

    /// Makes jumps lead here. The programs have some hundred instructions, and an offset holds 32,767.
    fn land(&mut self, jumps: impl IntoIterator<Item = usize>) {
        let here = self.insns.len();
        for at in jumps {
            if let Some(jump) = self.insns.get_mut(at) {
                jump.offset = i16::try_from(here - at - 1).unwrap_or(i16::MAX);
            }
        }
    }

    fn leave(mut self) -> Vec<Insn> {
        self.put([alu_immediate(op::MOV, 0, 0), exit()]);
        self.insns
    }

    /// r7 = the value of this CPU.
    fn find_value(&mut self) {
        self.put([
            Insn::new(op::ST | op::MEM | op::W, 10, 0, KEY, 0),
            Insn::new(op::LDIMM64, 1, op::PSEUDO_MAP_FD, 0, 0),
            Insn::new(0, 0, 0, 0, 0),
            alu(op::MOV, 2, 10),
            alu_immediate(op::ADD, 2, i32::from(KEY)),
            call_helper(MAP_LOOKUP_ELEM),
            // It always exists, but the verifier cannot know.
            Insn::new(op::JMP | op::JNE, 0, 0, 2, 0),
            alu_immediate(op::MOV, 0, 0),
            exit(),
            alu(op::MOV, 7, 0),
        ]);
    }

    /// Reads a counter on this CPU to the stack; zeros if it cannot be read. Clobbers r0 to r5.
    fn read_counter(&mut self, number: u16) {
        self.put([
            Insn::new(op::LDIMM64, 1, op::PSEUDO_MAP_FD, 0, i32::from(number) + 1),
            Insn::new(0, 0, 0, 0, 0),
            // In 32 bits: BPF_F_CURRENT_CPU.
            Insn::new(op::ALU | op::MOV, 2, 0, 0, -1),
            alu(op::MOV, 3, 10),
            alu_immediate(op::ADD, 3, i32::from(READING)),
            alu_immediate(op::MOV, 4, READING_BYTES),
            call_helper(PERF_EVENT_READ_VALUE),
        ]);
    }

    /// Adds the counter difference since entry. Its time shows whether it was read at all.
    fn add_counter(&mut self, layout: Layout, number: u16) {
        const ENABLED: i16 = 1;
        self.read_counter(number);
        self.put([load(1, 10, READING + 8 * ENABLED)]);
        let unread = self.jump(Insn::new(op::JMP | op::JEQ, 1, 0, 0, 0));
        self.put([load(1, 8, Layout::counter(number, ENABLED))]);
        let unread_before = self.jump(Insn::new(op::JMP | op::JEQ, 1, 0, 0, 0));
        for word in 0..3 {
            let sum = layout.sum(number, word);
            self.put([
                load(1, 10, READING + 8 * word),
                load(2, 8, Layout::counter(number, word)),
                alu(op::SUB, 1, 2),
                load(2, 7, sum),
                alu(op::ADD, 2, 1),
                store(7, sum, 2),
            ]);
        }
        let done = self.jump(Insn::new(op::JA, 0, 0, 0, 0));
        self.land([unread, unread_before]);
        self.put(count_at(layout.sum(number, 3)));
        self.land([done]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_forward_and_stay_inside() {
        for counters in 0..=COUNTERS_MAX {
            let Tracers { entry, exit } = tracers(counters);
            for insns in [entry, exit] {
                let jumps = insns.iter().enumerate().filter(|(_, insn)| {
                    insn.class() == op::JMP && insn.opcode != op::CALL && insn.opcode != op::EXIT
                });
                for (at, jump) in jumps {
                    let to = at + 1 + usize::try_from(jump.offset).expect("forward");
                    assert!(jump.offset > 0 && to < insns.len(), "{counters}: {at} to {to}");
                }
                assert_eq!(insns.last().map(|insn| insn.opcode), Some(op::EXIT));
            }
        }
    }

    #[test]
    fn values_fit_into_the_memory_of_a_cpu() {
        // PCPU_MIN_UNIT_SIZE (include/linux/percpu.h, Linux 6.18).
        assert!(value_len_bytes(COUNTERS_MAX) <= 32 << 10);
        assert_eq!(value_len_bytes(0) % 8, 0);
    }
}
