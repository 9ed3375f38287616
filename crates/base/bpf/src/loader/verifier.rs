//! What the verifier says: its statistics, and where and why it rejects. Pure: text in, facts out.

use std::fmt;

/// The figures that the verifier prints with `BPF_LOG_STATS` (kernel/bpf/verifier.c,
/// `print_verification_stats`, Linux 6.18).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifierStatistics {
    /// Time that verification took, in microseconds. The only figure that is not exact.
    pub verification_time_us: Option<u64>,
    /// Stack bytes of each function.
    pub stack_depths: Vec<u32>,
    /// Instructions processed, over all paths; the limit is a million.
    pub processed_instructions: Option<u64>,
    /// Most states kept at one instruction.
    pub max_states_per_instruction: Option<u64>,
    pub total_states: Option<u64>,
    pub peak_states: Option<u64>,
    /// Longest chain of states marked as read; no longer printed by the newest kernels.
    pub mark_read: Option<u64>,
}

impl VerifierStatistics {
    /// Finds the statistics at the end of a log.
    pub fn parse(log: &str) -> Self {
        let mut found = Self::default();
        for line in log.lines() {
            if let Some(rest) = line.strip_prefix("verification time ") {
                found.verification_time_us = first_number(rest);
            } else if let Some(rest) = line.strip_prefix("stack depth ") {
                found.stack_depths =
                    rest.split('+').map_while(|part| part.trim().parse().ok()).collect();
            } else if let Some(rest) = line.strip_prefix("processed ") {
                found.processed_instructions = first_number(rest);
                found.max_states_per_instruction = after(rest, "max_states_per_insn ");
                found.total_states = after(rest, "total_states ");
                found.peak_states = after(rest, "peak_states ");
                found.mark_read = after(rest, "mark_read ");
            }
        }
        found
    }

    /// Stack bytes of all functions together, which is what veristat shows.
    pub fn stack_depth(&self) -> u32 {
        self.stack_depths.iter().fold(0, |sum, depth| sum.saturating_add(*depth))
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn after(text: &str, key: &str) -> Option<u64> {
    first_number(text.split_once(key)?.1)
}

/// A limit of the verifier that a program can run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifierLimit {
    /// One million processed instructions.
    Instructions,
    /// 8,192 pending branches.
    Jumps,
    /// 512 bytes of stack over the call chain.
    Stack,
    CallDepth,
    /// A loop without an end that the verifier can see.
    Loop,
}

impl fmt::Display for VerifierLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "the limit of 1,000,000 processed instructions was hit",
            Self::Jumps => "the limit of 8,192 pending jumps was hit",
            Self::Stack => "the limit of 512 bytes of stack was hit",
            Self::CallDepth => "the limit of 8 call frames was hit",
            Self::Loop => "the verifier cannot prove that a loop ends",
        })
    }
}

/// Texts of the verifier and the limit that each means (kernel/bpf/verifier.c and cfg.c, Linux 6.18).
const LIMITS: &[(&str, VerifierLimit)] = &[
    ("BPF program is too large. Processed", VerifierLimit::Instructions),
    ("jumps is too complex", VerifierLimit::Jumps),
    ("combined stack size of", VerifierLimit::Stack),
    ("the call stack of", VerifierLimit::CallDepth),
    (ENDLESS, VerifierLimit::Loop),
    ("back-edge from insn", VerifierLimit::Loop),
];

/// Told behind the instruction, in its line, and followed by the two states that are alike.
const ENDLESS: &str = "infinite loop detected";

/// Bytes of stack that a function can have.
const STACK_MAX: i64 = 512;

/// Lines of the log that a message quotes.
const TAIL_LINES: usize = 12;

/// What a rejection's log tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub log: String,
    /// Index of the instruction that the verifier looked at last, in the code that was loaded.
    pub insn_index: Option<u32>,
    /// The source line before it, as the log prints it: text, file and line.
    pub source: Option<String>,
    pub limit: Option<VerifierLimit>,
    /// What this kernel does not have and the program takes from it; the log tells only of the mark in
    /// its place.
    pub missing: Option<String>,
}

