//! Parses the verifier log: statistics, and location and reason of a rejection. Pure.

use std::{
    fmt, io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::{Alarm, LoadError, externs::MISSING_KFUNC};
use crate::{
    spec::{Extern, UNRESOLVED},
    sys::{self, LoadRequest},
};

/// Statistics printed by the verifier with `BPF_LOG_STATS` (kernel/bpf/verifier.c,
/// `print_verification_stats`, Linux 6.18).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifierStatistics {
    /// Verification time in microseconds. The only inexact figure.
    pub verification_time_us: Option<u64>,
    /// Stack bytes of each function.
    pub stack_depths: Vec<u32>,
    /// Instructions processed, over all paths; the limit is a million.
    pub processed_instructions: Option<u64>,
    /// Maximum number of states kept at one instruction.
    pub max_states_per_instruction: Option<u64>,
    pub total_states: Option<u64>,
    pub peak_states: Option<u64>,
    /// Longest chain of states marked as read; no longer printed by the newest kernels.
    pub mark_read: Option<u64>,
}

impl VerifierStatistics {
    /// Parses the statistics at the end of a log.
    pub fn parse(log: &str) -> Self {
        let mut found = Self::default();
        for line in log.lines() {
            note(line, &mut found);
        }
        found
    }

    /// Total stack bytes of all functions, as shown by veristat.
    pub fn stack_depth(&self) -> u32 {
        self.stack_depths.iter().fold(0, |sum, depth| sum.saturating_add(*depth))
    }
}

/// Parses the rest of a line after its prefix; `None` if it does not match.
type Reader = fn(&str, &mut VerifierStatistics) -> Option<()>;

/// Lines of the summary at the end of a log: their prefix, the Linux version that introduced the
/// form, and a parser of the rest (kernel/bpf/verifier.c, `print_verification_stats`).
const SUMMARY: &[(&str, &str, Reader)] = &[
    ("verification time ", "5.2", |rest, found| {
        found.verification_time_us = Some(first_number(rest)?);
        Some(())
    }),
    ("stack depth ", "5.2", depths),
    ("processed ", "5.2", processed),
    // Of the program and each global function; the total is in another line.
    ("insns processed ", "7.2", |rest, _| first_number(rest).map(drop)),
    // Replaces that line, one per function.
    ("subprog ", "7.3", |rest, found| {
        let depth = rest.split_once(" insns_self ").and_then(|(_, rest)| after(rest, " stack "))?;
        found.stack_depths.push(u32::try_from(depth).ok()?);
        Some(())
    }),
];

/// Processes a line of the summary; `None` for other lines.
fn note(line: &str, found: &mut VerifierStatistics) -> Option<()> {
    SUMMARY.iter().find_map(|(words, _, read)| read(line.strip_prefix(words)?, found))
}

/// `184+0+32`; since 7.2 followed by ` max 216`, since 7.3 only that.
fn depths(rest: &str, found: &mut VerifierStatistics) -> Option<()> {
    let depths = rest.strip_prefix("max ").map_or_else(|| rest.split(' ').next(), |_| None);
    if let Some(depths) = depths {
        found.stack_depths = depths.split('+').map_while(|part| part.parse().ok()).collect();
    }
    Some(())
}

fn processed(rest: &str, found: &mut VerifierStatistics) -> Option<()> {
    found.processed_instructions = Some(first_number(rest)?);
    found.max_states_per_instruction = after(rest, "max_states_per_insn ");
    found.total_states = after(rest, "total_states ");
    found.peak_states = after(rest, "peak_states ");
    found.mark_read = after(rest, "mark_read ");
    Some(())
}

fn first_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn after(text: &str, key: &str) -> Option<u64> {
    first_number(text.split_once(key)?.1)
}

/// A verifier limit that a program can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifierLimit {
    /// One million processed instructions.
    Instructions,
    /// 8,192 pending branches.
    Jumps,
    /// 512 bytes of stack over the call chain.
    Stack,
    /// Maximum call depth: 8, since Linux 7.2 16.
    CallDepth(u32),
    /// A loop that the verifier cannot prove to end.
    Loop,
}

impl fmt::Display for VerifierLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "the limit of 1,000,000 processed instructions was hit",
            Self::Jumps => "the limit of 8,192 pending jumps was hit",
            Self::Stack => "the limit of 512 bytes of stack was hit",
            Self::CallDepth(frames) => {
                return write!(f, "the limit of {frames} call frames was hit");
            }
            Self::Loop => "the verifier cannot prove that a loop ends",
        })
    }
}

