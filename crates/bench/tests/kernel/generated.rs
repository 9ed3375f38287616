//! Generated programs: same result and same packet with counters, and the interpreter's counts.

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{TestCaseError, TestRunner},
};
use wingbeat_bench::instrument::{
    assemble::listing,
    generate::{Entry, Program, program},
    interpret::{self, Memory},
};

use crate::support::{Kernel, can_load};

/// Programs of each kind.
const CASES: u32 = 200;

/// An Ethernet header, which the kernel takes away before a socket filter sees the packet.
const ETHERNET: usize = 14;

fn check(kernel: &Kernel, program: &Program, packet: &[u8]) -> Result<(), TestCaseError> {
    let code = program.code();
    let memory = match program.entry() {
        Entry::Xdp => Memory::of_xdp(packet, 8),
        Entry::SocketFilter | Entry::Model => Memory::of_socket_filter(&packet[ETHERNET..], 8),
    };
    let expected = interpret::run(&code, memory).expect("the interpreter runs it");
    let Some(pair) = kernel.load(&code) else {
        return Err(TestCaseError::reject("the kernel does not take the original"));
    };
    let plain = pair.run_plain(packet);
    let (counted, counts) = pair.run_counted(packet);
    let context = || listing(&code);
    prop_assert_eq!(plain.return_value, expected.result as u32, "interpreter\n{}", context());
    prop_assert_eq!(counted.return_value, plain.return_value, "return value\n{}", context());
    prop_assert_eq!(counted.data, plain.data, "packet\n{}", context());
    prop_assert_eq!(counts, expected.counts, "counts\n{}", context());
    Ok(())
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 2 * ETHERNET..120)
}

fn check_all(entry: Entry) {
    if !can_load() {
        return;
    }
    let kernel = Kernel::new(entry);
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() };
    let found = TestRunner::new(config)
        .run(&(program(entry), packet()), |(program, packet)| check(&kernel, &program, &packet));
    if let Err(error) = found {
        panic!("{error}");
    }
}

#[test]
fn xdp_programs() {
    check_all(Entry::Xdp);
}

#[test]
fn socket_filters() {
    check_all(Entry::SocketFilter);
}

#[test]
fn counts_of_a_hundred_runs_and_two_loads_are_the_same() {
    if !can_load() {
        return;
    }
    let kernel = Kernel::new(Entry::Xdp);
    let (mut runner, mut loads) = (TestRunner::deterministic(), 0);
    for _ in 0..5 {
        let tree = (program(Entry::Xdp), packet()).new_tree(&mut runner).expect("a program");
        let (program, packet) = tree.current();
        let code = program.code();
        let expected = interpret::run(&code, Memory::of_xdp(&packet, 8)).expect("it runs").counts;
        for load in 0..2 {
            let Some(pair) = kernel.load(&code) else { continue };
            for run in 0..100 {
                let (_, counts) = pair.run_counted(&packet);
                assert_eq!(counts, expected, "load {load}, run {run}\n{}", listing(&code));
            }
            loads += 1;
        }
    }
    assert!(loads >= 6, "only {loads} of 10 loads");
}