impl Rejection {
    /// Reads the log of a program that was rejected.
    pub fn parse(log: String) -> Self {
        let insn_index = log.lines().rev().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            rest.starts_with(" (").then(|| number.parse().ok())?
        });
        let source = log
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("; "))
            .map(|text| text.trim().to_owned());
        let mut rejection = Self { log, insn_index, source, limit: None, missing: None };
        rejection.limit = rejection.reason().and_then(limit);
        rejection
    }

    /// The verifier's reason: the last line that is neither an instruction nor a statistic.
    pub fn reason(&self) -> Option<&str> {
        let is_state =
            |line: &str| line.starts_with("cur state:") || line.starts_with("old state:");
        let line = self.told().filter(|line| !is_state(line)).last()?;
        Some(line.find(ENDLESS).map_or(line, |at| &line[at..]))
    }

    /// The number of a helper that the kernel does not have, when that is the reason.
    pub(super) fn unknown_helper(&self) -> Option<i32> {
        let (_, number) = self.reason()?.split_once("invalid func unknown#")?;
        number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The end of the log, without statistics.
    pub fn tail(&self) -> String {
        let lines: Vec<_> = self.told().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    fn told(&self) -> impl Iterator<Item = &str> {
        let is_statistic = |line: &str| {
            ["verification time ", "stack depth ", "processed ", "insn_limit"]
                .iter()
                .any(|start| line.starts_with(start))
        };
        self.log.lines().filter(move |line| !line.trim().is_empty() && !is_statistic(line))
    }
}

/// The limit that a reason tells of.
fn limit(reason: &str) -> Option<VerifierLimit> {
    let named = LIMITS.iter().find(|(text, _)| reason.contains(text)).map(|&(_, limit)| limit);
    named.or_else(|| is_below_stack(reason).then_some(VerifierLimit::Stack))
}

/// Whether the reason is an access below the least address of the stack: `invalid write to stack R10
/// off=-520 size=8`, and before Linux 5.12 `invalid stack off=-520 size=8`. Accesses above the frame
/// read the same but for the offset.
fn is_below_stack(reason: &str) -> bool {
    let is_of_stack = reason.starts_with("invalid") && reason.contains("stack");
    let offset = reason.split_once("off=").and_then(|(_, rest)| rest.split(' ').next());
    let offset = offset.and_then(|offset| offset.parse::<i64>().ok());
    is_of_stack && offset.is_some_and(|offset| offset < -STACK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        let log = "verification time 89 usec\nstack depth 184+0+32\nprocessed 64088 insns (limit \
                   1000000) max_states_per_insn 8 total_states 3909 peak_states 2111 mark_read 55\n";
        assert_eq!(
            VerifierStatistics::parse(log),
            VerifierStatistics {
                verification_time_us: Some(89),
                stack_depths: vec![184, 0, 32],
                processed_instructions: Some(64_088),
                max_states_per_instruction: Some(8),
                total_states: Some(3909),
                peak_states: Some(2111),
                mark_read: Some(55),
            }
        );
        assert_eq!(VerifierStatistics::parse("no such thing"), VerifierStatistics::default());
        assert_eq!(VerifierStatistics::parse("stack depth x\nprocessed y"), Default::default());
    }

    #[test]
    fn a_rejection() {
        let log = "func#0 @0\n0: R1=ctx() R10=fp0\n; return *(int *)0; @ bad.c:7\n0: (b7) r1 = 0\n\
                   1: (61) r0 = *(u32 *)(r1 +0)\nR1 invalid mem access 'scalar'\nverification time 5 \
                   usec\nstack depth 0\nprocessed 2 insns (limit 1000000)\n";
        let rejection = Rejection::parse(log.to_owned());
        assert_eq!(rejection.reason(), Some("R1 invalid mem access 'scalar'"));
        assert_eq!(rejection.source.as_deref(), Some("return *(int *)0; @ bad.c:7"));
        assert_eq!(rejection.insn_index, Some(1));
        assert_eq!(rejection.limit, None);
        assert!(rejection.tail().ends_with("scalar'"));
    }

    #[test]
    fn helpers_that_are_not_there() {
        let check = |log: &str, expected| {
            assert_eq!(Rejection::parse(log.to_owned()).unknown_helper(), expected, "{log}");
        };
        check(
            "0: (85) call unknown#195896080\ninvalid func unknown#195896080\n",
            Some(195_896_080),
        );
        check("invalid func unknown#2002000003\nprocessed 1 insns", Some(2_002_000_003));
        check("invalid func unknown#99999999999", None);
        check("R1 !read_ok", None);
    }

    #[test]
    fn limits() {
        let check = |log: &str, expected| {
            assert_eq!(Rejection::parse(log.to_owned()).limit, expected, "{log}");
        };
        check(
            "BPF program is too large. Processed 1000001 insn",
            Some(VerifierLimit::Instructions),
        );
        check("the call stack of 9 frames is too deep !", Some(VerifierLimit::CallDepth));
        check("combined stack size of 2 calls is 544. Too large", Some(VerifierLimit::Stack));
        check("The sequence of 8193 jumps is too complex.", Some(VerifierLimit::Jumps));
        check("invalid write to stack R10 off=-520 size=8", Some(VerifierLimit::Stack));
        check(
            "invalid read from stack R10 off=-513 size=1\nprocessed 1 insns",
            Some(VerifierLimit::Stack),
        );
        check("invalid stack off=-520 size=8", Some(VerifierLimit::Stack));
        check("invalid stack off=0 size=8", None);
        check("invalid write to stack R10 off=0 size=8", None);
        check("invalid access to map value, value_size=8 off=-520 size=8", None);
        check(
            "2: (55) if r2 != 0x5 goto pc-2 infinite loop detected at insn 1",
            Some(VerifierLimit::Loop),
        );
        // What the source says is no limit.
        check("; // the call stack of 9 frames\nR1 invalid mem access", None);
        check("R1 invalid mem access", None);
        check("", None);
    }

    #[test]
    fn the_reason_of_a_loop_stands_before_its_states() {
        let log = "1: (55) if r2 != 0x5 goto pc-1 infinite loop detected at insn 1\ncur state: R0=0\n\
                   old state: R0=0\nprocessed 4 insns\n";
        let rejection = Rejection::parse(log.to_owned());
        assert_eq!(rejection.reason(), Some("infinite loop detected at insn 1"));
        assert_eq!(rejection.limit, Some(VerifierLimit::Loop));
    }
}
