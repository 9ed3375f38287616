//! The program that allocates until it is told to end: its allocations, its CPU time, and the code of its allocator.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use object::{Object as _, ObjectSymbol as _};

use super::programs::Folder;

/// How it is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Allocations of a thread in a second; 0: as many as it can.
    pub(super) rate: u64,
    /// One of so many is never freed; 0: none.
    pub(super) forget: u64,
    pub(super) threads: u32,
}

#[derive(Debug)]
pub(super) struct Target {
    child: Child,
    file: PathBuf,
}

/// How long it may take to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Functions whose code is looked at.
const FUNCTIONS: [&str; 8] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
];

impl Target {
    /// Starts it by `env`, or by another command.
    pub(super) fn start(folder: &Folder, under: &Command, pace: Pace) -> anyhow::Result<Self> {
        if !folder.file("calls").is_file() {
            folder.shell("gcc -g -O2 -pthread -o calls calls.c")?;
        }
        let file = folder.file("numbers");
        // It may not be there.
        let _ = fs::remove_file(&file);
        let Pace { rate, forget, threads } = pace;
        let mut command = Command::new(under.get_program());
        command.args(under.get_args()).arg(folder.file("calls")).arg(&file);
        command.args([rate.to_string(), forget.to_string(), threads.to_string()]);
        command.current_dir(folder.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let target = Self { child: child.context("cannot start the target")?, file };
        let begin = Instant::now();
        while target.count() == 0 {
            ensure!(begin.elapsed() < PATIENCE, "the target does not begin");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(target)
    }

    fn number(&self, index: usize) -> u64 {
        let bytes = fs::read(&self.file).unwrap_or_default();
        let number = bytes.chunks_exact(8).nth(index).and_then(|it| it.try_into().ok());
        number.map_or(0, u64::from_ne_bytes)
    }

    pub(super) fn pid(&self) -> u32 {
        self.number(0) as u32
    }

    /// Allocations until now.
    pub(super) fn count(&self) -> u64 {
        self.number(1)
    }

    /// CPU time of its first thread until now, user and system, nanoseconds.
    pub(super) fn cpu_ns(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/schedstat", self.pid());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let time = text.split_whitespace().next().and_then(|word| word.parse().ok());
        time.with_context(|| format!("{path} has no time"))
    }

    /// The bytes of its C library's allocator, as they are now: probes are breakpoints.
    pub(super) fn code(&self) -> anyhow::Result<Vec<u8>> {
        let pid = self.pid();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("the target is gone")?;
        let library = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once('-')?;
            let path = rest.split_whitespace().nth(5)?;
            let is_first = rest.split_whitespace().nth(2) == Some("00000000");
            let start = u64::from_str_radix(range, 16).ok()?;
            (is_first && path.contains("/libc.so")).then_some((start, path))
        });
        let (start, path) = library.context("the target has no shared C library")?;
        let data = fs::read(path).with_context(|| format!("cannot read {path}"))?;
        let library = object::File::parse(&*data).context("the C library is no ELF file")?;
        let memory = File::open(format!("/proc/{pid}/mem")).context("cannot see its memory")?;
        let mut code = Vec::new();
        for symbol in library.dynamic_symbols() {
            if !symbol.name().is_ok_and(|name| FUNCTIONS.contains(&name)) {
                continue;
            }
            let mut bytes = vec![0; symbol.size() as usize];
            memory.read_exact_at(&mut bytes, start + symbol.address()).context("no code there")?;
            code.extend(bytes);
        }
        ensure!(!code.is_empty(), "the C library has no allocator");
        Ok(code)
    }

    /// Has the kernel put a page of its own into it, where it steps over instructions? It stays to the end.
    pub(super) fn has_page(&self) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        maps.lines().any(|line| line.ends_with("[uprobes]"))
    }

    /// Does it still run, and allocate?
    pub(super) fn is_working(&self) -> bool {
        let before = self.count();
        thread::sleep(Duration::from_millis(200));
        self.count() > before
    }

    /// Has it end: `true` if it did so well.
    pub(super) fn end(mut self) -> anyhow::Result<bool> {
        self.ask_to_end()?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().context("cannot wait")? {
                return Ok(status.success());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(false)
    }

    fn ask_to_end(&self) -> anyhow::Result<()> {
        let file = File::options().write(true).open(&self.file).context("no file of the target")?;
        file.write_all_at(&1_u64.to_ne_bytes(), 16).context("cannot write to the target")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Also where it is the child of a tool. It may have ended by itself.
        let _ = self.ask_to_end();
        thread::sleep(Duration::from_millis(100));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
