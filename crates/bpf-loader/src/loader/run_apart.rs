//! Runs a program in a separate process.
//!
//! Nothing interrupts an active run of a program: signals wait until it is over, even if that takes
//! an hour. A child process can be abandoned. It inherits the descriptors, runs the program, writes
//! the result to shared memory, and exits.

use std::{
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::{
    Alarm,
    run::{Batch, ProgramRun, RunError, RunInput, refused},
};
use crate::{
    program_type::ProgramType,
    sys::{Child, Shared},
};

/// Time to wait for the child between checks of the alarm.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs `program` `repeat` times, like [`run`](super::run()), in a child process on `cpu`.
///
/// If the alarm goes off first, the child is abandoned with a pending signal that terminates it
/// after the run. Until then it occupies its CPU: the calling thread should be allowed to run on
/// others.
pub fn run_apart(
    program: impl AsFd,
    r#type: ProgramType,
    input: RunInput<'_>,
    repeat: u32,
    cpu: usize,
    alarm: &Alarm<'_>,
) -> Result<ProgramRun, RunError> {
    let batch = Batch::new(program.as_fd(), r#type, input)?;
    let (out_len, context_len) = (batch.out_len(), batch.context.len());
    let job = Job { batch, repeat: repeat.max(1), cpu };
    let mut shared = Shared::new(Note::LEN + out_len + context_len).map_err(RunError::Failed)?;
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
            let error = io::Error::from_raw_os_error(note.error as i32);
            return Err(refused(r#type, input, error));
        }
        _ => {
            let text = "the process that ran it ended before the run";
            return Err(RunError::Failed(io::Error::other(text)));
        }
    }
    let (out, context) = shared.bytes()[Note::LEN..].split_at(out_len);
    let len = usize::try_from(note.data_out_len).unwrap_or(0).min(out_len);
    Ok(ProgramRun {
        return_value: note.return_value as u32,
        data: out[..len].to_vec(),
        has_changed_context: context != job.batch.context,
        runs: job.repeat,
        mean_ns: note.duration_ns as u32,
        cpu_time_ns: note.cpu_time_ns,
        elapsed_ns: note.elapsed_ns,
        retries: 0,
    })
}

/// Task of the child.
struct Job<'a> {
    batch: Batch<'a>,
    repeat: u32,
    cpu: usize,
}

impl Job<'_> {
    fn run(&self, memory: &mut [u8]) {
        let mut cpus = CpuSet::new();
        cpus.set(self.cpu);
        // Run even if the CPU has gone offline since it was chosen.
        _ = sched_setaffinity(None, &cpus);
        let (note, rest) = memory.split_at_mut(Note::LEN);
        let (data_out, context_in) = rest.split_at_mut(rest.len() - self.batch.context.len());
        let (outcome, cpu_time_ns, elapsed_ns) =
            self.batch.run(self.repeat, data_out, context_in, || false);
        let found = match outcome {
            Ok(Some(outcome)) => Note {
                state: Note::DONE,
                error: 0,
                return_value: outcome.return_value.into(),
                duration_ns: outcome.duration_ns.into(),
                data_out_len: outcome.data_out_len.into(),
                cpu_time_ns,
                elapsed_ns,
            },
            Ok(None) => Note::default(),
            Err(error) => {
                let error = error.raw_os_error().unwrap_or(libc::EIO).cast_unsigned().into();
                Note { state: Note::REFUSED, error, ..Note::default() }
            }
        };
        found.write(note);
    }
}

/// The child's result at the beginning of the shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Note {
    /// 0 until the run is over.
    state: u64,
    error: u64,
    return_value: u64,
    duration_ns: u64,
    data_out_len: u64,
    cpu_time_ns: u64,
    elapsed_ns: u64,
}

impl Note {
    const DONE: u64 = 1;
    const REFUSED: u64 = 2;
    const LEN: usize = 56;

    fn write(&self, bytes: &mut [u8]) {
        let &Self { state, error, return_value, duration_ns, data_out_len, .. } = self;
        let times = [self.cpu_time_ns, self.elapsed_ns];
        let words = [state, error, return_value, duration_ns, data_out_len].into_iter();
        for (slot, word) in bytes.as_chunks_mut().0.iter_mut().zip(words.chain(times)) {
            *slot = word.to_ne_bytes();
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        Self {
            state: next(),
            error: next(),
            return_value: next(),
            duration_ns: next(),
            data_out_len: next(),
            cpu_time_ns: next(),
            elapsed_ns: next(),
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
            return_value: u32::MAX.into(),
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
