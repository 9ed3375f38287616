//! The text after a recording: amounts allocated, amounts left, callers, and cost.

use wingbeat_profiler::{
    heap::requester::{RequesterSum, Row, by_requester, rows, suspects},
    model::{Amount, Completeness, Profile},
    session::{Finished, HeapAccounts, ProbedFile, SAMPLE_NS},
    summary::Output,
};
use wingbeat_text::{
    Block, Line, Side, Warning, bytes, duration, grouped, line, plural, row, share, shortened,
};

use crate::{
    output::written,
    shell::{recorded, target_text, tell, titled},
};

/// Rows of a table.
const ROWS: usize = 10;
/// Longer names are cut in the middle.
const NAME_WIDTH_MAX: usize = 70;

/// Relation of a figure to the true value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Exact, or with an interval.
    None,
    AtLeast,
    AtMost,
    /// With errors in both directions.
    About,
}

impl Bound {
    fn of(is_least: bool, is_most: bool) -> Self {
        match (is_least, is_most) {
            (false, false) => Self::None,
            (true, false) => Self::AtLeast,
            (false, true) => Self::AtMost,
            (true, true) => Self::About,
        }
    }

    /// Bounds of the total, and of the live amount.
    fn of_all(accounts: &HeapAccounts) -> (Self, Self) {
        let is_least = accounts.allocations_lost + accounts.late > 0;
        let is_most = accounts.frees_lost > 0;
        (Self::of(is_least, false), Self::of(is_least || accounts.untracked > 0, is_most))
    }

    /// As text, with the interval's validity applied.
    fn text(self, amount: Amount) -> (&'static str, Amount) {
        let exact = Amount { variance: 0.0, ..amount };
        match self {
            Self::None => ("", amount),
            Self::AtLeast => ("at least ", exact),
            Self::AtMost => ("at most ", exact),
            Self::About => ("about ", exact),
        }
    }
}

pub(super) fn print(
    profile: &Profile,
    recording: &Finished,
    accounts: &HeapAccounts,
    outputs: &[Output],
    quiet: bool,
    verbose: bool,
) {
    if quiet {
        return;
    }
    let requesters = by_requester(profile, &profile.sites);
    let (total, live) = Bound::of_all(accounts);
    let at_end = profile.heap_sum(|site| site.at_end);
    let is_peak = at_end.bytes() == accounts.peak.bytes();
    let end_title = match is_peak {
        true => "Most bytes live at the end, which is the peak",
        false => "Most bytes live at the end",
    };
    let mut blocks = vec![
        figures(profile, accounts, verbose),
        table(end_title, "block", live, &rows(&requesters, |sum| sum.at_end)),
    ];
    if !is_peak {
        let at_peak = rows(&requesters, |sum| sum.at_peak);
        blocks.push(table("Most bytes live at the peak", "block", live, &at_peak));
    }
    blocks.push(table("Most bytes allocated", "block", total, &rows(&requesters, |sum| sum.total)));
    blocks.push(leaks(profile, live, &requesters));
    let warnings = warnings(recording, accounts).into_iter().map(line).collect();
    blocks.push(Block::Section(vec![Block::Warning(warnings), written(outputs)]));
    tell(&blocks);
}

fn figures(profile: &Profile, accounts: &HeapAccounts, verbose: bool) -> Block {
    let meta = &profile.meta;
    let how = match accounts.sample_bytes {
        0 => "every allocation".to_owned(),
        sample_bytes => format!("a sample every {}", bytes(sample_bytes.into())),
    };
    let seconds = meta.duration_ns as f64 / 1e9;
    let head = format!("{} in {seconds:.2} s: {how}", target_text(&meta.target));
    // Requested sizes of failed calls are arbitrary.
    let (asked, failed) = match accounts.failed {
        0 => (format!(" of {}", bytes(accounts.allocated_bytes)), String::new()),
        failed => (String::new(), format!(", of which {} got no block", grouped(failed))),
    };
    let calls = format!(
        "{}{asked}, {}; {} taken{failed}",
        plural(accounts.allocations, "allocation"),
        plural(accounts.frees, "free"),
        grouped(accounts.taken + accounts.failed),
    );
    let text = |bound: Bound, amount: Amount| {
        let (words, amount) = bound.text(amount);
        format!("{words}{}", amount_text(amount, "block"))
    };
    let (total, live) = Bound::of_all(accounts);
    let probes = duration(accounts.probes_ns);
    let mut facts = vec![
        ("calls", calls),
        ("total", text(total, profile.heap_sum(|site| site.total))),
        ("peak", format!("{}, after {}", text(live, accounts.peak), duration(accounts.peak_ns))),
        ("at end", text(live, profile.heap_sum(|site| site.at_end))),
        ("stacks", stacks(profile)),
        ("cost", format!("{probes} of CPU time in the target by the probes, as measured here")),
    ];
    let files = accounts.files.iter().filter(|_| verbose);
    let probed = |file: &ProbedFile| format!("{}: {}", file.path, file.functions.join(", "));
    facts.extend(files.map(|file| ("probed", probed(file))));
    recorded("heap", &head, facts)
}

