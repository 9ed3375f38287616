//! Profiles pushed to a server: any bytes. Accepted ones can be merged, read back, and drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use wingbeat_pprof::{
    Flame, Medium, Request, Side, Total, View, intake,
    pprof::{BYTES_MAX, unpacked},
    proto::Profile,
};

/// 2026-11-28T02:00:00Z.
const NOW_NS: i64 = 1_795_831_200_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let labels = [("__name__", "process_cpu"), ("service_name", "fuzz")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let parts = intake::parts(labels.into_iter(), bytes, NOW_NS, 0, &mut (4 << 20));
    let Ok(parts) = parts else { return };
    let mut total = Total::default();
    for part in &parts {
        let unpacked = unpacked(&part.pprof, BYTES_MAX).expect("it was packed here");
        let message = Profile::decode(&*unpacked).expect("it was written here");
        total.add(&message).expect("parts of a profile are of the same kind");
        assert_eq!(part.sums.len(), part.types.len());
        assert!(part.duration_ns > 0 && part.sums.iter().all(|sum| *sum >= 0));
    }
    let message = total.without_rare(0.01).message();
    let Ok(side) = Side::of_message("later", &message, None) else { return };
    let flame = Flame::single(&side, side.total());
    let request = Request { view: View::Single, medium: Medium::File, title: "fuzz", search: None };
    let picture = flame.draw(request, &|value| format!("{value}"));
    assert!(picture.svg.starts_with("<svg ") && picture.svg.ends_with("</svg>"));
    // Empty stacks belong to no function.
    let sum: f64 = flame.functions().iter().map(|row| row.own.after).sum();
    assert!(sum <= side.total() * 1.000_001);
});
