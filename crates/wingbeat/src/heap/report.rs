//! The text after a recording: what was allocated, how much is left, who did it, and what it cost.

use owo_colors::OwoColorize as _;
use wingbeat_profile::{
    heap::places::{PlaceSum, SitePlace, by_place, suspects},
    model::{Amount, Completeness, Profile},
    session::HeapAccounts,
    summary::Output,
};
use wingbeat_text::{Warning, bytes, duration, grouped, plural, share, shortened};

use crate::shell::{message, warning};

/// Places of a table.
const ROWS: usize = 10;
/// Names longer than this are cut in the middle.
const NAME_WIDTH_MAX: usize = 70;

pub(super) fn print(
    profile: &Profile,
    accounts: &HeapAccounts,
    outputs: &[Output],
    quiet: bool,
    verbose: bool,
) {
    let warnings = warnings(accounts);
    if quiet {
        return;
    }
    figures(profile, accounts, verbose);
    let places = by_place(profile, &profile.sites);
    table("Most bytes live at the end", "block", &places, |sum| sum.at_end);
    table("Most bytes allocated", "block", &places, |sum| sum.total);
    leaks(profile, &places);
    message!("");
    for text in warnings {
        warning!("{text}");
    }
    self::outputs(outputs);
}

/// The files that were written.
pub(super) fn outputs(outputs: &[Output]) {
    for output in outputs {
        message!("wrote {} ({}, {})", output.path.bold(), output.format, bytes(output.bytes));
    }
}

fn figures(profile: &Profile, accounts: &HeapAccounts, verbose: bool) {
    let meta = &profile.meta;
    let how = match accounts.sample_bytes {
        0 => "every allocation".to_owned(),
        sample_bytes => format!("a sample every {}", bytes(sample_bytes.into())),
    };
    let seconds = meta.duration_ns as f64 / 1e9;
    message!("{} {} in {seconds:.2} s: {how}", "heap".bold(), meta.target);
    message!(
        "  calls   {} of {}, {}; {} taken",
        plural(accounts.allocations, "allocation"),
        bytes(accounts.allocated_bytes),
        plural(accounts.frees, "free"),
        grouped(accounts.taken),
    );
    let is_least = accounts.allocations_lost > 0;
    let line = |name: &str, amount: Amount, more: &str| {
        let least = if is_least { "at least " } else { "" };
        message!("  {name:<7} {least}{}{more}", amount_text(amount, "block"));
    };
    line("total", profile.heap_sum(|site| site.total), "");
    line("peak", accounts.peak, &format!(", after {}", duration(accounts.peak_ns)));
    line("at end", profile.heap_sum(|site| site.at_end), "");
    stacks(profile);
    message!(
        "  cost    {} of CPU time in the target by the probes, as measured here",
        duration(accounts.probes_ns)
    );
    if verbose {
        for file in &accounts.files {
            message!("  probed  {}: {}", file.path, file.functions.join(", "));
        }
    }
}

/// Why there is nothing to show.
pub(super) fn nothing(accounts: &HeapAccounts) -> String {
    if accounts.files.is_empty() {
        return "no allocator that wingbeat knows was found: neither malloc and its kin, nor those of jemalloc, \
                mimalloc or tcmalloc, have a symbol there; `wingbeat profile --mode pages` shows without symbols where \
                memory grows"
            .to_owned();
    }
    match accounts.allocations {
        0 => "nothing was allocated while it was watched: watch it for longer".to_owned(),
        allocations => format!(
            "none of {} was sampled: watch it for longer, or take samples closer together (--sample 16K, or --exact)",
            plural(allocations, "allocation")
        ),
    }
}

/// How far the stacks of taken blocks reach.
fn stacks(profile: &Profile) {
    let (mut complete, mut all) = (0, 0);
    for site in &profile.sites {
        let stack = profile.stacks.get(site.stack as usize);
        let is_complete = stack.is_some_and(|it| it.completeness == Completeness::Complete);
        all += site.total.samples;
        complete += if is_complete { site.total.samples } else { 0 };
    }
    message!("  stacks  {} complete, {} not", grouped(complete), grouped(all - complete));
}

/// Bytes with their interval, and blocks.
pub(super) fn amount_text(amount: Amount, noun: &str) -> String {
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

pub(super) fn table(
    title: &str,
    noun: &str,
    places: &[PlaceSum],
    of: impl Fn(&PlaceSum) -> Amount,
) {
    let sum: u64 = places.iter().map(|place| of(place).bytes()).sum();
    let mut places: Vec<&PlaceSum> = places.iter().filter(|place| of(place).bytes() > 0).collect();
    if places.is_empty() {
        return;
    }
    places.sort_by(|a, b| of(b).bytes.total_cmp(&of(a).bytes));
    message!("");
    message!("{}", title.bold());
    let shown = &places[..places.len().min(ROWS)];
    let width = shown.iter().map(|place| wingbeat_text::width(&bytes_text(of(place)))).max();
    let width = width.unwrap_or_default();
    for place in shown {
        let amount = of(place);
        message!(
            "  {:>6} {:>width$} {:>14}  {}",
            share::part(amount.bytes(), sum),
            bytes_text(amount),
            plural(amount.blocks(), noun),
            place_text(&place.place),
        );
    }
}

/// A place in words: function, file and line, and who called it.
fn place_text(place: &SitePlace) -> String {
    let mut text = shortened(&place.function, NAME_WIDTH_MAX);
    if let Some(file) = &place.file {
        let name = file.rsplit('/').next().unwrap_or(file);
        let line = place.line.map_or(String::new(), |line| format!(":{line}"));
        text.push_str(&format!(" ({name}{line})"));
    }
    if let Some(caller) = &place.caller {
        text.push_str(&format!(" ← {}", shortened(caller, NAME_WIDTH_MAX)));
    }
    text
}

fn leaks(profile: &Profile, places: &[PlaceSum]) {
    let suspects = suspects(places);
    if suspects.is_empty() {
        return;
    }
    let seconds = (profile.meta.duration_ns as f64 / 1e9).max(1e-9);
    message!("");
    message!("{}", "Perhaps leaks: allocated again and again, and hardly ever freed".bold());
    for PlaceSum { place, at_end, .. } in suspects.iter().take(ROWS) {
        message!(
            "  {:>14}/s {:>20} {:>14}  {}",
            bytes((at_end.bytes / seconds) as u64),
            bytes_text(*at_end),
            plural(at_end.blocks(), "block"),
            place_text(place),
        );
    }
}

fn warnings(accounts: &HeapAccounts) -> Vec<Warning> {
    const APART: &str = "take samples further apart (--sample 1M)";
    let allocations = plural(accounts.allocations_lost, "allocation");
    let blocks = |count| plural(count, "block");
    let all = [
        (
            accounts.allocations_lost,
            "allocations-lost",
            format!("{allocations} found no room in the buffer"),
            "all sums are too small",
            APART,
        ),
        (
            accounts.frees_lost,
            "frees-lost",
            format!("the ends of {} found no room in the buffer", blocks(accounts.frees_lost)),
            "they count as live",
            APART,
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
            "leave out --exact, or take samples further apart",
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
    happened.chain(left_out).collect()
}
