//! Exact counts as pprof, for `go tool pprof` and to explain alerts.

use std::{collections::BTreeMap, io};

use wingbeat_bpf_loader::{code::Code, spec::ObjectTypes};
use wingbeat_pprof::exact::{Counted, CountedFrame, instructions};

use super::{
    Annotation,
    model::{line_of, ranges},
};
use crate::counts::{Counts, TailCalled};

/// Image name for code without a mapped file.
const IMAGE: &str = "[bpf]";

/// Executed instructions by line of an annotation, gzip'd.
pub(super) fn of_annotation(found: &Annotation) -> io::Result<Vec<u8>> {
    let mut counted = tail_called(&found.tail_called);
    for function in &found.functions {
        let lines = function.lines.iter();
        counted.extend(lines.map(|it| line(&function.name, &it.file, it.line, it.instructions)));
    }
    instructions(&counted)
}

/// Executed instructions by line of a program, gzip'd; omits data for human readers, such as the text of lines.
pub(crate) fn of_counts(code: &Code, types: &ObjectTypes, counts: &Counts) -> io::Result<Vec<u8>> {
    let mut counted = tail_called(&counts.tail_called);
    for (name, insns) in ranges(code) {
        let mut lines: BTreeMap<(Option<u32>, u32), u64> = BTreeMap::new();
        for index in insns.clone() {
            let Some(executed) = counts.executed.get(index).filter(|count| **count > 0) else {
                continue;
            };
            let record = line_of(code, &insns, index);
            let key = record.map_or((None, 0), |record| (Some(record.file_offset), record.line()));
            let sum = lines.entry(key).or_default();
            *sum = sum.saturating_add(*executed);
        }
        counted.extend(lines.into_iter().map(|((file, number), count)| {
            let file = file.and_then(|offset| types.string(offset)).unwrap_or_default();
            line(&name, &file, number, count)
        }));
    }
    instructions(&counted)
}

fn line(function: &str, file: &str, line: u32, count: u64) -> Counted {
    // Omit the hash, which differs from build to build.
    let function = format!("{:#}", rustc_demangle::demangle(function));
    let frames = vec![CountedFrame { function, file: file.to_owned(), line }];
    Counted { image: IMAGE.to_owned(), frames, count }
}

/// Only sums are known for these programs.
fn tail_called(programs: &[TailCalled]) -> Vec<Counted> {
    programs.iter().map(|it| line(&it.program, "", 0, it.instructions)).collect()
}
