//! Helpers that access a packet by offset and update its checksums.

use super::{
    maps::EINVAL,
    packet::{ETHERNET, Packet},
};
use crate::{Step, machine::Answer, memory::Memory};

const EFAULT: i64 = -14;

/// Flag bits of checksum helpers (include/uapi/linux/bpf.h).
const FIELD_BYTES: u64 = 0xf;
const PSEUDO_HEADER: u64 = 1 << 4;
const MARK_ZERO: u64 = 1 << 5;
const ENFORCE: u64 = 1 << 6;

/// `bpf_skb_load_bytes`, which zero-fills on failure, and `bpf_xdp_load_bytes`, which does not.
pub(super) fn load_bytes(
    packet: &Packet,
    memory: &mut Memory,
    [offset, to, len]: [u64; 3],
) -> Step<Answer> {
    match packet.address(offset & u64::from(u32::MAX), len) {
        Some(address) => {
            let bytes = memory.bytes(address, len as usize)?;
            memory.put(to, &bytes)?;
            Answer::of(0)
        }
        None => {
            if !packet.is_xdp {
                memory.put(to, &vec![0; len as usize])?;
            }
            Answer::of(if packet.is_xdp { EINVAL } else { EFAULT })
        }
    }
}

/// `bpf_skb_store_bytes` and `bpf_xdp_store_bytes`.
pub(super) fn store_bytes(
    packet: &Packet,
    memory: &mut Memory,
    [offset, from, len]: [u64; 3],
) -> Step<Answer> {
    let bytes = memory.bytes(from, len as usize)?;
    match packet.address(offset & u64::from(u32::MAX), len) {
        Some(address) => {
            memory.put(address, &bytes)?;
            Answer::of(0)
        }
        None => Answer::of(if packet.is_xdp { EINVAL } else { EFAULT }),
    }
}

/// `bpf_csum_diff`.
pub(super) fn csum_diff(
    memory: &Memory,
    [from, from_len, to, to_len, seed]: [u64; 5],
) -> Step<Answer> {
    let lens = [from_len, to_len].map(|len| len & u64::from(u32::MAX));
    if lens.iter().any(|len| len % 4 != 0) {
        return Answer::of(EINVAL);
    }
    let bytes = |address: u64, len: u64| match len {
        0 => Ok(Vec::new()),
        _ => memory.bytes(address, len as usize),
    };
    let diff = checksum::diff(&bytes(from, lens[0])?, &bytes(to, lens[1])?, seed as u32);
    Answer::of(i64::from(diff))
}

/// `bpf_l3_csum_replace` and `bpf_l4_csum_replace`, the latter for checksums over a pseudo header.
pub(super) fn csum_replace(
    packet: &Packet,
    memory: &mut Memory,
    [offset, from, to, flags]: [u64; 4],
    is_l4: bool,
) -> Step<Answer> {
    let known = if is_l4 { FIELD_BYTES | PSEUDO_HEADER | MARK_ZERO | ENFORCE } else { FIELD_BYTES };
    if flags & !known != 0 {
        return Answer::of(EINVAL);
    }
    let offset = offset & u64::from(u32::MAX);
    if offset > 0xffff || offset % 2 != 0 {
        return Answer::of(EFAULT);
    }
    let Some(address) = packet.address(offset, 2) else { return Answer::of(EFAULT) };
    let old = memory.read(address, 2)? as u16;
    let marks = flags & MARK_ZERO != 0;
    if marks && flags & ENFORCE == 0 && old == 0 {
        return Answer::of(0);
    }
    let unfolded = u32::from(!old);
    let new = match flags & FIELD_BYTES {
        0 if from == 0 => checksum::add(to as u32, unfolded),
        2 => {
            let without = checksum::sub(unfolded, u32::from(from as u16));
            checksum::add(without, u32::from(to as u16))
        }
        4 => checksum::add(checksum::sub(unfolded, from as u32), to as u32),
        _ => return Answer::of(EINVAL),
    };
    let new = match checksum::folded(new) {
        0 if marks => 0xffff,
        new => new,
    };
    memory.put(address, &new.to_le_bytes())?;
    Answer::of(0)
}

const EACCES: i64 = -13;
/// Maximum bytes of metadata (`xdp_metalen_invalid`, include/net/xdp.h, Linux 6.18).
const META_MAX: i64 = 252;

