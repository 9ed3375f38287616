//! Exact counts: how often each instruction of a program was executed. Data, no measuring.

use std::collections::BTreeMap;

use serde::Serialize;
use wingbeat_bpf::{
    code::{Code, op},
    helpers,
};

/// How often each instruction was executed, over some runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Runs of the program that the counts are of.
    pub runs: u64,
    /// Executions by index of the instruction in the object's own code, before the verifier rewrites
    /// it. A load of 64 bits counts once, at its first half; its second half has 0.
    pub executed: Vec<u64>,
}

/// Calls of one helper or kfunc.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Name, such as `bpf_map_lookup_elem`.
    pub name: String,
    /// Whether it is a kfunc.
    pub is_kfunc: bool,
    /// Calls.
    pub calls: u64,
}

impl Counts {
    /// Executed instructions of all runs.
    pub fn instructions(&self) -> u64 {
        self.executed.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Calls of helpers and kfuncs of all runs, the most frequent first. `kfunc` names the kfunc that
    /// the instruction at an index calls.
    pub fn calls(&self, code: &Code, kfunc: impl Fn(usize) -> Option<String>) -> Vec<Calls> {
        let mut calls: BTreeMap<(String, bool), u64> = BTreeMap::new();
        for (index, (insn, &count)) in code.insns.iter().zip(&self.executed).enumerate() {
            if insn.opcode != op::CALL || count == 0 {
                continue;
            }
            let key = match insn.src() {
                0 => (helper_name(insn.immediate), false),
                op::PSEUDO_KFUNC_CALL => {
                    (kfunc(index).unwrap_or_else(|| format!("kfunc {}", insn.immediate)), true)
                }
                _ => continue,
            };
            let sum = calls.entry(key).or_default();
            *sum = sum.saturating_add(count);
        }
        let mut calls: Vec<_> = calls
            .into_iter()
            .map(|((name, is_kfunc), calls)| Calls { name, is_kfunc, calls })
            .collect();
        calls.sort_by_key(|entry| std::cmp::Reverse(entry.calls));
        calls
    }

    /// Adds the counts of other runs of the same code.
    pub fn add(&mut self, other: &Self) {
        self.runs = self.runs.saturating_add(other.runs);
        for (sum, count) in self.executed.iter_mut().zip(&other.executed) {
            *sum = sum.saturating_add(*count);
        }
    }
}

/// Name of helper `number`, or the number.
pub fn helper_name(number: i32) -> String {
    let known = u32::try_from(number).ok().and_then(helpers::name);
    known.map_or_else(|| format!("helper {number}"), |name| name.to_string())
}
