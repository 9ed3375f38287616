//! Texts of the warnings: what happened, how it affects the results, and what to do next.

use std::fmt;

use wingbeat_profiler_abi::{
    USER_FRAMES_MAX,
    unwind::layout::{BLOCK_BYTES, BLOCKS_MAX},
};
use wingbeat_text::{duration, plural, share};

use crate::{
    advice::{NoSamples, ProfileWarning},
    debuginfod::DownloadError,
    summary::jit::{Interpreted, Nameless, Runtime},
    symbolize::{Refused, Unusable},
};

/// Maximum of `--unwind-memory`.
const TABLES_BYTES_MAX: u64 = BLOCKS_MAX as u64 * BLOCK_BYTES as u64;

impl ProfileWarning {
    /// Machine-readable code, stable between versions.
    fn code(&self) -> &'static str {
        match self {
            Self::NoSamples(_) => "no-samples",
            Self::NothingBlocked { .. } => "nothing-blocked",
            Self::FellBack { .. } => "fell-back",
            Self::AllHidden { .. } => "all-hidden",
            Self::HardlyRan { .. } => "hardly-ran",
            Self::BlocksLost { .. } => "blocks-lost",
            Self::StacksLost { .. } => "stacks-lost",
            Self::ReusedWrong { .. } => "reused-wrong",
            Self::ThreadsOff { .. } => "threads-off",
            Self::Lost { .. } => "samples-lost",
            Self::Failed { .. } => "samples-failed",
            Self::Broken { .. } => "stacks-broken",
            Self::Truncated { .. } => "stacks-truncated",
            Self::TablesTight { .. } => "unwind-memory-full",
            Self::CopiesCut { .. } => "stacks-copied-in-part",
            Self::NamesRefused { .. } => "names-refused",
            Self::DebugInfoUnusable { .. } => "debug-info-unusable",
            Self::NamesMissing { .. } => "names-missing",
            Self::Unframed { .. } => "stacks-broken",
            Self::Interpreted { .. } => "functions-interpreted",
            Self::FilesUnopened { .. } => "files-not-opened",
            Self::DebugInfoMissing { .. } => "debug-info-missing",
            Self::EventsLost(_) => "events-lost",
            Self::ChildrenLost(_) => "children-lost",
        }
    }

    /// The warning in the form of all wingbeat reports.
    pub fn text(&self) -> wingbeat_text::Warning {
        wingbeat_text::Warning::new(self.code(), self.cause(), self.effect(), self.next_step())
    }

    fn cause(&self) -> String {
        match self {
            Self::NoSamples(_) => "no samples, so nothing was written".to_owned(),
            Self::NothingBlocked { below_limit: 0, .. } => {
                "no thread of the target left the CPU, so nothing was written".to_owned()
            }
            Self::NothingBlocked { below_limit, below_limit_ns, min_block_ns } => {
                let (limit, sum) = (duration(*min_block_ns), duration(*below_limit_ns));
                format!("all {below_limit} blocks were shorter than {limit} ({sum} in total)")
            }
            Self::FellBack { reason } => format!(
                "the kernel refused tp_btf for the scheduler ({reason}), so a raw tracepoint was \
                 used"
            ),
            Self::AllHidden { threads } => {
                format!("{} slept the whole time", plural(threads, "thread"))
            }
            Self::HardlyRan { cpu_ns, duration_ns, .. } => format!(
                "the target ran for {} of {}, and samples show only that time",
                duration(*cpu_ns),
                duration(*duration_ns)
            ),
            Self::BlocksLost { lost, of, reason } => {
                let why = why_lost(reason).0;
                format!("{lost} of {of} blocks ({}) were lost, most {why}", share::part(*lost, *of))
            }
            Self::StacksLost { missing, blocks } => format!(
                "{missing} of {blocks} blocks ({}) lack a part of their stack, because the buffer was full",
                share::part(*missing, *blocks)
            ),
            Self::ReusedWrong { wrong, checked } => format!(
                "{} of reused stacks failed the spot check ({wrong} of {checked})",
                share::part(*wrong, *checked)
            ),
            Self::ThreadsOff { off, threads } => format!(
                "the times of {off} of {} differ from their elapsed time by more than 1 %",
                plural(threads, "thread")
            ),
            Self::Lost { lost, wanted, .. } => format!(
                "{lost} of {wanted} samples ({}) were lost because the buffer was full",
                share::part(*lost, *wanted)
            ),
            Self::Failed { failed, error } => failed_with(*failed, error),
            Self::Broken { broken, samples, modules, by_frame_pointers } => {
                too_early(*broken, *samples, modules, *by_frame_pointers)
            }
            Self::Truncated { truncated, samples } => format!(
                "{} of the stacks are deeper than {USER_FRAMES_MAX} frames and were cut",
                share::part(*truncated, *samples)
            ),
            Self::TablesTight { limit_bytes, refused, evicted, .. } => {
                tables_tight(*limit_bytes, *refused, *evicted)
            }
            Self::CopiesCut { cut, samples } => copies_cut(*cut, *samples),
            Self::NamesRefused { file, others } => file.cause(*others),
            Self::DebugInfoUnusable { file, others } => file.cause(*others),
            Self::NamesMissing { process, others, .. } => process.cause(*others),
            Self::Unframed { broken, samples, .. } => unframed(*broken, *samples),
            Self::Interpreted { process, others } => process.cause(*others),
            Self::FilesUnopened { times, limit } => format!(
                "{} could not be opened, because wingbeat may have no more than {limit} open",
                plural(times, "file")
            ),
            Self::DebugInfoMissing { file, error, others } => not_downloaded(file, error, *others),
            Self::EventsLost(lost) => {
                format!("{lost} of the kernel's events on mappings and processes were lost")
            }
            Self::ChildrenLost(lost) => format!("{lost} child processes could not be followed"),
        }
    }

    fn effect(&self) -> String {
        let text = match self {
            Self::NoSamples(why) => return why.to_string(),
            Self::NothingBlocked { below_limit: 0, .. } => "it ran all the time",
            Self::NothingBlocked { .. } => "the target ran nearly all the time",
            Self::FellBack { .. } => {
                "threads that were not scheduled during the recording are missing, and the cost is \
                 higher"
            }
            Self::AllHidden { .. } => "--hide-idle hid it, so nothing was written",
            Self::BlocksLost { .. } => "times off the CPU are too small",
            Self::ReusedWrong { .. } => "outer callers may be wrong",
            Self::ThreadsOff { .. } => "some of their blocks are missing or counted twice",
            Self::Lost { .. } | Self::Failed { .. } => "shares are of the remaining samples",
            Self::Broken { .. } | Self::Unframed { .. } | Self::CopiesCut { .. } => {
                "callers are missing there"
            }
            Self::Interpreted { process, .. } => {
                return format!(
                    "the functions of the interpreter and those in C have names, those in {} do not appear",
                    process.runtime.name()
                );
            }
            Self::FilesUnopened { .. } => {
                "their functions have no names, and callers may be missing"
            }
            Self::Truncated { .. } => "their outermost callers are missing",
            Self::TablesTight { copied, samples, cut, .. } => {
                let part = share::part(*copied, *samples);
                let text = format!("{part} of the stacks were copied instead, which costs time");
                return and_cut(text, *cut);
            }
            Self::NamesRefused { .. } => "code of its JIT compiler has no names",
            Self::NamesMissing { is_unframed: false, .. } => {
                "all of it appears as one function, [anon]"
            }
            Self::NamesMissing { .. } => {
                "all of it appears as one function, [anon], and stacks end there without their callers"
            }
            Self::DebugInfoUnusable { file: Unusable { is_replaced: true, .. }, .. } => {
                "what ran appears as addresses"
            }
            Self::DebugInfoUnusable { .. } => {
                "names are those of symbol tables there, and source lines and inlined functions may be missing"
            }
            Self::DebugInfoMissing { .. } => {
                "functions that it does not export appear as addresses, and all lack source lines"
            }
            Self::EventsLost(_) => "some frames may lack names",
            Self::ChildrenLost(_) => {
                "the table of targets was full, or the kernel left out events of forks"
            }
            Self::HardlyRan { .. } | Self::StacksLost { .. } => "",
        };
        text.to_owned()
    }

    fn next_step(&self) -> String {
        let text = match self {
            Self::NothingBlocked { below_limit: 0, .. } => "use --mode on-cpu to see where",
            Self::NothingBlocked { .. } => {
                "use --mode on-cpu to see where, or a shorter --min-block to see the blocks"
            }
            Self::FellBack { .. } => "see `wingbeat doctor`",
            Self::AllHidden { .. } => "record without it",
            Self::HardlyRan { instead, .. } => {
                return format!("to see what it waited for: {instead}");
            }
            Self::BlocksLost { reason, .. } => why_lost(reason).1,
            Self::StacksLost { .. } => "use a larger --buffer-size or a longer --min-block",
            Self::Lost { or, .. } => {
                return format!("use a larger --buffer-size or {or}");
            }
            Self::Broken { by_frame_pointers: true, .. } => "use --unwind auto",
            Self::Broken { .. } => {
                "keep its .eh_frame section, or rebuild it with frame pointers: RUSTFLAGS=\"-C force-frame-pointers=yes\" for Rust, \
                 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer for C and C++"
            }
            Self::TablesTight { limit_bytes, .. } => match *limit_bytes < TABLES_BYTES_MAX {
                true => "use a larger --unwind-memory",
                false => "record fewer processes",
            },
            Self::CopiesCut { .. } => {
                "use a larger --buffer-size, such as 64M, or record for longer: tables stay once they \
                 are built"
            }
            Self::NamesRefused { .. } => {
                "make it a regular file that belongs to the user of the process"
            }
            Self::NamesMissing { process, .. } => how_to_name(process.runtime),
            Self::Unframed { runtime, .. } => how_to_frame(*runtime),
            Self::Interpreted { process, .. } => return how_to_see(process),
            Self::FilesUnopened { .. } => {
                "raise the limit (`ulimit -Hn`), or record fewer processes"
            }
            Self::DebugInfoUnusable { file: Unusable { is_replaced: true, .. }, .. } => {
                "record again, and install by renaming a new file, not by writing into the old one"
            }
            Self::DebugInfoUnusable { .. } => {
                "install the debug file of this build, or build the program again"
            }
            Self::DebugInfoMissing { error, .. } => how_to_download(error),
            Self::NoSamples(_)
            | Self::ReusedWrong { .. }
            | Self::ThreadsOff { .. }
            | Self::Failed { .. }
            | Self::Truncated { .. }
            | Self::EventsLost(_)
            | Self::ChildrenLost(_) => "",
        };
        text.to_owned()
    }
}

