//! `cargo xtask vm`: the privileged tests on other kernels.
//!
//! A kernel comes from Debian's packages ([`kernel`]); programs, tests and their dependencies are packed into a disk
//! image ([`suites`], [`stage`], [`image`]); QEMU ([`emulator`]) boots both ([`boot`]). The guest's console output
//! ([`console`]) becomes a record ([`record`]), which is compared with the previous one ([`judge`], [`document`]), and
//! a verdict ([`report`]). Needs no privileges except to run QEMU. Programs of aarch64 guests are cross-compiled, or
//! come from Debian too ([`architecture`], [`userland`]).

mod architecture;
mod boot;
mod console;
mod document;
mod emulator;
mod guest;
mod image;
mod initramfs;
mod judge;
mod kernel;
mod lists;
mod programs;
mod record;
mod report;
mod sources;
mod stage;
mod suites;
mod tables;
mod talk;
mod userland;

use std::{
    fs::{self, File},
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context as _, ensure};
use rustix::fs::{FlockOperation, flock};

pub(crate) use self::suites::kernel_programs;
use self::{
    architecture::{AMD64, ARM64},
    boot::{Accelerator, Ending, Machine},
    console::Console,
    emulator::Emulator,
    guest::Plan,
    image::Disk,
    kernel::Kernel,
    record::Record,
    report::Report,
    suites::Suites,
};
use crate::setup;
use xtask::{
    command::{repository, run_logged},
    folders,
};

/// Flags of `cargo xtask vm`.
#[derive(Debug, clap::Args)]
pub(crate) struct VmArgs {
    /// A kernel: 6.1, 6.12 or another series of Debian's cloud kernels, or the path of an image
    #[arg(long = "kernel", value_name = "KERNEL", default_values = ["6.1", "6.12"])]
    kernels: Vec<String>,

    /// Boot guests of aarch64, and run those tests there that depend on the processor
    #[arg(long, conflicts_with_all = ["kvm", "update"])]
    aarch64: bool,

    /// Run this shell command in the guest, as root in the repository, instead of the tests
    #[arg(long, value_name = "COMMAND", conflicts_with = "words")]
    exec: Option<String>,

    /// Only what every change has to show: all programs load, and each kind of recording works
    #[arg(long, conflicts_with_all = ["suite", "exec", "update", "words", "aarch64"])]
    smoke: bool,

    /// As CI: `--smoke`, or everything if the kernel half or the loader is not what docs/kernels.md was written for
    #[arg(long, conflicts_with_all = ["smoke", "suite", "exec", "update", "words", "aarch64"])]
    gate: bool,

    /// Only the test programs whose name contains this text, such as `wingbeat/profile`
    #[arg(long, value_name = "TEXT", conflicts_with = "exec")]
    suite: Option<String>,

    /// Let the processor run the guest where that works; the default is emulation, which always does
    #[arg(long)]
    kvm: bool,

    /// Write what the kernels allow, and what the verifier makes of our programs, into docs/kernels.md;
    /// with all test programs also which tests ran
    #[arg(long, conflicts_with = "exec")]
    update: bool,

    /// Words for the test programs, such as the part of a test's name
    #[arg(last = true, value_name = "TEST FILTER")]
    words: Vec<String>,
}

/// Runs the suite on each kernel; an error unless all passed.
pub(crate) fn run(args: &VmArgs) -> anyhow::Result<()> {
    setup::programs(programs::NEEDED)?;
    let architecture = if args.aarch64 { &ARM64 } else { &AMD64 };
    let place = architecture.place(&repository());
    fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    let _lock = lock(&place.join("lock"))?;
    let emulator = emulator::get(architecture, &place)?;

    let mut kernels: Vec<Kernel> = Vec::new();
    for name in &args.kernels {
        let kernel = Kernel::fetch(name, architecture, &place)?;
        let is_twice = kernels.iter().any(|known| known.name == kernel.name);
        ensure!(!is_twice, "two kernels are called {}: run them one after the other", kernel.name);
        kernels.push(kernel);
    }
    let is_smoke = args.smoke || (args.gate && !sources::have_changed()?);
    let all = suites::build(architecture)?;
    let all = if is_smoke { all.smoke() } else { all };
    let suites = match &args.suite {
        Some(part) => all.clone().named(part)?,
        None => all.clone(),
    };
    let disk = image::build(&all, architecture, &place)?;
    let plan = plan(args, is_smoke, &suites);
    let accelerator = match args.kvm {
        true => Accelerator::probed(&emulator, &kernels[0], &place),
        false => Accelerator::Emulation,
    };

    let is_whole = args.suite.is_none() && args.words.is_empty() && !is_smoke;
    let task = Task { emulator: &emulator, disk: &disk, plan, suites, accelerator };
    let endings = run_all(&task, &kernels, &place.join("runs"));
    let (mut records, mut all_passed) = (Vec::new(), true);
    for (kernel, ending) in kernels.iter().zip(endings) {
        let ending = match ending {
            Ok(ending) => ending,
            Err(error) => {
                eprintln!("\n{}\nerror: {error:#}", kernel.name);
                all_passed = false;
                continue;
            }
        };
        let record = Record::of(&ending.console, is_whole);
        note_unknown(&record, kernel);
        let regressions = regressions(args, is_smoke, &record, &ending.console)?;
        let mut report = Report::new(&kernel.name, ending);
        report.regressions = regressions;
        eprintln!("\n{}", report.text());
        all_passed &= report.passed();
        records.push(record);
    }
    ensure!(all_passed, "not everything passed, so docs/kernels.md stays as it is");
    if args.update {
        document::update(records, &task.suites)?;
    }
    Ok(())
}

