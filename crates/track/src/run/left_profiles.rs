//! Exact profiles that a command writes next to its results: a counting tool needs no sampler, nor another run.
//!
//! The command gets a folder in the variable [`VARIABLE`], and writes a file per benchmark to it, named by
//! [`file_name`]: gzip'd pprof whose values are instructions.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use wingbeat_pprof::Side;
use wingbeat_text::first_few;

use crate::model::{BenchmarkName, PROFILE_BYTES_MAX, Profile, ProfileKind, Report};

/// The environment variable with the folder.
pub const VARIABLE: &str = "WINGBEAT_PROFILES";

const SUFFIX: &str = ".pb.gz";

/// Maximum length of a file name supported by every file system.
const NAME_BYTES_MAX: usize = 255;

/// The file name of a benchmark's profile: the benchmark's name, percent-encoded except for ASCII letters, digits,
/// hyphens, underscores and points. `None` if too long.
pub fn file_name(benchmark: &str) -> Option<String> {
    let mut name = String::new();
    for byte in benchmark.bytes() {
        match byte {
            b'-' | b'_' | b'.' => name.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => name.push(byte.into()),
            _ => name += &format!("%{byte:02X}"),
        }
    }
    name += SUFFIX;
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// The benchmark of a file.
fn benchmark(file_name: &str) -> Option<BenchmarkName> {
    let mut rest = file_name.strip_suffix(SUFFIX)?;
    let mut name = Vec::new();
    while let Some((plain, behind)) = rest.split_once('%') {
        name.extend_from_slice(plain.as_bytes());
        name.push(u8::from_str_radix(behind.get(..2)?, 16).ok()?);
        rest = &behind[2..];
    }
    name.extend_from_slice(rest.as_bytes());
    BenchmarkName::new(String::from_utf8(name).ok()?).ok()
}

/// The profiles of a report's benchmarks in a folder, by name. Unusable ones become remarks.
pub(super) fn read(
    folder: &Path,
    report: &Report,
    remarks: &mut Vec<String>,
) -> io::Result<Vec<Profile>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let mut files = files.collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let (mut profiles, mut failed) = (Vec::new(), Vec::new());
    for file in files {
        let known = file.to_str().and_then(benchmark);
        let known = known.filter(|name| report.metrics().any(|(_, it, ..)| it.name == *name));
        let Some(name) = known else {
            failed.push(format!("{}: the report has no such benchmark", file.display()));
            continue;
        };
        let pprof = content(&folder.join(&file)).map_err(|error| error.to_string());
        match pprof.and_then(|pprof| checked(report, &name, pprof)) {
            Ok(profile) => profiles.push(profile),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    remarks.extend(self::failed(failed));
    Ok(profiles)
}

/// A remark about benchmarks without an exact profile, each with the reason.
pub(super) fn failed(failed: Vec<String>) -> Option<String> {
    let kind = ProfileKind::Instructions;
    let is_any = !failed.is_empty();
    is_any.then(|| format!("no {kind} profile of {}", first_few(failed.into_iter())))
}

/// The profile of a benchmark, if it contains exact counts and can be stored.
pub(super) fn checked(
    report: &Report,
    name: &BenchmarkName,
    pprof: Vec<u8>,
) -> Result<Profile, String> {
    if pprof.len() > PROFILE_BYTES_MAX {
        return Err(format!("its profile has more than {PROFILE_BYTES_MAX} bytes"));
    }
    match Side::read("new", &pprof) {
        Ok(side) if side.is_exact() => {
            let kind = ProfileKind::Instructions;
            Ok(Profile::new(report.uuid, Some(name.clone()), kind, 1, pprof))
        }
        Ok(_) => Err("its profile does not count instructions".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The content of a file, up to one byte more than can be stored.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(PROFILE_BYTES_MAX as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;
    use wingbeat_pprof::exact::{Counted, CountedFrame, instructions};

    use super::*;
    use crate::model::{BranchName, Measure, Metric, ProjectName, Results, TestbedName};

    #[test]
    fn names_of_files() {
        let check = |name: &str, expected: &str| {
            assert_eq!(file_name(name).as_deref(), Some(expected));
            assert_eq!(benchmark(expected).expect("a name").as_str(), name);
        };
        check("fun_xdp_v3", "fun_xdp_v3.pb.gz");
        check("v3/dns.pcap:1", "v3%2Fdns.pcap%3A1.pb.gz");
        check("a%b é", "a%25b%20%C3%A9.pb.gz");
        assert_eq!(file_name(&"é".repeat(50)), None);
        for wrong in
            ["", "a", ".pb.gz", "%.pb.gz", "%2.pb.gz", "%zz.pb.gz", "%C3.pb.gz", "%é.pb.gz"]
        {
            assert_eq!(benchmark(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_command_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut results = Results::default();
        for name in ["a/b", "broken"] {
            let name = BenchmarkName::new(name).expect("a name");
            let metric = Metric::new(9.0);
            results.add(name, Measure::named("instructions"), metric).expect("added");
        }
        let report = Report {
            iterations: vec![results],
            ..Report::new(
                Uuid::from_u128(1),
                ProjectName::new("p").expect("a name"),
                BranchName::new("main").expect("a name"),
                TestbedName::new("Linux").expect("a name"),
                OffsetDateTime::UNIX_EPOCH,
            )
        };
        let frame = CountedFrame { function: "f".into(), file: "f.c".into(), line: 3 };
        let pprof =
            instructions(&[Counted { image: String::new(), frames: vec![frame], count: 9 }]);
        let pprof = pprof.expect("bytes");
        let files = [("a%2Fb.pb.gz", &pprof[..]), ("broken.pb.gz", b"x"), ("other.pb.gz", &pprof)];
        for (name, content) in files {
            fs::write(folder.path().join(name), content).expect("written");
        }
        let mut remarks = Vec::new();
        let found = read(folder.path(), &report, &mut remarks).expect("read");
        let [profile] = &found[..] else { panic!("one profile: {found:?}") };
        assert_eq!(profile.about.benchmark.as_ref().map(BenchmarkName::as_str), Some("a/b"));
        assert_eq!((profile.about.kind, profile.about.samples), (ProfileKind::Instructions, 1));
        assert_eq!(profile.pprof.as_deref(), Some(&pprof[..]));
        let expected = "no instructions profile of broken: the new profile: not a pprof profile";
        assert!(remarks[0].starts_with(expected), "{remarks:?}");
        assert!(
            remarks[0].contains("other.pb.gz: the report has no such benchmark"),
            "{remarks:?}"
        );
    }
}
