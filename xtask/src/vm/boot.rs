//! QEMU: the machine, its two serial lines, and a timeout when it hangs.
//!
//! The first line carries kernel messages, to a file; the second the output of `run.sh`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use super::{
    console::{Console, Event},
    emulator::Emulator,
    image::Disk,
    initramfs,
    kernel::Kernel,
    talk::{Piece, Talk, listen},
    write,
};
use xtask::command::find_program;

/// Total time limit of a guest.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Time limit for booting.
const BOOT_LIMIT: Duration = Duration::from_secs(3 * 60);

/// Time limit without output. The longest test is quiet for two minutes under emulation.
const SILENCE_LIMIT: Duration = Duration::from_secs(6 * 60);

/// Time limit for probing KVM.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for the shutdown after all output. A leftover process of a test may hold the line.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(20);

/// Time limit for the end of a killed machine: one that hangs in the kernel never ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Lines of the kernel console to show after a failed guest.
const TAIL_LINES: usize = 30;

/// How the guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// By QEMU's TCG: works everywhere, about ten times slower; the guest's clocks do not notice, see [`CLOCK`].
    Emulation,
    /// By the processor, through `/dev/kvm`.
    Kvm,
}

impl Accelerator {
    /// KVM, if a kernel boots with it in time. `/dev/kvm` may exist and hang.
    pub(super) fn probed(emulator: &Emulator, kernel: &Kernel, place: &Path) -> Self {
        let console = place.join("kvm.console");
        let _ = fs::remove_file(&console);
        let mut command = qemu(emulator, Self::Kvm, &console);
        command.arg("-kernel").arg(&kernel.image).args(["-append", &parameters(emulator)]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return Self::Emulation };
        let start = Instant::now();
        let mut works = false;
        while !works && start.elapsed() < PROBE_LIMIT && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
            works = fs::metadata(&console).is_ok_and(|meta| meta.len() > 0);
        }
        end(&mut child);
        if works {
            return Self::Kvm;
        }
        eprintln!("note        KVM does not work here: the guest is emulated");
        Self::Emulation
    }
}

/// The kernel's command line. A panic or an oops ends the machine.
///
/// `init.sh` starts the second CPU: an old kernel waiting for that is busy with a free-running timer, and the emulator
/// would never switch to the other CPU (6.1 with QEMU 7.2).
fn parameters(emulator: &Emulator) -> String {
    let own = emulator.architecture.parameters;
    format!("{own} loglevel=5 panic=-1 oops=panic maxcpus=1")
}

/// Clock of an emulated guest: each instruction takes 2 ns, regardless of emulation speed. So program run times, timer
/// rates and time shares are those of a slow, undisturbed machine, and timing tests work. The two CPUs take turns, and
/// each seems to stall while the other computes: two busy ones are half as fast.
const CLOCK: &[&str] = &["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off"];

/// A machine without a guest, whose first serial line is a file. Killed with the thread that starts it.
fn qemu(emulator: &Emulator, accelerator: Accelerator, console: &Path) -> Command {
    let mut command = match find_program("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(&emulator.program);
            command
        }
        None => Command::new(&emulator.program),
    };
    match accelerator {
        Accelerator::Emulation => command.args(CLOCK).args(emulator.architecture.board),
        Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
    };
    command.args(["-smp", "2", "-m", "3G"]);
    command.args(["-nodefaults", "-no-reboot", "-display", "none"]);
    command.arg("-serial").arg(format!("file:{}", console.display()));
    command
}

/// A machine ready to boot.
#[derive(Debug)]
pub(super) struct Machine {
    command: Command,
    /// File of the kernel's messages.
    console: PathBuf,
    output: PathBuf,
}

/// Result of a guest's run, with all its output.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) console: Console,
    /// Why it did not end properly; none if the script completed.
    pub(super) trouble: Option<String>,
    /// From power-on to the end.
    pub(super) took: Duration,
}

impl Ending {
    /// Appends the result of a guest that ran the remaining programs.
    pub(super) fn then(mut self, rest: Self) -> Self {
        self.console.extend(rest.console);
        self.trouble = match (self.trouble, rest.trouble) {
            (Some(first), Some(second)) => Some(format!("{first}\nerror: {second}")),
            (first, second) => first.or(second),
        };
        self.took += rest.took;
        self
    }
}

