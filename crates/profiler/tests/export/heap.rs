//! The heap in every format, with a profile small enough to check by hand.

use wingbeat_profiler::{
    export::{Format, HeapFacts, write_dhat},
    heap::requester::{by_requester, rows, suspects},
    model::{Amount, Mode, Profile, Site},
};

use crate::{
    golden, pprof,
    small::{export, small},
    svg,
};

/// The stacks of [`small`] as allocation sites: the first keeps everything, the last nothing.
fn heap() -> Profile {
    let mut profile = small();
    profile.meta.mode = Mode::Heap;
    profile.meta.period = 524_288;
    profile.samples.clear();
    let amount = |blocks: u32, bytes: u32| Amount {
        blocks: blocks.into(),
        bytes: bytes.into(),
        variance: 100.0,
        samples: u64::from(blocks),
    };
    let site = |stack, total, own_peak, at_peak, at_end| Site {
        thread: 0,
        stack,
        total,
        own_peak,
        at_peak,
        at_end,
        lifetime_ns: 7_000_000.0,
    };
    let none = Amount::default();
    let all = amount(40, 40_960);
    profile.sites = vec![
        site(3, all, all, amount(20, 20_480), all),
        site(1, amount(10, 1_000_000), amount(2, 200_000), amount(1, 100_000), amount(1, 100_000)),
        site(2, amount(1000, 16_000), amount(3, 48), none, none),
    ];
    profile
}

#[test]
fn matches_the_golden_files() {
    let profile = heap();
    let text = |format| String::from_utf8(export(&profile, format)).unwrap();
    golden::check("heap.folded", &text(Format::Folded));
    golden::check("heap.svg.txt", &svg::parse(&export(&profile, Format::FlameGraph)).text());
    golden::check("heap.pprof.txt", &pprof::Pprof::read(&export(&profile, Format::Pprof)).dump());
    let facts = HeapFacts { pid: 100, mode: "heap".to_owned(), peak_ns: Some(5_000_000) };
    let mut dhat = Vec::new();
    write_dhat(&profile, &facts, &mut dhat).unwrap();
    let dhat: serde_json::Value = serde_json::from_slice(&dhat).unwrap();
    golden::check("heap.dhat.json", &format!("{dhat:#}\n"));
}

#[test]
fn places_that_keep_what_they_allocate() {
    let requesters = by_requester(&heap(), &heap().sites);
    let total: u64 = requesters.iter().map(|requester| requester.total.bytes()).sum();
    assert_eq!(total, 1_056_960);
    let rows = rows(&requesters, |requester| requester.total);
    assert!(rows.is_sorted_by(|a, b| a.amount.bytes >= b.amount.bytes));
    let suspects: Vec<u64> = suspects(&requesters).iter().map(|it| it.amount.bytes()).collect();
    assert_eq!(suspects, [40_960]);
}

#[test]
fn intervals_are_two_standard_deviations_wide() {
    let sum = heap().heap_sum(|site| site.total);
    assert!((sum.margin_bytes() - 1.96 * 300_f64.sqrt()).abs() < 1e-9, "{sum:?}");
}
