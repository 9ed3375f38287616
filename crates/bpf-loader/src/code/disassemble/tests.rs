//! Each kind of instruction with its text, in the format of `llvm-objdump -d --print-imm-hex=false`
//! of LLVM 22, except for the differences described in the module.

use proptest::prelude::*;

use super::*;
use crate::code::FunctionInfo;

fn insn_text(insn: Insn, next: Option<Insn>) -> String {
    text(insn, next, Location(None))
}

#[track_caller]
fn check(bytes: [u8; 8], expected: &str) {
    assert_eq!(insn_text(Insn::from_bytes(bytes), None), expected, "{bytes:02x?}");
}

#[test]
fn arithmetic() {
    check([0xbf, 0x21, 0, 0, 0, 0, 0, 0], "r1 = r2");
    check([0xbc, 0x21, 0, 0, 0, 0, 0, 0], "w1 = w2");
    check([0xb7, 1, 0, 0, 0xfb, 0xff, 0xff, 0xff], "r1 = -5");
    check([0xb4, 0, 0, 0, 1, 0, 0, 0], "w0 = 1");
    check([0x04, 0, 0, 0, 1, 0, 0, 0], "w0 += 1");
    check([0x1f, 0x21, 0, 0, 0, 0, 0, 0], "r1 -= r2");
    check([0x27, 5, 0, 0, 0x39, 0x30, 0, 0], "r5 *= 12345");
    check([0x3f, 0x56, 0, 0, 0, 0, 0, 0], "r6 /= r5");
    check([0x3f, 0x56, 1, 0, 0, 0, 0, 0], "r6 s/= r5");
    check([0x34, 4, 1, 0, 7, 0, 0, 0], "w4 s/= 7");
    check([0x97, 2, 0, 0, 7, 0, 0, 0], "r2 %= 7");
    check([0x9c, 0x12, 1, 0, 0, 0, 0, 0], "w2 s%= w1");
    check([0x47, 5, 0, 0, 1, 0, 0, 0], "r5 |= 1");
    check([0x54, 2, 0, 0, 0xf8, 0xff, 0xff, 0xff], "w2 &= -8");
    check([0xaf, 0x12, 0, 0, 0, 0, 0, 0], "r2 ^= r1");
    check([0x67, 5, 0, 0, 3, 0, 0, 0], "r5 <<= 3");
    check([0x7c, 0x32, 0, 0, 0, 0, 0, 0], "w2 >>= w3");
    check([0xcf, 0x45, 0, 0, 0, 0, 0, 0], "r5 s>>= r4");
    check([0x87, 4, 0, 0, 0, 0, 0, 0], "r4 = -r4");
    check([0x84, 2, 0, 0, 0, 0, 0, 0], "w2 = -w2");
}

#[test]
fn moves_that_convert() {
    check([0xbf, 0x45, 8, 0, 0, 0, 0, 0], "r5 = (s8)r4");
    check([0xbf, 0x45, 16, 0, 0, 0, 0, 0], "r5 = (s16)r4");
    check([0xbf, 0x45, 32, 0, 0, 0, 0, 0], "r5 = (s32)r4");
    check([0xbc, 0x44, 8, 0, 0, 0, 0, 0], "w4 = (s8)w4");
    check([0xdc, 1, 0, 0, 16, 0, 0, 0], "r1 = be16 r1");
    check([0xd4, 1, 0, 0, 64, 0, 0, 0], "r1 = le64 r1");
    check([0xd7, 2, 0, 0, 32, 0, 0, 0], "r2 = bswap32 r2");
    check([0xbf, 0x12, 1, 0, 1, 0, 0, 0], "r2 = addr_space_cast(r1, 0, 1)");
    check([0xbf, 0x12, 1, 0, 0, 0, 1, 0], "r2 = addr_space_cast(r1, 1, 0)");
}

