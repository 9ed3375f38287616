//! Details of each row for `-v`: number of samples, spread, outcome of the run.

use wingbeat_text::{Block, Span, decimal, grouped, line, or_dash, plural, printable};

use super::{columns::Row, human::one_line};
use crate::{
    counts::TailCalls,
    result::{
        Case, Distribution, Latency, Method, Outliers, PacketSource, RunCounts, Size, Verifier,
    },
};

/// The details of all rows.
pub(super) fn details(rows: &[Row]) -> Block {
    let of_row = |row: &Row| {
        let lines = lines(*row).into_iter().map(|(label, text)| (Span::text(label), line(text)));
        let name = Block::Heading(line(row.name()));
        [name, Block::Indented(vec![Block::Labelled(lines.collect())])]
    };
    Block::Section(rows.iter().flat_map(of_row).collect())
}

fn lines(row: Row) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(latency) = row.latency() {
        lines.push(("time", time(latency)));
        let how = method(latency.method, latency.reason.as_deref());
        let packet = match (latency.method, latency.packet) {
            (Method::Bursts, PacketSource::Restored) => "; the packet is put back behind each run",
            (_, PacketSource::OwnOutput) => {
                "; each run gets what the one before left of its packet"
            }
            _ => "",
        };
        lines.push(("method", how + packet));
        lines.push(("outliers", outliers(latency)));
    }
    lines.extend(row.distribution().map(|single| ("single", single_runs(single))));
    if let Some(case) = row.case() {
        lines.extend(case.counts.measured().map(|counts| ("calls", calls(counts))));
        let tail_calls = &case.tail_calls;
        lines.extend((!tail_calls.is_empty()).then(|| ("tail calls", jumped(tail_calls))));
        lines.push(("packet", packet(case)));
    }
    if let Some((size, verifier)) = row.size().zip(row.verifier()) {
        lines.push(("object", object(size, verifier)));
    }
    lines
}

fn time(latency: &Latency) -> String {
    let kernel = match latency.kernel_ns {
        0 => String::new(),
        kernel_ns => format!("; by the kernel's clock {}", grouped(kernel_ns)),
    };
    let bursts = if latency.method == Method::Bursts { ", bursts" } else { "" };
    format!(
        "{}{bursts} of {}: mean {}, from {} to {} ns{kernel}",
        batches(latency),
        plural(latency.runs_per_batch as usize, "run"),
        decimal(latency.mean_ns, 1),
        decimal(latency.min_ns, 1),
        decimal(latency.max_ns, 1),
    )
}

/// `1,200 batches`; with bursts `64 loads`.
fn batches(latency: &Latency) -> String {
    let count = latency.batches;
    match latency.method {
        Method::Bursts => plural(count, "load"),
        Method::Batches | Method::Calls => plural(count, "batch"),
    }
}

/// How times were taken, and why not otherwise.
pub(super) fn method(method: Method, reason: Option<&str>) -> String {
    let how = match method {
        Method::Bursts => return "bursts that alternate within one run".to_owned(),
        Method::Batches => "batches that the kernel repeats",
        Method::Calls => "calls with one run each, for which the kernel builds the input",
    };
    reason.map_or_else(|| how.to_owned(), |reason| format!("{how}: {}", one_line(reason)))
}

fn outliers(latency: &Latency) -> String {
    let Outliers { low_severe, low_mild, high_mild, high_severe } = latency.outliers;
    let kinds = [
        (low_severe, "low severe"),
        (low_mild, "low mild"),
        (high_mild, "high mild"),
        (high_severe, "high severe"),
    ];
    let found = kinds.iter().filter(|(count, _)| *count > 0);
    let found: Vec<_> = found.map(|(count, kind)| format!("{count} {kind}")).collect();
    let found = match found.is_empty() {
        true => "none".to_owned(),
        false => format!(
            "{} of {}: {}",
            grouped(latency.outliers.total()),
            batches(latency),
            found.join(", ")
        ),
    };
    format!("{found}; spread {} ns", decimal(latency.spread_ns, 1))
}

