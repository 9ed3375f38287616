//! `BPF_PROG_TEST_RUN`: runs a program in the kernel on demand.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use wingbeat_text::duration_of;

use super::Alarm;
use crate::{
    program_type::{ProgramType, TestRunRules},
    sys,
};

/// Maximum number of interrupted calls.
const RETRIES_MAX: u32 = 10_000;

/// Interrupted calls after which the batch is halved: frequent signals would otherwise never let a long one finish.
const RETRIES_PER_LENGTH: u32 = 4;

/// Maximum growth of the packet in bytes: no packet is longer. Growth by the runs of a batch beyond that is lost.
const GROWTH_MAX: usize = 1 << 16;

/// Input of a program.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunInput<'a> {
    /// The packet; empty for types that take none.
    pub data: &'a [u8],
    /// The context structure; empty for the default.
    pub context: &'a [u8],
}

/// Result of a run, or of a batch of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// Return value of the last run.
    pub return_value: u32,
    /// The packet after the last run; empty for types that return none.
    pub data: Vec<u8>,
    /// Whether the last run wrote to its context; only of types that get the caller's own (`syscall`).
    pub has_changed_context: bool,
    /// Runs in the batch; fewer than requested if signals kept interrupting.
    pub runs: u32,
    /// The kernel's own mean, in whole nanoseconds, truncated; 0 for types that it does not time.
    pub mean_ns: u32,
    /// CPU time of the calling thread for the whole batch, including the system call, in
    /// nanoseconds. Excludes sleep and preemption.
    pub cpu_time_ns: u64,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// Calls that were interrupted by a signal and repeated.
    pub retries: u32,
}

/// A program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No kernel can run this type on demand.
    #[error(
        "programs of type {0} cannot be run on demand: only the event itself runs them; attach it and use `wingbeat live`"
    )]
    NoHandler(ProgramType),
    /// This kernel cannot run this type on demand.
    #[error("this kernel cannot run programs of type {0} on demand (ENOTSUPP)")]
    NotHere(ProgramType),
    #[error(
        "the kernel refuses the input ({bytes} bytes of packet, {context_bytes} of context): {source}{hint}"
    )]
    Input {
        bytes: usize,
        context_bytes: usize,
        source: io::Error,
        /// A possible reason; begins with a semicolon, or is empty.
        hint: String,
    },
    #[error(
        "signals interrupted the program {0} times in a row, so no run completed; find out who sends them (`strace -e trace=none -p PID`)"
    )]
    Interrupted(u32),
    #[error("the time ran out before the run, which has taken {} so far", duration_of(*.0))]
    TimeOver(Duration),
    #[error("the kernel cannot run the program: {0}")]
    Failed(#[source] io::Error),
}

/// Why the kernel may have rejected `input`.
fn hint(r#type: ProgramType, input: RunInput<'_>, error: &io::Error) -> String {
    let len_min = r#type.data_len_min(input.data);
    let rules = r#type.test_run();
    let is_ip = rules.is_some_and(|rules| rules.begins_with_ip);
    match error.raw_os_error() {
        Some(libc::EINVAL) if input.data.len() < len_min && is_ip => {
            format!("; a packet begins with its IP header, without Ethernet, and has at least {len_min} bytes")
        }
        Some(libc::EINVAL) if input.data.len() < len_min => {
            format!("; this packet must have at least {len_min} bytes, for its headers")
        }
        Some(libc::EINVAL | libc::E2BIG | libc::ENOMEM) if input.data.len() > 3500 => {
            "; a packet must fit into a page together with its bookkeeping, except for xdp.frags programs".into()
        }
        Some(libc::EINVAL) if rules.is_some_and(|rules| !rules.takes_data) && input.context.is_empty() => {
            "; the program reads a context: pass one with --ctx".into()
        }
        Some(libc::EINVAL) => "; most fields of a context must be zero, see docs/bench.md".into(),
        Some(libc::ENODEV) => "; the context names a network interface that does not exist".into(),
        _ => String::new(),
    }
}

