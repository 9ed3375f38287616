//! Helpers that access a packet by offset and update its checksums.

use super::{
    maps::EINVAL,
    packet::{ETHERNET, Packet},
};
use crate::{Step, checksum, machine::Answer, memory::Memory};

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
