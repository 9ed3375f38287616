//! Profiles of exact counts by line. Nothing is sampled, so there is no noise.

use std::io;

use rustc_hash::FxHashMap;

use crate::{
    pprof::{Strings, pack},
    proto,
};

/// The count of a code location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The code's file, `[bpf]` for programs in the kernel, or empty.
    pub image: String,
    /// The function, followed by those that it was inlined into; not empty.
    pub frames: Vec<CountedFrame>,
    pub count: u64,
}

/// A line of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedFrame {
    pub function: String,
    /// Empty if unknown.
    pub file: String,
    /// From 1; 0 if unknown.
    pub line: u32,
}

/// Executed instructions, as gzip'd pprof. Zero counts are omitted. Equal counts give equal bytes.
pub fn instructions(counted: &[Counted]) -> io::Result<Vec<u8>> {
    let mut strings = Strings::default();
    let (kind, unit) = (strings.number("instructions"), strings.number("count"));
    let mut message = proto::Profile {
        sample_type: vec![proto::ValueType { r#type: kind, unit }],
        default_sample_type: kind,
        comment: vec![strings.number(concat!("wingbeat ", env!("CARGO_PKG_VERSION")))],
        ..proto::Profile::default()
    };
    let mut functions: FxHashMap<(&str, &str), u64> = FxHashMap::default();
    let mut mappings: FxHashMap<&str, u64> = FxHashMap::default();
    for Counted { image, frames, count } in counted.iter().filter(|it| it.count > 0) {
        let next = mappings.len() as u64 + 1;
        let mapping_id = *mappings.entry(image).or_insert(next);
        if mapping_id == next {
            message.mapping.push(proto::Mapping {
                id: next,
                filename: strings.number(image),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
                ..proto::Mapping::default()
            });
        }
        let mut line = Vec::with_capacity(frames.len());
        for frame in frames {
            let next = functions.len() as u64 + 1;
            let key = (frame.function.as_str(), frame.file.as_str());
            let function_id = *functions.entry(key).or_insert(next);
            if function_id == next {
                let (name, filename) = (strings.number(key.0), strings.number(key.1));
                message.function.push(proto::Function { id: next, name, system_name: 0, filename });
            }
            line.push(proto::Line { function_id, line: frame.line.into() });
        }
        let id = message.location.len() as u64 + 1;
        // Without addresses, tools would merge all locations.
        message.location.push(proto::Location { id, mapping_id, address: id, line });
        let value = vec![i64::try_from(*count).unwrap_or(i64::MAX)];
        message.sample.push(proto::Sample { location_id: vec![id], value, label: Vec::new() });
    }
    message.string_table = strings.into_table();
    let mut bytes = Vec::new();
    pack(&message, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, Side, compare, sentences};

    fn counted(frames: &[(&str, u32)], count: u64) -> Counted {
        let frame = |&(function, line): &(&str, u32)| CountedFrame {
            function: function.to_owned(),
            file: "src/main.rs".to_owned(),
            line,
        };
        let image = "[bpf]".to_owned();
        Counted { image, frames: frames.iter().map(frame).collect(), count }
    }

    #[test]
    fn what_was_written_is_read_and_explained() {
        let read = |side, counted: &[Counted]| {
            Side::read(side, &instructions(counted).expect("bytes")).expect("a profile")
        };
        let before = read("earlier", &[counted(&[("xdp", 7)], 59), counted(&[("xdp", 8)], 0)]);
        let after = [
            counted(&[("xdp", 7)], 59),
            counted(&[("fibonacci", 42), ("xdp", 9)], 80),
            counted(&[("fibonacci", 43), ("xdp", 9)], 14),
        ];
        let after = read("later", &after);
        assert_eq!((before.total(), after.total(), after.is_exact()), (59.0, 153.0, true));
        let metric = Metric::of_totals(&before, &after);
        let found = compare(&before, &after, metric).expect("comparable");
        let write = |value: f64| format!("{value} instructions");
        let expected = "fibonacci (src/main.rs:42), called by xdp, adds 94 of 94 instructions; \
                        line 42: 0 before, 80 now";
        assert_eq!(sentences(&found, &write), [expected]);
    }

    #[test]
    fn what_a_harness_evaluates_does_not_count() {
        let read = |counted: &[Counted]| {
            Side::read("earlier", &instructions(counted).expect("bytes")).map(|side| side.total())
        };
        let evaluation = counted(&[("criterion::analysis::common", 9), ("benches", 2)], 5);
        let all = [counted(&[("parse", 1), ("benches", 2)], 7), evaluation.clone()];
        assert_eq!(read(&all).expect("a profile"), 7.0);
        read(&[evaluation]).expect_err("nothing else is in it");
    }

    #[test]
    fn the_same_counts_give_the_same_bytes() {
        let counted = [counted(&[("a", 1)], 1), counted(&[("b", 2), ("a", 3)], 4)];
        let [one, other] = [(); 2].map(|()| instructions(&counted).expect("bytes"));
        assert_eq!(one, other);
    }
}