/// Verifier messages and their limits (kernel/bpf/verifier.c and cfg.c, Linux 6.18).
const LIMITS: &[(&str, VerifierLimit)] = &[
    ("BPF program is too large. Processed", VerifierLimit::Instructions),
    ("jumps is too complex", VerifierLimit::Jumps),
    ("combined stack size of", VerifierLimit::Stack),
    (ENDLESS, VerifierLimit::Loop),
    ("back-edge from insn", VerifierLimit::Loop),
];

/// Appears after an instruction, on the same line, followed by the two equal states.
const ENDLESS: &str = "infinite loop detected";

/// Precedes the first frame beyond the limit.
const CALL_STACK: &str = "the call stack of ";

/// Begins the summary of a log, which is missing if statistics were not requested. No line after it
/// belongs to the rejection, on any kernel.
const SUMMARY_START: &str = "verification time ";

/// Begins the report that Linux prints after a rejection since 7.3, with sections on cause and remedy.
const REPORT_START: &str = "Verification failed: ";

/// Stack limit of a function in bytes.
const STACK_MAX: i64 = 512;

/// Maximum lines of the log quoted in a message.
const TAIL_LINES: usize = 12;

/// Parsed log of a rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub log: String,
    /// Index of the last instruction that the verifier processed, in the loaded code.
    pub insn_index: Option<u32>,
    /// The preceding source line as printed in the log: text, file and line.
    pub source: Option<String>,
    pub limit: Option<VerifierLimit>,
    /// What the program needs and this kernel lacks; the log only shows the placeholder for it.
    pub missing: Option<String>,
}

impl Rejection {
    /// Parses the log of a rejected program.
    pub fn parse(log: String) -> Self {
        let insn_index = log.lines().rev().find_map(insn_index);
        let source = log
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("; "))
            .map(|text| text.trim().to_owned());
        let mut rejection = Self { log, insn_index, source, limit: None, missing: None };
        rejection.limit = rejection.reason().and_then(limit);
        rejection
    }

    /// The verifier's reason: the last line that is neither an instruction's state nor part of summary or report.
    pub fn reason(&self) -> Option<&str> {
        let is_state =
            |line: &str| line.starts_with("cur state:") || line.starts_with("old state:");
        let messages = self.messages().filter(|line| !is_state(line)).last();
        let report = || self.log.lines().find_map(|line| line.strip_prefix(REPORT_START));
        let line = match messages {
            Some(line) if insn_index(line).is_none() || line.contains(ENDLESS) => line,
            // Without other lines, use the report.
            messages => report().or(messages)?,
        };
        Some(line.find(ENDLESS).map_or(line, |at| &line[at..]))
    }

    /// Number of a helper that the kernel lacks, if that is the reason.
    pub(super) fn unknown_helper(&self) -> Option<i32> {
        let (_, number) = self.reason()?.split_once("invalid func unknown#")?;
        number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The end of the log, without summary and report.
    pub fn tail(&self) -> String {
        let lines: Vec<_> = self.messages().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    fn messages(&self) -> impl Iterator<Item = &str> {
        let summary = self.log.rfind(&format!("\n{SUMMARY_START}"));
        let messages = match summary {
            Some(end) => &self.log[..end],
            None if self.log.starts_with(SUMMARY_START) => "",
            None => &self.log,
        };
        let mut is_report = false;
        messages.lines().filter(move |line| {
            // Sections of the report are indented below their headings.
            is_report = line.starts_with(REPORT_START)
                || is_report && (line.is_empty() || line.starts_with("  ") || line.ends_with(':'));
            let is_summary = note(line, &mut VerifierStatistics::default()).is_some();
            !is_report && !line.trim().is_empty() && !is_summary
        })
    }
}

/// Instruction index in a line such as `1: (61) r0 = *(u32 *)(r1 +0)`.
fn insn_index(line: &str) -> Option<u32> {
    let (number, rest) = line.split_once(':')?;
    rest.starts_with(" (").then(|| number.parse().ok())?
}

/// The limit that a reason refers to.
fn limit(reason: &str) -> Option<VerifierLimit> {
    let named = LIMITS.iter().find(|(text, _)| reason.contains(text)).map(|&(_, limit)| limit);
    let frames = || after(reason, CALL_STACK).and_then(|frames| u32::try_from(frames).ok());
    let depth = || Some(VerifierLimit::CallDepth(frames()?.saturating_sub(1)));
    named.or_else(depth).or_else(|| is_below_stack(reason).then_some(VerifierLimit::Stack))
}

/// Whether the reason is an access below the stack: `invalid write to stack R10 off=-520 size=8`,
/// and before Linux 5.12 `invalid stack off=-520 size=8`. Accesses above the frame only differ in
/// the offset.
fn is_below_stack(reason: &str) -> bool {
    let is_of_stack = reason.starts_with("invalid") && reason.contains("stack");
    let offset = reason.split_once("off=").and_then(|(_, rest)| rest.split(' ').next());
    let offset = offset.and_then(|offset| offset.parse::<i64>().ok());
    is_of_stack && offset.is_some_and(|offset| offset < -STACK_MAX)
}

/// `BPF_LOG_LEVEL1` and `BPF_LOG_STATS` (include/linux/bpf_verifier.h, Linux 6.18).
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_STATISTICS: u32 = 4;

/// Buffer for the verifier's statistics and its reason, in bytes. Large programs produce more; a
/// log that does not fit makes an otherwise accepted load fail. Unused pages are never touched.
const SHORT_LOG: usize = 4 << 20;

/// Maximum duration of a rejected load that is repeated for the whole log, which takes longer.
const EXPLAINED_MAX: Duration = Duration::from_millis(500);

/// Buffer for the log of a rejection in bytes: the maximum worth keeping.
const LONG_LOG_MAX: usize = 64 << 20;

/// Number of attempts if the kernel returns `EAGAIN`, as in libbpf.
const TRIES: u32 = 5;

/// Effort spent on a load.
#[derive(Debug, Clone, Copy)]
pub struct Effort<'a> {
    /// Aborts the load when the time is over.
    pub alarm: &'a Alarm<'a>,
    pub explained: Explained,
}