/// Appends whether the copies had all of the stacks.
fn and_cut(text: String, cut: u64) -> String {
    match cut {
        0 => text,
        cut => format!("{text}, and {cut} are cut where their copy ends"),
    }
}

/// How to make a runtime write symbol files.
fn how_to_name(runtime: Option<Runtime>) -> &'static str {
    match runtime {
        Some(Runtime::Node) => {
            "start Node with --perf-basic-prof, and with --interpreted-frames-native-stack for \
             functions that it interprets"
        }
        Some(Runtime::Python) => "start Python (3.12 or later) with -X perf",
        Some(Runtime::Java) => {
            "attach a perf-map agent to Java (from JDK 17 on: jcmd PID Compiler.perfmap, while it \
             runs), and start it with -XX:+PreserveFramePointer"
        }
        Some(Runtime::Dotnet) => "start .NET with DOTNET_PerfMapEnabled=1 in its environment",
        Some(Runtime::Ruby) => "start Ruby (3.3 or later) with --yjit --yjit-perf",
        Some(Runtime::Php) => "start PHP with -d opcache.jit_debug=0x10",
        Some(Runtime::Erlang) => "start Erlang (`erl`) with +JPperf true",
        Some(Runtime::LuaJit) => {
            "see its functions with LuaJIT's own profiler (luajit -jp), or build it with \
             -DLUAJIT_USE_PERFTOOLS"
        }
        Some(Runtime::Perl) | None => {
            "make its compiler write a perf map (/tmp/perf-PID.map) or a jitdump file: most have a \
             flag for it"
        }
    }
}