/// Why there is nothing to show.
pub(super) fn nothing(recording: &Finished, accounts: &HeapAccounts) -> String {
    if accounts.files.is_empty() {
        return "no allocator that wingbeat knows was found: neither malloc and its kin, nor those of jemalloc, \
                mimalloc or tcmalloc, have a symbol there; `wingbeat profile --mode pages` shows without symbols where \
                memory grows"
            .to_owned();
    }
    match accounts.allocations {
        0 if elsewhere(recording, accounts).is_some() => {
            "nothing was allocated by the functions that wingbeat probes".to_owned()
        }
        0 => "nothing was allocated while it was watched: watch it for longer".to_owned(),
        allocations => format!(
            "none of {} was sampled: watch it for longer, or take samples closer together (--sample 16K, or --exact)",
            plural(allocations, "allocation")
        ),
    }
}

/// Completeness of the sampled blocks' stacks.
fn stacks(profile: &Profile) -> String {
    let (mut complete, mut all) = (0, 0);
    for site in &profile.sites {
        let stack = profile.stacks.get(site.stack as usize);
        let is_complete = stack.is_some_and(|it| it.completeness == Completeness::Complete);
        all += site.total.samples;
        complete += if is_complete { site.total.samples } else { 0 };
    }
    format!("{} complete, {} not", grouped(complete), grouped(all - complete))
}

/// Bytes with their interval, and blocks.
pub(crate) fn amount_text(amount: Amount, noun: &str) -> String {
    format!("{} in {}", bytes_text(amount), plural(amount.blocks(), noun))
}

/// Bytes with their interval.
fn bytes_text(amount: Amount) -> String {
    let margin = amount.margin_bytes();
    match margin > 0.0 && amount.bytes > 0.0 {
        true => format!("{} ± {}", bytes(amount.bytes()), share::size(margin / amount.bytes)),
        false => bytes(amount.bytes()),
    }
}

pub(crate) fn table(title: &str, noun: &str, bound: Bound, rows: &[Row]) -> Block {
    let sum: u64 = rows.iter().map(|row| row.amount.bytes()).sum();
    let line = |row: &Row| figures_of(share::part(row.amount.bytes(), sum), noun, bound, row);
    titled(title, &COLUMNS, rows.iter().take(ROWS).map(line).collect())
}

/// Columns without headings.
const COLUMNS: [(&str, Side); 4] =
    [("", Side::Right), ("", Side::Right), ("", Side::Right), ("", Side::Name)];

/// A row of a table that begins with `first`.
fn figures_of(first: String, noun: &str, bound: Bound, requester: &Row) -> Vec<Line> {
    let amount = requester.amount;
    let (bytes, blocks) = (bytes_text(bound.text(amount).1), plural(amount.blocks(), noun));
    row([first, bytes, blocks, requester_text(requester)])
}

/// A requester as text: function, file and line, caller, and callees.
fn requester_text(Row { requester, others, .. }: &Row) -> String {
    let mut text = shortened(&requester.function, NAME_WIDTH_MAX);
    if let Some(file) = &requester.file {
        let name = file.rsplit('/').next().unwrap_or(file);
        let line = requester.line.map_or(String::new(), |line| format!(":{line}"));
        text.push_str(&format!(" ({name}{line})"));
    }
    if let Some(caller) = &requester.caller {
        text.push_str(&format!(" ← {}", shortened(caller, NAME_WIDTH_MAX)));
    }
    if *others > 0 {
        text.push_str(&format!(" and {others} more"));
    }
    if let Some(by) = &requester.by {
        text.push_str(&format!(", by {}", shortened(by, NAME_WIDTH_MAX)));
    }
    text
}

fn leaks(profile: &Profile, bound: Bound, requesters: &[RequesterSum]) -> Block {
    let seconds = (profile.meta.duration_ns as f64 / 1e9).max(1e-9);
    let line = |row: &Row| {
        let rate = format!("{}/s", bytes((row.amount.bytes / seconds) as u64));
        figures_of(rate, "block", bound, row)
    };
    let rows = suspects(requesters).iter().take(ROWS).map(line).collect();
    titled("Perhaps leaks: allocated again and again, and hardly ever freed", &COLUMNS, rows)
}

/// With fewer samples, results per requester are unreliable. Suggests sampling every allocation if that costs at most this
/// share of a CPU.
const ROUGH_BELOW: u64 = 20;
const EXACT_SHARE_MAX: f64 = 0.05;