/// How much of the verifier log a rejection contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explained {
    /// Only the verifier's reason, without the preceding instructions.
    Reason,
    /// The whole log, by verifying the program again, unless that takes long.
    Quickly,
    /// The whole log, however long it takes.
    Whole,
}

/// Loads, and returns the verifier's output.
pub(super) fn verify(
    program: &str,
    request: LoadRequest<'_>,
    effort: Effort<'_>,
    externs: &[Extern],
) -> Result<(OwnedFd, VerifierStatistics), LoadError> {
    let request = LoadRequest { log_level: LOG_STATISTICS, ..request };
    let mut log = vec![0; SHORT_LOG];
    let begun = Instant::now();
    let error = match load_patiently(request, &mut log, effort.alarm) {
        Ok(fd) => return Ok((fd, VerifierStatistics::parse(&text(&log)))),
        Err(error) => error,
    };
    let program = program.to_owned();
    if effort.alarm.is_over() {
        return Err(LoadError::TimeOver { program, after: begun.elapsed() });
    }
    let is_whole = match effort.explained {
        Explained::Reason => false,
        Explained::Quickly => begun.elapsed() < EXPLAINED_MAX,
        Explained::Whole => true,
    };
    let log = if is_whole { whole_log(request, effort.alarm) } else { Some(text(&log)) };
    Err(explain(program, log, error, externs))
}

/// Loads, even if the log does not fit.
fn load_patiently(
    request: LoadRequest<'_>,
    log: &mut [u8],
    alarm: &Alarm<'_>,
) -> io::Result<OwnedFd> {
    match load_again(request, log, alarm) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
            load_again(LoadRequest { log_level: 0, ..request }, &mut [], alarm)
        }
        other => other,
    }
}

/// Retries if the kernel was interrupted (`EAGAIN`, since Linux 5.0), unless by the alarm.
fn load_again(request: LoadRequest<'_>, log: &mut [u8], alarm: &Alarm<'_>) -> io::Result<OwnedFd> {
    let mut result = sys::load_verified(request, log);
    for _ in 1..TRIES {
        match &result {
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
                    && !alarm.is_over() =>
            {
                result = sys::load_verified(request, log);
            }
            _ => break,
        }
    }
    result
}

/// Loads again with the whole log, for location and reason; `None` if the log is empty this time.
fn whole_log(request: LoadRequest<'_>, alarm: &Alarm<'_>) -> Option<String> {
    // Verifying again takes longer than before, so there is only one attempt, with the full buffer.
    // Unused pages are never touched. The kernel keeps the end of a longer log (since Linux 6.4).
    let mut log = vec![0; LONG_LOG_MAX];
    let request = LoadRequest { log_level: LOG_INSTRUCTIONS | LOG_STATISTICS, ..request };
    let is_taken_now = load_again(request, &mut log, alarm).is_ok();
    (!is_taken_now).then(|| text(&log))
}

