//! Gungraun, formerly iai-callgrind: its text, or its summaries as JSON (version 6 and 7).

mod summary;
mod table;

use crate::{adapter::prelude::*, model::Slug};

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let results = summary::parse(text)?;
    if results.is_empty() { table::parse(text) } else { Ok(results) }
}

/// Key in the summary, title in the text, slug, units.
type Known = (&'static str, &'static str, &'static str, &'static str);

/// Events of Callgrind and Cachegrind. Those with only a slug are known to [`Measure`].
const EVENTS: &[Known] = &[
    ("Ir", "Instructions", "instructions", ""),
    ("L1hits", "L1 Hits", "l1-hits", ""),
    ("L2hits", "L2 Hits", "l2-hits", ""),
    ("LLhits", "LL Hits", "ll-hits", ""),
    ("RamHits", "RAM Hits", "ram-hits", ""),
    ("TotalRW", "Total read+write", "total-read-write", ""),
    ("EstimatedCycles", "Estimated Cycles", "estimated-cycles", ""),
    ("Ge", "Ge", "global-bus-events", "events"),
    ("Dr", "Dr", "dr", "reads"),
    ("Dw", "Dw", "dw", "writes"),
    ("I1mr", "I1mr", "i1mr", "misses (reads)"),
    ("D1mr", "D1mr", "d1mr", "misses (reads)"),
    ("D1mw", "D1mw", "d1mw", "misses (writes)"),
    ("ILmr", "ILmr", "ilmr", "misses (reads)"),
    ("DLmr", "DLmr", "dlmr", "misses (reads)"),
    ("DLmw", "DLmw", "dlmw", "misses (writes)"),
    ("I1MissRate", "I1 Miss Rate", "i1-miss-rate", "misses (%)"),
    ("LLiMissRate", "LLi Miss Rate", "lli-miss-rate", "misses (%)"),
    ("D1MissRate", "D1 Miss Rate", "d1-miss-rate", "misses (%)"),
    ("LLdMissRate", "LLd Miss Rate", "lld-miss-rate", "misses (%)"),
    ("LLMissRate", "LL Miss Rate", "ll-miss-rate", "misses (%)"),
    ("L1HitRate", "L1 Hit Rate", "l1-hit-rate", "hits (%)"),
    ("LLHitRate", "LL Hit Rate", "ll-hit-rate", "hits (%)"),
    ("RamHitRate", "RAM Hit Rate", "ram-hit-rate", "hits (%)"),
    ("SysCount", "SysCount", "sys-count", "syscalls"),
    ("SysTime", "SysTime", "sys-time", "msec/usec/nsec"),
    ("SysCpuTime", "SysCpuTime", "sys-cpu-time", "nsec"),
    ("Bc", "Bc", "bc", "branches"),
    ("Bcm", "Bcm", "bcm", "branches"),
    ("Bi", "Bi", "bi", "branches"),
    ("Bim", "Bim", "bim", "branches"),
    ("ILdmr", "ILdmr", "ildmr", "misses (reads)"),
    ("DLdmr", "DLdmr", "dldmr", "misses (reads)"),
    ("DLdmw", "DLdmw", "dldmw", "misses (writes)"),
    ("AcCost1", "AcCost1", "accost1", "temporal locality count"),
    ("AcCost2", "AcCost2", "accost2", "temporal locality count"),
    ("SpLoss1", "SpLoss1", "sploss1", "spatial loss count"),
    ("SpLoss2", "SpLoss2", "sploss2", "spatial loss count"),
];

const DHAT: &[Known] = &[
    ("TotalUnits", "Total units", "total-units", "units"),
    ("TotalEvents", "Total events", "total-events", "events"),
    ("TotalBytes", "Total bytes", "total-bytes", "bytes (B)"),
    ("TotalBlocks", "Total blocks", "total-blocks", "blocks"),
    ("AtTGmaxBytes", "At t-gmax bytes", "at-t-gmax-bytes", "bytes (B)"),
    ("AtTGmaxBlocks", "At t-gmax blocks", "at-t-gmax-blocks", "blocks"),
    ("AtTEndBytes", "At t-end bytes", "at-t-end-bytes", "bytes (B)"),
    ("AtTEndBlocks", "At t-end blocks", "at-t-end-blocks", "blocks"),
    ("ReadsBytes", "Reads bytes", "reads-bytes", "bytes (B)"),
    ("WritesBytes", "Writes bytes", "writes-bytes", "bytes (B)"),
    ("TotalLifetimes", "Total lifetimes", "total-lifetimes", "instructions"),
    ("MaximumBytes", "Maximum bytes", "maximum-bytes", "bytes (B)"),
    ("MaximumBlocks", "Maximum blocks", "maximum-blocks", "blocks"),
];