/// `bpf_xdp_adjust_head`: moves the metadata as well.
pub(super) fn adjust_head(packet: &mut Packet, memory: &mut Memory, by: u64) -> Step<Answer> {
    let by = i64::from(by as i32);
    let (meta, data) = (packet.meta as i64 + by, packet.data as i64 + by);
    if !Packet::is_in_frame(meta) || data > packet.end as i64 - ETHERNET as i64 {
        return Answer::of(EINVAL);
    }
    Packet::shift(memory, packet.meta..packet.data, meta as usize)?;
    (packet.meta, packet.data) = (meta as usize, data as usize);
    packet.write_context(memory)?;
    Answer::of(0)
}

/// `bpf_xdp_adjust_tail`: zeroes new bytes.
pub(super) fn adjust_tail(packet: &mut Packet, memory: &mut Memory, by: u64) -> Step<Answer> {
    let end = packet.end as i64 + i64::from(by as i32);
    if !Packet::is_in_frame(end) || end < (packet.data + ETHERNET) as i64 {
        return Answer::of(EINVAL);
    }
    let end = end as usize;
    if end > packet.end {
        Packet::clear(memory, packet.end..end)?;
    }
    packet.end = end;
    packet.write_context(memory)?;
    Answer::of(0)
}

/// `bpf_xdp_adjust_meta`.
pub(super) fn adjust_meta(packet: &mut Packet, memory: &mut Memory, by: u64) -> Step<Answer> {
    let meta = packet.meta as i64 + i64::from(by as i32);
    if !Packet::is_in_frame(meta) || meta > packet.data as i64 {
        return Answer::of(EINVAL);
    }
    let len = packet.data as i64 - meta;
    if len % 4 != 0 || len > META_MAX {
        return Answer::of(EACCES);
    }
    packet.meta = meta as usize;
    packet.write_context(memory)?;
    Answer::of(0)
}

/// Internet checksums in one's complement, unfolded 32-bit sums as in the kernel (include/net/checksum.h, Linux 6.18).
mod checksum {
    /// Adds with end-around carry.
    pub(super) fn add(a: u32, b: u32) -> u32 {
        let (sum, carry) = a.overflowing_add(b);
        // After a carry, the sum is smaller than the largest operand.
        if carry { sum + 1 } else { sum }
    }

    pub(super) fn sub(a: u32, b: u32) -> u32 {
        add(a, !b)
    }

    /// Sum of bytes, starting from `seed` (`csum_partial`).
    pub(super) fn partial(bytes: &[u8], seed: u32) -> u32 {
        bytes.chunks(4).fold(seed, |sum, chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            add(sum, u32::from_le_bytes(word))
        })
    }

    /// Folds to 16 bits (`csum_from32to16`).
    pub(super) fn to_16(sum: u32) -> u16 {
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// Header checksum (`csum_fold`).
    pub(super) fn folded(sum: u32) -> u16 {
        !to_16(sum)
    }

    /// `bpf_csum_diff`, with the semantics of all architectures since Linux 6.13 (net/core/filter.c).
    pub(super) fn diff(from: &[u8], to: &[u8], seed: u32) -> u32 {
        let sum = match (from.is_empty(), to.is_empty()) {
            (false, false) => sub(partial(to, seed), partial(from, 0)),
            (true, false) => partial(to, seed),
            (false, true) => !partial(from, !seed),
            (true, true) => seed,
        };
        u32::from(to_16(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::checksum::{diff, folded, partial};

    /// Header from RFC 1071's calculator examples: a 60-byte packet from 172.16.10.99 to .12.
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0xb1, 0xe6, 0xac, 0x10, 0x0a,
        0x63, 0xac, 0x10, 0x0a, 0x0c,
    ];

    #[test]
    fn a_header_with_its_checksum_sums_to_nothing() {
        assert_eq!(folded(partial(&HEADER, 0)), 0);
        let without = [&HEADER[..10], &[0, 0], &HEADER[12..]].concat();
        assert_eq!(folded(partial(&without, 0)), u16::from_le_bytes([0xb1, 0xe6]));
    }

    #[test]
    fn differences() {
        let check = |from: &[u8], to: &[u8], seed, expected| {
            assert_eq!(diff(from, to, seed), expected, "{from:?} {to:?} {seed:#x}");
        };
        check(&[], &[], 0x0001_0002, 3);
        check(&[], &[1, 0, 0, 0], 0xffff_ffff, 1);
        check(&[1, 0, 0, 0], &[3, 0, 0, 0], 0, 2);
        check(&[3, 0, 0, 0], &[], 5, 2);
        // Adding and removing the same bytes yields the other zero.
        check(&[1, 0, 0, 0], &[1, 0, 0, 0], 0, 0xffff);
    }
}
