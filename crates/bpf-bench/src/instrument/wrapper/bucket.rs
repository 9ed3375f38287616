//! Computes the bucket of a value in bytecode.
//!
//! `wingbeat_stats::histogram` defines the layout: the bucket is `(shift << 5) + (value >> shift)`
//! with the smallest `shift` that leaves six digits of the value. A binary search finds it: shift
//! by 16 if the value is still too large after shifting by 15, then likewise by 8, 4, 2 and 1.
//!
//! The code has no jumps. The verifier would follow each path through five of them, multiplied by
//! the states in which the program can return; and the CPU would mispredict them whenever the times
//! vary.

use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_stats::histogram::BUCKETS;

use super::emit::{alu, alu_immediate};

/// Replaces the value in r0 by its bucket, which the verifier can prove to be below [`BUCKETS`]. Clobbers r1 and r2.
///
/// `(limit − r0) >> 63` is 1 if the value is above the limit. It may be wrong for values from 2⁶³
/// on, but those exceed all buckets with any shift, and belong in the last.
pub fn bucket_code() -> Vec<Insn> {
    const LAST: i32 = BUCKETS as i32 - 1;
    let mut insns = vec![alu_immediate(op::MOV, 2, 0)];
    for log in (0..5).rev() {
        let step = 1 << log;
        let limit = (64 << (step - 1)) - 1;
        insns.extend([
            alu_immediate(op::MOV, 1, limit),
            alu(op::SUB, 1, 0),
            alu_immediate(op::RSH, 1, 63),
        ]);
        if log > 0 {
            insns.push(alu_immediate(op::LSH, 1, log));
        }
        insns.extend([alu(op::RSH, 0, 1), alu(op::ADD, 2, 1)]);
    }
    insns.extend([
        alu_immediate(op::LSH, 2, 5),
        alu(op::ADD, 0, 2),
        Insn::new(op::JMP | op::JLE, 0, 0, 1, LAST),
        alu_immediate(op::MOV, 0, LAST),
    ]);
    insns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wingbeat_stats::histogram::{VALUE_END, bounds, bucket_of};

    use super::*;

    /// Interprets the instructions of [`bucket_code`]: 64-bit arithmetic and one jump.
    fn run(value: u64) -> u64 {
        let insns = bucket_code();
        let mut registers = [value, 0xdead, 0xdead];
        let mut index = 0;
        while let Some(insn) = insns.get(index) {
            let dst = usize::from(insn.dst());
            let operand = match insn.opcode & op::X {
                0 => i64::from(insn.immediate).cast_unsigned(),
                _ => registers[usize::from(insn.src())],
            };
            index += 1;
            let old = registers[dst];
            registers[dst] = match (insn.class(), insn.opcode & op::OPERATION) {
                (op::ALU64, op::MOV) => operand,
                (op::ALU64, op::ADD) => old.wrapping_add(operand),
                (op::ALU64, op::SUB) => old.wrapping_sub(operand),
                (op::ALU64, op::LSH) => old << operand,
                (op::ALU64, op::RSH) => old >> operand,
                (op::JMP, op::JLE) => {
                    if old <= operand {
                        index += usize::from(insn.offset.unsigned_abs());
                    }
                    old
                }
                other => panic!("{other:?} in {insn:?}"),
            };
        }
        registers[0]
    }

    #[track_caller]
    fn check(value: u64) {
        assert_eq!(run(value), bucket_of(value) as u64, "{value:#x}");
    }

    #[test]
    fn small_values_and_all_edges() {
        (0..5000).for_each(check);
        for bucket in 0..BUCKETS {
            let (lower, upper) = bounds(bucket);
            [lower, lower + 1, upper - 1, upper].into_iter().for_each(check);
        }
        for digits in 0..64 {
            let power = 1_u64 << digits;
            [power - 1, power, power + 1, power | power >> 1].into_iter().for_each(check);
        }
        [VALUE_END - 1, VALUE_END, u64::MAX - 1, u64::MAX].into_iter().for_each(check);
    }

    proptest! {
        #[test]
        fn any_value(value: u64, digits in 0_u32..64) {
            check(value);
            check(value >> digits);
        }
    }
}
