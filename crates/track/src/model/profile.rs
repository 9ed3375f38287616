//! A profile of a benchmark, taken when its report was measured.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::name::BenchmarkName;

/// Maximum size of a compressed profile in bytes. That of one benchmark has about ten thousand.
pub const PROFILE_BYTES_MAX: usize = 2 << 20;

/// A profile in pprof's format, of a benchmark of a report. Profiles are separate records that are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    #[serde(flatten)]
    pub about: ProfileInfo,
    /// gzip'd pprof. `None` if removed by [retention](crate::store::Retention).
    #[serde(default, skip_serializing_if = "Option::is_none", with = "packed")]
    pub pprof: Option<Vec<u8>>,
}

/// Metadata of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileInfo {
    pub uuid: Uuid,
    pub report: Uuid,
    /// `None`: of the whole command, which runs several benchmarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<BenchmarkName>,
    pub kind: ProfileKind,
    /// The tool that made it, with its version: `wingbeat 0.1.0`.
    pub tool: String,
    #[serde(with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    /// Number of samples. For exact counts, of runs.
    pub samples: u64,
    pub sha256: ProfileHash,
    /// Size of the compressed content.
    pub bytes: u64,
}

/// What a profile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileKind {
    /// Samples of on-CPU time.
    Cpu,
    /// Off-CPU time.
    OffCpu,
    /// Both: wall-clock time.
    Wall,
    /// Instructions, counted exactly, by source line.
    Instructions,
}

/// SHA-256 of a profile as stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileHash(pub [u8; 32]);

impl Profile {
    /// A profile created now. Computes the hash and the size of its content.
    pub fn new(
        report: Uuid,
        benchmark: Option<BenchmarkName>,
        kind: ProfileKind,
        samples: u64,
        pprof: Vec<u8>,
    ) -> Self {
        let about = ProfileInfo {
            uuid: Uuid::now_v7(),
            report,
            benchmark,
            kind,
            tool: concat!("wingbeat ", env!("CARGO_PKG_VERSION")).to_owned(),
            time: OffsetDateTime::now_utc(),
            samples,
            sha256: ProfileHash::of(&pprof),
            bytes: pprof.len() as u64,
        };
        Self { about, pprof: Some(pprof) }
    }
}

impl ProfileKind {
    pub const ALL: [Self; 4] = [Self::Cpu, Self::OffCpu, Self::Wall, Self::Instructions];

    /// As on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::OffCpu => "off-cpu",
            Self::Wall => "wall",
            Self::Instructions => "instructions",
        }
    }
}

impl fmt::Display for ProfileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ProfileHash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// Hexadecimal.
impl fmt::Display for ProfileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ProfileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ProfileHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProfileHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let mut hash = [0; 32];
        let is_whole = text.len() == 64
            && text.bytes().all(|digit| digit.is_ascii_hexdigit())
            && hash.iter_mut().enumerate().all(|(at, to)| byte(at).map(|it| *to = it).is_some());
        is_whole.then_some(Self(hash)).ok_or_else(|| D::Error::custom("no SHA-256 in 64 digits"))
    }
}

/// Serializes the content as base64.
mod packed {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        content: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match content {
            Some(bytes) => serializer.serialize_str(&BASE64_STANDARD.encode(bytes)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| BASE64_STANDARD.decode(text)).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_back() {
        let name = BenchmarkName::new("parse").expect("a name");
        let mut profile =
            Profile::new(Uuid::from_u128(7), Some(name), ProfileKind::OffCpu, 9, vec![31, 139, 0]);
        let text = serde_json::to_string(&profile).expect("JSON");
        assert!(
            text.contains(r#""kind":"off-cpu""#) && text.contains(r#""pprof":"H4sA""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Profile>(&text).expect("a profile"), profile);
        profile.pprof = None;
        let text = serde_json::to_string(&profile).expect("JSON");
        assert!(!text.contains("pprof"), "{text}");
        assert_eq!(serde_json::from_str::<Profile>(&text).expect("a profile"), profile);
        for kind in ProfileKind::ALL {
            assert_eq!(serde_json::to_string(&kind).expect("JSON"), format!("\"{kind}\""));
        }
    }

    #[test]
    fn hashes_are_64_digits() {
        let hash = ProfileHash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        for wrong in ["", "ba", &text[1..], &format!("{text}0"), &text.replace('b', "+")] {
            serde_json::from_str::<ProfileHash>(&format!("\"{wrong}\"")).expect_err(wrong);
        }
    }
}
