//! Estimates a profile's memory from its bytes: small profiles may expand.

use prost::{
    bytes::Buf as _,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use super::Refusal;

/// Maximum entries of all tables of a profile: empty ones take two bytes, and many more in memory.
pub(super) const ENTRIES_MAX: usize = 1 << 20;
/// Maximum locations and values of all samples, 8 bytes each.
pub(super) const NUMBERS_MAX: usize = 8 << 20;

/// Counts the entries of the tables, and those within samples and locations, before decoding them.
pub(super) fn check(mut bytes: &[u8]) -> Result<(), Refusal> {
    let broken = |error: prost::DecodeError| Refusal::Pprof(error.to_string());
    let mut count = Count::default();
    while bytes.has_remaining() {
        let (tag, wire) = decode_key(&mut bytes).map_err(broken)?;
        let whole = bytes;
        skip_field(wire, tag, &mut bytes, DecodeContext::default()).map_err(broken)?;
        count.entries += 1;
        if matches!(tag, SAMPLE | LOCATION) && wire == WireType::LengthDelimited {
            let mut within = &whole[..whole.len() - bytes.len()];
            decode_varint(&mut within).map_err(broken)?;
            count.within(within, tag == SAMPLE).map_err(broken)?;
        }
        count.within_limits()?;
    }
    Ok(())
}

/// Tags of `profile.proto`.
const SAMPLE: u32 = 2;
const LOCATION: u32 = 4;

/// Memory that decoding would take.
#[derive(Default)]
struct Count {
    entries: usize,
    numbers: usize,
}

impl Count {
    /// Counts the fields of a message.
    fn within(&mut self, mut bytes: &[u8], is_sample: bool) -> Result<(), prost::DecodeError> {
        while bytes.has_remaining() {
            let (tag, wire) = decode_key(&mut bytes)?;
            let whole = bytes;
            skip_field(wire, tag, &mut bytes, DecodeContext::default())?;
            let is_message = wire == WireType::LengthDelimited;
            // Locations and values of a sample are packed integers, each of which ends with such a byte.
            if is_sample && is_message && tag <= 2 {
                let packed = &whole[..whole.len() - bytes.len()];
                self.numbers += packed.iter().filter(|byte| **byte < 0x80).count();
            } else if is_message {
                self.entries += 1;
            } else {
                self.numbers += 1;
            }
        }
        Ok(())
    }

    fn within_limits(&self) -> Result<(), Refusal> {
        match self.entries > ENTRIES_MAX || self.numbers > NUMBERS_MAX {
            true => Err(Refusal::Entries),
            false => Ok(()),
        }
    }
}
