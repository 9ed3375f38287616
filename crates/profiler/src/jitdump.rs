//! Layout of jitdump files (tools/perf/Documentation/jitdump-specification.txt): a header followed by records.
//! `symbolize` reads names from them and `unwind` reads unwind information, at different times.

use thiserror::Error;

const MAGIC: u32 = u32::from_le_bytes(*b"DTiJ");
const VERSION: u32 = 1;
/// Size of the header and of each record's prefix, in bytes.
pub(crate) const HEADER: usize = 40;
pub(crate) const PREFIX: usize = 16;
/// Timestamps are processor timestamps, which samples do not have.
const ARCH_TIMESTAMP: u64 = 1;

/// Why a file is not a valid jitdump file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum JitDumpError {
    #[error("the header is cut off")]
    Short,
    #[error("it does not begin as a jitdump file of this machine does")]
    Magic,
    #[error("its version is {0}, and only version 1 is known")]
    Version(u32),
}

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Offset of the first record.
    pub size: usize,
    /// ELF machine number.
    pub machine: u32,
    /// Record times are of `CLOCK_MONOTONIC`.
    pub has_times: bool,
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, JitDumpError> {
        let header = bytes.get(..HEADER).map(Fields).ok_or(JitDumpError::Short)?;
        let [magic, version, size, machine] =
            [0, 4, 8, 12].map(|at| header.u32(at).unwrap_or_default());
        if magic != MAGIC {
            return Err(JitDumpError::Magic);
        }
        if version != VERSION {
            return Err(JitDumpError::Version(version));
        }
        let has_times = header.u64(32).unwrap_or_default() & ARCH_TIMESTAMP == 0;
        Ok(Self { size: HEADER.max(size as usize), machine, has_times })
    }
}

/// Prefix of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// Record type.
    pub id: u32,
    /// Size of the record including the prefix, in bytes.
    pub size: usize,
    pub time_ns: u64,
}

impl Prefix {
    /// `None` if it is truncated or invalid: a record is at least as long as its prefix.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let prefix = Fields(bytes.get(..PREFIX)?);
        let (id, size, time_ns) = (prefix.u32(0)?, prefix.u32(4)? as usize, prefix.u64(8)?);
        (size >= PREFIX).then_some(Self { id, size, time_ns })
    }
}

/// Splits off the first record: its prefix, its body, and the remaining bytes.
pub(crate) fn split(bytes: &[u8]) -> Option<(Prefix, &[u8], &[u8])> {
    let prefix = Prefix::parse(bytes)?;
    Some((prefix, bytes.get(PREFIX..prefix.size)?, bytes.get(prefix.size..)?))
}

/// Little-endian integers in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    pub(crate) fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    /// The text up to its terminating zero byte.
    pub(crate) fn text(self, at: usize) -> Option<&'a [u8]> {
        let bytes = self.0.get(at..)?;
        bytes.get(..bytes.iter().position(|&byte| byte == 0)?)
    }
}

/// Whether the file name is `jit-PID.dump`, in any folder.
pub(crate) fn is_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let pid = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let mut whole = b"DTiJ\x01\0\0\0\x30\0\0\0\x3e\0\0\0".to_vec();
        whole.resize(HEADER, 0);
        let check = |bytes: &[u8], expected| assert_eq!(Header::parse(bytes), expected);
        check(&whole, Ok(Header { size: 0x30, machine: 62, has_times: true }));
        let of_processor = [&whole[..32], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
        check(&of_processor, Ok(Header { size: 0x30, machine: 62, has_times: false }));
        let small = [&whole[..8], &[0], &whole[9..]].concat();
        check(&small, Ok(Header { size: HEADER, machine: 62, has_times: true }));
        check(b"", Err(JitDumpError::Short));
        check(&whole[..39], Err(JitDumpError::Short));
        check(&[b"JiTD".as_slice(), &whole[4..]].concat(), Err(JitDumpError::Magic));
        check(&[&whole[..4], &[2], &whole[5..]].concat(), Err(JitDumpError::Version(2)));
    }

    #[test]
    fn records_are_as_long_as_they_say() {
        let check = |bytes: &[u8], expected: Option<(u32, usize, usize)>| {
            let found =
                split(bytes).map(|(prefix, body, rest)| (prefix.id, body.len(), rest.len()));
            assert_eq!(found, expected, "{bytes:?}");
        };
        let record = |size: u8| {
            let mut bytes = vec![7, 0, 0, 0, size, 0, 0, 0];
            bytes.resize(20, 0);
            bytes
        };
        check(&record(16), Some((7, 0, 4)));
        check(&record(20), Some((7, 4, 0)));
        check(&record(21), None);
        check(&record(15), None);
        check(&record(0), None);
        check(&record(16)[..15], None);
    }

    #[test]
    fn names_of_jitdump_files() {
        let check = |path, expected| assert_eq!(is_dump(path), expected, "{path}");
        check("/tmp/jit-4711.dump", true);
        check("/home/a/.debug/jit/java-jit-1/jit-1.dump", true);
        check("/tmp/jit-.dump", false);
        check("/tmp/jit-a.dump", false);
        check("/tmp/perf-1.map", false);
        check("/tmp/jit-4711.dump/other", false);
    }
}
