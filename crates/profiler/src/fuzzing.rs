//! Entry points for fuzzing (`fuzz/` at the root), which sees only public items. Not part of the API.
//!
//! Each function accepts any bytes, and panics if the results are inconsistent.

use wingbeat_unwind::Rules;

use crate::{
    debuginfod::{BuildId, Settings},
    fold,
    heap::allocator::Allocator,
    jitdump::Header,
    proc::{Stat, parse_mapping},
    symbolize::{
        debug_info::{DebugInfo, place_of_build},
        jit::PerfMap,
        jitdump::{self, JitCode},
        known::store::{decode, encode, with_head},
    },
    unwind::{
        Image,
        jitdump::{Change, Pieces, Reader},
    },
};

/// Addresses to look up, spread over each range.
const ADDRESSES: u64 = 32;

/// A JIT compiler's symbol map, `/tmp/perf-PID.map`.
pub fn perf_map(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let map = PerfMap::parse(&text);
    for line in text.lines() {
        let start = line.split(' ').next().unwrap_or_default();
        let start = u64::from_str_radix(start.trim_start_matches("0x"), 16).unwrap_or(u64::MAX);
        for address in [start.wrapping_sub(1), start, start.saturating_add(1)] {
            if let Some(name) = map.find(address) {
                assert!(!name.trim().is_empty() && text.contains(name));
            }
        }
    }
}

/// A names file, as is and with a corrected checksum: the result must serialize to the same bytes.
pub fn names_file(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), with_head(bytes)] {
        if let Some(functions) = decode(&bytes, b"id") {
            assert!(functions.iter().all(|(start, function)| *start < function.end));
            assert_eq!(decode(&encode(b"id", &functions), b"id"), Some(functions));
        }
    }
}

/// Allocator functions in an ELF file: each is probed within its range, and once.
pub fn allocator(bytes: &[u8]) {
    let mut offsets = Vec::new();
    for function in Allocator::of(bytes).functions {
        let (start, end) = function.range;
        assert!(start < end && !function.name.is_empty());
        offsets.push(function.entry.offset);
    }
    offsets.sort_unstable();
    offsets.dedup();
    assert!(offsets.len() as u64 <= bytes.len() as u64);
}

/// A JIT compiler's code, `jit-PID.dump`.
pub fn jitdump(bytes: &[u8]) {
    let Ok(codes) = jitdump::parse(bytes) else { return };
    let asked: Vec<u64> = codes
        .iter()
        .take(ADDRESSES as usize)
        .flat_map(|code| [code.start, code.start.saturating_add(code.size / 2)])
        .collect();
    let code = JitCode::new(codes);
    for address in asked {
        for found in code.at(address).into_iter().filter_map(|id| code.get(id)) {
            assert!(found.start <= address && address - found.start < found.size);
            assert!(!found.name.is_empty());
            let _ = found.line(address);
        }
    }
}

/// Unwind information of JIT-compiled code, `jit-PID.dump`, read in two parts like a growing file. The result must
/// equal that of the whole.
pub fn jitdump_unwinding(bytes: &[u8]) {
    let Ok(header) = Header::parse(bytes) else { return };
    let records = bytes.get(header.size..).unwrap_or_default();
    let changes = |parts: &[usize]| {
        let (mut rules, mut reader, mut found) = (Rules::new(), Reader::new(header), Vec::new());
        let mut at = 0;
        for &end in parts {
            at +=
                reader.read(&records[at..end.max(at)], &mut rules, |_, change| found.push(change));
        }
        found
    };
    let whole = changes(&[records.len()]);
    assert_eq!(changes(&[records.len() / 2, records.len()]), whole);
    let mut pieces = Pieces::default();
    for change in whole {
        if let Change::Load { start, size, rows } = &change {
            assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
            assert!(rows.first().is_none_or(|(at, _)| *at == 0));
            assert!(rows.last().is_none_or(|(at, _)| u64::from(*at) < *size));
            let (start, is_empty) = (*start, rows.is_empty());
            pieces.take(change);
            assert_eq!(pieces.rule_at(start).is_none(), is_empty);
        } else {
            pieces.take(change);
        }
    }
}

/// Lists of debuginfod servers, `DEBUGINFOD_URLS`, and the numeric variables.
pub fn debuginfod_settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (list, number) = text.split_once('\n').unwrap_or((&text, ""));
    let settings = Settings::new(&[list.to_owned()], |name| {
        (name == "HOME" || name == "DEBUGINFOD_MAXTIME").then(|| number.into())
    });
    if let Ok(settings) = settings {
        assert!(settings.servers().next().is_some());
        for server in settings.servers() {
            assert!(list.contains(server) && !server.contains(char::is_whitespace));
        }
    }
}

/// Function names, one per line, as read by the folding rules.
pub fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        assert!(fold::plain_len(line) <= line.len());
    }
}

/// Lines of `/proc/PID/maps`, or the one of `/proc/PID/stat`.
pub fn proc_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(stat) = Stat::parse(&text) {
        assert!(text.contains(&stat.comm));
        let _ = (stat.is_zombie(), stat.is_kernel_thread());
    }
    for line in text.lines() {
        if let Some(mapping) = parse_mapping(line) {
            assert!(line.contains(&mapping.path));
        }
    }
}

/// An ELF file: build id, location of its debug information, segments, unwind rules.
pub fn elf(bytes: &[u8]) {
    if let Some(info) = DebugInfo::parse(bytes) {
        assert!(info.build_id.len() <= bytes.len());
        if let Some(id) = BuildId::new(&info.build_id) {
            assert_eq!(id.to_string().len(), 2 * info.build_id.len());
        }
        if let Some(place) = place_of_build("/".as_ref(), &info.build_id) {
            assert!(place.starts_with("/.build-id"));
        }
    }
    let Some(image) = Image::parse(bytes) else { return };
    assert!(image.build_id().len() <= bytes.len());
    for offset in spread(0, bytes.len() as u64).chain([u64::MAX]) {
        if let Some(address) = image.address_of_offset(offset) {
            let _ = image.rule(address);
        }
    }
    if let Some(((start, end), _)) = image.text() {
        assert!(start <= end);
        for address in spread(start, end).chain([end, u64::MAX]) {
            let _ = image.rule(address);
        }
    }
}

/// Addresses spread over `start..end`.
fn spread(start: u64, end: u64) -> impl Iterator<Item = u64> {
    let step = (end.saturating_sub(start) / ADDRESSES).max(1);
    (0..ADDRESSES).map(move |index| start.saturating_add(index * step)).filter(move |at| *at < end)
}
