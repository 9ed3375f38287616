//! Internet checksums in one's complement, unfolded 32-bit sums as in the kernel (include/net/checksum.h, Linux 6.18).

/// Adds with end-around carry.
pub(crate) fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    // After a carry, the sum is smaller than the largest operand.
    if carry { sum + 1 } else { sum }
}

pub(crate) fn sub(a: u32, b: u32) -> u32 {
    add(a, !b)
}

/// Sum of bytes, starting from `seed` (`csum_partial`).
pub(crate) fn partial(bytes: &[u8], seed: u32) -> u32 {
    bytes.chunks(4).fold(seed, |sum, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        add(sum, u32::from_le_bytes(word))
    })
}

/// Folds to 16 bits (`csum_from32to16`).
pub(crate) fn to_16(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Header checksum (`csum_fold`).
pub(crate) fn folded(sum: u32) -> u16 {
    !to_16(sum)
}

/// `bpf_csum_diff`, with the semantics of all architectures since Linux 6.13 (net/core/filter.c).
pub(crate) fn diff(from: &[u8], to: &[u8], seed: u32) -> u32 {
    let sum = match (from.is_empty(), to.is_empty()) {
        (false, false) => sub(partial(to, seed), partial(from, 0)),
        (true, false) => partial(to, seed),
        (false, true) => !partial(from, !seed),
        (true, true) => seed,
    };
    u32::from(to_16(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

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
