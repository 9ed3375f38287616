//! The regressions, as data: what is built in, where, and which function is guilty of it.

use self::Expected::{Functions, Lines};
use super::inject::Edit;

/// What measures a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// Criterion, in this file of `benches`: time, and a sampled profile.
    Criterion(&'static str),
    /// `wingbeat bench`: instructions of an eBPF program, and exact counts by line.
    Bench,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Benchmark {
    pub(super) tool: Tool,
    /// What the tool calls it.
    pub(super) name: &'static str,
}

/// What has to be named first.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// The guilty function or its caller, without generic arguments.
    Functions(&'static [&'static str]),
    /// One of these lines of this file: a program of eBPF is a single function.
    Lines(&'static str, &'static [&'static str]),
}

/// A regression of known place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// What is built in.
    pub(super) what: &'static str,
    pub(super) benchmark: Benchmark,
    pub(super) edits: &'static [Edit],
    pub(super) expected: Expected,
}

const PAIRS: Benchmark = Benchmark { tool: Tool::Criterion("amicable"), name: "pairs" };
const COMPUTED: Benchmark =
    Benchmark { tool: Tool::Criterion("fun_xdp"), name: "SourceAddr::new_v3" };
/// FizzBuzz for packets, looked up.
const PACKET: Benchmark = Benchmark { tool: Tool::Bench, name: "fun_xdp_v4" };
const SAMPLE: Benchmark = Benchmark { tool: Tool::Criterion("profiler"), name: "process_sample" };
const CHUNKS: Benchmark = Benchmark { tool: Tool::Criterion("httparse"), name: "chunks" };
const REQUEST: Benchmark = Benchmark { tool: Tool::Criterion("httparse"), name: "request" };
const REQUIREMENTS: Benchmark = Benchmark { tool: Tool::Criterion("semver"), name: "requirements" };
const SORT: Benchmark = Benchmark { tool: Tool::Criterion("semver"), name: "sort" };
const VERSIONS: Benchmark = Benchmark { tool: Tool::Criterion("semver"), name: "versions" };

const AMICABLE: &str = "amicable/src/lib.rs";
const FUN_XDP: &str = "fun-xdp-common/src/lib.rs";
const HTTPARSE: &str = "httparse/src/lib.rs";
const PROFILER: &str = "profiler/src/lib.rs";
const PROGRAMS: &str = "fun-xdp-ebpf/src/programs.rs";
const SEMVER: &str = "semver/src/parse.rs";

