//! Merging pprof files of windows: any bytes give a sum that can be written and read back, or add nothing.
#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use wingbeat_profiler::{
    export::{Format, write},
    merge::{Merge, Part},
    model::Mode,
};

fuzz_target!(|bytes: &[u8]| {
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
});
