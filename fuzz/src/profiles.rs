//! Profiles of all formats, and the tables of functions and unwind rules of programs.

use std::{
    io,
    time::{Duration, UNIX_EPOCH},
};

use wingbeat_pprof::{
    Flame, Medium, Metric, Request, Side, Stacks, View, callgrind, compare, exact, intake,
    pprof::BYTES_MAX,
};
use wingbeat_profiler::{
    diff::{Scaling, differential_svg, functions},
    export::{Format, write},
    merge::{Merge, Part},
    model::Mode,
};
use wingbeat_unwind::{GoTable, Image, Rules, Table};

/// Callgrind files: any bytes. Parsed counts can be written as a profile, and read back.
pub fn callgrind(bytes: &[u8]) {
    let Ok(counted) = callgrind::instructions(&String::from_utf8_lossy(bytes)) else { return };
    assert!(counted.iter().all(|it| it.count > 0 && it.frames.len() == 1));
    let pprof = exact::instructions(&counted).expect("memory takes all");
    let total: f64 =
        counted.iter().map(|it| i64::try_from(it.count).unwrap_or(i64::MAX) as f64).sum();
    match Side::read("later", &pprof) {
        Ok(side) => assert!(side.is_exact() && (side.total() - total).abs() <= 1e-9 * total),
        Err(error) => assert!(counted.is_empty(), "{error}"),
    }
}

/// Collapsed stacks, and drawing the parsed stacks: any bytes.
pub fn folded(bytes: &[u8]) {
    let files = [("fuzz.folded", bytes), ("fuzz.folded", bytes)];
    let Ok((explanation, _)) = functions(files) else { return };
    assert!(explanation.whole().after > 0.0);
    let drawn = differential_svg(files, Scaling::ToAfter, &mut io::sink());
    assert!(drawn.is_ok(), "cannot draw what was read: {drawn:?}");
}

/// pprof profiles, packed or not: any bytes. Bytes that are text are collapsed stacks.
pub fn pprof(bytes: &[u8]) {
    if let Ok(side) = Side::read("earlier", bytes) {
        let metric = Metric { before: 10.0, after: 20.0, before_sd: 0.1, after_sd: 0.1 };
        let found = compare(&side, &side, metric).expect("a profile is comparable with itself");
        let sum: f64 = found.blame.iter().map(|(_, change)| change.difference()).sum();
        assert!((sum - 10.0).abs() < 1e-6, "{sum}");
    }
    let Ok((explanation, _)) = functions([("fuzz.pb.gz", bytes), ("fuzz.pb.gz", bytes)]) else {
        return;
    };
    assert!(explanation.whole().after > 0.0);
}

/// 2026-11-28T02:00:00Z.
const NOW_NS: i64 = 1_795_831_200_000_000_000;

/// Profiles pushed to a server: any bytes. Accepted ones can be merged, read back, and drawn.
pub fn pushed(bytes: &[u8]) {
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
}

/// Merging pprof files of windows: any bytes give a sum that can be written and read back, or add nothing.
pub fn merge(bytes: &[u8]) {
    for mode in [Mode::OnCpu, Mode::OffCpu, Mode::Pages] {
        let mut merge = Merge::new(mode, true);
        for second in 0..2 {
            let start = UNIX_EPOCH + Duration::from_secs(second);
            let part = Part { process: "p", start, duration: Duration::from_secs(1) };
            if merge.add(bytes, &part).is_err() {
                assert_eq!(merge.windows().0, 0);
                return;
            }
        }
        let profile = merge.finish(String::new());
        for format in [Format::Folded, Format::Pprof, Format::Firefox { gzip: false }] {
            write(&profile, format, &mut Vec::new()).expect("what was read is consistent");
        }
    }
}

/// Number of lookup addresses, spread over the range.
const ADDRESSES: u64 = 64;

/// Go's table of functions: an ELF file with one, or the table alone.
pub fn gopclntab(bytes: &[u8]) {
    let alone = || GoTable::parse(bytes, 0, bytes.len() as u64);
    let Some(table) = GoTable::find(bytes).or_else(alone) else { return };
    let Some(range) = table.range() else { return };
    let step = ((range.end - range.start) / ADDRESSES).max(1);
    for number in 0..ADDRESSES {
        let address = range.start.saturating_add(number * step);
        if let Some(location) = table.location(address) {
            assert!(range.contains(&address) && !location.function.is_empty());
        }
    }
}

/// Unwind tables of an ELF file: any bytes. Results of a table must match those of the image.
pub fn unwind_image(bytes: &[u8]) {
    let Ok(image) = Image::parse(bytes) else { return };
    let mut rules = Rules::new();
    let table = Table::whole(&image, &mut rules);
    if table.crowded() > 0 || rules.refused() > 0 {
        return;
    }
    let middle = image.text().start.midpoint(image.text().end);
    let mut last = None;
    image.rules(middle..image.text().end, |address, rule| {
        assert!(last < Some(address));
        last = Some(address);
        if let Some(id) = table.rule_at(address) {
            assert_eq!(rules.get(id), rule);
        }
    });
}
