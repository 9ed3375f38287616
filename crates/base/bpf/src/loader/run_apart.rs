//! A run in a process of its own.
//!
//! Nothing ends a run of a program that is under way: signals wait until it is over, be that in an
//! hour. A child process can be left behind. It has the same descriptors, runs the program, writes the
//! outcome into shared memory, and ends.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::{
    Alarm,
    run::{GROWTH_MAX, ProgramRun, RunError, RunInput, refused, thread_cpu_time_ns},
};
use crate::{
    program_type::{ProgramType, TestRunRules},
    sys::{self, Child, Shared},
};

/// How long to wait for the child before looking at the alarm.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs `program` `repeat` times, as [`run`](super::run()) does, in a child process on `cpu`.
///
/// When the alarm goes off first, the child is left behind with the signal that ends it after the run.
/// Until then it keeps its CPU: the calling thread should be allowed to run on others.
pub fn run_apart(
    program: impl AsFd,
    r#type: ProgramType,
    input: RunInput<'_>,
    repeat: u32,
    cpu: usize,
    alarm: &Alarm<'_>,
) -> Result<ProgramRun, RunError> {
    let rules = r#type.test_run().ok_or(RunError::NoHandler(r#type))?;
    let default_context = r#type.default_context();
    let context = if input.context.is_empty() { &default_context } else { input.context };
    let job = Job {
        program: program.as_fd(),
        rules,
        data: if rules.takes_data { input.data } else { &[] },
        context,
        repeat: repeat.max(1),
        cpu,
    };
    let out_len = if rules.gives_data { job.data.len() + GROWTH_MAX } else { 0 };
    let mut shared = Shared::new(Note::LEN + out_len + context.len()).map_err(RunError::Failed)?;
    let memory = shared.bytes();
    let begun = Instant::now();
    // SAFETY: the job makes system calls and writes to `memory`; it allocates nothing.
    let child = unsafe { Child::fork(|| job.run(memory)) }.map_err(RunError::Failed)?;
    while !child.wait(LOOK_EVERY.as_nanos() as i64).map_err(RunError::Failed)? {
        if alarm.is_over() {
            child.kill();
            return Err(RunError::TimeOver(begun.elapsed()));
        }
    }
    let note = Note::read(shared.bytes());
    match note.state {
        Note::DONE => {}
        Note::REFUSED => {
            let error = io::Error::from_raw_os_error(note.error.cast_signed());
            return Err(refused(r#type, input, error));
        }
        _ => {
            let text = "the process that ran it ended before the run";
            return Err(RunError::Failed(io::Error::other(text)));
        }
    }
    let out = &shared.bytes()[Note::LEN..][..out_len];
    let len = usize::try_from(note.data_out_len).unwrap_or(0).min(out_len);
    Ok(ProgramRun {
        return_value: note.return_value,
        data: out[..len].to_vec(),
        runs: job.repeat,
        mean_ns: note.duration_ns,
        cpu_time_ns: note.cpu_time_ns,
        elapsed_ns: note.elapsed_ns,
        retries: 0,
    })
}

/// What the child is to do.
struct Job<'a> {
    program: BorrowedFd<'a>,
    rules: TestRunRules,
    data: &'a [u8],
    context: &'a [u8],
    repeat: u32,
    cpu: usize,
}

impl Job<'_> {
    fn run(&self, memory: &mut [u8]) {
        let mut cpus = CpuSet::new();
        cpus.set(self.cpu);
        // A CPU that has gone since it was chosen is no reason not to run.
        _ = sched_setaffinity(None, &cpus);
        let (note, rest) = memory.split_at_mut(Note::LEN);
        let (data_out, context_in) = rest.split_at_mut(rest.len() - self.context.len());
        let (in_call, calls) = if self.rules.repeats { (self.repeat, 1) } else { (0, self.repeat) };
        let before = (thread_cpu_time_ns(), Instant::now());
        let outcome = (0..calls).try_fold(None, |_, _| {
            context_in.copy_from_slice(self.context);
            let attr = sys::TestRun {
                data_in: self.data,
                data_out: &mut *data_out,
                context_in: &mut *context_in,
                repeat: in_call,
                ..Default::default()
            };
            sys::test_run(self.program, attr).map(Some)
        });
        let elapsed_ns = u64::try_from(before.1.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let cpu_time_ns = thread_cpu_time_ns().saturating_sub(before.0);
        let found = match outcome {
            Ok(Some(outcome)) => Note {
                state: Note::DONE,
                error: 0,
                return_value: outcome.return_value,
                duration_ns: outcome.duration_ns,
                data_out_len: outcome.data_out_len,
                cpu_time_ns,
                elapsed_ns,
            },
            Ok(None) => Note::default(),
            Err(error) => Note {
                state: Note::REFUSED,
                error: error.raw_os_error().unwrap_or(libc::EIO).cast_unsigned(),
                ..Note::default()
            },
        };
        found.write(note);
    }
}

/// What the child leaves at the beginning of the shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Note {
    /// 0 until the run is over.
    state: u32,
    error: u32,
    return_value: u32,
    duration_ns: u32,
    data_out_len: u32,
    cpu_time_ns: u64,
    elapsed_ns: u64,
}

impl Note {
    const DONE: u32 = 1;
    const REFUSED: u32 = 2;
    const LEN: usize = 40;

    fn write(&self, bytes: &mut [u8]) {
        let words =
            [self.state, self.error, self.return_value, self.duration_ns, self.data_out_len, 0];
        let times = [self.cpu_time_ns, self.elapsed_ns];
        let (narrow, wide) = bytes.split_at_mut(4 * words.len());
        for (slot, word) in narrow.as_chunks_mut().0.iter_mut().zip(words) {
            *slot = word.to_ne_bytes();
        }
        for (slot, time) in wide.as_chunks_mut().0.iter_mut().zip(times) {
            *slot = time.to_ne_bytes();
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u32::from_ne_bytes(*it))
        };
        let time = |at: usize| {
            bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |it| u64::from_ne_bytes(*it))
        };
        Self {
            state: word(0),
            error: word(4),
            return_value: word(8),
            duration_ns: word(12),
            data_out_len: word(16),
            cpu_time_ns: time(24),
            elapsed_ns: time(32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back() {
        let note = Note {
            state: Note::DONE,
            error: 1,
            return_value: u32::MAX,
            duration_ns: 3,
            data_out_len: 4,
            cpu_time_ns: u64::MAX,
            elapsed_ns: 6,
        };
        let mut bytes = [0; Note::LEN];
        note.write(&mut bytes);
        assert_eq!(Note::read(&bytes), note);
        assert_eq!(Note::read(&[0; Note::LEN]), Note::default());
    }
}