/// How to make a runtime's compiler keep frame pointers.
fn how_to_frame(runtime: Option<Runtime>) -> &'static str {
    match runtime {
        Some(Runtime::Java) => "start Java with -XX:+PreserveFramePointer",
        Some(Runtime::Erlang) => "start Erlang (`erl`) with +JPperf true",
        Some(Runtime::Ruby) => "start Ruby (3.3 or later) with --yjit-perf, or with --disable-yjit",
        Some(Runtime::LuaJit) => "see its functions with LuaJIT's own profiler: luajit -jp",
        _ => "see whether its compiler has a flag for frame pointers",
    }
}

/// How to see the functions of interpreted code.
fn how_to_see(process: &Interpreted) -> String {
    let Interpreted { pid, runtime, version, .. } = process;
    let is_from = |from: (u32, u32)| version.is_none_or(|version| version >= from);
    match runtime {
        Runtime::Python if is_from((3, 12)) => {
            let which = if version.is_none() { " (3.12 or later)" } else { "" };
            format!(
                "start Python{which} with -X perf, or see them while it runs with py-spy: \
                 py-spy record --pid {pid}"
            )
        }
        Runtime::Python => format!(
            "see them while it runs with py-spy: py-spy record --pid {pid}; Python 3.12 and later \
             tells them with -X perf"
        ),
        Runtime::Ruby => {
            let which = if is_from((3, 3)) { "" } else { " 3.3 and later" };
            format!(
                "see them while it runs with rbspy: rbspy record --pid {pid}; Ruby{which} names \
                 what it compiles with --yjit --yjit-perf"
            )
        }
        Runtime::Php => format!(
            "see them while it runs with phpspy: phpspy --pid {pid}; PHP names what its JIT compiler \
             makes with -d opcache.jit_debug=0x10"
        ),
        Runtime::Perl => "see them with its own profiler: perl -d:NYTProf".to_owned(),
        Runtime::LuaJit => "see them with its own profiler: luajit -jp".to_owned(),
        runtime => how_to_name(Some(*runtime)).to_owned(),
    }
}

