//! Reads debug information in a separate process, since untrusted files may crash their reader, by endless loops,
//! memory or bugs. The kernel limits that process's memory, its parent its time. A file that kills it loses its
//! lines only: symbol tables are read in the parent, and still provide names.
//!
//! The process is the same program, started with an argument that only this module knows. A program that does not
//! support this ([`serve_if_asked`]) reads debug information in its own process.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufRead as _, BufReader, Seek as _, Write as _},
    os::{
        fd::BorrowedFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    io::{Errno, FdFlags, fcntl_setfd},
    process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit},
};

use super::dwarf::{Answer, Task, answer};
use crate::proc;

/// Argument with which it is started.
const WORD: &str = "read-debug-information";

/// Memory limit, excluding mapped files.
const DATA_BYTES_MAX: u64 = 6 << 30;

/// Maximum time without a message about a file.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Same, once slow files have taken this long in total.
const SILENCE_MAX_LATER: Duration = Duration::from_secs(5);
const LOST_MAX: Duration = Duration::from_secs(120);

/// Whether this program supports it.
static IS_OFFERED: AtomicBool = AtomicBool::new(false);

/// Total CPU time of such processes.
static CPU_TIME_NS: AtomicU64 = AtomicU64::new(0);

/// CPU time of the processes that read debug information for this one, in nanoseconds.
pub(crate) fn cpu_time_ns() -> u64 {
    CPU_TIME_NS.load(Ordering::Relaxed)
}

/// Programs that support reading debug information call this first. If started for that, it does so and returns an
/// exit code. Otherwise it records the support.
pub fn serve_if_asked(words: &mut dyn Iterator<Item = OsString>) -> Option<ExitCode> {
    if words.nth(1).is_some_and(|word| word == WORD) {
        return Some(serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS));
    }
    IS_OFFERED.store(true, Ordering::Relaxed);
    None
}

/// Answers the tasks on standard input.
fn serve() -> io::Result<()> {
    let limit = |resource, bytes: u64| {
        // A lower limit may exist, which cannot be raised.
        let bytes = getrlimit(resource).maximum.map_or(bytes, |maximum| maximum.min(bytes));
        setrlimit(resource, Rlimit { current: Some(bytes), maximum: Some(bytes) })
    };
    limit(Resource::Data, DATA_BYTES_MAX)?;
    limit(Resource::Core, 0)?;
    // The first process to be killed when memory runs out.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let tasks: Vec<Task> = serde_json::from_reader(BufReader::new(io::stdin()))?;
    let mut out = io::stdout().lock();
    for task in &tasks {
        answer(task, &mut |said| {
            let mut line = serde_json::to_vec(&said).unwrap_or_default();
            line.push(b'\n');
            if out.write_all(&line).and_then(|()| out.flush()).is_err() {
                // The parent has exited.
                std::process::exit(1);
            }
        });
    }
    Ok(())
}

