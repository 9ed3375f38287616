//! What tail calls of a run came to. Data, no measuring.

use std::fmt;

use serde::Serialize;

use crate::counts::Calls;

/// What is known of the tail calls of one case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TailCalls {
    /// Programs that the first run came to by tail calls.
    pub programs: Vec<TailCalled>,
    /// Tail calls of the first run that led nowhere: the program went on behind them.
    pub failed: Vec<FailedTailCall>,
    /// Slots that the program could jump to and that are empty, because what should be there was refused.
    pub missing: Vec<MissingTarget>,
}

impl TailCalls {
    /// Is there nothing to tell?
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.failed.is_empty() && self.missing.is_empty()
    }
}

/// What a program executed that was come to by tail calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TailCalled {
    pub program: String,
    pub entries: u64,
    /// Executed instructions, all entries together. Those of a program that jumps to itself are in the
    /// counts of the case, and here 0.
    pub instructions: u64,
    /// Calls of helpers and kfuncs.
    pub calls: Vec<Calls>,
}

impl TailCalled {
    /// Adds what other runs did.
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

/// A tail call that led nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedTailCall {
    /// The program that it stands in.
    pub program: String,
    pub insn_index: usize,
    /// The table, where the code tells it.
    pub table: Option<String>,
    /// The slot, where the code tells it.
    pub slot: Option<u32>,
    pub times: u64,
}

/// A slot that is empty, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingTarget {
    pub table: String,
    pub slot: u32,
    pub program: String,
    /// Why it is not.
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