fn too_early(
    broken: u64,
    samples: u64,
    modules: &[(String, u64)],
    by_frame_pointers: bool,
) -> String {
    let part = share::part(broken, samples);
    let why = match by_frame_pointers {
        true => "missing frame pointers",
        false => "missing unwind information and frame pointers",
    };
    format!("{part} of the stacks end too early, because of {why} in {}", shares(modules, broken))
}

fn unframed(broken: u64, samples: u64) -> String {
    let part = share::part(broken, samples);
    format!(
        "{part} of the stacks end too early, in code that was made while it ran and keeps no frame pointers"
    )
}

/// Lists the first files, each with its share.
fn shares(files: &[(String, u64)], whole: u64) -> String {
    let named = files.iter().take(4);
    let named = named.map(|(file, of)| format!("{file} ({})", share::part(*of, whole)));
    named.collect::<Vec<_>>().join(", ")
}

impl Refused {
    fn cause(&self, others: u64) -> String {
        let Self { pid, path, reason } = self;
        format!("{path} of PID {pid} was not used, because {reason}{}", more(others))
    }
}

impl Unusable {
    fn cause(&self, others: u64) -> String {
        let Self { path, reason, is_replaced } = self;
        match is_replaced {
            true => format!("{path} names nothing, because {reason}{}", more(others)),
            false => {
                format!(
                    "debug information of {path} was not used in full: {reason}{}",
                    more(others)
                )
            }
        }
    }
}

impl Nameless {
    fn cause(&self, others: impl Into<u64>) -> String {
        let Self { pid, process, samples, nameless, .. } = self;
        let (part, more) = (share::part(*nameless, *samples), more(others));
        format!(
            "{part} of the samples of {process} (PID {pid}){more} contain code of a JIT compiler \
             without names"
        )
    }
}

