//! Processes a received profile: checks it, limits its size, and divides it by the labels of its samples. Pure:
//! bytes in, data out.

use std::{collections::BTreeMap, fmt::Display};

use anyhow::{anyhow, bail, ensure};
use prost::{
    DecodeError,
    bytes::Buf as _,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use crate::{
    Stacks,
    pprof::{Tables, decoded, pack, unpacked},
    proto::{Profile, Sample},
};

/// Maximum entries of all tables of a profile: empty ones take two bytes, and many more in memory.
const ENTRIES_MAX: usize = 1 << 20;
/// Maximum locations and values of all samples, 8 bytes each.
const NUMBERS_MAX: usize = 8 << 20;

/// Maximum decompressed size: those of large Go programs have a tenth of it.
const BYTES_MAX: u64 = 24 << 20;
const TYPES_MAX: usize = 8;
const LABELS_MAX: usize = 40;
const NAME_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 1024;
/// Maximum number of distinct sample label sets in a profile.
const SETS_MAX: usize = 32;
/// Sample labels with nearly unique values.
const IDENTIFIERS: [&str; 4] = ["profile_id", "span_id", "trace_id", "thread_id"];

const SECOND_NS: i64 = 1_000_000_000;
/// Duration of a profile without one.
const DURATION_NS: i64 = 15 * SECOND_NS;
const DURATION_NS_MAX: i64 = 3600 * SECOND_NS;
/// Tolerated clock difference.
const AHEAD_NS_MAX: i64 = 600 * SECOND_NS;

/// Label with the service's name.
pub const SERVICE: &str = "service_name";
/// Label with the kind of profile.
const NAME: &str = "__name__";

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// A profile of one label set, stored as one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub service: String,
    /// Kind of profile: `process_cpu`, `memory`.
    pub name: String,
    /// Other labels.
    pub labels: Labels,
    /// Name and unit of each value type.
    pub types: Vec<(String, String)>,
    /// Index of the default type.
    pub shown: usize,
    /// In nanoseconds since 1970.
    pub start_ns: i64,
    pub duration_ns: i64,
    /// Sums over all samples, by type.
    pub sums: Vec<i64>,
    /// gzip'd.
    pub pprof: Vec<u8>,
}

/// Parses a profile with its labels. Label sets without samples are omitted. `budget` is the number of bytes that
/// may be decompressed, and is reduced by those used.
pub fn parts(
    labels: impl Iterator<Item = (String, String)>,
    bytes: &[u8],
    now_ns: i64,
    oldest_ns: i64,
    budget: &mut u64,
) -> anyhow::Result<Vec<Part>> {
    let (service, name, labels) = checked(labels)?;
    let unpacked =
        unpacked(bytes, BYTES_MAX.min(*budget)).map_err(|error| anyhow!("the profile {error}"))?;
    *budget = budget.saturating_sub(unpacked.len() as u64);
    check_size(&unpacked)?;
    let mut message = decoded(&unpacked).map_err(|error| anyhow!("the profile is {error}"))?;
    let (start_ns, duration_ns) = span(&message, now_ns, oldest_ns)?;
    (message.time_nanos, message.duration_nanos) = (start_ns, duration_ns);
    let (types, shown) = types(&message)?;
    let mut parts = Vec::new();
    for (of_samples, samples) in divided(&message)? {
        let mut total = Stacks::default();
        total.add_some(&message, samples.iter().copied())?;
        let mut sums = vec![0_i64; types.len()];
        for sample in samples {
            sums.iter_mut().zip(&sample.value).for_each(|(sum, it)| *sum = sum.saturating_add(*it));
        }
        let mut pprof = Vec::new();
        pack(&total.message(), &mut pprof).map_err(broken)?;
        let mut labels = labels.clone();
        labels.extend(of_samples);
        let (service, name, types) = (service.clone(), name.clone(), types.clone());
        parts.push(Part {
            service,
            name,
            labels,
            types,
            shown,
            start_ns,
            duration_ns,
            sums,
            pprof,
        });
    }
    Ok(parts)
}