/// Runs tasks in order. `held` are the files that they refer to by descriptor. `take` gets the index of a task and
/// a message about it; `started` gets each process.
pub(super) fn ask(
    tasks: &[Task],
    held: &[BorrowedFd<'_>],
    started: &dyn Fn(u32),
    take: &mut dyn FnMut(usize, Answer),
) {
    if !IS_OFFERED.load(Ordering::Relaxed) {
        for (index, task) in tasks.iter().enumerate() {
            answer(task, &mut |said| take(index, said));
        }
        return;
    }
    let (mut first, mut lost) = (0, Duration::ZERO);
    while first < tasks.len() {
        let silence_max = if lost < LOST_MAX { SILENCE_MAX } else { SILENCE_MAX_LATER };
        let mut done = first;
        let mut since = Instant::now();
        let ended = Helper::start(&tasks[first..], held).and_then(|helper| {
            started(helper.child.id());
            helper.listen(silence_max, &mut |said| {
                since = Instant::now();
                let is_done = said == Answer::Done;
                take(done, said);
                done += usize::from(is_done);
            })
        });
        if done < tasks.len() {
            lost += since.elapsed();
            let why = ended.unwrap_or_else(|error| format!("it could not be read: {error}"));
            take(done, Answer::Unusable(why));
            take(done, Answer::Done);
        }
        first = done + 1;
    }
}

/// The process.
struct Helper {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Helper {
    fn start(tasks: &[Task], held: &[BorrowedFd<'_>]) -> io::Result<Self> {
        // A file, since writing to it does not block.
        let mut asked = File::from(memfd_create("tasks", MemfdFlags::CLOEXEC)?);
        asked.write_all(&serde_json::to_vec(tasks)?)?;
        asked.rewind()?;
        let inherit = |flags| held.iter().try_for_each(|file| fcntl_setfd(file, flags));
        inherit(FdFlags::empty())?;
        let started = Command::new("/proc/self/exe")
            .arg(WORD)
            .stdin(asked)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the parent.
            .process_group(0)
            .spawn();
        inherit(FdFlags::CLOEXEC)?;
        let mut child = started?;
        let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    /// Forwards messages until there are no more, or none for too long. Returns why it ended.
    fn listen(mut self, silence_max: Duration, take: &mut dyn FnMut(Answer)) -> io::Result<String> {
        let mut line = Vec::new();
        while self.has_more(silence_max)? {
            let piece = self.out.fill_buf()?;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            line.extend_from_slice(&piece[..taken]);
            self.out.consume(taken);
            if taken == 0 {
                let status = self.end()?;
                return Ok(match (status.signal(), status.code()) {
                    (Some(6), _) => "reading it took more memory than there may be".to_owned(),
                    (Some(signal), _) => format!("its reader was ended by signal {signal}"),
                    (None, code) => {
                        format!("its reader failed with status {}", code.unwrap_or_default())
                    }
                });
            }
            if end.is_some() {
                take(serde_json::from_slice(&line)?);
                line.clear();
            }
        }
        Ok(format!("reading it took longer than {} s", silence_max.as_secs()))
    }

    /// Waits for its exit, and adds its CPU time, which is unavailable after a wait by others.
    fn end(&mut self) -> io::Result<ExitStatus> {
        let used_ns = proc::thread_cpu_time_ns(self.child.id(), self.child.id());
        CPU_TIME_NS.fetch_add(used_ns.unwrap_or(0), Ordering::Relaxed);
        self.child.wait()
    }

    /// Waits until there is something to read.
    fn has_more(&self, at_most: Duration) -> io::Result<bool> {
        if !self.out.buffer().is_empty() {
            return Ok(true);
        }
        let until = Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(self.out.get_ref(), PollFlags::IN)], Some(&left)) {
                Err(Errno::INTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbolize::debug_info::DebugInfo;

    #[test]
    fn a_reader_that_dies_or_says_nothing_is_told_of() {
        let said = serde_json::to_string(&Answer::Done).expect("JSON");
        let check = |script: &str, answers: usize, expected: &str| {
            let mut sh = Command::new("sh");
            let mut child = sh.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("sh");
            let out = BufReader::new(child.stdout.take().expect("a pipe"));
            let (mut taken, begin) = (0, Instant::now());
            let why = Helper { child, out }.listen(Duration::from_secs(1), &mut |_| taken += 1);
            let why = why.unwrap_or_else(|error| error.to_string());
            assert!(why.contains(expected), "{script}: {why}");
            assert_eq!(taken, answers, "{script}");
            assert!(begin.elapsed() < Duration::from_secs(20), "{script}: {:?}", begin.elapsed());
        };
        check("kill -BUS $$", 0, "its reader was ended by signal 7");
        check(&format!("echo '{said}'; kill -ABRT $$"), 1, "more memory than there may be");
        check(&format!("echo '{said}'; echo '{said}'; exit 101"), 2, "failed with status 101");
        check("exec sleep 60", 0, "reading it took longer than 1 s");
        check(&format!("printf '%s' '{said}'; exec sleep 60"), 0, "longer than 1 s");
        check("echo nonsense; exec sleep 60", 0, "expected");
    }

    #[test]
    fn this_program_answers_in_its_own_process() {
        fn asked() {}
        let path = std::path::PathBuf::from("/proc/self/exe");
        let file = File::open(&path).expect("open");
        if !DebugInfo::read(&file).is_some_and(|info| info.has_dwarf) {
            eprintln!("skipped: this test has no debug information, as in guests");
            return;
        }
        let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
        let base = maps.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok());
        let address = asked as fn() as usize as u64 - base.expect("an address");
        let image = crate::unwind::Image::read(&file).expect("ELF");
        let ((start, end), _) = image.text().expect("code");
        assert!((start..end).contains(&address), "it is not linked to a fixed address");
        let (downloaded, shared, root) = (None, None, None);
        let addresses = vec![address; 300];
        let task = Task { file: path, downloaded, shared, path: None, root, addresses };
        let (mut lines, mut done) = (Vec::new(), 0);
        ask(&[task.clone(), task], &[], &|_| {}, &mut |index, answer| match answer {
            Answer::Lines(some) => lines.extend(some),
            Answer::Unusable(why) => panic!("{why}"),
            Answer::Done => {
                assert_eq!(index, done);
                done += 1;
            }
        });
        assert_eq!((done, lines.len()), (2, 600));
        for line in lines.iter().map(|lines| lines.last().expect("a function")) {
            assert!(line.name.contains("asked"), "{line:?}");
            assert!(line.file.as_ref().is_some_and(|file| file.ends_with("helper.rs")), "{line:?}");
        }
    }
}
