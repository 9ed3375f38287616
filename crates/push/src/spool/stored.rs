//! A window as a spool file: a magic number, a checksum, a message.

use std::{collections::BTreeMap, time::Duration};

use flate2::Crc;
use prost::Message;

use crate::window::{Kind, Series, Window, time_of, unix_ns};

/// Magic number of the first version.
const MARK: &[u8; 8] = b"wbwindo1";
const HEAD_BYTES: usize = MARK.len() + 4;

/// Largest file to read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, PartialEq, Message)]
struct StoredWindow {
    #[prost(sfixed64, tag = "1")]
    start_unix_ns: i64,
    #[prost(uint64, tag = "2")]
    duration_ns: u64,
    #[prost(message, repeated, tag = "3")]
    series: Vec<StoredSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredSeries {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(btree_map = "string, string", tag = "2")]
    labels: BTreeMap<String, String>,
    #[prost(bytes = "vec", tag = "3")]
    pprof: Vec<u8>,
}

pub(super) fn encode(window: &Window) -> Vec<u8> {
    let stored = |series: &Series| StoredSeries {
        kind: series.kind.name().to_owned(),
        labels: series.labels.clone(),
        pprof: series.pprof.clone(),
    };
    let message = StoredWindow {
        start_unix_ns: unix_ns(window.start),
        duration_ns: u64::try_from(window.duration.as_nanos()).unwrap_or(u64::MAX),
        series: window.series.iter().map(stored).collect(),
    };
    with_head(&message.encode_to_vec())
}

/// Prepends magic number and checksum to a message.
pub(super) fn with_head(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len());
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(&sum(message).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// Deserializes a window, or returns what is wrong with the bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Window, &'static str> {
    let rest = bytes.strip_prefix(MARK).ok_or("it does not begin as one")?;
    let (expected, message) = rest.split_first_chunk().ok_or("its end is missing")?;
    if u32::from_le_bytes(*expected) != sum(message) {
        return Err("its sum is wrong");
    }
    let stored = StoredWindow::decode(message).map_err(|_| "it cannot be decoded")?;
    let mut series = Vec::with_capacity(stored.series.len());
    for StoredSeries { kind, labels, pprof } in stored.series {
        let kind = Kind::of_name(&kind).ok_or("it has a kind that this version does not know")?;
        series.push(Series { kind, labels, pprof });
    }
    Ok(Window {
        start: time_of(stored.start_unix_ns),
        duration: Duration::from_nanos(stored.duration_ns),
        series,
    })
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn window() -> Window {
        let labels = BTreeMap::from([("service_name".to_owned(), "web".to_owned())]);
        let series =
            Kind::ALL.map(|kind| Series { kind, labels: labels.clone(), pprof: vec![1, 2] });
        let start = UNIX_EPOCH + Duration::from_nanos(1_795_820_400_000_000_001);
        Window { start, duration: Duration::from_millis(15_001), series: series.into() }
    }

    #[test]
    fn windows_return() {
        assert_eq!(decode(&encode(&window())), Ok(window()));
    }

    #[test]
    fn any_damage_is_noticed() {
        let whole = encode(&window());
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "{length} bytes");
        }
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {place}");
        }
    }
}
