//! The model: functions, lines and blocks with their executed instructions.

use std::{collections::BTreeMap, ops::Range};

use serde::Serialize;
use wingbeat_bpf_loader::{
    code::{Code, LineInfo, disassemble::Listing, op},
    spec::{KfuncCall, ObjectTypes},
};
use wingbeat_text::grouped;

use super::SCHEMA_VERSION;
use crate::{
    Warning,
    analyse::FIGURES_DISAGREE,
    counts::{Counts, TailCalled},
    instrument::graph::Graph,
};

/// A program with the executed instructions of its lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Annotation {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    pub object: String,
    pub program: String,
    /// Names of the inputs with the return value of each; one run each.
    pub inputs: Vec<(String, u32)>,
    pub runs: u64,
    /// Executed instructions of all runs, including `tail_called`.
    pub instructions: u64,
    /// Programs reached by tail calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tail_called: Vec<TailCalled>,
    /// Whether the object has line information.
    pub has_lines: bool,
    pub functions: Vec<AnnotatedFunction>,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotatedFunction {
    pub name: String,
    /// Calls of it: executions of its first instruction.
    pub calls: u64,
    /// Instructions executed in it, excluding callees.
    pub instructions: u64,
    /// Its lines by file and number. Inlined code appears under its original lines.
    pub lines: Vec<AnnotatedLine>,
    /// Its basic blocks in code order.
    pub blocks: Vec<Block>,
}

/// One source line, as far as it belongs to one function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotatedLine {
    /// File as recorded by the compiler; empty for code without a line.
    pub file: String,
    /// Line number, from 1; 0 for code without a line.
    pub line: u32,
    /// Source text; empty if unknown.
    pub text: String,
    /// Executions of the line: the maximum over its instructions.
    pub executions: u64,
    pub instructions: u64,
    pub helper_calls: u64,
    /// Indices of its instructions in the program's code.
    pub insns: Vec<usize>,
}

/// One basic block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Block {
    pub insns: Range<usize>,
    pub executions: u64,
    /// Its instructions as text, without the second half of 64-bit loads.
    pub listing: Vec<(usize, String)>,
}

impl Annotation {
    /// Combines counts with source lines. `source` provides lines that are missing in the object.
    pub fn new(
        object: &str,
        program: &str,
        inputs: Vec<(String, u32)>,
        code: &Code,
        types: &ObjectTypes,
        counts: &Counts,
        source: &mut dyn FnMut(&str, u32) -> Option<String>,
    ) -> Self {
        let mut blocks = blocks(code, counts);
        let functions = ranges(code)
            .into_iter()
            .map(|(name, insns)| {
                let executed = |index: usize| counts.executed.get(index).copied().unwrap_or(0);
                let own = blocks.extract_if(.., |block| insns.contains(&block.insns.start));
                AnnotatedFunction {
                    name,
                    calls: executed(insns.start),
                    instructions: insns.clone().map(executed).fold(0, u64::saturating_add),
                    blocks: own.collect(),
                    lines: lines(code, types, counts, insns, source),
                }
            })
            .collect();
        Self {
            schema_version: SCHEMA_VERSION,
            object: object.to_owned(),
            program: program.to_owned(),
            inputs,
            runs: counts.runs,
            instructions: counts.instructions(),
            tail_called: counts.tail_called.clone(),
            has_lines: code.lines.iter().any(|line| line.line() > 0),
            functions,
        }
    }

    /// Adds the names of kernel functions (kfuncs) to the block listings; the code only has numbers for them.
    #[must_use]
    pub fn with_kfuncs(mut self, kfuncs: &[KfuncCall]) -> Self {
        let blocks = self.functions.iter_mut().flat_map(|function| &mut function.blocks);
        for (index, text) in blocks.flat_map(|block| &mut block.listing) {
            if let Some(kfunc) = kfuncs.iter().find(|kfunc| kfunc.insn_index == *index) {
                *text = format!("call {}", kfunc.name);
            }
        }
        self
    }

    /// Warns if the instructions of functions or of lines do not add up to all: then shares are wrong too.
    pub fn contradiction(&self) -> Option<Warning> {
        let jumped = self.tail_called.iter().map(|it| it.instructions).fold(0, u64::saturating_add);
        let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(jumped, u64::saturating_add);
        let functions = sum(&mut self.functions.iter().map(|it| it.instructions));
        let lines = self.functions.iter().flat_map(|it| &it.lines);
        let lines = sum(&mut lines.map(|it| it.instructions));
        ((functions, lines) != (self.instructions, self.instructions)).then(|| {
            Warning::new(
                FIGURES_DISAGREE,
                format!(
                    "figures contradict each other: {} executed {} instructions, its functions {}, \
                     its lines {}",
                    self.program,
                    grouped(self.instructions),
                    grouped(functions),
                    grouped(lines)
                ),
                "counts and shares of lines are wrong",
                "report this as a defect of wingbeat, with the object",
            )
        })
    }

    /// Converts a count over all runs to a mean per run.
    pub fn per_run(&self, count: u64) -> f64 {
        count as f64 / self.runs.max(1) as f64
    }

    /// Share of these instructions in all, 0 to 1.
    pub fn share(&self, instructions: u64) -> f64 {
        match self.instructions {
            0 => 0.0,
            all => instructions as f64 / all as f64,
        }
    }
}

/// Name and instructions of each function.
pub(super) fn ranges(code: &Code) -> Vec<(String, Range<usize>)> {
    let starts: Vec<usize> = code.functions.iter().map(|it| it.insn_index as usize).collect();
    let ends = starts.iter().skip(1).copied().chain([code.insns.len()]);
    code.functions
        .iter()
        .zip(starts.iter().zip(ends))
        .map(|(function, (&start, end))| (function.name.clone(), start..end.max(start)))
        .collect()
}