/// Runs `program` `repeat` times in one call. Types without repetition are called that many times.
/// Fails if the kernel cannot run this type, rejects the input, or signals never stop.
pub fn run(
    program: impl AsFd,
    r#type: ProgramType,
    input: RunInput<'_>,
    repeat: u32,
) -> Result<ProgramRun, RunError> {
    run_until(program, r#type, input, repeat, &Alarm::never())
}

/// Like [`run()`], but stops when the alarm goes off. Still waits for an active run.
pub fn run_until(
    program: impl AsFd,
    r#type: ProgramType,
    input: RunInput<'_>,
    repeat: u32,
    alarm: &Alarm<'_>,
) -> Result<ProgramRun, RunError> {
    let begun = Instant::now();
    let batch = Batch::new(program.as_fd(), r#type, input)?;
    let (mut data_out, mut context_in) = (vec![0; batch.out_len()], batch.context.clone());
    let (mut repeat, mut retries) = (repeat.max(1), 0);
    loop {
        let is_over = || alarm.is_over();
        let (outcome, cpu_time_ns, elapsed_ns) =
            batch.run(repeat, &mut data_out, &mut context_in, is_over);
        match outcome {
            Ok(outcome) => {
                let outcome =
                    outcome.ok_or_else(|| RunError::Failed(io::ErrorKind::Other.into()))?;
                data_out.truncate(usize::try_from(outcome.data_out_len).unwrap_or(0));
                return Ok(ProgramRun {
                    return_value: outcome.return_value,
                    data: data_out,
                    has_changed_context: context_in != batch.context,
                    runs: repeat,
                    mean_ns: outcome.duration_ns,
                    cpu_time_ns,
                    elapsed_ns,
                    retries,
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                if alarm.is_over() {
                    return Err(RunError::TimeOver(begun.elapsed()));
                }
                retries += 1;
                if retries > RETRIES_MAX {
                    return Err(RunError::Interrupted(retries));
                }
                if retries % RETRIES_PER_LENGTH == 0 {
                    repeat = (repeat / 2).max(1);
                }
            }
            Err(error) => return Err(refused(r#type, input, error)),
        }
    }
}

/// A program with its input, in the form that its type requires.
pub(super) struct Batch<'a> {
    program: BorrowedFd<'a>,
    rules: TestRunRules,
    data: &'a [u8],
    pub(super) context: Vec<u8>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        program: BorrowedFd<'a>,
        r#type: ProgramType,
        input: RunInput<'a>,
    ) -> Result<Self, RunError> {
        let rules = r#type.test_run().ok_or(RunError::NoHandler(r#type))?;
        let context = match input.context {
            [] => r#type.default_context(),
            given => given.to_vec(),
        };
        let data = if rules.takes_data { input.data } else { &[] };
        Ok(Self { program, rules, data, context })
    }

    /// Size of the output packet buffer in bytes.
    pub(super) fn out_len(&self) -> usize {
        if self.rules.gives_data { self.data.len() + GROWTH_MAX } else { 0 }
    }

    /// Runs it `runs` times; also returns the CPU time and the elapsed time in nanoseconds. Does not allocate.
    pub(super) fn run(
        &self,
        repeat: u32,
        data_out: &mut [u8],
        context_in: &mut [u8],
        is_over: impl Fn() -> bool,
    ) -> (io::Result<Option<sys::TestRunOutcome>>, u64, u64) {
        let (in_call, calls) = if self.rules.repeats { (repeat, 1) } else { (0, repeat) };
        let (before, begun) = (thread_cpu_time_ns(), Instant::now());
        let outcome = (0..calls).try_fold(None, |_, number| {
            if number > 0 && is_over() {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            // Discard changes by the previous run.
            context_in.copy_from_slice(&self.context);
            let run = sys::TestRun {
                data_in: self.data,
                data_out: &mut *data_out,
                context_in: &mut *context_in,
                repeat: in_call,
            };
            sys::test_run(self.program, run).map(Some)
        });
        let elapsed_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        (outcome, thread_cpu_time_ns().saturating_sub(before), elapsed_ns)
    }
}

pub(super) fn refused(r#type: ProgramType, input: RunInput<'_>, source: io::Error) -> RunError {
    match source.raw_os_error() {
        Some(sys::ENOTSUPP) => RunError::NotHere(r#type),
        Some(libc::EINVAL | libc::E2BIG | libc::ENOMEM | libc::EMSGSIZE | libc::ENODEV) => {
            let hint = hint(r#type, input, &source);
            let (bytes, context_bytes) = (input.data.len(), input.context.len());
            RunError::Input { bytes, context_bytes, source, hint }
        }
        _ => RunError::Failed(source),
    }
}

/// CPU time of this thread in nanoseconds.
fn thread_cpu_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
