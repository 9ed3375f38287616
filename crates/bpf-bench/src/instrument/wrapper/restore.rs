//! Restores the packet and its metadata after a run, so that the next run gets the requested input.
//!
//! The same restoring code runs around both alternating programs, so that its cost is in both
//! times. It therefore does the same work whatever the program did: it calls a helper even if there
//! is nothing to move. Changes that it cannot undo show in the packet that the kernel returns, and
//! in the return value of the last run: callers must check both.

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, Insn, op},
};

use super::instructions;
use super::{alu, alu_immediate, call_helper, load, store};

/// Helper ids (include/uapi/linux/bpf.h, Linux 6.18).
const SKB_STORE_BYTES: i32 = 9;
const SKB_LOAD_BYTES: i32 = 26;
const XDP_ADJUST_HEAD: i32 = 44;
const XDP_ADJUST_META: i32 = 54;
const XDP_ADJUST_TAIL: i32 = 65;
const XDP_LOAD_BYTES: i32 = 189;
const XDP_STORE_BYTES: i32 = 190;

/// Helpers with changes to a socket buffer that are too expensive to undo: skb_vlan_push and _pop,
/// skb_change_proto, _type, _tail and _head, skb_adjust_room.
const SKB_CHANGES: [i32; 7] = [18, 19, 31, 32, 38, 43, 50];

/// Members of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;

/// Members of `struct __sk_buff` that a classifier may write: mark, queue_mapping, priority,
/// tc_index, cb, tc_classid (`tc_cls_act_is_valid_access` in net/core/filter.c, Linux 6.18).
const SKB_MEMBERS: [i16; 10] = [8, 12, 32, 44, 48, 52, 56, 60, 64, 72];

/// Offsets of the saved state: the original packet start and end, or the context members; then the packet.
const KEPT_DATA: i16 = 0;
const KEPT_END: i16 = 8;
const KEPT_PACKET: i16 = 4 * SKB_MEMBERS.len() as i16;

/// Maximum packet size of these helpers.
const PACKET_BYTES_MAX: usize = 0xffff;

/// State to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    kind: Kind,
    packet_bytes: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// XDP, with the adjustments that the programs can make.
    Xdp {
        head: bool,
        tail: bool,
        meta: bool,
    },
    Skb,
}

impl Restored {
    /// State to restore for programs of a type on a packet of this length; `None` if bytecode cannot restore it.
    pub fn of(r#type: ProgramType, packet_bytes: usize, programs: [&Code; 2]) -> Option<Self> {
        let calls = |helper: i32| {
            let is_call =
                |insn: Insn| insn.opcode == op::CALL && insn.src() == 0 && insn.immediate == helper;
            programs.iter().any(|code| instructions(code).any(|(_, insn)| is_call(insn)))
        };
        let kind = match r#type {
            ProgramType::XDP => Kind::Xdp {
                head: calls(XDP_ADJUST_HEAD),
                tail: calls(XDP_ADJUST_TAIL),
                meta: calls(XDP_ADJUST_META),
            },
            ProgramType::SCHED_CLS | ProgramType::SCHED_ACT
                if !SKB_CHANGES.into_iter().any(calls) =>
            {
                Kind::Skb
            }
            _ => return None,
        };
        let fits = (1..=PACKET_BYTES_MAX).contains(&packet_bytes);
        let packet_bytes = u16::try_from(packet_bytes).ok().filter(|_| fits)?;
        Some(Self { kind, packet_bytes })
    }

    /// Bytes needed in the map's value.
    #[must_use]
    pub fn value_size(self) -> usize {
        KEPT_PACKET as usize + usize::from(self.packet_bytes).next_multiple_of(8)
    }

    /// Saves the state at offset `at` of the map's value. r6 holds the context, r8 the address of
    /// the value; clobbers r0 to r5.
    pub(super) fn keep(self, at: i16) -> Vec<Insn> {
        let mut insns = Vec::new();
        match self.kind {
            Kind::Xdp { .. } => {
                for (member, kept) in [(DATA, KEPT_DATA), (DATA_END, KEPT_END)] {
                    insns.extend(place(1, member));
                    insns.push(store(8, at + kept, 1));
                }
                insns.extend(self.transfer(at, XDP_LOAD_BYTES));
            }
            Kind::Skb => {
                for (kept, member) in members(at) {
                    insns.extend([load_word(1, 6, member), store_word(8, kept, 1)]);
                }
                insns.extend(self.transfer(at, SKB_LOAD_BYTES));
            }
        }
        insns
    }

    /// Restores the state, under the same conditions.
    pub(super) fn put_back(self, at: i16) -> Vec<Insn> {
        let mut insns = Vec::new();
        match self.kind {
            Kind::Xdp { head, tail, meta } => {
                if meta {
                    // No metadata: it ends where the packet begins.
                    insns.extend([load_word(2, 6, DATA), load_word(3, 6, DATA_META)]);
                    insns.extend([alu(op::SUB, 2, 3), alu(op::MOV, 1, 6)]);
                    insns.push(call_helper(XDP_ADJUST_META));
                }
                // Moves the end first: some packet must remain after its beginning.
                let moves = [
                    (tail, DATA_END, KEPT_END, XDP_ADJUST_TAIL),
                    (head, DATA, KEPT_DATA, XDP_ADJUST_HEAD),
                ];
                for (_, member, kept, helper) in moves.into_iter().filter(|it| it.0) {
                    insns.extend(place(3, member));
                    insns.extend([load(2, 8, at + kept), alu(op::SUB, 2, 3)]);
                    insns.extend([alu(op::MOV, 1, 6), call_helper(helper)]);
                }
                insns.extend(self.transfer(at, XDP_STORE_BYTES));
            }
            Kind::Skb => {
                insns.extend(self.transfer(at, SKB_STORE_BYTES));
                for (kept, member) in members(at) {
                    insns.extend([load_word(1, 8, kept), store_word(6, member, 1)]);
                }
            }
        }
        insns
    }

    /// Calls a helper that copies the whole packet to the saved state or back. Only one of the helpers takes flags.
    fn transfer(self, at: i16, helper: i32) -> [Insn; 7] {
        [
            alu(op::MOV, 1, 6),
            alu_immediate(op::MOV, 2, 0),
            alu(op::MOV, 3, 8),
            alu_immediate(op::ADD, 3, (at + KEPT_PACKET).into()),
            alu_immediate(op::MOV, 4, self.packet_bytes.into()),
            alu_immediate(op::MOV, 5, 0),
            call_helper(helper),
        ]
    }
}