/// The service, the kind of profile and the other labels.
fn checked(
    all: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<(String, String, Labels)> {
    let mut labels = Labels::new();
    for (count, (name, value)) in (1..).zip(all) {
        // Counts repeated labels too.
        ensure!(count <= LABELS_MAX, "there are {count} labels: the maximum is {LABELS_MAX}");
        check_label(&name, &value)?;
        // An empty value means no label.
        if !value.is_empty() {
            labels.insert(name, value);
        }
    }
    let Some(name) = labels.remove(NAME) else {
        bail!("the label {NAME} is missing: it names the kind of profile, such as process_cpu");
    };
    let service = labels.remove(SERVICE).or_else(|| labels.remove("service.name"));
    // Labels for the client's internal use.
    labels.retain(|name, _| !name.starts_with("__"));
    Ok((service.unwrap_or_else(|| "unknown_service".to_owned()), name, labels))
}

fn check_label(name: &str, value: &str) -> anyhow::Result<()> {
    let is_fit = |text: &str, most: usize| text.len() <= most && !text.contains(char::is_control);
    let is_named = !name.is_empty() && !name.contains('=');
    ensure!(
        is_named && is_fit(name, NAME_BYTES_MAX) && is_fit(value, VALUE_BYTES_MAX),
        "the label {:?} cannot be used: names have 1 to {NAME_BYTES_MAX} bytes, values at most \
         {VALUE_BYTES_MAX}, and neither has control characters",
        name.chars().take(NAME_BYTES_MAX).collect::<String>()
    );
    Ok(())
}

fn span(message: &Profile, now_ns: i64, oldest_ns: i64) -> anyhow::Result<(i64, i64)> {
    let duration_ns = match message.duration_nanos {
        ..=0 => DURATION_NS,
        DURATION_NS_MAX.. if message.duration_nanos > DURATION_NS_MAX => {
            let duration_s = message.duration_nanos / SECOND_NS;
            bail!("the profile covers {duration_s} s: the maximum is an hour");
        }
        duration_ns => duration_ns,
    };
    let start_ns = match message.time_nanos {
        0 => now_ns.saturating_sub(duration_ns),
        start_ns => start_ns,
    };
    let ahead_ns = start_ns.saturating_sub(now_ns);
    ensure!(
        ahead_ns <= AHEAD_NS_MAX,
        "the profile begins {} s after now by this server's clock: set the clock of its machine",
        ahead_ns / SECOND_NS
    );
    ensure!(start_ns >= oldest_ns, "the profile is older than the profiles kept here");
    Ok((start_ns, duration_ns))
}

/// Names and units of the sample types, and the index of the default.
fn types(message: &Profile) -> anyhow::Result<(Vec<(String, String)>, usize)> {
    let tables = Tables::new(message);
    let mut types = Vec::new();
    for it in message.sample_type.iter().take(TYPES_MAX + 1) {
        types.push((tables.string(it.r#type)?.to_owned(), tables.string(it.unit)?.to_owned()));
    }
    let is_fit = |text: &str| text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control);
    let is_named =
        types.iter().all(|(name, unit)| !name.is_empty() && is_fit(name) && is_fit(unit));
    ensure!(
        !types.is_empty() && types.len() <= TYPES_MAX && is_named,
        "the profile has {} sample types: 1 to {TYPES_MAX} are allowed, each with a name",
        message.sample_type.len()
    );
    let default = message.default_sample_type;
    let shown = message.sample_type.iter().position(|it| default != 0 && it.r#type == default);
    Ok((types, shown.unwrap_or(message.sample_type.len() - 1)))
}

type Sets<'m> = BTreeMap<Labels, Vec<&'m Sample>>;

/// The samples by their labels, which clients set for parts of their work.
fn divided(message: &Profile) -> anyhow::Result<Sets<'_>> {
    let tables = Tables::new(message);
    let mut sets = Sets::new();
    for sample in &message.sample {
        ensure!(sample.value.iter().all(|value| *value >= 0), "the profile has a negative value");
        if sample.value.iter().all(|value| *value == 0) {
            continue;
        }
        let mut labels = Labels::new();
        for label in sample.label.iter().filter(|label| label.str != 0) {
            let (name, value) = (tables.string(label.key)?, tables.string(label.str)?);
            let is_known = labels.len() < LABELS_MAX && !IDENTIFIERS.contains(&name);
            if is_known && !name.starts_with("__") && check_label(name, value).is_ok() {
                labels.insert(name.to_owned(), value.to_owned());
            }
        }
        if sets.len() >= SETS_MAX && !sets.contains_key(&labels) {
            labels.clear();
        }
        sets.entry(labels).or_default().push(sample);
    }
    Ok(sets)
}

fn broken(error: impl Display) -> anyhow::Error {
    anyhow!("the profile is not a pprof profile: {error}")
}

/// Counts the entries of the tables, and those within samples and locations, before decoding them: small profiles may
/// expand.
fn check_size(mut bytes: &[u8]) -> anyhow::Result<()> {
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
    fn within(&mut self, mut bytes: &[u8], is_sample: bool) -> Result<(), DecodeError> {
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

    fn within_limits(&self) -> anyhow::Result<()> {
        ensure!(
            self.entries <= ENTRIES_MAX && self.numbers <= NUMBERS_MAX,
            "the profile has more than {ENTRIES_MAX} entries or {NUMBERS_MAX} numbers, more than a real one"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::{Function, Label, Line, Location, ValueType};

    const NOW: i64 = 1_795_820_400 * SECOND_NS;

    fn profile() -> Profile {
        let strings = ["", "cpu", "nanoseconds", "main", "tag", "a", "b", "span_id"];
        let label = |key: i64, str: i64| Label { key, str, ..Label::default() };
        let sample = |value: i64, label: Vec<Label>| Sample {
            location_id: vec![1],
            value: vec![value],
            label,
        };
        Profile {
            sample_type: vec![ValueType { r#type: 1, unit: 2 }],
            sample: vec![
                sample(10, vec![label(4, 5)]),
                sample(20, vec![label(4, 6), label(7, 5)]),
                sample(30, vec![label(7, 6), label(4, 6)]),
                sample(40, vec![]),
                sample(0, vec![]),
            ],
            location: vec![Location {
                id: 1,
                line: vec![Line { function_id: 1, line: 7 }],
                ..Location::default()
            }],
            function: vec![Function { id: 1, name: 3, ..Function::default() }],
            string_table: strings.map(str::to_owned).to_vec(),
            time_nanos: NOW - 30 * SECOND_NS,
            duration_nanos: 10 * SECOND_NS,
            ..Profile::default()
        }
    }

    fn labels(more: &[(&str, &str)]) -> Vec<(String, String)> {
        let all = [("__name__", "process_cpu"), ("service_name", "web"), ("__session__", "x")];
        let all = all.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn read(labels: Vec<(String, String)>, message: &Profile) -> anyhow::Result<Vec<Part>> {
        let oldest = NOW - 7 * 86_400 * SECOND_NS;
        parts(labels.into_iter(), &message.encode_to_vec(), NOW, oldest, &mut (1 << 30))
    }

    #[test]
    fn samples_are_divided_by_their_labels() {
        let parts = read(labels(&[("host", "h"), ("empty", "")]), &profile()).expect("taken");
        let found: Vec<_> = parts
            .iter()
            .map(|it| (it.labels.values().cloned().collect::<Vec<_>>().join(" "), it.sums[0]))
            .collect();
        let expected = [("h", 40), ("h a", 10), ("h b", 50)];
        assert_eq!(found, expected.map(|(labels, sum)| (labels.to_owned(), sum)));
        let first = &parts[0];
        assert_eq!((first.service.as_str(), first.name.as_str()), ("web", "process_cpu"));
        assert_eq!(first.types, [("cpu".to_owned(), "nanoseconds".to_owned())]);
        assert_eq!((first.start_ns, first.duration_ns), (NOW - 30 * SECOND_NS, 10 * SECOND_NS));
        let unpacked = unpacked(&first.pprof, BYTES_MAX).expect("packed");
        let stored = Profile::decode(&*unpacked).expect("a profile");
        assert_eq!(stored.sample.len(), 1);
        assert_eq!(stored.time_nanos, first.start_ns);
    }

    #[test]
    fn missing_times_have_defaults() {
        let message = Profile { time_nanos: 0, duration_nanos: 0, ..profile() };
        let parts = read(labels(&[]), &message).expect("taken");
        assert_eq!((parts[0].start_ns, parts[0].duration_ns), (NOW - DURATION_NS, DURATION_NS));
        let nothing = Profile { sample: Vec::new(), ..profile() };
        assert_eq!(read(labels(&[]), &nothing).expect("taken"), []);
    }

    #[test]
    fn hostile_profiles_are_refused() {
        let check = |change: &dyn Fn(&mut Profile), expected: &str| {
            let mut message = profile();
            change(&mut message);
            let error = read(labels(&[]), &message).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&|it| it.sample_type.clear(), "has 0 sample types");
        check(
            &|it| it.sample_type = vec![ValueType { r#type: 1, unit: 2 }; 9],
            "has 9 sample types",
        );
        check(&|it| it.sample_type[0].r#type = 0, "has 1 sample types");
        check(&|it| it.sample_type[0].r#type = -1, "string -1, which is missing");
        check(&|it| it.sample[0].value[0] = -1, "a negative value");
        check(&|it| it.sample[0].value.push(1), "2 values, and the profile 1 sample types");
        check(&|it| it.sample[0].location_id[0] = 9, "location 9, which is missing");
        check(&|it| it.location[0].line[0].function_id = 9, "function 9, which is missing");
        check(&|it| it.location[0].mapping_id = 9, "mapping 9, which is missing");
        check(&|it| it.sample[0].label[0].str = 99, "string 99, which is missing");
        check(&|it| it.duration_nanos = DURATION_NS_MAX + SECOND_NS, "covers 3601 s");
        check(&|it| it.time_nanos = i64::MAX, "by this server's clock");
        check(&|it| it.time_nanos = 1, "older than the profiles kept");
        check(
            &|it| it.sample = vec![Sample::default(); ENTRIES_MAX + 1],
            "more than 1048576 entries",
        );
        // Within one entry, too: an empty one takes two bytes here, and many more in memory.
        let many = "more than 1048576 entries";
        check(&|it| it.sample[0].label = vec![Label::default(); ENTRIES_MAX + 1], many);
        check(&|it| it.location[0].line = vec![Line::default(); ENTRIES_MAX + 1], many);
        check(&|it| it.sample[0].location_id = vec![1; NUMBERS_MAX + 1], many);
    }

    #[test]
    fn labels_are_bounded() {
        let check = |more: &[(&str, &str)], expected: &str| {
            let error = read(labels(more), &profile()).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[("", "x")], "the label \"\" cannot be used");
        check(&[("a=b", "x")], "the label \"a=b\" cannot be used");
        check(&[("a", "x\ny")], "the label \"a\" cannot be used");
        check(&[("a", &"x".repeat(1025))], "the label \"a\" cannot be used");
        let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
        check(&many, "41 labels: the maximum is 40");
        let error =
            parts(std::iter::empty(), &[], NOW, 0, &mut 0).expect_err("no name").to_string();
        assert!(error.contains("__name__ is missing"), "{error}");
    }

    #[test]
    fn bombs_do_not_unfold() {
        let mut bomb = Vec::new();
        let bytes = vec![0_u8; BYTES_MAX as usize + 1];
        let mut gzip = flate2::write::GzEncoder::new(&mut bomb, flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &bytes).expect("packed");
        gzip.finish().expect("packed");
        let error = parts(labels(&[]).into_iter(), &bomb, NOW, 0, &mut (1 << 30))
            .expect_err("refused")
            .to_string();
        assert!(error.contains("the limit of 25165824 bytes"), "{error}");
        for bytes in [&b"no pprof"[..], &[0x1f, 0x8b, 8], &[0xff; 16]] {
            parts(labels(&[]).into_iter(), bytes, NOW, 0, &mut (1 << 30)).expect_err("refused");
        }
    }

    #[test]
    fn damaged_profiles_are_accepted_or_refused() {
        use crate::Flame;
        let good = profile().encode_to_vec();
        let mut state = 7_u64;
        let mut number = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..4000 {
            let mut bytes = good.clone();
            for _ in 0..=number(3) {
                let at = number(bytes.len());
                bytes[at] = number(256) as u8;
            }
            bytes.truncate(good.len() - number(4) * number(8));
            match parts(labels(&[]).into_iter(), &bytes, NOW, 0, &mut (1 << 30)) {
                Err(refusal) => {
                    refused += 1;
                    assert!(!refusal.to_string().is_empty());
                }
                Ok(parts) => {
                    taken += 1;
                    let mut total = Stacks::default();
                    for part in parts {
                        let unpacked = unpacked(&part.pprof, BYTES_MAX).expect("packed here");
                        let message = Profile::decode(&*unpacked).expect("written here");
                        total.add(&message).expect("parts of a profile are of a kind");
                    }
                    if let Ok(side) = total.side("later", None) {
                        let sum: f64 = Flame::single(&side, side.total())
                            .functions()
                            .iter()
                            .map(|row| row.own.after)
                            .sum();
                        assert!(sum <= side.total() * 1.000_001);
                    }
                }
            }
        }
        assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
    }
}