#[test]
fn memory() {
    check([0x61, 0x61, 8, 0, 0, 0, 0, 0], "r1 = *(u32 *)(r6 + 8)");
    check([0x79, 0xa2, 0xe8, 0xff, 0, 0, 0, 0], "r2 = *(u64 *)(r10 - 24)");
    check([0x69, 0x81, 12, 0, 0, 0, 0, 0], "r1 = *(u16 *)(r8 + 12)");
    check([0x71, 0x81, 0, 0x80, 0, 0, 0, 0], "r1 = *(u8 *)(r8 - 32768)");
    check([0x91, 0x83, 3, 0, 0, 0, 0, 0], "r3 = *(s8 *)(r8 + 3)");
    check([0x89, 0x80, 4, 0, 0, 0, 0, 0], "r0 = *(s16 *)(r8 + 4)");
    check([0x81, 0x81, 0, 0, 0, 0, 0, 0], "r1 = *(s32 *)(r8 + 0)");
    check([0x62, 10, 0xfc, 0xff, 0, 0, 0, 0], "*(u32 *)(r10 - 4) = 0");
    check([0x7a, 6, 0, 0, 0xf8, 0xff, 0xff, 0xff], "*(u64 *)(r6 + 0) = -8");
    check([0x73, 0x12, 1, 0, 0, 0, 0, 0], "*(u8 *)(r2 + 1) = r1");
    check([0x30, 0, 0, 0, 12, 0, 0, 0], "r0 = *(u8 *)skb[12]");
    check([0x48, 0x10, 0, 0, 0, 0, 0, 0], "r0 = *(u16 *)skb[r1]");
    check([0x40, 0x10, 0, 0, 14, 0, 0, 0], "r0 = *(u32 *)skb[r1 + 14]");
}

#[test]
fn atomic_operations() {
    check([0xdb, 0x21, 0, 0, 0, 0, 0, 0], "lock *(u64 *)(r1 + 0) += r2");
    check([0xc3, 0x21, 4, 0, 0xa0, 0, 0, 0], "lock *(u32 *)(r1 + 4) ^= r2");
    check([0xdb, 0x21, 0, 0, 1, 0, 0, 0], "r2 = atomic_fetch_add((u64 *)(r1 + 0), r2)");
    check([0xc3, 0x21, 0, 0, 0x41, 0, 0, 0], "r2 = atomic_fetch_or((u32 *)(r1 + 0), r2)");
    check([0xdb, 0x21, 0, 0, 0x51, 0, 0, 0], "r2 = atomic_fetch_and((u64 *)(r1 + 0), r2)");
    check([0xdb, 0x21, 0, 0, 0xe1, 0, 0, 0], "r2 = atomic_xchg((u64 *)(r1 + 0), r2)");
    check([0xdb, 0x21, 0, 0, 0xf1, 0, 0, 0], "r0 = atomic_cmpxchg((u64 *)(r1 + 0), r0, r2)");
    check([0xcb, 0x21, 0, 0, 0, 1, 0, 0], "r1 = load_acquire((u16 *)(r2 + 0))");
    check([0xd3, 0x32, 1, 0, 0x10, 1, 0, 0], "store_release((u8 *)(r2 + 1), r3)");
}

