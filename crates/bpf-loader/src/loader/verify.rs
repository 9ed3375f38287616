//! Submits a program to the verifier and returns its output, even on success.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use super::{Alarm, LoadError, Rejection, VerifierStatistics, externs::MISSING_KFUNC};
use crate::{
    spec::{Extern, UNRESOLVED},
    sys::{self, LoadRequest},
};

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
                LoadError::Refused { program, source: error, advice: super::error::advice() }
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
