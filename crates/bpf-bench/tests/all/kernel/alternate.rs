//! Two programs that alternate within one run: number and order of calls, maps, and times.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use wingbeat_bpf_bench::instrument::wrapper::{
    Options, alternate,
    alternate::{BURSTS_MAX, BurstPlan, VALUE_SIZE, neighbours},
};
use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, op},
    loader::{Alarm, Effort, Explained, LoadedMap, Loader, RunInput, run},
};
use wingbeat_bpf_testing::{
    assemble::{Assembler, load, store},
    linked,
};
use wingbeat_stats::sample::median;

use super::support::{ask_for_quiet, can_load, has_may_goto};

/// Whether alternating programs can be loaded here; prints the reason if not.
fn can_alternate() -> Option<()> {
    let has_may_goto = has_may_goto();
    if !has_may_goto {
        eprintln!("skipped: may_goto came with Linux 6.9");
    }
    can_load().filter(|()| has_may_goto)
}

const PACKET: [u8; 64] = [0; 64];

/// Return value of the run; `XDP_PASS`.
const RESULT: i32 = 2;

/// `value = value * factor + 1`, on the value of its own first map.
fn counting(factor: i32) -> Code {
    let mut it = Assembler::new();
    it.load_double(1, op::PSEUDO_MAP_VALUE, 0, 0)
        .emit(load(op::DW, 2, 1, 0))
        .alu_immediate(op::MUL, 2, factor)
        .add(2, 1)
        .emit(store(op::DW, 1, 0, 2))
        .mov(0, 1)
        .exit();
    it.finish()
}

/// Multiplies the value of its own first map `count` times, each depending on the previous one.
///
/// The first multiplication depends on the last of the previous call: independent calls overlap in
/// an out-of-order CPU. On a 2.8 GHz Xeon each then takes some 60 ns less than alone, which makes
/// 1,500 multiplications 3.33 times as long as 500.
fn multiplying(count: usize) -> Code {
    let mut it = Assembler::new();
    it.load_double(1, op::PSEUDO_MAP_VALUE, 0, 0).emit(load(op::DW, 0, 1, 0));
    for _ in 0..count {
        it.alu_immediate(op::MUL, 0, 3);
    }
    it.emit(store(op::DW, 1, 0, 0)).exit();
    it.finish()
}

fn map() -> LoadedMap {
    LoadedMap::results(8).expect("a map")
}

fn number(map: &LoadedMap) -> u64 {
    let value = map.read_results().expect("its value");
    u64::from_le_bytes(value.try_into().expect("eight bytes"))
}

/// Alternates two programs, each with its own maps, and returns the times.
fn run_bursts(programs: [&Code; 2], maps: [&[&LoadedMap]; 2], plan: &BurstPlan) -> Vec<(u8, f64)> {
    let counts = maps.map(|maps| i32::try_from(maps.len()).expect("a few"));
    let map_fd = counts[0] + counts[1];
    let options = Options { map_fd, program_type: ProgramType::XDP, restored: None };
    let both = alternate(programs, counts[0], 1, RESULT, 3, options).expect("they alternate");
    let results = LoadedMap::results(VALUE_SIZE as u32).expect("a map");
    results.write_results(&plan.to_value()).expect("a plan");
    let mut descriptors: Vec<BorrowedFd<'_>> =
        maps.iter().flat_map(|maps| maps.iter().map(|map| map.as_fd())).collect();
    descriptors.push(results.as_fd());
    let linked = linked("both", ProgramType::XDP, both.code);
    let effort = Effort { alarm: &Alarm::never(), explained: Explained::Whole };
    let program = Loader::without_object()
        .load_image(&linked.program, &linked.code, &both.called, &descriptors, effort)
        .expect("loaded");
    let input = RunInput { data: &PACKET, context: &[] };
    let found = run(program.as_fd(), ProgramType::XDP, input, 1).expect("it runs");
    assert_eq!(found.return_value, RESULT as u32);
    let value = results.read_results().expect("times");
    assert_eq!(value.len(), VALUE_SIZE);
    plan.read(&value).collect()
}

