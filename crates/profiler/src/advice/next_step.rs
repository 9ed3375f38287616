//! What to do next, where that depends on a runtime or an error.

use crate::{
    debuginfod::DownloadError,
    summary::jit::{Interpreted, Runtime},
};

/// How to make a runtime write symbol files.
pub(super) fn how_to_name(runtime: Option<Runtime>) -> &'static str {
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
pub(super) fn how_to_frame(runtime: Option<Runtime>) -> &'static str {
    match runtime {
        Some(Runtime::Java) => "start Java with -XX:+PreserveFramePointer",
        Some(Runtime::Erlang) => "start Erlang (`erl`) with +JPperf true",
        Some(Runtime::Ruby) => "start Ruby (3.3 or later) with --yjit-perf, or with --disable-yjit",
        Some(Runtime::LuaJit) => "see its functions with LuaJIT's own profiler: luajit -jp",
        _ => "see whether its compiler has a flag for frame pointers",
    }
}

/// How to see the functions of interpreted code.
pub(super) fn how_to_see(process: &Interpreted) -> String {
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
             names them with -X perf"
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
