//! A packet and its context: `struct xdp_md` or `struct __sk_buff` (include/uapi/linux/bpf.h), set up like
//! `BPF_PROG_TEST_RUN` does (net/bpf/test_run.c, Linux 6.18).

use wingbeat_bpf_loader::ProgramType;

use super::WorldError;
use crate::{
    Step,
    memory::{Area, Memory},
};

/// Address of the context.
pub(super) const CONTEXT: u64 = 0x1000_0000;
/// Address of the frame that holds the packet. Context fields have 32-bit addresses.
const FRAME: u64 = 0x2000_0000;
/// Size of the frame without its trailing `struct skb_shared_info`, in bytes.
const FRAME_BYTES: usize = 4096 - 320;
/// Headroom in bytes.
const HEADROOM: usize = 256;
/// Size of an Ethernet header in bytes.
pub(super) const ETHERNET: usize = 14;
/// Ingress interface of all packets: `lo`.
const LOOPBACK: u32 = 1;

/// Bounds of the packet.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    pub(super) is_xdp: bool,
    /// Offsets in the frame.
    pub(super) meta: usize,
    pub(super) data: usize,
    pub(super) end: usize,
}

impl Packet {
    /// Puts a packet and its context into memory.
    pub(super) fn place(
        memory: &mut Memory,
        r#type: ProgramType,
        bytes: &[u8],
    ) -> Result<Self, WorldError> {
        // Program types whose packet starts after the Ethernet header.
        let skipped = match r#type {
            ProgramType::XDP | ProgramType::SCHED_CLS | ProgramType::SCHED_ACT => 0,
            ProgramType::SOCKET_FILTER | ProgramType::CGROUP_SKB => ETHERNET,
            other => return Err(WorldError::Type(other)),
        };
        let (min, max) = (ETHERNET, FRAME_BYTES - HEADROOM);
        if !(min..=max).contains(&bytes.len()) {
            return Err(WorldError::Packet { bytes: bytes.len(), min, max });
        }
        let mut frame = vec![0; FRAME_BYTES];
        frame[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
        memory.place(FRAME, Area::new(frame, true));
        let is_xdp = r#type == ProgramType::XDP;
        let data = HEADROOM + skipped;
        let packet = Self { is_xdp, meta: data, data, end: HEADROOM + bytes.len() };
        let context = if is_xdp { Area::unknown(24) } else { socket_buffer(bytes) };
        memory.place(CONTEXT, context);
        packet.write_context(memory).map_err(|reason| crate::Fault { index: 0, reason })?;
        Ok(packet)
    }

    /// Writes the packet bounds into the context.
    pub(super) fn write_context(&self, memory: &mut Memory) -> Step<()> {
        let frame = memory.area_mut(FRAME)?;
        frame.visible = self.meta..self.end;
        let address = |offset: usize| (FRAME as u32 + offset as u32).to_le_bytes();
        let fields: &[(usize, [u8; 4])] = match self.is_xdp {
            true => &[
                (0, address(self.data)),
                (4, address(self.end)),
                (8, address(self.meta)),
                (12, LOOPBACK.to_le_bytes()),
                (16, [0; 4]),
            ],
            false => &[
                (0, ((self.end - self.data) as u32).to_le_bytes()),
                (76, address(self.data)),
                (80, address(self.end)),
                (140, address(self.meta)),
            ],
        };
        let context = memory.area_mut(CONTEXT)?;
        fields.iter().for_each(|(at, bytes)| context.put(*at, bytes));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.data
    }

    /// The current packet, for socket filters without its Ethernet header.
    pub(super) fn bytes(&self, memory: &Memory) -> Vec<u8> {
        let frame = memory.area(FRAME).and_then(|frame| frame.bytes.get(self.data..self.end));
        frame.map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Address of these packet bytes, if in bounds.
    pub(super) fn address(&self, offset: u64, len: u64) -> Option<u64> {
        let is_inside = offset.checked_add(len)? <= self.len() as u64;
        is_inside.then(|| FRAME + self.data as u64 + offset)
    }

    /// Whether the packet may start or end there.
    pub(super) fn is_in_frame(offset: i64) -> bool {
        /// Bytes at the start of the frame reserved for the kernel (`struct xdp_frame`).
        const KEPT: i64 = 40;
        (KEPT..=FRAME_BYTES as i64).contains(&offset)
    }

    /// Zeroes bytes of the frame.
    pub(super) fn clear(memory: &mut Memory, range: std::ops::Range<usize>) -> Step<()> {
        let zeros = vec![0; range.len()];
        memory.area_mut(FRAME)?.put(range.start, &zeros);
        Ok(())
    }

    /// Moves bytes within the frame.
    pub(super) fn shift(memory: &mut Memory, from: std::ops::Range<usize>, to: usize) -> Step<()> {
        memory.area_mut(FRAME)?.bytes.copy_within(from, to);
        Ok(())
    }
}

/// `struct __sk_buff` of a packet, with unknown fields left unknown.
fn socket_buffer(packet: &[u8]) -> Area {
    let mut context = Area::unknown(192);
    // pkt_type follows from the destination address, as `lo` has no address (eth_type_trans, net/ethernet/eth.c).
    let receiver = &packet[..6];
    let kind: u32 = match receiver {
        [0, 0, 0, 0, 0, 0] => 0,
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => 1,
        [first, ..] if first & 1 == 1 => 2,
        _ => 3,
    };
    context.put(4, &kind.to_le_bytes());
    // mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority, ingress_ifindex.
    context.put(8, &[0; 32]);
    let protocol = match [packet[12], packet[13]] {
        // A length field instead of a type.
        [0..=5, _] if packet.get(14..16) == Some(&[0xff, 0xff]) => [0, 1],
        [0..=5, _] => [0, 4],
        r#type => r#type,
    };
    context.put(16, &protocol);
    context.put(40, &LOOPBACK.to_le_bytes());
    // tc_index, cb, hash.
    context.put(44, &[0; 28]);
    context
}