#[test]
fn jumps_and_calls() {
    check([0x25, 1, 3, 0, 5, 0, 0, 0], "if r1 > 5 goto +3");
    check([0x1d, 0x21, 0xfd, 0xff, 0, 0, 0, 0], "if r1 == r2 goto -3");
    check([0x45, 1, 1, 0, 8, 0, 0, 0], "if r1 & 8 goto +1");
    check([0x56, 1, 1, 0, 0, 0, 0, 0], "if w1 != 0 goto +1");
    check([0xae, 0x21, 0, 0, 0, 0, 0, 0], "if w1 < w2 goto +0");
    check([0xc5, 1, 3, 0, 6, 0, 0, 0], "if r1 s< 6 goto +3");
    check([0x7d, 0x21, 3, 0, 0, 0, 0, 0], "if r1 s>= r2 goto +3");
    check([0x05, 0, 3, 0, 0, 0, 0, 0], "goto +3");
    check([0x06, 0, 0, 0, 0x60, 0x79, 0xfe, 0xff], "gotol -100000");
    check([0xe5, 0, 3, 0, 0, 0, 0, 0], "may_goto +3");
    check([0x0d, 1, 0, 0, 0, 0, 0, 0], "gotox r1");
    check([0x85, 0, 0, 0, 1, 0, 0, 0], "call bpf_map_lookup_elem");
    // Inserted by libbpf for a helper that cannot be relocated.
    check([0x85, 0, 0, 0, 0x10, 0x23, 0xad, 0x0b], "call helper#195896080");
    check([0x85, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], "call helper#-1");
    check([0x85, 0x10, 0, 0, 12, 0, 0, 0], "call +12");
    check([0x85, 0x20, 0, 0, 123, 0, 0, 0], "call kfunc#123");
    check([0x85, 0x20, 2, 0, 123, 0, 0, 0], "call kfunc#123 of module 2");
    check([0x8d, 1, 0, 0, 0, 0, 0, 0], "callx r1");
    check([0x95, 0, 0, 0, 0, 0, 0, 0], "exit");
}

#[test]
fn what_is_no_instruction() {
    check([0, 0, 0, 0, 0, 0, 0, 0], ".insn 0x0000000000000000");
    check([0xff, 0x21, 3, 0, 1, 2, 3, 4], ".insn 0xff21030001020304");
    // Register 11 does not exist, and these operations do not have these fields.
    check([0xbf, 0x1b, 0, 0, 0, 0, 0, 0], ".insn 0xbf1b000000000000");
    check([0xbf, 0x21, 0, 0, 1, 0, 0, 0], ".insn 0xbf21000001000000");
    check([0x95, 1, 0, 0, 0, 0, 0, 0], ".insn 0x9501000000000000");
    check([0xbc, 0x21, 32, 0, 0, 0, 0, 0], ".insn 0xbc21200000000000");
    check([0xd7, 2, 0, 0, 24, 0, 0, 0], ".insn 0xd702000018000000");
    check([0xcb, 0x21, 0, 0, 0, 0, 0, 0], ".insn 0xcb21000000000000");
    check([0xdb, 0x21, 0, 0, 0xe0, 0, 0, 0], ".insn 0xdb210000e0000000");
    check([0x99, 0x21, 0, 0, 0, 0, 0, 0], ".insn 0x9921000000000000");
    check([0x85, 1, 0, 0, 1, 0, 0, 0], ".insn 0x8501000001000000");
}

#[test]
fn loads_of_64_bits() {
    let check = |source, low, high, expected: &str| {
        let first = Insn::new(op::LDIMM64, 1, source, 0, low);
        assert_eq!(insn_text(first, Some(Insn::new(0, 0, 0, 0, high))), expected);
    };
    check(0, 5, 0, "r1 = 0x5 ll");
    check(0, -1, 1, "r1 = 0x1ffffffff ll");
    check(0, -2, -1, "r1 = 0xfffffffffffffffe ll");
    check(op::PSEUDO_MAP_FD, 5, 0, "r1 = map[fd:5]");
    check(op::PSEUDO_MAP_VALUE, 5, 16, "r1 = map[fd:5][0] + 16");
    check(op::PSEUDO_MAP_INDEX, 2, 0, "r1 = map[index:2]");
    check(op::PSEUDO_MAP_INDEX_VALUE, 2, 0, "r1 = map[index:2][0] + 0");
    check(op::PSEUDO_BTF_ID, 77, 0, "r1 = ksym[btf:77]");
    check(op::PSEUDO_BTF_ID, 77, 9, "r1 = ksym[btf:77 in fd:9]");
    check(op::PSEUDO_FUNC, 7, 0, "r1 = func +7");
    check(7, 7, 0, ".insn 0x1871000007000000");

    let alone = Insn::new(op::LDIMM64, 1, 0, 0, 5);
    assert_eq!(insn_text(alone, None), ".insn 0x1801000005000000");
    let followed_by_exit = insn_text(alone, Some(Insn::new(op::EXIT, 0, 0, 0, 0)));
    assert_eq!(followed_by_exit, ".insn 0x1801000005000000");
}

