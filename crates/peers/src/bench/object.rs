//! XDP programs of any length: object files with nothing but arithmetic, whose instructions are known.

use wingbeat_bpf_loader::code::{Code, op};
use wingbeat_bpf_testing::{
    assemble::{Assembler, assembled},
    object::Object,
};

pub(super) const PROGRAM: &str = "arithmetic";
/// Instructions of one round of the loop, its own two included.
const ROUND: u64 = 100;
const XDP_PASS: i32 = 2;
/// Registers of the additions, in turn. They do not wait for each other, so that an
/// instruction more costs a fraction of a cycle, always the same; and none has to be saved on entry.
const REGISTERS: [u8; 4] = [2, 3, 4, 5];
const COUNTER: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    rounds: u64,
    straight: u64,
}

impl Work {
    pub(super) fn of(instructions: u64) -> Self {
        // A loop of many rounds makes the verifier walk through each of them; it gives up at 1 million.
        let instructions = instructions.min(500_000);
        Self { rounds: instructions / ROUND, straight: instructions % ROUND }
    }

    pub(super) fn executed(self) -> u64 {
        let frame = REGISTERS.len() as u64 + 2;
        frame + self.rounds * ROUND + u64::from(self.rounds > 0) + self.straight
    }

    pub(super) fn object(self) -> Vec<u8> {
        let mut object = Object::new();
        let section = object.code("xdp");
        object.function(section, PROGRAM, &self.code().insns);
        object.data("license", b"GPL\0");
        object.write()
    }

    fn code(self) -> Code {
        assembled(|to| {
            for register in REGISTERS {
                to.mov(register, 0);
            }
            if let Ok(rounds @ 1..) = i32::try_from(self.rounds) {
                let begin = to.mov(COUNTER, rounds).label();
                additions(to.bind(begin), ROUND - 2);
                to.add(COUNTER, -1).branch(op::JNE, COUNTER, 0, begin);
            }
            additions(to, self.straight);
            to.mov(0, XDP_PASS).exit();
        })
    }
}

fn additions(to: &mut Assembler, count: u64) {
    for (&register, _) in REGISTERS.iter().cycle().zip(0..count) {
        to.add(register, 1);
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_testing::model::{Model, run};

    use super::*;

    #[test]
    fn programs_execute_what_they_say() {
        let check = |work: Work, expected| {
            let ran = run(&work.code(), Model::of_xdp(&[], 0)).expect("it runs");
            assert_eq!((ran.counts.iter().sum::<u64>(), ran.result), (expected, 2), "{work:?}");
            assert_eq!(work.executed(), expected, "{work:?}");
        };
        check(Work::of(0), 6);
        check(Work::of(99), 105);
        check(Work::of(100), 107);
        check(Work::of(10_050), 10_057);
    }
}