#[test]
fn each_is_called_as_often_as_it_should_and_finds_its_own_map() {
    let Some(()) = can_alternate() else { return };
    let check = |calls: [u32; 2], order: &[u8]| {
        let maps = [map(), map()];
        let plan = BurstPlan::of_two(calls, order.to_vec());
        let code = counting(1);
        let times = run_bursts([&code, &code], [&[&maps[0]], &[&maps[1]]], &plan);
        let sides: Vec<u8> = times.iter().map(|time| time.0).collect();
        assert_eq!(sides, order, "{calls:?}");
        for side in [0, 1] {
            let bursts = order.iter().filter(|it| usize::from(**it) == side).count() as u64;
            let expected = bursts * u64::from(calls[side]);
            assert_eq!(number(&maps[side]), expected, "{side} of {calls:?} {order:?}");
        }
    };
    check([1, 1], &[]);
    check([1, 1], &[1]);
    check([3, 7], &[0, 1, 1, 0]);
    check([1000, 1], &[1, 0, 0, 0, 1]);
    check([2, 3], &[0, 1].repeat(BURSTS_MAX / 2));
}

#[test]
fn the_order_is_kept() {
    let Some(()) = can_alternate() else { return };
    // Both write to one map here, so that its value shows the order of calls.
    let plan = BurstPlan::of_two([2, 3], vec![0, 1, 1, 0, 1, 0]);
    let map = map();
    run_bursts([&counting(3), &counting(5)], [&[&map], &[&map]], &plan);
    let expected = plan.order.iter().fold(0_u64, |value, &side| {
        let (calls, factor) = [(2, 3), (3, 5)][usize::from(side)];
        (0..calls).fold(value, |value, _| value.wrapping_mul(factor).wrapping_add(1))
    });
    assert_eq!(number(&map), expected);
}

/// Median ratio of neighbouring bursts.
fn ratio(first: &Code, second: &Code, calls: [u32; 2]) -> f64 {
    let plan = BurstPlan::of_two(calls, [0, 1, 1, 0].repeat(BURSTS_MAX / 4));
    let maps = [map(), map()];
    let times = run_bursts([first, second], [&[&maps[0]], &[&maps[1]]], &plan);
    assert_eq!(times.len(), BURSTS_MAX);
    median(neighbours(&times).map(|[first, second]| second / first).collect())
}

#[test]
fn times_are_as_the_programs_are_long() {
    let Some(()) = can_alternate() else { return };
    ask_for_quiet();
    let (short, long) = (multiplying(500), multiplying(1_500));
    let check = |first: &Code, second: &Code, calls, expected: f64| {
        let found = ratio(first, second, calls);
        assert!((found / expected - 1.0).abs() < 0.1, "{found} instead of {expected}");
    };
    check(&short, &long, [30, 10], 3.0);
    check(&long, &short, [10, 30], 1.0 / 3.0);
    // A program against itself, in bursts of equal and of different length.
    check(&short, &short, [20, 20], 1.0);
    check(&short, &short, [10, 30], 1.0);
}

#[test]
fn a_burst_that_the_kernel_ends_does_not_count() {
    let Some(()) = can_alternate() else { return };
    ask_for_quiet();
    // The second would take more than a second: the kernel terminates a loop after a quarter of
    // that, or after eight million iterations.
    let plan = BurstPlan::of_two([10, 20_000_000], vec![0, 0, 1, 0]);
    let maps = [map(), map()];
    let begun = Instant::now();
    let times =
        run_bursts([&multiplying(10), &multiplying(100)], [&[&maps[0]], &[&maps[1]]], &plan);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(times.iter().map(|time| time.0).collect::<Vec<_>>(), [0, 0]);
    assert!(times.iter().all(|&(_, ns)| ns > 0.0 && ns < 100_000.0), "{times:?}");
}