/// Two functions, the second with a name, and a call into the middle of a function.
fn code() -> Code {
    let wide =
        |dst, source, first| [Insn::new(op::LDIMM64, dst, source, 0, first), Insn::default()];
    let call = |source, callee| Insn::new(op::CALL, 0, source, 0, callee);
    let rest = [
        call(op::PSEUDO_KFUNC_CALL, 123),
        call(op::PSEUDO_CALL, 3),
        Insn::new(op::JMP | op::JEQ, 0, 0, 1, 0),
        call(op::PSEUDO_CALL, 99),
        Insn::new(op::EXIT, 0, 0, 0, 0),
        Insn::new(op::JA, 0, 0, -2, 0),
    ];
    let insns = [&wide(2, op::PSEUDO_MAP_FD, 5), &wide(1, op::PSEUDO_FUNC, 6), &rest[..]].concat();
    let function =
        |insn_index, name: &str| FunctionInfo { insn_index, name: name.to_owned(), type_id: None };
    Code { insns, functions: vec![function(0, "entry"), function(9, "callee")], lines: Vec::new() }
}

#[test]
fn listings() {
    let expected = "\
entry:
    0: r2 = map[fd:5]
    2: r1 = func callee
    4: call kfunc#123
    5: call callee
    6: if r0 == 0 goto +1 <8>
    7: call +99
    8: exit
callee:
    9: goto -2 <8>
";
    let code = code();
    let listing = Listing::new(&code);
    assert_eq!(listing.to_string(), expected);
    assert_eq!(listing.at(0).map(|listed| listed.insn_count), Some(2));
    assert_eq!(listing.at(9).and_then(|listed| listed.function), code.functions.get(1));
    assert_eq!(listing.at(10), None);
}

#[test]
fn functions_without_names_are_places() {
    let mut code = code();
    for function in &mut code.functions {
        function.name.clear();
    }
    let texts: Vec<_> = Listing::new(&code).iter().map(|listed| listed.text).collect();
    assert_eq!(texts.get(1).map(String::as_str), Some("r1 = func +6"));
    assert_eq!(texts.get(3).map(String::as_str), Some("call +3 <9>"));
}

/// Any instruction, mostly valid ones.
fn any_insn() -> impl Strategy<Value = Insn> {
    let registers = prop_oneof![Just(0), Just(0x01), Just(0x10), Just(0x21), any::<u8>()];
    let offset = prop_oneof![3 => Just(0), 1 => Just(1), 1 => any::<i16>()];
    let immediate = prop_oneof![3 => Just(0), 1 => 0..0x120, 1 => any::<i32>()];
    (any::<u8>(), registers, offset, immediate).prop_map(
        |(opcode, registers, offset, immediate)| Insn { opcode, registers, offset, immediate },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn a_text_stands_for_one_instruction(insn in any_insn(), bit in 0_usize..64, is_wide: bool) {
        let next = is_wide.then(Insn::default);
        let mut other = insn.to_bytes();
        other[bit / 8] ^= 1 << (bit % 8);
        let other = Insn::from_bytes(other);
        prop_assert_ne!(insn_text(insn, next), insn_text(other, next));
    }
}

proptest! {
    #[test]
    fn a_listing_covers_every_instruction(
        bytes in prop::collection::vec(any::<[u8; 8]>(), 0..40),
        wide in prop::collection::vec(any::<bool>(), 40),
    ) {
        let insns = bytes.iter().zip(wide).map(|(&bytes, is_wide)| {
            if is_wide { Insn::new(op::LDIMM64, 0, 0, 0, 7) } else { Insn::from_bytes(bytes) }
        });
        let code = Code { insns: insns.collect(), ..Code::default() };
        let covered: usize = Listing::new(&code).iter().map(|listed| listed.insn_count).sum();
        prop_assert_eq!(covered, code.insns.len());
    }
}
