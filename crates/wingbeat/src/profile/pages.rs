//! `wingbeat profile --mode pages`: where memory grows, without relying on an allocator or its symbols: samples page
//! faults (first touch), and counts system calls for address space.

use std::process::ExitCode;

use wingbeat_profiler::{
    debuginfod::DebugFiles,
    export::HeapFacts,
    heap::requester::{Row, by_requester, rows},
    model::{Amount, Profile, Site},
    session::{Finished, Options, SpaceAccounts},
    symbolize::symbolize,
};
use wingbeat_text::{Block, Warning, bytes, duration, grouped, line, plural};

use super::Memory;
use crate::{
    heap::{
        HeapFiles,
        args::HeapFormat,
        exit_code, record,
        report::{Bound, amount_text, table},
        write_outputs,
    },
    output::{self, PendingFile, Written},
    receiver::Receiver,
    shell::{error, interruptible_by_socket, recorded, target_text, tell},
};

/// Records page faults and address space calls, and writes the files.
pub(super) fn run(
    options: &Options,
    outputs: Vec<(PendingFile, HeapFormat)>,
    show: Memory,
    receiver: &Receiver,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let recording = interruptible_by_socket(|stop| record(options, stop, quiet))??;
    let profile = symbolize(&recording, &DebugFiles::default(), &mut |_, _| {}).profile;
    let shown = shown(&profile, show);
    let is_missing = shown.sites.is_empty();
    // The file has both: touched and mapped.
    let outputs: Vec<_> = outputs
        .into_iter()
        .filter(|(_, format)| !is_missing || *format == HeapFormat::Pprof && !profile.is_empty())
        .collect();
    let is_nothing = is_missing && outputs.is_empty();
    let mut written = Written::default();
    if !is_nothing {
        let facts = facts(&profile, recording.space.as_ref(), show, options.faults);
        write(&mut written, outputs, &profile, &shown, &facts);
    }
    if !quiet {
        let mut blocks = figures(&profile, &recording, options.faults);
        let warnings = warnings(&recording).into_iter().map(line).collect();
        blocks.push(Block::Section(vec![
            Block::Warning(warnings),
            output::written(&written.outputs),
        ]));
        tell(&blocks);
    }
    if is_nothing {
        error!("{}", nothing(show));
    }
    receiver.show(&written.outputs);
    written.finish()?;
    Ok(exit_code(&recording, !is_nothing))
}

fn nothing(show: Memory) -> &'static str {
    match show {
        Memory::Touched => {
            "no page fault was sampled: record for longer, or sample each of them with --faults 1"
        }
        Memory::Mapped | Memory::Kept => {
            "nothing asked for address space while it was watched: record for longer, or see with --show touched what \
             memory it touches"
        }
    }
}

/// The profile of the selected requesters, with the amounts live at the end as values.
fn shown(profile: &Profile, show: Memory) -> Profile {
    let mut shown = profile.clone();
    let mapped = shown.mapped.take().unwrap_or_default();
    let words = match show {
        Memory::Touched => "memory touched first",
        Memory::Mapped => "address space mapped",
        Memory::Kept => "address space mapped and kept",
    };
    if show != Memory::Touched {
        shown.sites = mapped;
    }
    if show == Memory::Mapped {
        shown.sites.iter_mut().for_each(|site| site.at_end = site.total);
    }
    shown.meta.target = format!("{}: {words}", shown.meta.target);
    shown
}

fn facts(profile: &Profile, space: Option<&SpaceAccounts>, show: Memory, faults: u64) -> HeapFacts {
    let pid = profile.processes.first().map_or(0, |process| process.pid);
    match show {
        Memory::Touched => {
            let mode = format!("page faults, 1 in {}", grouped(faults));
            HeapFacts { pid, mode, peak_ns: None }
        }
        Memory::Mapped | Memory::Kept => HeapFacts {
            pid,
            mode: "address space".to_owned(),
            peak_ns: space.map(|space| space.peak_ns),
        },
    }
}

fn write(
    written: &mut Written,
    outputs: Vec<(PendingFile, HeapFormat)>,
    profile: &Profile,
    shown: &Profile,
    facts: &HeapFacts,
) {
    // The chosen drawing is not part of the facts.
    let mapped;
    let in_dhat = match facts.peak_ns {
        Some(_) => {
            mapped = Profile { sites: profile.mapped_sites().to_vec(), ..profile.clone() };
            &mapped
        }
        None => profile,
    };
    write_outputs(written, outputs, &HeapFiles { in_dhat, in_pprof: profile, drawn: shown, facts });
}

fn figures(profile: &Profile, recording: &Finished, faults: u64) -> Vec<Block> {
    let meta = &profile.meta;
    let seconds = meta.duration_ns as f64 / 1e9;
    let head = format!(
        "{} in {seconds:.2} s: {}, of {}",
        target_text(&meta.target),
        match faults {
            1 => "every page fault".to_owned(),
            faults => format!("1 in {} page faults", grouped(faults)),
        },
        bytes(meta.period / faults.max(1)),
    );
    let touched_text = amount_text(profile.heap_sum(|site| site.total), "page fault");
    let mut facts = vec![("touched", touched_text)];
    facts.extend(recording.space.iter().flat_map(|space| space_facts(profile, space)));
    let touched = by_requester(profile, &profile.sites);
    let mapped = by_requester(profile, profile.mapped_sites());
    let table = |title, noun, rows: &[Row]| table(title, noun, Bound::None, rows);
    let kept = rows(&mapped, |requester| requester.at_end);
    vec![
        recorded("pages", &head, facts),
        table("Most memory touched first", "fault", &rows(&touched, |requester| requester.total)),
        table("Most address space mapped", "mapping", &rows(&mapped, |requester| requester.total)),
        table("Most address space mapped and kept", "mapping", &kept),
    ]
}

/// The account of address space.
fn space_facts(profile: &Profile, space: &SpaceAccounts) -> [(&'static str, String); 2] {
    let sum = |of: fn(&Site) -> Amount| profile.mapped_sites().iter().map(of).sum::<Amount>();
    let mapped = format!(
        "{}; at most {} at once, after {}",
        amount_text(sum(|site| site.total), "mapping"),
        bytes(space.peak.bytes()),
        duration(space.peak_ns)
    );
    let (calls, unmapped_bytes) = space.unmapped;
    let kept = format!(
        "{}; {} given back by {}",
        bytes(sum(|site| site.at_end).bytes()),
        bytes(unmapped_bytes),
        plural(calls, "call")
    );
    [("mapped", mapped), ("kept", kept)]
}

fn warnings(recording: &Finished) -> Vec<Warning> {
    const NEXT: &str = "record a shorter time, or fewer processes";
    let faults = recording.ticks.lost;
    let calls = recording.space.map_or(0, |space| space.lost);
    let all = [
        (faults, "samples-lost", plural(faults, "sample"), "too little counts as touched"),
        (calls, "mappings-lost", plural(calls, "call"), "what is mapped and kept is not exact"),
    ];
    let happened = all.into_iter().filter(|(count, ..)| *count > 0);
    happened
        .map(|(_, code, what, means)| {
            Warning::new(code, format!("{what} found no room in the buffer"), means, NEXT)
        })
        .collect()
}
