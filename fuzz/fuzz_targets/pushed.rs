//! Profiles pushed to a server: any bytes. Accepted ones can be merged, read back, and drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_pprof::{Flame, Medium, Request, Stacks, View, intake, pprof::BYTES_MAX};

/// 2026-11-28T02:00:00Z.
const NOW_NS: i64 = 1_795_831_200_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let labels = [("__name__", "process_cpu"), ("service_name", "fuzz")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let parts = intake::parts(labels.into_iter(), bytes, NOW_NS, 0, &mut (4 << 20));
    let Ok(parts) = parts else { return };
    let mut stacks = Stacks::default();
    for part in &parts {
        stacks.add_file(&part.pprof, BYTES_MAX).expect("parts of a profile have the same types");
        assert_eq!(part.sums.len(), part.types.len());
        assert!(part.duration_ns > 0 && part.sums.iter().all(|sum| *sum >= 0));
    }
    let Ok(side) = stacks.without_rare(0.01).side("later", None) else { return };
    let flame = Flame::single(&side, side.total());
    let request = Request {
        view: View::Single,
        medium: Medium::InteractiveFile,
        title: "fuzz",
        search: None,
    };
    let picture = flame.draw(request, &|value| format!("{value}"));
    assert!(picture.svg.starts_with("<svg ") && picture.svg.ends_with("</svg>"));
    // Empty stacks belong to no function.
    let sum: f64 = flame.functions().iter().map(|row| row.own.after).sum();
    assert!(sum <= side.total() * 1.000_001);
});
