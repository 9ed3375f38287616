//! `BPF_PROG_TEST_RUN` of every type with a handler: return value, run count, and resulting packet.

use std::{
    io, mem,
    os::fd::AsFd as _,
    ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use wingbeat_bpf_loader::{
    KernelTypes, ProgramType,
    code::Insn,
    loader::{Alarm, Loaded, LoadedMap, ProgramRun, RunError, RunInput, run},
};

use super::support::{
    asm, can_load, give, load as load_program, program, run as run_packet, since,
};

/// Offsets of the packet's start and end in `struct __sk_buff`.
const SKB: (i16, i16) = (76, 80);
/// The same in `struct xdp_md`.
const XDP: (i16, i16) = (0, 4);

/// A common packet: 60 bytes, not IP, each byte equal to its index.
fn frame() -> Vec<u8> {
    let mut frame: Vec<u8> = (0..60).collect();
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// An IP header of 20 bytes, and 20 more.
fn ip_packet() -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[3] = 40;
    packet[9] = 17;
    packet
}

/// Counts the run in map 0; preserves r1.
fn counting(body: &[Insn]) -> Vec<Insn> {
    [&asm("r2 = value 0; r3 = 1; lock *(u64 *)(r2 + 0) += r3"), body].concat()
}

/// `return *(u32 *)context`: the length, for a socket buffer.
fn first_word() -> Vec<Insn> {
    asm("r0 = *(u32 *)(r1 + 0); exit")
}

/// `return *(u32 *)(context + offset) == wanted`.
fn word_is(offset: u32, wanted: i32) -> Vec<Insn> {
    asm(&format!("r2 = *(u32 *)(r1 + {offset}); r0 = 1; if r2 == {wanted} goto +1; r0 = 0; exit"))
}

/// `return end - begin` of the packet.
fn packet_len((begin, end): (i16, i16)) -> Vec<Insn> {
    asm(&format!("r2 = *(u32 *)(r1 + {begin}); r0 = *(u32 *)(r1 + {end}); r0 -= r2; exit"))
}

/// Increments byte `at` of the packet and returns it.
fn add_one((begin, end): (i16, i16), at: i16) -> Vec<Insn> {
    asm(&format!(
        "r2 = *(u32 *)(r1 + {begin}); r3 = *(u32 *)(r1 + {end}); r4 = r2; r4 += {}; r0 = 255; \
         if r4 > r3 goto +3; r0 = *(u8 *)(r2 + {at}); r0 += 1; *(u8 *)(r2 + {at}) = r0; exit",
        at + 1
    ))
}

/// How a program is run, and the expected result.
struct Case<'a> {
    r#type: ProgramType,
    attach_type: u32,
    insns: Vec<Insn>,
    data: &'a [u8],
    context: &'a [u8],
    value: u32,
    left: &'a [u8],
}

/// Runs of one batch.
const RUNS: u32 = 7;