/// Errors of Memcheck, Helgrind and DRD. Each is prefixed with the tool's name.
const ERRORS: &[Known] = &[
    ("Errors", "Errors", "errors", "errors"),
    ("Contexts", "Contexts", "contexts", "contexts"),
    ("SuppressedErrors", "Suppressed Errors", "suppressed-errors", "suppressed errors"),
    ("SuppressedContexts", "Suppressed Contexts", "suppressed-contexts", "suppressed contexts"),
];

/// The measure of a tool's metric, by its key in the summary or its title in the text.
///
/// Cachegrind counts the whole process and Callgrind only the function: if both ran, Cachegrind's measures carry its
/// name, so that the two are never merged.
pub(super) fn measure(tool: &str, metric: &str, has_callgrind: bool) -> Measure {
    let of = |table: &[Known]| {
        table.iter().find(|known| known.0 == metric || known.1 == metric).copied()
    };
    let (known, prefix) = match tool.to_ascii_uppercase().as_str() {
        "" | "CALLGRIND" => (of(EVENTS), None),
        "CACHEGRIND" if has_callgrind => (of(EVENTS), Some("Cachegrind")),
        "CACHEGRIND" => (of(EVENTS), None),
        "DHAT" => (of(DHAT), None),
        "MEMCHECK" => (of(ERRORS), Some("Memcheck")),
        "HELGRIND" => (of(ERRORS), Some("Helgrind")),
        "DRD" => (of(ERRORS), Some("DRD")),
        _ => (None, Some(tool)),
    };
    let Some((_, title, slug, units)) = known else {
        let name = format!("{} {metric}", prefix.unwrap_or_default());
        let name = name.trim();
        let units = format!("{name} (units)");
        return Measure::custom(name.to_owned(), units, Direction::Unknown, MeasureKind::Noisy);
    };
    let named = Measure::named(slug);
    let base = match units {
        "" => named,
        _ => {
            let direction = match slug {
                "l1-hit-rate" => Direction::HigherIsBetter,
                // Rises when the first level misses more, and when the last misses less.
                "ll-hit-rate" => Direction::Unknown,
                _ => Direction::LowerIsBetter,
            };
            // The kernel's time is not a count by Valgrind.
            let kind =
                if slug.ends_with("-time") { MeasureKind::Noisy } else { MeasureKind::Exact };
            Measure { slug: Slug::of(slug), ..Measure::custom(title, units, direction, kind) }
        }
    };
    let Some(prefix) = prefix else { return base };
    let name = format!("{prefix} {}", base.name);
    Measure { slug: Slug::of(&format!("{prefix} {slug}")), name: name.into(), ..base }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_by_tool() {
        let check = |tool, metric, has_callgrind, slug: &str, name: &str, units: &str| {
            let found = measure(tool, metric, has_callgrind);
            let found = (found.slug.as_str(), &*found.name, &*found.units);
            assert_eq!(found, (slug, name, units));
        };
        check("", "Instructions", false, "instructions", "Instructions", "instructions");
        check("Callgrind", "Ir", true, "instructions", "Instructions", "instructions");
        check("CACHEGRIND", "Instructions", false, "instructions", "Instructions", "instructions");
        let name = "Cachegrind Instructions";
        check("CACHEGRIND", "Instructions", true, "cachegrind-instructions", name, "instructions");
        check("DHAT", "AtTGmaxBytes", true, "at-t-gmax-bytes", "At t-gmax bytes", "bytes (B)");
        check("DRD", "Errors", true, "drd-errors", "DRD Errors", "errors");
        let (slug, name) = ("memcheck-suppressed-errors", "Memcheck Suppressed Errors");
        check("Memcheck", "SuppressedErrors", true, slug, name, "suppressed errors");
        check("PERF", "faults", true, "perf-faults", "PERF faults", "PERF faults (units)");
        check("Callgrind", "SysCount", true, "sys-count", "SysCount", "syscalls");
    }

    #[test]
    fn which_way_is_better() {
        let check = |metric, direction| assert_eq!(measure("", metric, false).direction, direction);
        check("L1HitRate", Direction::HigherIsBetter);
        check("LLHitRate", Direction::Unknown);
        check("RamHitRate", Direction::LowerIsBetter);
        check("LLMissRate", Direction::LowerIsBetter);
    }
}