/// Too few samples, although all allocations could be sampled.
fn rough(recording: &Finished, accounts: &HeapAccounts) -> Option<Warning> {
    let exact_ns = accounts.allocations as f64 * SAMPLE_NS;
    let exact_share = exact_ns / recording.meta.duration_ns.max(1) as f64;
    let is_rough = accounts.sample_bytes > 0 && accounts.taken < ROUGH_BELOW;
    (is_rough && exact_share <= EXACT_SHARE_MAX).then(|| {
        let found = format!("few allocations were sampled ({})", grouped(accounts.taken));
        let means = "who allocates little, or slowly, may be missing";
        let next = "take every one with --exact, which this target can bear";
        Warning::new("few-samples", found, means, next)
    })
}

/// Share of sampled calls with unknown ends above which to warn.
const UNENDED_SHARE_MAX: f64 = 0.05;

/// Calls without an observed end: each block has a call, and each call an end.
fn unended(accounts: &HeapAccounts) -> Option<Warning> {
    let sampled = accounts.taken + accounts.failed + accounts.unended;
    let is_many = accounts.unended as f64 > sampled as f64 * UNENDED_SHARE_MAX;
    is_many.then(|| {
        let found = format!(
            "{} of {} came to no end that is watched",
            grouped(accounts.unended),
            plural(sampled, "sampled call")
        );
        let means = "their blocks are missing, unless exceptions or jumps left them";
        let next = "see what grows with `wingbeat profile --mode pages`";
        Warning::new("calls-not-ended", found, means, next)
    })
}

/// Unexplained growth of the target's memory, in bytes, above which to warn.
const GROWN_MIN_BYTES: u64 = 16_000_000;

/// Memory growth that the probes mostly did not see.
fn elsewhere(recording: &Finished, accounts: &HeapAccounts) -> Option<Warning> {
    let (grown, seen) = (recording.grown_bytes, accounts.peak.bytes());
    (grown >= GROWN_MIN_BYTES && grown / 4 > seen).then(|| {
        let found = format!(
            "the memory of the target grew by {}, and of that the probed functions gave at most {} at once",
            bytes(grown),
            bytes(seen)
        );
        let means = "it has another allocator, without symbols or under other names, or maps memory by itself";
        let next = "see what makes it grow with `wingbeat profile --mode pages`";
        Warning::new("memory-elsewhere", found, means, next)
    })
}

/// A child that outlives the command.
fn left(recording: &Finished) -> Option<Warning> {
    let (first, others) = recording.left.split_first()?;
    let (pid, name) = first;
    let more =
        if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
    let found = format!("the command ended, and its child {name} (PID {pid}){more} runs on");
    let next = format!("watch it with --pid {pid}, or have the command stay in the foreground");
    Some(Warning::new("child-left", found, "what it does from now on is not recorded", next))
}

fn warnings(recording: &Finished, accounts: &HeapAccounts) -> Vec<Warning> {
    let apart = match accounts.sample_bytes {
        0 => "leave out --exact".to_owned(),
        sample_bytes => {
            let wider = u64::from(sample_bytes).saturating_mul(4).div_ceil(1 << 10);
            format!("take samples further apart (--sample {wider}K)")
        }
    };
    let allocations = plural(accounts.allocations_lost, "allocation");
    let blocks = |count| plural(count, "block");
    let all = [
        (
            accounts.allocations_lost,
            "allocations-lost",
            format!("{allocations} found no room in the buffer"),
            "all sums are too small",
            &*apart,
        ),
        (
            accounts.frees_lost,
            "frees-lost",
            format!("the ends of {} found no room in the buffer", blocks(accounts.frees_lost)),
            "they count as live",
            &*apart,
        ),
        (
            accounts.late,
            "watched-late",
            format!("{} began during the recording", plural(accounts.late, "process")),
            "what they allocated before they were watched is not counted",
            "launch the program itself, not by another one",
        ),
        (
            accounts.untracked,
            "blocks-untracked",
            format!("{} found no room in the table of live blocks", blocks(accounts.untracked)),
            "they are in the total only",
            &*apart,
        ),
    ];
    let happened = all.into_iter().filter(|(count, ..)| *count > 0);
    let happened =
        happened.map(|(_, code, found, means, next)| Warning::new(code, found, means, next));
    let left_out = accounts.left_out.iter().map(|it| {
        let names = it.functions.join(", ");
        Warning::new(
            "functions-left-out",
            format!("{names} of {} cannot be watched ({})", it.path, it.reason),
            "what they allocate is missing, unless they call a function that is watched",
            "see what grows with `wingbeat profile --mode pages`",
        )
    });
    happened
        .chain(left_out)
        .chain(unended(accounts))
        .chain(rough(recording, accounts))
        .chain(elsewhere(recording, accounts))
        .chain(left(recording))
        .collect()
}