/// The guests' plan, and the location of our binary for commands.
fn plan(args: &VmArgs, is_smoke: bool, suites: &Suites) -> Plan {
    match &args.exec {
        Some(command) => {
            if let Some(program) = suites.wingbeat() {
                eprintln!("note        `wingbeat` is in PATH in the guest: {}", program.display());
            }
            Plan::Command(command.clone())
        }
        None if is_smoke => Plan::Smoke,
        None => Plan::Suites { words: args.words.clone() },
    }
}

fn note_unknown(record: &Record, kernel: &Kernel) {
    if !record.unknown.is_empty() {
        eprintln!(
            "note        {} has no configuration that can be read: nobody knows whether it should have {}",
            kernel.name,
            record.unknown.join(", ")
        );
    }
}

/// Regressions, one sentence each.
fn regressions(
    args: &VmArgs,
    is_smoke: bool,
    record: &Record,
    console: &Console,
) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    if args.exec.is_none() && !args.update {
        // The file's figures are for x86-64.
        let before = if args.aarch64 { String::new() } else { document::read()? };
        found = judge::regressions(record, &before);
    }
    if is_smoke {
        found.extend(judge::missing_of_smoke(&console.runs));
    }
    if !args.words.is_empty() && console.runs.iter().all(|run| run.passed == 0) {
        let words = args.words.join(" ");
        found.push(format!("no test that passed has {words} in its name"));
    }
    Ok(found)
}

/// Work of a guest, independent of the kernel.
struct Task<'a> {
    emulator: &'a Emulator,
    disk: &'a Disk,
    plan: Plan,
    suites: Suites,
    accelerator: Accelerator,
}

impl Task<'_> {
    /// Runs with a kernel. Output lines start with `label`. If a test program hangs or crashes the kernel, another
    /// guest runs the remaining ones.
    fn run(&self, kernel: &Kernel, folder: &Path, label: &str) -> anyhow::Result<Ending> {
        let mut suites = self.suites.clone();
        let mut whole: Option<Ending> = None;
        for boots in 1.. {
            let folder =
                if boots == 1 { folder } else { &*folder.with_added_extension(boots.to_string()) };
            let script = self.plan.script(&suites, self.accelerator, boots == 1);
            let Self { emulator, disk, accelerator, .. } = self;
            let machine = Machine::new(emulator, kernel, disk, &script, *accelerator, folder)?;
            let ending = machine.run(label)?;
            suites = suites.behind(ending.console.unfinished().unwrap_or_default());
            whole = Some(match whole {
                None => ending,
                Some(before) => before.then(ending),
            });
            if suites.tests.is_empty() {
                break;
            }
            println!("{label}==> another guest runs {} and those behind it", suites.tests[0].name);
        }
        whole.context("no guest was booted")
    }
}

/// Boots the kernels, one per CPU at a time: an emulated guest uses one. Concurrent output is prefixed with the
/// kernels' names.
fn run_all(task: &Task<'_>, kernels: &[Kernel], folder: &Path) -> Vec<anyhow::Result<Ending>> {
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let is_alone = kernels.len().min(at_once) == 1;
    let width = kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0);
    let run = |kernel: &Kernel| {
        let label = if is_alone { String::new() } else { format!("{:width$} | ", kernel.name) };
        task.run(kernel, &folder.join(&kernel.name), &label)
    };
    let together = |kernels: &[Kernel]| {
        thread::scope(|scope| {
            let started: Vec<_> =
                kernels.iter().map(|kernel| scope.spawn(move || run(kernel))).collect();
            let join = |it: thread::ScopedJoinHandle<'_, _>| it.join().expect("no panic");
            started.into_iter().map(join).collect::<Vec<_>>()
        })
    };
    kernels.chunks(at_once).flat_map(together).collect()
}

/// One run at a time: they share the disk.
fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let is_ours = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    ensure!(is_ours, "another `cargo xtask vm` is under way; {} is its lock", path.display());
    Ok(file)
}

/// Writes a file below `target/vm`, with an error message.
fn write(path: &PathBuf, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// An empty folder next to `folder`, which replaces it when complete.
fn fresh_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    let draft = folder.with_added_extension("new");
    folders::fresh(&draft)?;
    Ok(draft)
}

/// Unpacks and deletes the packages in a folder.
fn unpack_packages(folder: &Path, log: &Path) -> anyhow::Result<()> {
    let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
    for path in folders::sorted(folder)?.into_iter().filter(is_package) {
        run_logged(Command::new("dpkg-deb").arg("-x").arg(&path).arg(folder), log)?;
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
