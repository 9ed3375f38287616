//! Fuzzes the parser that the variable `PARSER` names. One program for all, since each links half of the workspace.
#![no_main]

mod bpf;
mod profiles;
mod records;
mod results;

/// The parser belongs to the binary, which is not a library, so its file is compiled in here.
#[path = "../../crates/wingbeat/src/changes"]
mod changes {
    pub(crate) mod input;
}

use std::{env, process, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use wingbeat_agent::fuzzing as agent;
use wingbeat_profiler::fuzzing as profiler;

/// Accepts any bytes, and panics if the result is inconsistent.
type Parser = fn(&[u8]);

/// By name, which is also that of the folder of seeds.
const PARSERS: [(&str, Parser); 30] = [
    ("adapters", results::adapters),
    ("agent_rules", results::agent_rules),
    ("allocator", profiler::allocator),
    ("btf", bpf::btf),
    ("callgrind", profiles::callgrind),
    ("capture", bpf::capture),
    ("changes_input", results::changes_input),
    ("debuginfod_settings", profiler::debuginfod_settings),
    ("elf", profiler::elf),
    ("folded", profiles::folded),
    ("gopclntab", profiles::gopclntab),
    ("hex_input", bpf::hex_input),
    ("jitdump", profiler::jitdump),
    ("jitdump_unwinding", profiler::jitdump_unwinding),
    ("kubelet_pods", agent::kubelet_pods),
    ("map_contents", bpf::map_contents),
    ("merge", profiles::merge),
    ("names_file", profiler::names_file),
    ("object_file", bpf::object_file),
    ("perf_map", profiler::perf_map),
    ("pprof", profiles::pprof),
    ("proc", profiler::proc_text),
    ("profile_names", profiler::names),
    ("pushed", profiles::pushed),
    ("record", records::record),
    ("recorder", records::recorder),
    ("spool_file", agent::spool_file),
    ("unwind_image", profiles::unwind_image),
    ("veristat_csv", bpf::veristat_csv),
    ("window_archive", agent::window_archive),
];

static PARSER: LazyLock<Parser> = LazyLock::new(|| {
    let name = env::var("PARSER").unwrap_or_default();
    PARSERS.iter().find(|(known, _)| *known == name).map_or_else(
        || {
            eprintln!(
                "no parser is called {name:?}: set PARSER to one of {:?}",
                PARSERS.map(|it| it.0)
            );
            process::exit(1)
        },
        |(_, parser)| *parser,
    )
});

fuzz_target!(|bytes: &[u8]| PARSER(bytes));