const fn edit(file: &'static str, old: &'static str, new: &'static str) -> Edit {
    Edit { file, old, new }
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "amicable-slow",
        what: "slower function: tries twice as many divisors",
        benchmark: PAIRS,
        edits: &[edit(AMICABLE, "while divisor <= number / 2 {", "while divisor < number {")],
        expected: Functions(&["amicable::divisor_sum", "amicable::larger_partner"]),
    },
    Case {
        name: "amicable-heap",
        what: "extra allocation: each divisor on the heap",
        benchmark: PAIRS,
        edits: &[edit(
            AMICABLE,
            "if number.is_multiple_of(divisor) {",
            "if number.is_multiple_of(*std::hint::black_box(Box::new(divisor))) {",
        )],
        expected: Functions(&["amicable::divisor_sum", "amicable::larger_partner"]),
    },
    Case {
        name: "amicable-syscall",
        what: "system call in a loop: asks for a file for each number",
        benchmark: PAIRS,
        edits: &[edit(
            AMICABLE,
            "if let Some(larger) = larger_partner(smaller, limit) {",
            "let _ = std::fs::metadata(\"/\");\n        \
             if let Some(larger) = larger_partner(smaller, limit) {",
        )],
        expected: Functions(&["amicable::print_pairs"]),
    },
    Case {
        name: "profiler-sleep",
        what: "sleep: the example's own regression, in µs",
        benchmark: SAMPLE,
        edits: &[
            edit("profiler/src/oops.rs", "Duration::from_millis(", "Duration::from_micros("),
            edit(PROFILER, "#[cfg(feature = \"oops\")]\nmod oops;", "mod oops;"),
            edit(PROFILER, "    #[cfg(feature = \"oops\")]\n    oops::", "    oops::"),
        ],
        expected: Functions(&["profiler::oops::_oops", "profiler::process_sample"]),
    },
    Case {
        name: "profiler-heap",
        what: "extra allocation: copies each stack",
        benchmark: SAMPLE,
        edits: &[edit(
            "profiler/src/sample.rs",
            "Ok(Self { header, stack })",
            "let stack: Vec<u64> = stack;\n        \
             Ok(Self { header, stack: std::hint::black_box(&stack).clone() })",
        )],
        expected: Functions(&["profiler::sample::Sample::decode", "profiler::process_sample"]),
    },
    Case {
        name: "profiler-slow",
        what: "slower function: formats what nobody logs",
        benchmark: SAMPLE,
        edits: &[edit(
            PROFILER,
            "log::info!(\"{sample}\");",
            "let line = std::hint::black_box(sample.to_string());\n    log::info!(\"{line}\");",
        )],
        expected: Functions(&["profiler::sample::Sample::fmt", "profiler::process_sample"]),
    },
    Case {
        name: "profiler-inline",
        what: "lost inlining of the fields' decoder",
        benchmark: SAMPLE,
        edits: &[edit("profiler/src/sample.rs", "fn take<", "#[inline(never)]\nfn take<")],
        expected: Functions(&[
            "profiler::sample::take",
            "profiler::sample::decode_header",
            "profiler::sample::Sample::decode",
        ]),
    },
    Case {
        name: "fun-xdp-slow",
        what: "slower function: Fibonacci numbers by recursion",
        benchmark: COMPUTED,
        edits: &[edit(
            FUN_XDP,
            "    let (mut current, mut next) = (0, 1);\n    while current < octet {\n        \
             (current, next) = (next, current + next);\n    }\n    current == octet\n",
            "    fn number(at: u32) -> u32 {\n        \
             if at < 2 { at } else { number(at - 1) + number(at - 2) }\n    }\n    \
             (0..).map(number).find(|it| *it >= octet) == Some(octet)\n",
        )],
        expected: Functions(&[
            "fun_xdp_common::is_fibonacci::number",
            "fun_xdp_common::is_fibonacci",
            "fun_xdp_common::SourceAddr::new_v3",
        ]),
    },
    Case {
        name: "httparse-slow",
        what: "slower function: looks for blanks from the front",
        benchmark: REQUEST,
        edits: &[edit(
            HTTPARSE,
            ".rposition(|b| *b != b' ' && *b != b'\\t' && *b != b'\\r' && *b != b'\\n')",
            ".enumerate()\n            \
             .filter(|(_, b)| **b != b' ' && **b != b'\\t' && **b != b'\\r' && **b != b'\\n')\n            \
             .map(|(at, _)| at)\n            .last()",
        )],
        expected: Functions(&[
            "httparse::parse_headers_iter_uninit",
            "httparse::Request::parse_with_config_and_uninit_headers",
        ]),
    },
    Case {
        name: "httparse-inline",
        what: "lost inlining of the next byte",
        benchmark: CHUNKS,
        edits: &[edit(
            "httparse/src/iter.rs",
            "    #[inline]\n    fn next(&mut self) -> Option<u8> {",
            "    #[inline(never)]\n    fn next(&mut self) -> Option<u8> {",
        )],
        expected: Functions(&["httparse::iter::Bytes::next", "httparse::parse_chunk_size"]),
    },
    Case {
        name: "httparse-heap",
        what: "extra allocation: copies each chunk's head",
        benchmark: CHUNKS,
        edits: &[edit(
            HTTPARSE,
            "const RADIX: u64 = 16;\n    let mut bytes = Bytes::new(buf);",
            "const RADIX: u64 = 16;\n    let copy = std::hint::black_box(buf).to_vec();\n    \
             let mut bytes = Bytes::new(std::hint::black_box(&copy));",
        )],
        expected: Functions(&["httparse::parse_chunk_size"]),
    },
    Case {
        name: "httparse-lock",
        what: "lock: counts headers in a mutex",
        benchmark: REQUEST,
        edits: &[edit(
            HTTPARSE,
            "        autoshrink.num_headers += 1;\n",
            "        autoshrink.num_headers += 1;\n        \
             static PARSED: std::sync::Mutex<u64> = std::sync::Mutex::new(0);\n        \
             *PARSED.lock().unwrap() += 1;\n",
        )],
        expected: Functions(&[
            "httparse::parse_headers_iter_uninit",
            "httparse::Request::parse_with_config_and_uninit_headers",
        ]),
    },
    Case {
        name: "httparse-syscall",
        what: "system call in a loop: asks who it is for each header",
        benchmark: REQUEST,
        edits: &[edit(
            HTTPARSE,
            "        autoshrink.num_headers += 1;\n",
            "        autoshrink.num_headers += 1;\n        \
             std::hint::black_box(std::os::unix::process::parent_id());\n",
        )],
        expected: Functions(&[
            "httparse::parse_headers_iter_uninit",
            "httparse::Request::parse_with_config_and_uninit_headers",
        ]),
    },
    Case {
        name: "semver-slow",
        what: "slower function: counts characters again for each digit",
        benchmark: VERSIONS,
        edits: &[edit(
            SEMVER,
            "while let Some(&digit) = input.as_bytes().get(len) {",
            "while let Some(digit) = input.chars().nth(len).map(|digit| digit as u8) {",
        )],
        expected: Functions(&["semver::parse::numeric_identifier", "semver::Version::from_str"]),
    },
    Case {
        name: "semver-heap",
        what: "extra allocation: collects what it compares",
        benchmark: SORT,
        edits: &[edit(
            "semver/src/impls.rs",
            "            false => {}\n        }\n\n        let lhs = self.as_str().split('.');",
            "            false => {}\n        }\n\n        \
                 let lhs = self.as_str().split('.').collect::<Vec<_>>();",
        )],
        expected: Functions(&["semver::Prerelease::cmp", "semver::Version::cmp"]),
    },
    Case {
        name: "semver-inline",
        what: "lost inlining of a test for emptiness",
        benchmark: SORT,
        edits: &[edit(
            "semver/src/identifier.rs",
            "    pub(crate) fn is_empty(&self) -> bool {",
            "    #[inline(never)]\n    pub(crate) fn is_empty(&self) -> bool {",
        )],
        expected: Functions(&[
            "semver::identifier::Identifier::is_empty",
            "semver::Prerelease::cmp",
            "semver::Version::cmp",
        ]),
    },
    Case {
        name: "semver-lock",
        what: "lock: counts comparators in a mutex",
        benchmark: REQUIREMENTS,
        edits: &[edit(
            SEMVER,
            "    let (mut op, text) = op(input);\n",
            "    static PARSED: std::sync::Mutex<u64> = std::sync::Mutex::new(0);\n    \
             *PARSED.lock().unwrap() += 1;\n    let (mut op, text) = op(input);\n",
        )],
        expected: Functions(&["semver::parse::comparator", "semver::parse::version_req"]),
    },
    Case {
        name: "semver-sleep",
        what: "sleep: 100 µs for each requirement",
        benchmark: REQUIREMENTS,
        edits: &[edit(
            SEMVER,
            "        let depth = 0;\n",
            "        std::thread::sleep(std::time::Duration::from_micros(100));\n        \
             let depth = 0;\n",
        )],
        expected: Functions(&["semver::VersionReq::from_str"]),
    },
    Case {
        name: "bpf-loop",
        what: "eBPF: a loop instead of a table",
        benchmark: PACKET,
        edits: &[edit(
            PROGRAMS,
            "filter(&ctx, SourceAddr::new_v4)",
            "filter(&ctx, SourceAddr::new_v3)",
        )],
        expected: Lines(
            FUN_XDP,
            &["while current < octet {", "(current, next) = (next, current + next);"],
        ),
    },
    Case {
        name: "bpf-lookup",
        what: "eBPF: a map lookup for each packet",
        benchmark: PACKET,
        edits: &[
            edit(PROGRAMS, "btf_maps::Queue,", "btf_maps::{Array, Queue},"),
            edit(
                PROGRAMS,
                "= Queue::new();\n",
                "= Queue::new();\n\n#[btf_map]\nstatic SEEN: Array<u32, 16> = Array::new();\n",
            ),
            edit(
                PROGRAMS,
                "    if let Some(class) = classify(address)",
                "    if SEEN.get(address & 15).is_some_and(|seen| *seen > 0) {\n        \
                 return XDP_PASS;\n    }\n    if let Some(class) = classify(address)",
            ),
        ],
        expected: Lines(
            PROGRAMS,
            &["if SEEN.get(address & 15).is_some_and(|seen| *seen > 0) {", "return XDP_PASS;"],
        ),
    },
    Case {
        name: "bpf-copy",
        what: "eBPF: a bigger copy, of a header",
        benchmark: PACKET,
        edits: &[edit(
            PROGRAMS,
            "let ipv4: &[u8; IPV4_BYTES] = header(ctx, ETHERNET_BYTES)?;",
            "let ipv4: [u8; IPV4_BYTES] = core::hint::black_box(*header(ctx, ETHERNET_BYTES)?);",
        )],
        expected: Lines(
            PROGRAMS,
            &["let ipv4: [u8; IPV4_BYTES] = core::hint::black_box(*header(ctx, ETHERNET_BYTES)?);"],
        ),
    },
];

impl Expected {
    /// Whether a function, or a line with this text, is the right one.
    pub(super) fn is_met(self, function: &str, line: Option<&str>) -> bool {
        match self {
            Functions(functions) => functions.contains(&function),
            Lines(_, lines) => line.is_some_and(|line| lines.contains(&line.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_or_a_line() {
        let check = |expected: Expected, function: &str, line, is_met| {
            assert_eq!(expected.is_met(function, line), is_met, "{expected:?}");
        };
        check(Functions(&["a", "b"]), "b", None, true);
        check(Functions(&["a", "b"]), "c", Some("a"), false);
        check(Lines("a.rs", &["x += 1;"]), "main", Some("    x += 1;"), true);
        check(Lines("a.rs", &["x += 1;"]), "main", None, false);
    }
}