impl Interpreted {
    fn cause(&self, others: impl Into<u64>) -> String {
        let Self { pid, process, runtime, function, samples, interpreted, .. } = self;
        let (part, more) = (share::part(*interpreted, *samples), more(others));
        format!(
            "{part} of the samples of {process} (PID {pid}){more} are of functions that {} interprets \
             ({function})",
            runtime.name()
        )
    }
}

fn failed_with(failed: u64, error: &str) -> String {
    format!("{failed} samples failed in the kernel, most with \"{error}\"")
}

/// "and N more".
pub(super) fn more(others: impl Into<u64>) -> String {
    match others.into() {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    }
}

/// Why blocks were lost, and the remedy.
fn why_lost(reason: &'static str) -> (&'static str, &'static str) {
    match reason {
        "buffer_full" => {
            ("because the buffer was full", "use a larger --buffer-size or a longer --min-block")
        }
        "thread_table_full" => (
            "because there were more threads than the table of threads holds",
            "record fewer processes",
        ),
        reason => (reason, "record for a shorter time"),
    }
}

fn tables_tight(limit_bytes: u64, refused: u64, evicted: u64) -> String {
    let files = (refused > 0).then(|| format!("{} found no room", plural(refused, "file")));
    let times = plural(evicted, "time");
    let tables = (evicted > 0).then(|| format!("tables made room for others {times}"));
    let both: Vec<String> = files.into_iter().chain(tables).collect();
    format!("the unwind tables did not fit into {}M: {}", limit_bytes >> 20, both.join(", and "))
}

fn copies_cut(cut: u64, samples: u64) -> String {
    format!(
        "{} of the stacks met code whose unwind table was not built yet, and their copies did not fit into \
         the ring buffer",
        share::part(cut, samples)
    )
}

impl fmt::Display for ProfileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl fmt::Display for NoSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { duration_s, frequency_hz } => write!(
                f,
                "the recording took only {:.1} ms; record for longer (a process in the background: --pid), \
                 or sample more often, for example -F {frequency_hz}",
                duration_s * 1e3
            ),
            Self::Slept { cpu_s, duration_s } => write!(
                f,
                "the target slept or waited for a CPU {:.1} % of {} (it ran for {}), and only what runs \
                 is sampled; record while it works, for longer (-d), or more often (-F)",
                100.0 * (1.0 - cpu_s / duration_s).clamp(0.0, 1.0),
                duration((duration_s * 1e9) as u64),
                duration((cpu_s * 1e9) as u64)
            ),
            Self::NoneKept => f.write_str("all of them were lost or failed, see below"),
            Self::OtherHalf => {
                f.write_str("all of them are in the other half of the stacks; use --stacks both")
            }
        }
    }
}

/// States which file is missing, and why.
pub(super) fn not_downloaded(file: &str, error: &DownloadError, others: u64) -> String {
    format!("debug information of {file}{} was not downloaded, because {error}", more(others))
}

/// How to make the download succeed.
pub(super) fn how_to_download(error: &DownloadError) -> &'static str {
    match error {
        DownloadError::Status { .. }
        | DownloadError::Connection { .. }
        | DownloadError::Cut { .. }
        | DownloadError::Foreign { .. } => {
            "check the address, try another server, or record again later"
        }
        DownloadError::Slow { .. } => "give servers more time: DEBUGINFOD_TIMEOUT, in seconds",
        DownloadError::TooLarge { .. } => "to have it, raise DEBUGINFOD_MAXSIZE, in bytes",
        DownloadError::Cache { .. } => {
            "make room in the cache and make it writable, or set DEBUGINFOD_CACHE_PATH to another \
             folder"
        }
        DownloadError::TimeIsUp { .. } => {
            "record again with a larger DEBUGINFOD_MAXTIME, in seconds; what was downloaded is kept"
        }
        DownloadError::Interrupted => "record again; what was downloaded is kept",
    }
}