fn explain(
    program: String,
    log: Option<String>,
    error: io::Error,
    externs: &[Extern],
) -> LoadError {
    let Some(log) = log.filter(|log| !log.trim().is_empty()) else {
        return match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                LoadError::Refused { program, source: error, advice: super::advice() }
            }
            _ => LoadError::Failed { program, source: error },
        };
    };
    let mut rejection = Rejection::parse(log);
    rejection.missing = missing(&rejection, externs);
    LoadError::Rejected { program, rejection: Box::new(rejection), source: error }
}

/// What the kernel lacks, if the verifier rejected the placeholder for it.
fn missing(rejection: &Rejection, externs: &[Extern]) -> Option<String> {
    let number = rejection.unknown_helper()?;
    if number == UNRESOLVED {
        return Some(
            "the program accesses a type or a member that this kernel does not have (CO-RE)".into(),
        );
    }
    let found = usize::try_from(number.checked_sub(MISSING_KFUNC)?).ok();
    let found = found.and_then(|number| externs.get(number))?;
    Some(format!("the program calls {}, which this kernel does not have", found.name))
}

/// Text of a log buffer up to its terminator.
pub(super) fn text(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
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
        let check = |log: &str, depths: &[u32]| {
            let found = VerifierStatistics::parse(log);
            assert_eq!(found.stack_depths, depths, "{log}");
            assert_eq!(found.processed_instructions, Some(26), "{log}");
        };
        check("stack depth 184+0+32\nprocessed 26 insns", &[184, 0, 32]);
        check(
            "stack depth 184+0+32 max 216\ninsns processed 20+6\nprocessed 26 insns",
            &[184, 0, 32],
        );
        check(
            "stack depth max 216\nsubprog 0 (a (b)) main insns_self 20 insns_total 26 stack 184\nsubprog 1 \
             (<unknown>) static insns_self 6 insns_total 6 stack 32\nprocessed 26 insns (limit 1000000)",
            &[184, 32],
        );
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
    fn the_reason_is_found_whatever_summary_follows() {
        let check = |summary: &str| {
            for messages in ["R0 !read_ok", "0: (95) exit\nR0 !read_ok\n"] {
                let rejection = Rejection::parse(format!("{messages}\n{summary}"));
                assert_eq!(rejection.reason(), Some("R0 !read_ok"), "{summary}");
                assert!(rejection.tail().ends_with("R0 !read_ok"), "{}", rejection.tail());
            }
        };
        check("");
        check("processed 1 insns (limit 1000000)\n");
        let processed = "processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 \
                         mark_read 0\n";
        // Linux 5.2, 7.2, 7.3, and an unknown one.
        check(&format!("verification time 5 usec\nstack depth 0\n{processed}"));
        check(&format!(
            "verification time 5 usec\nstack depth 0 max 0\ninsns processed 1\n{processed}"
        ));
        check(&format!(
            "\nVerification failed: Register Type Safety: Invalid register access\n\nReason:\n  R0 was not \
             written.\n\nAt:\n  insn 0\n       | ^-- error: R0\n\nSuggestion:\n  Write it.\n\nverification \
             time 5 usec\nstack depth max 0\nsubprog 0 (f) main insns_self 1 insns_total 1 stack 0\n{processed}"
        ));
        check(&format!("verification time 5 usec\nfunctions: 1 of 1\n{processed}"));
    }

    #[test]
    fn a_report_is_the_reason_where_nothing_else_is() {
        let log = "0: (95) exit\n\nVerification failed: Policy: Operation is not allowed\n\nReason:\n  It is \
                   not.\n\nverification time 5 usec\nstack depth max 0\n";
        let rejection = Rejection::parse(log.to_owned());
        assert_eq!(rejection.reason(), Some("Policy: Operation is not allowed"));
        assert_eq!(rejection.insn_index, Some(0));
        // A log with statistics only.
        assert_eq!(Rejection::parse("verification time 5 usec\nnew words\n".into()).reason(), None);
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
        check("the call stack of 9 frames is too deep !", Some(VerifierLimit::CallDepth(8)));
        check("the call stack of 17 frames is too deep", Some(VerifierLimit::CallDepth(16)));
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
        // Source lines must not be parsed as a limit.
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