/// Line of an instruction: the last record at or before it, if it belongs to the same function.
pub(super) fn line_of<'c>(
    code: &'c Code,
    function: &Range<usize>,
    index: usize,
) -> Option<&'c LineInfo> {
    let after = code.lines.partition_point(|line| line.insn_index as usize <= index);
    let record = after.checked_sub(1).and_then(|last| code.lines.get(last))?;
    (record.line() > 0 && record.insn_index as usize >= function.start).then_some(record)
}

fn lines(
    code: &Code,
    types: &ObjectTypes,
    counts: &Counts,
    insns: Range<usize>,
    source: &mut dyn FnMut(&str, u32) -> Option<String>,
) -> Vec<AnnotatedLine> {
    let mut lines: BTreeMap<(String, u32), AnnotatedLine> = BTreeMap::new();
    let mut is_second_half = false;
    for index in insns.clone() {
        let Some(insn) = code.insns.get(index) else { break };
        if is_second_half {
            is_second_half = false;
            continue;
        }
        is_second_half = insn.is_ldimm64();
        let record = line_of(code, &insns, index);
        let (file, line) = record.map_or((String::new(), 0), |record| {
            (types.string(record.file_offset).unwrap_or_default().into_owned(), record.line())
        });
        let entry = lines.entry((file, line)).or_insert_with_key(|(file, line)| AnnotatedLine {
            file: file.clone(),
            line: *line,
            text: record
                .and_then(|record| types.string(record.text_offset))
                .filter(|text| !text.trim().is_empty())
                .map(|text| text.trim_end().to_owned())
                .or_else(|| source(file, *line))
                .unwrap_or_default(),
            executions: 0,
            instructions: 0,
            helper_calls: 0,
            insns: Vec::new(),
        });
        let executed = counts.executed.get(index).copied().unwrap_or(0);
        entry.executions = entry.executions.max(executed);
        entry.instructions = entry.instructions.saturating_add(executed);
        if insn.opcode == op::CALL && insn.src() != op::PSEUDO_CALL {
            entry.helper_calls = entry.helper_calls.saturating_add(executed);
        }
        entry.insns.push(index);
    }
    lines.into_values().collect()
}

fn blocks(code: &Code, counts: &Counts) -> Vec<Block> {
    // A counted program has a valid graph; without one there are no blocks to list.
    let Ok(graph) = Graph::new(code, &|_| false) else { return Vec::new() };
    let listing = Listing::new(code);
    graph
        .blocks
        .iter()
        .map(|block| Block {
            insns: block.insns.clone(),
            executions: counts.executed.get(block.insns.start).copied().unwrap_or(0),
            listing: block
                .insns
                .clone()
                .filter(|&index| !graph.is_second_half(index))
                .filter_map(|index| Some((index, listing.at(index)?.text)))
                .collect(),
        })
        .collect()
}

// Shortens paths of third-party files: `library/core/src/num/mod.rs` of Rust,
// `network-types-0.0.8/src/ip.rs` of a crate. The prefix depends on the machine that compiled.

/// Folder of registry crate sources, with a subfolder per registry.
const REGISTRY: &str = "/registry/src/";

/// Sources of git dependencies: repository, then commit, then its files.
const CHECKOUTS: &str = "/git/checkouts/";

/// Sources of Rust itself, and the markers that identify them as Rust's library.
const LIBRARY: &str = "/library/";
const RUST: [&str; 2] = ["rustc", "rustlib"];

/// The part of a path that identifies a third-party file; other paths are returned unchanged.
pub(super) fn shortened(path: &str) -> &str {
    of_rust(path).or_else(|| of_crate(path)).unwrap_or(path)
}

/// `library/…` of `/rustc/COMMIT/library/…`, and of `…/lib/rustlib/src/rust/library/…`.
fn of_rust(path: &str) -> Option<&str> {
    let (start, _) = path.split_once(LIBRARY)?;
    let is_rust = start.split('/').any(|folder| RUST.iter().any(|name| folder.starts_with(name)));
    is_rust.then(|| path.get(start.len() + 1..))?
}

/// `NAME-VERSION/…` of a registry, `NAME-HASH/COMMIT/…` of git.
fn of_crate(path: &str) -> Option<&str> {
    let of_registry = || Some(path.split_once(REGISTRY)?.1.split_once('/')?.1);
    of_registry().or_else(|| Some(path.split_once(CHECKOUTS)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_go_without_where_they_lie() {
        let check = |path, expected: &str| assert_eq!(shortened(path), expected);
        check("/rustc/59807616e1fa2540/library/core/src/cmp.rs", "library/core/src/cmp.rs");
        check(
            "/home/someone/.rustup/toolchains/nightly/lib/rustlib/src/rust/library/core/src/cmp.rs",
            "library/core/src/cmp.rs",
        );
        check("/usr/src/rustc-1.85.0/library/core/src/cmp.rs", "library/core/src/cmp.rs");
        check(
            "/home/a/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/network-types-0.0.8/src/ip.rs",
            "network-types-0.0.8/src/ip.rs",
        );
        check(
            "/home/a/.cargo/git/checkouts/aya-c55fbc69175ac116/a1b2c3d/ebpf/src/lib.rs",
            "aya-c55fbc69175ac116/a1b2c3d/ebpf/src/lib.rs",
        );
        for own in ["src/main.rs", "/home/a/library/core/src/cmp.rs", "/library/a.rs", "", "é"] {
            check(own, own);
        }
        check("/a/registry/src/", "/a/registry/src/");
    }
}