fn single_runs(distribution: &Distribution) -> String {
    let clock = distribution.clock_ns.zip(distribution.net_p50_ns).map_or_else(
        String::new,
        |(clock_ns, net_ns)| {
            let interval = distribution.net_p50_lower_ns.zip(distribution.net_p50_upper_ns);
            let interval = interval.map_or_else(String::new, |(lower, upper)| {
                format!(" ({} … {})", decimal(lower, 1), decimal(upper, 1))
            });
            let (clock, net) = (decimal(clock_ns, 0), decimal(net_ns, 1));
            format!("; the clock takes {clock}, p50 without it {net}{interval}")
        },
    );
    format!(
        "{}: mean {}, p90 {}, from {} ns{clock}",
        plural(usize::try_from(distribution.runs).unwrap_or(usize::MAX), "run"),
        decimal(distribution.mean_ns, 1),
        decimal(distribution.p90_ns, 0),
        grouped(distribution.min_ns),
    )
}

fn calls(counts: &RunCounts) -> String {
    let call = |calls: &crate::counts::Calls| {
        let kind = if calls.is_kfunc { " (kfunc)" } else { "" };
        format!("{}{kind} {}", printable(&calls.name), grouped(calls.calls))
    };
    match counts.calls.is_empty() {
        true => "none of helpers or kfuncs".to_owned(),
        false => counts.calls.iter().map(call).collect::<Vec<_>>().join(", "),
    }
}

/// Tail calls, successful and failed.
fn jumped(found: &TailCalls) -> String {
    let programs = found.programs.iter().map(|target| {
        let times = if target.entries == 1 { "once" } else { &format!("{} times", target.entries) };
        let instructions = grouped(target.instructions);
        format!("{} {times} ({instructions} instructions)", printable(&target.program))
    });
    let failed =
        found.failed.iter().map(|call| format!("nowhere from {}", printable(&call.to_string())));
    let all: Vec<_> = programs.chain(failed).collect();
    if all.is_empty() { "none in the first run".to_owned() } else { all.join(", ") }
}

fn packet(case: &Case) -> String {
    let input = format!("{} in", plural(case.input_bytes, "byte"));
    let Some(output_bytes) = case.outcome.output_bytes else { return input };
    let output = match (case.outcome.has_changed_packet, &case.outcome.output_hex) {
        (false, _) => "unchanged".to_owned(),
        (true, None) => "changed".to_owned(),
        (true, Some(hex)) => format!("changed to {}", spaced(&printable(hex))),
    };
    format!("{input}, {} out, {output}", grouped(output_bytes))
}

/// Hexadecimal text in words of four bytes, so that it can be wrapped.
fn spaced(hex: &str) -> String {
    let digits: Vec<_> = hex.chars().collect();
    digits.chunks(8).map(|word| word.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
}

fn object(size: &Size, verifier: &Verifier) -> String {
    format!(
        "{}; the verifier saw {} states at one instruction, marks of length {}",
        plural(size.object_instructions, "instruction"),
        or_dash(verifier.max_states_per_instruction, grouped),
        or_dash(verifier.mark_read, grouped),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_named() {
        let check = |found, expected: &str| {
            let (batches, spread_ns) = (1_200, 0.62);
            let latency = Latency { batches, spread_ns, outliers: found, ..Latency::default() };
            assert_eq!(outliers(&latency), expected);
        };
        check(Outliers::default(), "none; spread 0.6 ns");
        let mut found = Outliers { low_mild: 1, ..Outliers::default() };
        check(found, "1 of 1,200 batches: 1 low mild; spread 0.6 ns");
        found.high_severe = 2;
        check(found, "3 of 1,200 batches: 1 low mild, 2 high severe; spread 0.6 ns");
    }

    #[test]
    fn methods_have_reasons() {
        let check = |found, reason, expected| assert_eq!(method(found, reason), expected);
        check(Method::Bursts, None, "bursts that alternate within one run");
        check(Method::Batches, None, "batches that the kernel repeats");
        check(Method::Batches, Some("a\n\tb"), "batches that the kernel repeats: a b");
    }

    #[test]
    fn hexadecimal_text_has_words() {
        assert_eq!(spaced("00112233445566"), "00112233 445566");
        assert_eq!(spaced(""), "");
    }
}
