//! `wingbeat diff` on exported files.

use wingbeat_profiler::diff::{Scaling, differential_svg, functions};
use wingbeat_profiler::export::Format;

use crate::golden;
use crate::small::{export, small};
use crate::svg;

#[test]
fn matches_the_golden_file() {
    let mut before = small();
    before.samples.truncate(5);
    let (before, after) = (export(&before, Format::Folded), export(&small(), Format::Pprof));
    let files = [("before.folded", &*before), ("after.pb.gz", &*after)];
    let mut bytes = Vec::new();
    differential_svg(files, Scaling::ToAfter, &mut bytes).unwrap();
    golden::check("diff.svg.txt", &svg::parse(&bytes).text());
}

#[test]
fn dangling_references_are_named() {
    // sample { location_id: 7, value: 1 }, sample_type {}, string_table [""].
    let bytes = [0x12, 0x06, 0x0a, 0x01, 0x07, 0x12, 0x01, 0x01, 0x0a, 0x00, 0x32, 0x00];
    assert_eq!(
        functions([("a.pb", &bytes), ("b.pb", &bytes)]).unwrap_err().to_string(),
        "a.pb: the pprof profile refers to location 7, which is missing"
    );
}