impl Case<'_> {
    fn check(self) {
        let case = format!("{} (attach type {})", self.r#type, self.attach_type);
        let results = LoadedMap::results(8).expect("a map");
        let mut spec = program(self.r#type);
        spec.attach_type = self.attach_type;
        spec.flags = if self.r#type == ProgramType::SYSCALL { SLEEPABLE } else { 0 };
        let loaded = load_program(&spec, &counting(&self.insns), &[results.as_fd()]);
        let loaded = loaded.unwrap_or_else(|error| panic!("{case}: {error}"));
        let input = RunInput { data: self.data, context: self.context };
        let found = run(&loaded, self.r#type, input, RUNS);
        let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(found.return_value, self.value, "{case}");
        assert_eq!((found.runs, found.retries), (RUNS, 0), "{case}");
        assert_eq!(found.data, self.left, "{case}");
        assert!(found.elapsed_ns > 0 && found.cpu_time_ns > 0, "{case}: {found:?}");
        let counted = results.read_results().expect("read");
        assert_eq!(counted, u64::from(RUNS).to_ne_bytes(), "{case}");
    }
}

const SLEEPABLE: u32 = 1 << 4;

#[test]
fn programs_that_see_the_whole_frame() {
    let Some(()) = can_load() else { return };
    let frame = frame();
    let check = |r#type, attach_type, insns, value, left: &[u8]| {
        Case { r#type, attach_type, insns, data: &frame, context: &[], value, left }.check();
    };
    // Each run continues with the output of the previous one.
    let mut counted = frame.clone();
    counted[20] += RUNS as u8;
    let last = 20 + RUNS;
    check(ProgramType::XDP, 0, packet_len(XDP), 60, &frame);
    check(ProgramType::XDP, 37, add_one(XDP, 20), last, &counted);
    check(ProgramType::SCHED_CLS, 0, first_word(), 60, &frame);
    check(ProgramType::SCHED_CLS, 0, add_one(SKB, 20), last, &counted);
    check(ProgramType::SCHED_CLS, 46, add_one(SKB, 20), last, &counted);
    check(ProgramType::SCHED_ACT, 0, add_one(SKB, 20), last, &counted);
    check(ProgramType::FLOW_DISSECTOR, 17, packet_len(SKB), 60, &[]);
}

/// The kernel removes the Ethernet header for these, and returns one of zeros.
#[test]
fn programs_that_see_what_is_behind_the_ethernet_header() {
    let Some(()) = can_load() else { return };
    let frame = frame();
    let mut bare = frame.clone();
    bare[..14].fill(0);
    let mut counted = bare.clone();
    counted[14 + 20] += RUNS as u8;
    let check = |r#type, attach_type, insns, value, left: &[u8]| {
        Case { r#type, attach_type, insns, data: &frame, context: &[], value, left }.check();
    };
    check(ProgramType::SOCKET_FILTER, 0, first_word(), 46, &bare);
    for attach_type in [0, 1] {
        check(ProgramType::CGROUP_SKB, attach_type, word_is(0, 46), 1, &bare);
        check(ProgramType::CGROUP_SKB, attach_type, word_is(0, 47), 0, &bare);
    }
    check(ProgramType::LWT_IN, 0, first_word(), 46, &bare);
    check(ProgramType::LWT_OUT, 0, packet_len(SKB), 46, &bare);
    check(ProgramType::LWT_XMIT, 0, add_one(SKB, 20), 34 + RUNS, &counted);
}

#[test]
fn packets_that_grow() {
    let Some(()) = can_load() else { return };
    // 16 more bytes in front, all left unchanged by the kernel; the last one is set.
    let insns = asm(
        "r6 = r1; r2 = -16; call xdp_adjust_head; r2 = *(u32 *)(r6 + 0); r3 = *(u32 *)(r6 + 4); \
         r4 = r2; r4 += 16; r0 = 0; if r4 > r3 goto +5; *(u64 *)(r2 + 0) = 0x1111; \
         *(u64 *)(r2 + 8) = 0x2222; r2 = *(u32 *)(r6 + 0); r0 = *(u32 *)(r6 + 4); r0 -= r2; exit",
    );
    let added = [0x1111_u64.to_le_bytes(), 0x2222_u64.to_le_bytes()].concat();
    let frame = frame();
    let left = [added.repeat(RUNS as usize), frame.clone()].concat();
    let (r#type, value) = (ProgramType::XDP, 60 + 16 * RUNS);
    Case { r#type, attach_type: 0, insns, data: &frame, context: &[], value, left: &left }.check();
}

#[test]
fn programs_that_see_a_packet_of_the_network_layer() {
    if can_load().is_none() || !since(6, 4, "programs of netfilter") {
        return;
    }
    let types = KernelTypes::from_kernel().expect("types");
    let skb = types.member_offset_bytes("bpf_nf_ctx", "skb").expect("its socket buffer");
    let len = types.member_offset_bytes("sk_buff", "len").expect("its length");
    let insns =
        |wanted| [asm(&format!("r1 = *(u64 *)(r1 + {skb})")), word_is(len, wanted)].concat();
    let (r#type, attach_type, data) = (ProgramType::NETFILTER, 45, &ip_packet());
    for (wanted, value) in [(40, 1), (41, 0)] {
        let insns = insns(wanted);
        Case { r#type, attach_type, insns, data, context: &[], value, left: &[] }.check();
    }
}

#[test]
fn programs_that_see_a_context_only() {
    let Some(()) = can_load() else { return };
    let check = |r#type, attach_type, insns, context: &[u8], value| {
        // These do not take packet bytes, which are left out.
        Case { r#type, attach_type, insns, data: &[1; 60], context, value, left: &[] }.check();
    };
    // The default: to port 8080, at offset 60 of `struct bpf_sk_lookup`.
    check(ProgramType::SK_LOOKUP, 36, word_is(60, 8080), &[], 1);
    check(ProgramType::SK_LOOKUP, 36, word_is(60, 8081), &[], 0);
    let mut other = ProgramType::SK_LOOKUP.default_context();
    other[60..62].copy_from_slice(&8081_u16.to_ne_bytes());
    check(ProgramType::SK_LOOKUP, 36, word_is(60, 8081), &other, 1);
    // It returns its input, and writes another value, which the next run must not see.
    let takes = asm("r0 = *(u64 *)(r1 + 0); r2 = 99; *(u64 *)(r1 + 0) = r2; exit");
    check(ProgramType::SYSCALL, 0, takes, &41_u64.to_ne_bytes(), 41);
    let adds = asm("r0 = *(u64 *)(r1 + 0); r1 = *(u64 *)(r1 + 8); r0 += r1; exit");
    let arguments = [40_u64.to_ne_bytes(), 2_u64.to_ne_bytes()].concat();
    check(ProgramType::RAW_TRACEPOINT, 0, adds, &arguments, 42);
}

#[test]
fn a_packet_that_grows_with_each_run() {
    let Some(()) = can_load() else { return };
    let grows = asm("r2 = *(u32 *)(r1 + 0); r2 += 1000; r3 = 0; call skb_change_tail; exit");
    let loaded = load_program(&program(ProgramType::SCHED_CLS), &grows, &[]).expect("it loads");
    let frame = frame();
    let check = |repeat, len: usize| {
        let input = RunInput { data: &frame, context: &[] };
        let found = run(&loaded, ProgramType::SCHED_CLS, input, repeat).expect("it runs");
        assert_eq!((found.return_value, found.runs), (0, repeat));
        assert_eq!(found.data.len(), len, "{repeat}");
        assert!(found.data.starts_with(&frame));
    };
    check(1, 1060);
    // Far beyond its old size.
    check(12, 12_060);
}

/// Runs an empty program of a type under the rules of `rules`; the kernel uses the program's.
fn outcome(r#type: ProgramType, rules: ProgramType) -> Option<Result<(), RunError>> {
    let mut spec = program(r#type);
    spec.attach_type = match r#type {
        ProgramType::CGROUP_SOCK_ADDR => 10,
        ProgramType::CGROUP_SOCKOPT => 21,
        ProgramType::SK_LOOKUP => 36,
        ProgramType::SK_REUSEPORT => 39,
        ProgramType::NETFILTER => 45,
        _ => 0,
    };
    spec.flags = if r#type == ProgramType::SYSCALL { SLEEPABLE } else { 0 };
    let loaded = load_program(&spec, &give(1), &[]).ok()?;
    let data: &[u8] = if r#type == ProgramType::NETFILTER { &ip_packet() } else { &frame() };
    Some(run(&loaded, rules, RunInput { data, context: &[] }, 1).map(drop))
}

/// Types of which this kernel runs only some programs, unlike those here.
const ONLY_OWN: [ProgramType; 2] = [ProgramType::TRACING, ProgramType::STRUCT_OPS];

#[test]
fn the_table_of_handlers_is_that_of_the_kernel() {
    let Some(()) = can_load() else { return };
    let mut refused = Vec::new();
    for r#type in (1..=ProgramType::NETFILTER.0).map(ProgramType) {
        let is_there = r#type != ProgramType::NETFILTER || since(6, 4, "programs of netfilter");
        if ONLY_OWN.contains(&r#type) || !is_there {
            continue;
        }
        if r#type.test_run().is_some() {
            let ran = outcome(r#type, r#type);
            assert!(matches!(ran, Some(Ok(()))), "{type} should be run: {ran:?}");
            continue;
        }
        // Without a handler: rejected here, and the kernel would reject it too.
        let Some(found) = outcome(r#type, r#type) else { continue };
        let error = found.expect_err("there is no handler");
        assert_eq!(
            error.to_string(),
            format!(
                "programs of type {type} cannot be run on demand: only the event itself runs them; \
                 attach it and use `wingbeat live`"
            )
        );
        let error = outcome(r#type, ProgramType::XDP).expect("it was loaded before");
        assert!(matches!(error, Err(RunError::NotHere(_))), "{type}: {error:?}");
        refused.push(r#type);
    }
    for r#type in [
        ProgramType::KPROBE,
        ProgramType::TRACEPOINT,
        ProgramType::PERF_EVENT,
        ProgramType::CGROUP_SOCK,
        ProgramType::CGROUP_DEVICE,
        ProgramType::SOCK_OPS,
        ProgramType::LWT_SEG6LOCAL,
    ] {
        assert!(refused.contains(&r#type), "{type} was not tried");
    }
}

#[test]
fn inputs_that_the_kernel_does_not_take() {
    let Some(()) = can_load() else { return };
    let check =
        |r#type: ProgramType, attach_type, insns: &[Insn], input: RunInput<'_>, expected: &str| {
            let mut spec = program(r#type);
            spec.attach_type = attach_type;
            let loaded = load_program(&spec, insns, &[]).expect("it loads");
            match run(&loaded, r#type, input, 1) {
                Ok(_) => panic!("{type} runs, without {expected:?}"),
                Err(error) => assert!(error.to_string().contains(expected), "{type}: {error}"),
            }
        };
    let bytes = |data| RunInput { data, context: &[] };
    let xdp = packet_len(XDP);
    check(
        ProgramType::XDP,
        0,
        &xdp,
        bytes(&[0; 13]),
        "(13 bytes of packet, 0 of context): Invalid argument (os error 22); this packet must have \
         at least 14 bytes, for its headers",
    );
    let mut short = frame()[..33].to_vec();
    short[12..14].copy_from_slice(&[8, 0]);
    check(ProgramType::SCHED_CLS, 0, &first_word(), bytes(&short), "at least 34 bytes");
    let accept = give(1);
    if since(6, 4, "programs of netfilter") {
        let netfilter = ProgramType::NETFILTER;
        check(netfilter, 45, &accept, bytes(&[0x45; 19]), "begins with its IP header");
        check(netfilter, 45, &accept, bytes(&[0x45; 5000]), "must fit into a page");
    }
    check(ProgramType::RAW_TRACEPOINT, 0, &first_word(), bytes(&[]), "a context");
    let context = |at: usize| {
        let mut context = vec![0; 192];
        context[at] = 200;
        context
    };
    // The length, and the interface's number, of `struct __sk_buff`.
    let zero = "most fields of a context must be zero";
    for (at, expected) in [(0, zero), (40, "names a network interface that does not exist")] {
        let (data, context) = (frame(), context(at));
        let input = RunInput { data: &data, context: &context };
        check(ProgramType::SCHED_CLS, 0, &first_word(), input, expected);
    }
}

// Runs interrupted by signals: they are repeated, counted, and shortened if that does not help.

/// Runs that take some hundredths of a second.
const RUNS_IN_STORM: u32 = 3_000_000;

/// Counts its runs in the first bytes of the packet and returns the count. Each call begins with a
/// fresh packet, so the result counts only the runs of the last call.
fn counter() -> Loaded {
    let insns = asm(
        "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r4 = r2; r4 += 4; r0 = 0; if r4 > r3 goto +3; \
         r0 = *(u32 *)(r2 + 0); r0 += 1; *(u32 *)(r2 + 0) = r0; exit",
    );
    load_program(&program(ProgramType::XDP), &insns, &[]).expect("it loads")
}

/// Runs the counter while another thread sends this many signals to this one, at this interval.
fn run_in_storm(signals: u32, every: Duration) -> (ProgramRun, u32) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install_handler);
    let program = counter();
    let (is_over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    // SAFETY: the call has no conditions.
    let target = unsafe { libc::pthread_self() };
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) && sent.load(Relaxed) < signals {
                thread::sleep(every);
                // SAFETY: the scope keeps that thread alive until this one has ended.
                let result = unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                assert_eq!(result, 0);
                sent.fetch_add(1, Relaxed);
            }
        });
        let found = run_packet(&program, ProgramType::XDP, &[0; 64], RUNS_IN_STORM);
        is_over.store(true, Relaxed);
        found
    });
    (found.expect("it runs"), sent.into_inner())
}

/// Installs an empty handler, after which system calls are not restarted.
fn install_handler() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all zero is a valid structure: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the structure is complete, and the handler is async-signal-safe.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Checks that the reported batch is the one that finished.
fn check_batch(found: &ProgramRun) {
    assert_eq!(found.return_value, found.runs, "runs of the last call");
    assert_eq!(found.data[..4], found.runs.to_le_bytes());
    assert_eq!(found.data.len(), 64);
    // The kernel's mean is of elapsed time, whether or not this thread was running.
    let batch_ns = u64::from(found.mean_ns) * u64::from(found.runs);
    assert!(batch_ns > 0 && found.elapsed_ns >= batch_ns, "{found:?}");
}

#[test]
fn a_few_signals_cost_a_few_retries() {
    let Some(()) = can_load() else { return };
    let (found, sent) = run_in_storm(2, Duration::from_millis(3));
    check_batch(&found);
    assert_eq!(found.runs, RUNS_IN_STORM, "as many as asked for");
    assert_eq!(sent, 2, "the run was over before the signals came");
    assert!((1..=2).contains(&found.retries), "{found:?}");
}

#[test]
fn signals_that_never_cease_make_batches_shorter() {
    let Some(()) = can_load() else { return };
    let (found, sent) = run_in_storm(u32::MAX, Duration::from_millis(1));
    check_batch(&found);
    assert!((1..RUNS_IN_STORM).contains(&found.runs), "{found:?}");
    assert!(found.retries >= 4 && found.retries <= sent, "{found:?}, {sent} signals");
}

#[test]
fn a_thread_that_blocks_signals_is_not_interrupted() {
    let Some(()) = can_load() else { return };
    // Only for this thread, which ends with the test.
    Alarm::never().settle().expect("blocked");
    let (found, sent) = run_in_storm(u32::MAX, Duration::from_millis(1));
    check_batch(&found);
    assert_eq!((found.runs, found.retries), (RUNS_IN_STORM, 0));
    assert!(sent > 1, "the run was over before the signals came");
}
