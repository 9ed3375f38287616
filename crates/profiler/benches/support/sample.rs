//! Samples in the kernel half's format.

use wingbeat_profiler_abi::{RecordKind, Stop};

const KERNEL_FRAMES: u64 = 4;
/// Above the kernel's largest PID (2^22), so it does not exist in `/proc`.
pub(crate) const PID: u32 = 5_000_000;

/// A complete sample of a thread of [`PID`].
pub(crate) fn sample_bytes(tid: u32, time_ns: u64, user: &[u64]) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Sample as u8, Stop::End as u8, 0, 0];
    bytes.extend((user.len() as u16).to_le_bytes());
    bytes.extend((KERNEL_FRAMES as u16).to_le_bytes());
    bytes.extend(PID.to_le_bytes());
    bytes.extend(tid.to_le_bytes());
    let (stop_sp, stop_fp, rest, cgroup) = (0x7ffc_0000_1000, 0, 0, 1);
    let head = [time_ns, stop_sp, stop_fp, rest, cgroup].into_iter();
    let kernel = (0..KERNEL_FRAMES).map(|level| 0xffff_ffff_8100_0000 + level * 64);
    let words = head.chain(user.iter().copied()).chain(kernel);
    bytes.extend(words.flat_map(u64::to_le_bytes));
    bytes
}