/// Distance of an address in the context from the context: a number, not an address.
fn place(dst: u8, member: i16) -> [Insn; 2] {
    [load_word(dst, 6, member), alu(op::SUB, dst, 6)]
}

/// Save location of each member of a socket buffer's context.
fn members(at: i16) -> impl Iterator<Item = (i16, i16)> {
    (at..).step_by(4).zip(SKB_MEMBERS)
}

const fn load_word(dst: u8, base: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | op::W, dst, base, offset, 0)
}

const fn store_word(base: u8, offset: i16, src: u8) -> Insn {
    Insn::new(op::STX | op::MEM | op::W, base, src, offset, 0)
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_loader::code::{FunctionInfo, disassemble::Listing};

    use super::*;

    fn code(insns: Vec<Insn>) -> Code {
        let functions = vec![FunctionInfo { insn_index: 0, name: "f".to_owned(), type_id: None }];
        Code { insns, functions, lines: Vec::new() }
    }

    #[test]
    fn only_what_a_program_can_move_is_moved_back() {
        let check = |helpers: &[i32], expected: &[i32]| {
            let moving = code(helpers.iter().map(|&number| call_helper(number)).collect());
            let restored = Restored::of(ProgramType::XDP, 64, [&code(Vec::new()), &moving]);
            let insns = restored.expect("an XDP program").put_back(0);
            let called = insns.iter().filter(|insn| insn.opcode == op::CALL);
            let called: Vec<i32> = called.map(|insn| insn.immediate).collect();
            assert_eq!(called, expected, "{helpers:?}");
        };
        check(&[], &[XDP_STORE_BYTES]);
        check(&[XDP_ADJUST_HEAD], &[XDP_ADJUST_HEAD, XDP_STORE_BYTES]);
        check(
            &[XDP_ADJUST_HEAD, XDP_ADJUST_TAIL, XDP_ADJUST_META],
            &[XDP_ADJUST_META, XDP_ADJUST_TAIL, XDP_ADJUST_HEAD, XDP_STORE_BYTES],
        );
    }

    #[test]
    fn what_no_code_can_put_back() {
        let check = |r#type, bytes, expected| {
            let nothing = code(Vec::new());
            let found = Restored::of(r#type, bytes, [&nothing, &nothing]);
            assert_eq!(found.is_some(), expected, "{type} {bytes}");
        };
        check(ProgramType::XDP, 64, true);
        check(ProgramType::SCHED_CLS, 1500, true);
        check(ProgramType::SCHED_CLS, 0, false);
        check(ProgramType::XDP, 0x1_0000, false);
        check(ProgramType::CGROUP_SKB, 64, false);
        let moving = code(vec![call_helper(38)]);
        assert_eq!(Restored::of(ProgramType::SCHED_CLS, 64, [&moving, &moving]), None);
    }

    #[test]
    fn a_head_is_put_back_by_the_distance() {
        let moving = code(vec![call_helper(XDP_ADJUST_HEAD)]);
        let restored = Restored::of(ProgramType::XDP, 60, [&moving, &moving]).expect("XDP");
        let listing = Listing::new(&code(restored.put_back(100))).to_string();
        let expected = "\
f:
    0: r3 = *(u32 *)(r6 + 0)
    1: r3 -= r6
    2: r2 = *(u64 *)(r8 + 100)
    3: r2 -= r3
    4: r1 = r6
    5: call bpf_xdp_adjust_head
    6: r1 = r6
    7: r2 = 0
    8: r3 = r8
    9: r3 += 140
   10: r4 = 60
   11: r5 = 0
   12: call bpf_xdp_store_bytes
";
        assert_eq!(listing, expected);
        assert_eq!(restored.value_size(), 40 + 64);
    }
}
