//! Helpers that move the bounds of an XDP packet.

use super::{
    maps::EINVAL,
    packet::{ETHERNET, Packet},
};
use crate::{Step, machine::Answer, memory::Memory};

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
    packet.tell(memory)?;
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
    packet.tell(memory)?;
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
    packet.tell(memory)?;
    Answer::of(0)
}
