//! `wingbeat profile --mode pages`: where memory is touched for the first time, by samples of page faults. It needs no
//! allocator and no symbols of one.

use std::{io::Write, process::ExitCode};

use owo_colors::OwoColorize as _;
use wingbeat_profile::{
    debuginfod::DebugFiles,
    export::{self, ExportError, Format, HeapFacts},
    heap::places::by_place,
    model::Profile,
    session::Options,
    symbolize::symbolize,
};
use wingbeat_text::{bytes, grouped, plural};

use super::{
    PendingFile, Written,
    args::HeapFormat,
    exit_code, record, report,
    report::{amount_text, table},
};
use crate::shell::{error, interruptible_by_socket, message};

/// Records page faults, and writes the files.
pub(crate) fn run(
    options: &Options,
    outputs: Vec<(PendingFile, HeapFormat)>,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let recording = interruptible_by_socket(|stop| record(options, stop, quiet))??;
    let profile = symbolize(&recording, &DebugFiles::default(), &mut |_, _| {}).profile;
    let mut written = Written::default();
    if !profile.sites.is_empty() {
        write(&mut written, outputs, &profile, options.faults);
    }
    let lost = recording.ticks.lost;
    if !quiet {
        figures(&profile, options.faults, lost);
        report::outputs(&written.outputs);
    }
    if profile.sites.is_empty() {
        error!(
            "no page fault was sampled: record for longer, or sample each of them with --faults 1"
        );
    }
    let has_written = !written.outputs.is_empty();
    written.finish(has_written)?;
    Ok(exit_code(&recording, &profile))
}

fn write(
    written: &mut Written,
    outputs: Vec<(PendingFile, HeapFormat)>,
    profile: &Profile,
    faults: u64,
) {
    let facts = HeapFacts {
        pid: profile.processes.first().map_or(0, |process| process.pid),
        mode: format!("page faults, 1 in {}", grouped(faults)),
        peak_ns: None,
    };
    for (file, format) in outputs {
        let bytes = |writer: &mut dyn Write| -> Result<(), ExportError> {
            match format {
                HeapFormat::Dhat => export::write_dhat(profile, &facts, writer),
                HeapFormat::Pprof => export::write(profile, Format::Pprof, writer),
                HeapFormat::FlameGraph => export::write(profile, Format::FlameGraph, writer),
                HeapFormat::Folded => export::write(profile, Format::Folded, writer),
            }
        };
        written.write(file, format.name(), bytes);
    }
}

fn figures(profile: &Profile, faults: u64, lost: u64) {
    let meta = &profile.meta;
    let seconds = meta.duration_ns as f64 / 1e9;
    let sum = profile.heap_sum(|site| site.total);
    message!(
        "{} {} in {seconds:.2} s: {}, of {}",
        "pages".bold(),
        meta.target,
        match faults {
            1 => "every page fault".to_owned(),
            faults => format!("1 in {} page faults", grouped(faults)),
        },
        bytes(meta.period / faults.max(1)),
    );
    message!("  touched {}", amount_text(sum, "page fault"));
    if lost > 0 {
        message!("  lost    {} found no room in the buffer", plural(lost, "sample"));
    }
    table("Most memory touched first", "fault", &by_place(profile), |place| place.total);
    message!("");
}
