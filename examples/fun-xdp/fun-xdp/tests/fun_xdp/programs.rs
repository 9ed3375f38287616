//! The programs alone, run by the kernel on hand-made packets (`BPF_PROG_TEST_RUN`).

use aya::{
    programs::{TestRun, TestRunOptions},
    sys::{Stats, enable_stats},
};
use fun_xdp::{Classes, KernelHalf, OBJECT, OBJECT_WITH_LOG, SourceAddr, Version};

use crate::{counters::Counters, kernel_permits};

/// `XDP_ABORTED` and `XDP_PASS` of the kernel's include/uapi/linux/bpf.h.
const ABORTED: u32 = 0;
const PASS: u32 = 2;

const ARP: [u8; 2] = [0x08, 0x06];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const VLAN: [u8; 2] = [0x81, 0x00];

/// An Ethernet frame of this type and length, with this address in place of the IPv4 source.
fn frame(kind: [u8; 2], length: usize, source: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12..14].copy_from_slice(&kind);
    frame[14] = 0x45;
    frame[26..30].copy_from_slice(&source);
    frame.truncate(length);
    frame
}

struct Bench {
    kernel: KernelHalf,
    classes: Classes,
}

impl Bench {
    fn new(object: &[u8]) -> Self {
        let mut kernel = KernelHalf::load(object).unwrap();
        let classes = kernel.take_classes().unwrap();
        Self { kernel, classes }
    }

    /// Runs a program repeatedly on a frame; returns the last return value.
    fn run(&mut self, version: Version, frame: &[u8], repeat: u32) -> u32 {
        let program = self.kernel.program(version).unwrap();
        let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
        program.test_run(options).unwrap().return_value
    }

    fn classes(&mut self) -> Vec<SourceAddr> {
        self.classes.by_ref().map(Result::unwrap).collect()
    }
}

/// The programs with and without logging; none if the kernel does not allow loading them.
fn benches() -> impl Iterator<Item = Bench> {
    let objects = [OBJECT, OBJECT_WITH_LOG].into_iter().filter(|_| kernel_permits());
    objects.map(Bench::new)
}

#[test]
fn the_kernel_classifies_as_user_space_does() {
    for mut bench in benches() {
        for version in Version::ALL {
            for octet in 0..=255 {
                for source in [[10, 0, 13, octet], [octet, 255, 1, octet], [7, 7, octet, 7]] {
                    let returned = bench.run(version, &frame(IPV4, 64, source), 1);
                    assert_eq!(returned, PASS, "{version} of {source:?}");
                    let class = version.classify(u32::from_be_bytes(source));
                    assert_eq!(bench.classes(), Vec::from_iter(class), "{version} of {source:?}");
                }
            }
        }
    }
}

#[test]
fn other_packets_pass_and_broken_ones_abort() {
    // Divisible by 3, with a Fibonacci number at the end: each version has a class for it.
    let source = [1, 0, 0, 5];
    for mut bench in benches() {
        for version in Version::ALL {
            let mut check = |kind, length, expected, classes| {
                let returned = bench.run(version, &frame(kind, length, source), 1);
                let what = format!("{version} of {length} bytes with type {kind:02x?}");
                assert_eq!(returned, expected, "{what}");
                let classes = if version == Version::V0 { 0 } else { classes };
                assert_eq!(bench.classes().len(), classes, "{what}");
            };
            check(IPV4, 64, PASS, 1);
            check(IPV4, 34, PASS, 1);
            check(IPV4, 33, ABORTED, 0);
            check(IPV4, 14, ABORTED, 0);
            check(ARP, 64, PASS, 0);
            check(ARP, 14, PASS, 0);
            check(IPV6, 64, PASS, 0);
            check(VLAN, 64, PASS, 0);
        }
    }
}

/// Packets still pass; the oldest classes are kept.
#[test]
fn a_full_queue_loses_the_newest() {
    for mut bench in benches() {
        assert_eq!(bench.classes.capacity(), 1024);
        assert_eq!(bench.run(Version::V4, &frame(IPV4, 64, [0, 0, 0, 6]), 1000), PASS);
        assert_eq!(bench.run(Version::V4, &frame(IPV4, 64, [0, 0, 0, 8]), 1000), PASS);
        let classes = bench.classes();
        assert_eq!(classes.len(), 1024);
        assert!(classes[..1000].iter().all(|class| *class == SourceAddr::Fizz));
        assert!(classes[1000..].iter().all(|class| *class == SourceAddr::Fibonacci));
        assert_eq!(bench.classes(), []);
    }
}

/// The macro benchmark relies on this.
#[test]
fn the_kernel_counts_every_run() {
    if !kernel_permits() {
        return;
    }
    let mut bench = Bench::new(OBJECT);
    let read =
        |bench: &mut Bench| Counters::read(bench.kernel.program(Version::V4).unwrap()).unwrap();
    let before = read(&mut bench);
    assert_eq!(before.ns_per_run(), None, "{before:?}");
    let counting = enable_stats(Stats::RunTime).unwrap();
    let frame = frame(IPV4, 64, [192, 0, 2, 7]);
    bench.run(Version::V4, &frame, 300);
    let between = read(&mut bench);
    bench.run(Version::V4, &frame, 1);
    drop(counting);
    let cost = between.since(before).unwrap();
    assert_eq!(cost.runs, 300);
    let ns_per_run = cost.ns_per_run().unwrap();
    assert!((1.0..100_000.0).contains(&ns_per_run), "{ns_per_run} ns");
    assert_eq!(read(&mut bench).since(between).unwrap().runs, 1);
}

#[test]
fn what_can_be_taken_once_is_missing_the_second_time() {
    if !kernel_permits() {
        return;
    }
    let mut kernel = KernelHalf::load(OBJECT).unwrap();
    assert!(kernel.take_log().is_err(), "it was built without a log");
    kernel.take_classes().unwrap();
    let error = kernel.take_classes().err().unwrap().to_string();
    assert!(error.contains("has no SOURCE_ADDR_QUEUE"), "{error}");
}

// Reading counters, for the macro benchmark, which runs without the test harness.

#[test]
fn fdinfo_is_understood() {
    let check = |text, expected: Option<(u64, u64)>| {
        let expected = expected.map(|(run_time_ns, runs)| Counters { run_time_ns, runs });
        assert_eq!(Counters::parse(text), expected, "{text:?}");
    };
    let fdinfo = "pos:\t0\nflags:\t02000002\nprog_type:\t6\nmemlock:\t4096\nprog_id:\t7\n\
                  run_time_ns:\t1234\nrun_cnt:\t56\nrecursion_misses:\t0\n";
    check(fdinfo, Some((1234, 56)));
    check("run_cnt:\t56\nrun_time_ns:\t18446744073709551615\n", Some((u64::MAX, 56)));
    check("run_time_ns:\t1\n", None);
    check("run_time_ns:\t1\nrun_cnt:\tmany\n", None);
    check("run_time_ns:\t18446744073709551616\nrun_cnt:\t1\n", None);
    check("pos:\t0\nflags:\t02\n", None);
    check("", None);
}

#[test]
fn a_program_that_never_ran_costs_nothing_that_is_known() {
    let check = |run_time_ns, runs, expected| {
        let before = Counters { run_time_ns: 1000, runs: 10 };
        let after = Counters { run_time_ns, runs };
        assert_eq!(after.since(before).and_then(Counters::ns_per_run), expected, "{after:?}");
    };
    check(1500, 20, Some(50.0));
    check(1000, 10, None);
    check(999, 20, None);
}
