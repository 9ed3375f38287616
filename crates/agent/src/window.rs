//! Windows to push: profiles of a time range, by labels.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;
use wingbeat_profiler::model::Mode;

/// Estimated bytes of a series in addition to its profile and labels.
const SERIES_BYTES: u64 = 64;

/// Maximum total size of a request's profiles, in bytes. By default our own server accepts requests of 4 MiB, and
/// collectors 20 MiB decompressed.
pub(crate) const PART_BYTES_MAX: u64 = 2 << 20;

/// Kind of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Time on the CPU.
    Cpu,
    /// Time off the CPU.
    OffCpu,
    /// Memory that became resident, and address space that was mapped.
    Pages,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::OffCpu, Self::Pages];

    /// Name in Pyroscope and Parca: their label `__name__`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "process_cpu",
            Self::OffCpu => "off_cpu",
            Self::Pages => "memory",
        }
    }

    /// Mode of the recordings that have it.
    #[must_use]
    pub fn mode(self) -> Mode {
        match self {
            Self::Cpu => Mode::OnCpu,
            Self::OffCpu => Mode::OffCpu,
            Self::Pages => Mode::Pages,
        }
    }

    /// The kind with this [`Kind::name`].
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Samples of a window with one label set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub kind: Kind,
    /// OpenTelemetry names with `_` instead of a dot: `service_name`, `container_id`.
    pub labels: BTreeMap<String, String>,
    /// A profile in pprof's format, gzip'd.
    pub pprof: Vec<u8>,
}

/// Samples of a time range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub start: SystemTime,
    pub duration: Duration,
    pub series: Vec<Series>,
}

impl Series {
    /// Approximate size in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len());
        (labels.sum::<usize>() + self.pprof.len()) as u64 + SERIES_BYTES
    }

    /// Deterministic identifier, so that a repeated push can be distinguished from a new window.
    pub(crate) fn id(&self, start: SystemTime) -> Uuid {
        let mut text = Vec::with_capacity(self.pprof.len() + 512);
        text.extend_from_slice(&unix_ns(start).to_le_bytes());
        for part in [("", self.kind.name())]
            .into_iter()
            .chain(self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())))
        {
            text.extend_from_slice(part.0.as_bytes());
            text.push(0);
            text.extend_from_slice(part.1.as_bytes());
            text.push(0);
        }
        text.extend_from_slice(&self.pprof);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &text)
    }

    /// The service, for users and for backends that require one.
    pub(crate) fn service(&self) -> &str {
        let label = |name: &str| self.labels.get(name).filter(|value| !value.is_empty());
        let found = label("service_name").or_else(|| label("process_executable_name"));
        found.map_or("unknown_service", String::as_str)
    }
}

impl Window {
    /// Approximate size in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.series.iter().map(Series::bytes).sum()
    }

    /// End of the window; if it is not representable, the start.
    #[must_use]
    pub fn end(&self) -> SystemTime {
        self.start.checked_add(self.duration).unwrap_or(self.start)
    }

    /// Splits the window into parts that a backend accepts in one request: nearly always one. None if it is empty.
    pub(crate) fn parts(self: &Arc<Self>, bytes_max: u64) -> Vec<Arc<Self>> {
        if self.series.is_empty() {
            return Vec::new();
        }
        if self.bytes() <= bytes_max {
            return vec![Arc::clone(self)];
        }
        let empty = || Self { start: self.start, duration: self.duration, series: Vec::new() };
        let (mut parts, mut part, mut bytes) = (Vec::new(), empty(), 0);
        for series in &self.series {
            if bytes > 0 && bytes + series.bytes() > bytes_max {
                parts.push(Arc::new(std::mem::replace(&mut part, empty())));
                bytes = 0;
            }
            bytes += series.bytes();
            part.series.push(series.clone());
        }
        parts.push(Arc::new(part));
        parts
    }
}

/// Nanoseconds since 1970, clamped to 64 bits.
pub(crate) fn unix_ns(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        // The smallest number has no positive counterpart.
        Err(before) => 0_i64.checked_sub_unsigned(nanos(before.duration())).unwrap_or(i64::MIN),
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The time at this many nanoseconds since 1970.
pub(crate) fn time_of(unix_ns: i64) -> SystemTime {
    let span = Duration::from_nanos(unix_ns.unsigned_abs());
    let time =
        if unix_ns < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back() {
        for unix_ns in [i64::MIN, -i64::MAX, -1, 0, 1, 1_795_820_400_123_456_789, i64::MAX] {
            assert_eq!(super::unix_ns(time_of(unix_ns)), unix_ns);
        }
        let early = UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 35)).expect("a time");
        assert_eq!(unix_ns(early), i64::MIN);
    }

    fn series(service: &str, bytes: usize) -> Series {
        let labels = BTreeMap::from([("service_name".to_owned(), service.to_owned())]);
        Series { kind: Kind::Cpu, labels, pprof: vec![7; bytes] }
    }

    #[test]
    fn parts_fit_and_lose_nothing() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let series: Vec<_> = sizes.iter().map(|&size| series("a", size)).collect();
            let duration = Duration::from_secs(15);
            let window = Arc::new(Window { start: UNIX_EPOCH, duration, series });
            let parts = window.parts(1_000);
            let counts: Vec<_> = parts.iter().map(|part| part.series.len()).collect();
            assert_eq!(counts, expected, "{sizes:?}");
            let joined: Vec<_> = parts.iter().flat_map(|part| part.series.clone()).collect();
            assert_eq!(joined, window.series);
        };
        check(&[], &[]);
        check(&[100, 100], &[2]);
        check(&[600, 600], &[1, 1]);
        check(&[5_000], &[1]);
        check(&[100, 5_000, 100, 100], &[1, 1, 2]);
    }

    #[test]
    fn ids_follow_the_contents() {
        let (one, other) = (series("a", 10), series("b", 10));
        assert_eq!(one.id(UNIX_EPOCH), one.clone().id(UNIX_EPOCH));
        assert_ne!(one.id(UNIX_EPOCH), other.id(UNIX_EPOCH));
        assert_ne!(one.id(UNIX_EPOCH), one.id(UNIX_EPOCH + Duration::from_nanos(1)));
    }
}