impl Machine {
    /// The machine with this kernel, disk and script; its files go to `folder`.
    pub(super) fn new(
        emulator: &Emulator,
        kernel: &Kernel,
        disk: &Disk,
        script: &str,
        accelerator: Accelerator,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let initramfs = folder.join("initramfs");
        write(&initramfs, &initramfs::build(&disk.busybox, kernel, script)?)?;
        let console = folder.join("console");
        let _ = fs::remove_file(&console);
        let mut command = qemu(emulator, accelerator, &console);
        command.args(emulator.architecture.line);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&initramfs);
        command.args(["-append", &format!("{} rdinit=/init", parameters(emulator))]);
        // The guest's writes go to a temporary snapshot.
        let drive = format!("file={},format=raw,if=virtio,snapshot=on", disk.image.display());
        command.args(["-drive", &drive]).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(Self { command, console, output: folder.join("output") })
    }

    /// Runs it to the end, and prints its output with `label` before each line.
    pub(super) fn run(mut self, label: &str) -> anyhow::Result<Ending> {
        let start = Instant::now();
        let child = self.command.spawn();
        let mut child = child.context("cannot start QEMU")?;
        let stdout = child.stdout.take().context("QEMU has no output")?;
        let mut talk = Talk::new(&self.output)?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || listen(stdout, &sender));
        let mut console = Console::default();
        let trouble = loop {
            let (quiet_limit, what) = match &console {
                Console { is_done: true, .. } => (SHUTDOWN_LIMIT, ""),
                Console { release: None, .. } => (BOOT_LIMIT, "did not boot within"),
                Console { .. } => (SILENCE_LIMIT, "said nothing for"),
            };
            let rest = LIMIT.saturating_sub(start.elapsed());
            match receiver.recv_timeout(rest.min(quiet_limit)) {
                Ok(piece) if !rest.is_zero() => {
                    talk.note(&piece);
                    if let Piece::Line(line) = piece
                        && let Some(event) = console.line(&line)
                    {
                        println!("{label}{}", line_of(&event, start.elapsed()));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break self.verdict(&console, &talk),
                Err(RecvTimeoutError::Timeout) if console.is_done => {
                    break self.verdict(&console, &talk);
                }
                Err(RecvTimeoutError::Timeout) if rest > quiet_limit => {
                    let limit_s = quiet_limit.as_secs();
                    break Some(self.ended(&talk, &format!("{what} {limit_s} s")));
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    let limit_s = LIMIT.as_secs();
                    break Some(self.ended(&talk, &format!("was not done after {limit_s} s")));
                }
            }
        };
        end(&mut child);
        if trouble.is_some() {
            console.cut(talk.begun());
        }
        Ok(Ending { console, trouble, took: start.elapsed() })
    }

    /// Message about a killed machine.
    fn ended(&self, talk: &Talk, why: &str) -> String {
        format!("the guest {why} and was ended\n{}\n{}", talk.tail(), self.tail())
    }

    /// Verdict on a machine that ended by itself, or only failed to power off.
    fn verdict(&self, console: &Console, talk: &Talk) -> Option<String> {
        let said = self.said();
        if console.is_done && !has_panicked(&said) {
            return None;
        }
        let reason = match &console.failure {
            Some(failure) => failure.clone(),
            None => ending_of(&said).to_owned(),
        };
        Some(format!("{reason}\n{}\n{}", talk.tail(), self.tail()))
    }

    /// The kernel's messages.
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// Relevant lines of the kernel console, and the path of the whole.
    fn tail(&self) -> String {
        let said = self.said();
        let lines: Vec<_> = said.lines().collect();
        let shown = excerpt(&lines).join("\n");
        format!("{shown}\nall of the console is in {}", self.console.display())
    }
}

/// The lines from the first error on, or the last ones.
fn excerpt<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    let is_mishap =
        |line: &&str| ["Kernel panic", "BUG:", "Oops:"].iter().any(|mark| line.contains(mark));
    let last = lines.len().saturating_sub(TAIL_LINES);
    let from = lines.iter().position(is_mishap).unwrap_or(last);
    &lines[from..lines.len().min(from + TAIL_LINES)]
}

/// Cause of a premature end, from the kernel console.
fn ending_of(console: &str) -> &'static str {
    if has_panicked(console) {
        "the guest's kernel panicked"
    } else if console.is_empty() {
        "QEMU ended before the guest's kernel said a word: is the image a kernel for its \
         processor? `--kernel 6.12` takes Debian's"
    } else {
        "the guest ended before its tests did"
    }
}

fn has_panicked(console: &str) -> bool {
    console.contains("Kernel panic - not syncing")
}

fn line_of(event: &Event, at: Duration) -> String {
    let at_s = at.as_secs();
    match event {
        Event::Output(line) => line.clone(),
        Event::Booted(release) => format!("==> Linux {release} is up after {at_s} s"),
        Event::Begun(name) => format!("==> {name} (at {at_s} s)"),
        Event::Ended(name, code) => format!("    {name}: exit code {code} (at {at_s} s)"),
    }
}

/// Kills a machine, and waits for it up to [`FAREWELL`].
fn end(child: &mut Child) {
    let deadline = Instant::now() + FAREWELL;
    let _ = child.kill();
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mishap_is_shown_from_its_beginning() {
        let check = |lines: &[&str], first: &str, count| {
            let shown = excerpt(lines);
            assert_eq!((shown.first().copied().unwrap_or_default(), shown.len()), (first, count));
        };
        check(&[], "", 0);
        check(&["a", "b"], "a", 2);
        let many = [["quiet"; 40].as_slice(), &["BUG: null"], &["trace"; 50], &["end"]].concat();
        check(&many, "BUG: null", TAIL_LINES);
        check(&many[50..], "trace", TAIL_LINES);
    }

    #[test]
    fn an_early_end_has_its_reason() {
        let check = |console, expected| {
            assert!(ending_of(console).contains(expected), "{console}: {}", ending_of(console));
        };
        check("", "before the guest's kernel said a word");
        check("[1.0] Kernel panic - not syncing: Attempted to kill init!", "panicked");
        check("[1.0] reboot: Power down", "before its tests did");
    }
}
