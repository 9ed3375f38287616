//! Exact counts: executions of each instruction of a program, and its tail calls. Data only.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use wingbeat_bpf_loader::{
    code::{Code, op},
    helpers,
};

/// Executions of each instruction over some runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of counted runs.
    pub runs: u64,
    /// Executions by instruction index in the object's code, before the verifier rewrites it. A
    /// 64-bit load counts once, at its first half; its second half has 0.
    pub executed: Vec<u64>,
    /// Instructions executed in programs reached by tail calls.
    pub tail_called: Vec<TailCalled>,
    pub failed_tail_calls: Vec<FailedTailCall>,
    /// Why some executed instructions are not counted; `None` if all are.
    pub uncounted: Option<String>,
}

/// Calls of one helper or kfunc.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Name, such as `bpf_map_lookup_elem`.
    pub name: String,
    pub is_kfunc: bool,
    pub calls: u64,
}

/// Counts that differ between runs, each on fresh maps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variation {
    /// Minimum and maximum of executed instructions.
    pub lowest: u64,
    pub highest: u64,
    pub runs: usize,
}

impl Variation {
    /// Variation of the instruction counts of several runs; `None` if all are equal.
    pub fn of(instructions: &[u64]) -> Option<Self> {
        let (lowest, highest) = (instructions.iter().min()?, instructions.iter().max()?);
        let (lowest, highest, runs) = (*lowest, *highest, instructions.len());
        (lowest < highest).then_some(Self { lowest, highest, runs })
    }

    /// Describes the variation, and the called functions that may be the cause.
    pub(crate) fn text(&self, unpredictable_calls: &[String]) -> String {
        let Self { lowest, highest, runs } = self;
        let calls = match unpredictable_calls {
            [] => String::new(),
            calls => format!("; it calls {}", calls.join(", ")),
        };
        format!("{lowest} to {highest} in {runs} runs{calls}")
    }
}

impl Counts {
    /// Executed instructions of all runs, including tail-called programs.
    pub fn instructions(&self) -> u64 {
        let jumped = self.tail_called.iter().map(|target| target.instructions);
        self.executed.iter().copied().chain(jumped).fold(0, u64::saturating_add)
    }

    /// Returns the counts if they are complete, else the reason why not.
    pub fn exact(self) -> Result<Self, String> {
        match self.uncounted {
            None => Ok(self),
            Some(reason) => Err(reason),
        }
    }

    /// Calls of helpers and kfuncs in all runs, including tail-called programs, most frequent
    /// first. `kfunc` returns the name of the kfunc called at an instruction index.
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
        for call in self.tail_called.iter().flat_map(|target| &target.calls) {
            let sum = calls.entry((call.name.clone(), call.is_kfunc)).or_default();
            *sum = sum.saturating_add(call.calls);
        }
        let mut calls: Vec<_> = calls
            .into_iter()
            .map(|((name, is_kfunc), calls)| Calls { name, is_kfunc, calls })
            .collect();
        calls.sort_by_key(|entry| std::cmp::Reverse(entry.calls));
        calls
    }

    /// Adds the counts of more runs of the same code.
    pub fn add(&mut self, other: &Self) {
        self.runs = self.runs.saturating_add(other.runs);
        for (sum, count) in self.executed.iter_mut().zip(&other.executed) {
            *sum = sum.saturating_add(*count);
        }
        for found in &other.tail_called {
            match self.tail_called.iter_mut().find(|known| known.program == found.program) {
                Some(known) => known.add(found),
                None => self.tail_called.push(found.clone()),
            }
        }
        self.failed_tail_calls.extend_from_slice(&other.failed_tail_calls);
        self.uncounted = self.uncounted.take().or_else(|| other.uncounted.clone());
    }
}

/// Name of helper `number`, or the number.
pub fn helper_name(number: i32) -> String {
    let known = u32::try_from(number).ok().and_then(helpers::name);
    known.map_or_else(|| format!("helper {number}"), |name| name.to_string())
}

/// Tail calls of one case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TailCalls {
    /// Programs that the first run reached by tail calls.
    pub programs: Vec<TailCalled>,
    /// Tail calls of the first run that failed: the program continued behind them.
    pub failed: Vec<FailedTailCall>,
    /// Empty slots that the program could jump to, because the target was rejected.
    pub missing: Vec<MissingTarget>,
}

impl TailCalls {
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.failed.is_empty() && self.missing.is_empty()
    }
}

/// Executed instructions of a program reached by tail calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TailCalled {
    pub program: String,
    pub entries: u64,
    /// Executed instructions over all entries. For a program that jumps to itself 0, as these are
    /// in the counts of the case.
    pub instructions: u64,
    pub calls: Vec<Calls>,
}

impl TailCalled {
    /// Adds the results of more runs.
    pub fn add(&mut self, other: &Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.instructions = self.instructions.saturating_add(other.instructions);
        for found in &other.calls {
            let is_same =
                |known: &&mut Calls| (&known.name, known.is_kfunc) == (&found.name, found.is_kfunc);
            match self.calls.iter_mut().find(is_same) {
                Some(known) => known.calls = known.calls.saturating_add(found.calls),
                None => self.calls.push(found.clone()),
            }
        }
    }
}

/// A failed tail call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedTailCall {
    /// The program that contains it.
    pub program: String,
    pub insn_index: usize,
    /// The table, if the code determines it.
    pub table: Option<String>,
    /// The slot, if the code determines it.
    pub slot: Option<u32>,
    pub times: u64,
}

/// An empty slot, and why it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingTarget {
    pub table: String,
    pub slot: u32,
    pub program: String,
    pub reason: String,
}

impl fmt::Display for FailedTailCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, insn_index, table, slot, times } = self;
        let table = table.as_deref().unwrap_or("a table");
        match slot {
            Some(slot) => write!(f, "{program} to {table}[{slot}]")?,
            None => write!(f, "{program} to {table}, at instruction {insn_index}")?,
        }
        match times {
            1 => Ok(()),
            _ => write!(f, " ({times} times)"),
        }
    }
}

impl fmt::Display for MissingTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, slot, program, reason } = self;
        write!(f, "{table}[{slot}] ({program}): {reason}")
    }
}
