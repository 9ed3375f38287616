//! OpenTelemetry's profiles over HTTP, converted from pprof.
//!
//! An OpenTelemetry profile has one value type, so a pprof profile becomes several. CPU time that is samples times
//! period is omitted: readers compute it from the samples, and Pyroscope would store it twice, under two names
//! (`pkg/ingester/otlp/convert.go`). A period of zero becomes one, since Pyroscope rejects zero.
//!
//! `opentelemetry-proto` has the messages, of version 1.10 or newer: before, `Sample` had other field numbers, so that
//! older readers see samples without values. All `…_index` fields are indices into a table of [`ProfilesDictionary`],
//! whose first entries are empty.

use std::{collections::BTreeMap, io::Write as _};

use anyhow::anyhow;
use flate2::{Compression, write::GzEncoder};
use opentelemetry_proto::tonic::{
    collector::profiles::v1development::ExportProfilesServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    profiles::v1development::{
        Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary,
        ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
    },
    resource::v1::Resource,
};
use prost::Message;
use rustc_hash::FxHashMap;
use uuid::Uuid;
use wingbeat_pprof::{
    pprof::{Dangling, Tables, decoded, unpacked},
    proto as pprof,
};

use super::Request;
use crate::window::{Series, Window, unix_ns};

/// Largest profile to convert, in decompressed bytes.
const PPROF_BYTES_MAX: u64 = 256 << 20;

const CPU: (&str, &str) = ("cpu", "nanoseconds");
const SAMPLES: (&str, &str) = ("samples", "count");

/// OpenTelemetry's attribute for the GNU build id of a mapping's file.
const BUILD_ID: &str = "process.executable.build_id.gnu";
/// OpenTelemetry's attribute for the kind of code at a location.
const FRAME_TYPE: &str = "profile.frame.type";

pub(super) fn request(window: &Window) -> anyhow::Result<Request> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&convert(window)?.encode_to_vec())?;
    Ok(Request {
        path: "/v1development/profiles",
        headers: vec![("content-type", "application/x-protobuf"), ("content-encoding", "gzip")],
        body: gzip.finish()?,
    })
}

/// Creates a resource for each label set, and one dictionary for all.
fn convert(window: &Window) -> anyhow::Result<ExportProfilesServiceRequest> {
    let mut dictionary = Dictionary::new();
    let mut resources: BTreeMap<_, Vec<Profile>> = BTreeMap::new();
    for series in &window.series {
        let mut convert = || {
            let bytes = unpacked(&series.pprof, PPROF_BYTES_MAX)
                .map_err(|reason| anyhow!("it {reason}"))?;
            let message = decoded(&bytes).map_err(|reason| anyhow!("it is {reason}"))?;
            anyhow::Ok(profiles(window, series, &message, &mut dictionary)?)
        };
        let made = convert().map_err(|reason| {
            anyhow!("the profile of {} cannot be converted: {reason}", series.service())
        })?;
        resources.entry((&series.labels, series.service())).or_default().extend(made);
    }
    let scope = InstrumentationScope {
        name: "wingbeat".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let resource_profiles = resources.into_iter().map(|((labels, service), profiles)| {
        let scope = Some(scope.clone());
        let scope_profiles = vec![ScopeProfiles { scope, profiles, ..ScopeProfiles::default() }];
        let resource = Some(resource(labels, service));
        ResourceProfiles { resource, scope_profiles, ..ResourceProfiles::default() }
    });
    Ok(ExportProfilesServiceRequest {
        resource_profiles: resource_profiles.collect(),
        dictionary: Some(dictionary.finish()),
    })
}

fn resource(labels: &BTreeMap<String, String>, service: &str) -> Resource {
    let filled = labels.iter().filter(|(_, value)| !value.is_empty());
    let mut attributes: BTreeMap<_, _> =
        filled.map(|(name, value)| (dotted(name), value.as_str())).collect();
    attributes.entry("service.name").or_insert(service);
    let attribute = |(key, value): (&str, &str)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) }),
        ..KeyValue::default()
    };
    let attributes = attributes.into_iter().map(attribute).collect();
    Resource { attributes, ..Resource::default() }
}

/// The profiles of a series: one for each value type to keep.
fn profiles(
    window: &Window,
    series: &Series,
    message: &pprof::Profile,
    dictionary: &mut Dictionary,
) -> Result<Vec<Profile>, Dangling> {
    let tables = Tables::new(message);
    let mut locations = Locations::new(message);
    // Common to the samples of all types: the stack and the attributes.
    let mut shared = Vec::with_capacity(message.sample.len());
    for sample in &message.sample {
        let stack = locations.stack(sample, &tables, dictionary)?;
        shared.push((stack, attributes(sample, &tables, dictionary)?));
    }
    let id = series.id(window.start);
    let mut made = Vec::new();
    for index in types(message, &tables)? {
        let sample_type = message.sample_type[index];
        let values = message.sample.iter().map(|sample| sample.value.get(index).copied());
        let samples: Vec<Sample> = values
            .zip(&shared)
            .filter_map(|(value, (stack_index, attributes))| {
                let values = vec![value.filter(|&value| value != 0)?];
                let (stack_index, attribute_indices) = (*stack_index, attributes.clone());
                Some(Sample { stack_index, attribute_indices, values, ..Sample::default() })
            })
            .collect();
        let sample_type = value_type(sample_type, &tables, dictionary)?;
        let period_type = match message.period_type {
            Some(period_type) => value_type(period_type, &tables, dictionary)?,
            None => sample_type,
        };
        let profile_id = Uuid::new_v5(&id, &index.to_le_bytes()).into_bytes().to_vec();
        made.push(Profile {
            sample_type: Some(sample_type),
            samples,
            time_unix_nano: positive(message.time_nanos)
                .or_else(|| positive(unix_ns(window.start)))
                .unwrap_or(1),
            duration_nano: positive(message.duration_nanos)
                .unwrap_or_else(|| u64::try_from(window.duration.as_nanos()).unwrap_or(u64::MAX)),
            period_type: Some(period_type),
            period: message.period.max(1),
            profile_id,
            ..Profile::default()
        });
    }
    // A request without any profile would be rejected.
    if made.iter().any(|profile| !profile.samples.is_empty()) {
        made.retain(|profile| !profile.samples.is_empty());
    } else {
        made.truncate(1);
    }
    Ok(made)
}

fn positive(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|&number| number > 0)
}

fn value_type(
    of: pprof::ValueType,
    tables: &Tables<'_>,
    dictionary: &mut Dictionary,
) -> Result<ValueType, Dangling> {
    Ok(ValueType {
        type_strindex: dictionary.string(tables.string(of.r#type)?),
        unit_strindex: dictionary.string(tables.string(of.unit)?),
    })
}

/// Indices of the value types to keep.
fn types(message: &pprof::Profile, tables: &Tables<'_>) -> Result<Vec<usize>, Dangling> {
    let named = |of: &pprof::ValueType| Ok((tables.string(of.r#type)?, tables.string(of.unit)?));
    let names = message.sample_type.iter().map(named).collect::<Result<Vec<_>, Dangling>>()?;
    let index_of = |of| names.iter().position(|name| *name == of);
    let period_type = message.period_type.as_ref().map(named).transpose()?;
    let computed = match (index_of(SAMPLES), index_of(CPU)) {
        (Some(samples), Some(cpu)) if period_type == Some(CPU) && message.period > 0 => {
            let is_product = |sample: &pprof::Sample| {
                let (count, time_ns) = (sample.value.get(samples)?, sample.value.get(cpu)?);
                (count.checked_mul(message.period)? == *time_ns).then_some(())
            };
            message.sample.iter().all(|sample| is_product(sample).is_some()).then_some(cpu)
        }
        _ => None,
    };
    Ok((0..names.len()).filter(|&index| Some(index) != computed).collect())
}

/// Locations of a pprof profile, with their dictionary indices.
struct Locations<'a> {
    by_id: FxHashMap<u64, &'a pprof::Location>,
    mappings: FxHashMap<u64, &'a pprof::Mapping>,
    known: FxHashMap<u64, i32>,
}

impl<'a> Locations<'a> {
    fn new(message: &'a pprof::Profile) -> Self {
        let by_id = message.location.iter().map(|location| (location.id, location)).collect();
        let mappings = message.mapping.iter().map(|mapping| (mapping.id, mapping)).collect();
        Self { by_id, mappings, known: FxHashMap::default() }
    }

    fn stack(
        &mut self,
        sample: &pprof::Sample,
        tables: &Tables<'_>,
        dictionary: &mut Dictionary,
    ) -> Result<i32, Dangling> {
        let mut stack = Vec::with_capacity(sample.location_id.len());
        for &id in &sample.location_id {
            let index = match self.known.get(&id) {
                Some(&index) => index,
                None => self.add(id, tables, dictionary)?,
            };
            stack.push(index);
        }
        Ok(dictionary.stack(stack))
    }

    fn add(
        &mut self,
        id: u64,
        tables: &Tables<'_>,
        dictionary: &mut Dictionary,
    ) -> Result<i32, Dangling> {
        let missing = |table, id: u64| Dangling { table, id: id.into() };
        let location = self.by_id.get(&id).copied().ok_or(missing("location", id))?;
        let mapping = match location.mapping_id {
            0 => None,
            id => Some(self.mappings.get(&id).copied().ok_or(missing("mapping", id))?),
        };
        let index = dictionary.location(location, mapping, tables)?;
        self.known.insert(id, index);
        Ok(index)
    }
}

/// Distinct entries, and their indices by serialized entry.
#[derive(Debug)]
struct Table<T> {
    indices: FxHashMap<Vec<u8>, i32>,
    entries: Vec<T>,
}

impl<T: Default> Table<T> {
    fn new() -> Self {
        let indices = FxHashMap::from_iter([(Vec::new(), 0)]);
        Self { indices, entries: vec![T::default()] }
    }

    fn add_as(&mut self, key: &[u8], entry: impl FnOnce() -> T) -> i32 {
        if let Some(&index) = self.indices.get(key) {
            return index;
        }
        // A profile is smaller than 2^31 bytes, so it has fewer entries. Otherwise, 0 means none.
        let Ok(index) = i32::try_from(self.entries.len()) else { return 0 };
        self.entries.push(entry());
        self.indices.insert(key.to_owned(), index);
        index
    }
}

impl<T: Message + Default> Table<T> {
    fn add(&mut self, entry: T) -> i32 {
        self.add_as(&entry.encode_to_vec(), || entry)
    }
}

/// Tables shared by all profiles of a request, under construction. Entries are distinct, and the first of each table
/// is empty.
#[derive(Debug)]
struct Dictionary {
    mappings: Table<Mapping>,
    locations: Table<Location>,
    functions: Table<Function>,
    strings: Table<String>,
    attributes: Table<KeyValueAndUnit>,
    stacks: Table<Stack>,
}

impl Dictionary {
    fn new() -> Self {
        Self {
            mappings: Table::new(),
            locations: Table::new(),
            functions: Table::new(),
            strings: Table::new(),
            attributes: Table::new(),
            stacks: Table::new(),
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        self.strings.add_as(text.as_bytes(), || text.to_owned())
    }

    fn stack(&mut self, location_indices: Vec<i32>) -> i32 {
        self.stacks.add(Stack { location_indices })
    }

    fn attribute(&mut self, key: &str, value: Value, unit: &str) -> i32 {
        let (key_strindex, unit_strindex) = (self.string(key), self.string(unit));
        let value = Some(AnyValue { value: Some(value) });
        self.attributes.add(KeyValueAndUnit { key_strindex, value, unit_strindex })
    }

    fn location(
        &mut self,
        location: &pprof::Location,
        mapping: Option<&pprof::Mapping>,
        tables: &Tables<'_>,
    ) -> Result<i32, Dangling> {
        let (mapping_index, file) = match mapping {
            Some(mapping) => (self.mapping(mapping, tables)?, tables.string(mapping.filename)?),
            None => (0, ""),
        };
        let mut lines = Vec::with_capacity(location.line.len());
        for line in &location.line {
            let function_index = self.function(line.function_id, tables)?;
            lines.push(Line { function_index, line: line.line, column: 0 });
        }
        let frame_type = match file {
            "[kernel]" => Some("kernel"),
            file if file.starts_with('/') => Some("native"),
            _ => None,
        };
        let attribute =
            |kind: &str| self.attribute(FRAME_TYPE, Value::StringValue(kind.to_owned()), "");
        let attribute_indices = frame_type.map(attribute).into_iter().collect();
        let address = location.address;
        Ok(self.locations.add(Location { mapping_index, address, lines, attribute_indices }))
    }

    fn mapping(&mut self, mapping: &pprof::Mapping, tables: &Tables<'_>) -> Result<i32, Dangling> {
        let build_id = tables.string(mapping.build_id)?;
        let value = || Value::StringValue(build_id.to_owned());
        let attribute_indices = match build_id {
            "" => Vec::new(),
            _ => vec![self.attribute(BUILD_ID, value(), "")],
        };
        let filename_strindex = self.string(tables.string(mapping.filename)?);
        Ok(self.mappings.add(Mapping {
            memory_start: mapping.memory_start,
            memory_limit: mapping.memory_limit,
            file_offset: mapping.file_offset,
            filename_strindex,
            attribute_indices,
        }))
    }

    fn function(&mut self, id: u64, tables: &Tables<'_>) -> Result<i32, Dangling> {
        let function = tables.function(id)?;
        let function = Function {
            name_strindex: self.string(tables.string(function.name)?),
            system_name_strindex: self.string(tables.string(function.system_name)?),
            filename_strindex: self.string(tables.string(function.filename)?),
            start_line: 0,
        };
        Ok(self.functions.add(function))
    }

    fn finish(self) -> ProfilesDictionary {
        ProfilesDictionary {
            mapping_table: self.mappings.entries,
            location_table: self.locations.entries,
            function_table: self.functions.entries,
            // With zeros of full length, as the schema requires, for readers that check it.
            link_table: vec![Link { trace_id: vec![0; 16], span_id: vec![0; 8] }],
            string_table: self.strings.entries,
            attribute_table: self.attributes.entries,
            stack_table: self.stacks.entries,
        }
    }
}

/// OpenTelemetry's semantic conventions about where code runs.
const KNOWN: &[&str] = &[
    "cloud.account.id",
    "cloud.availability_zone",
    "cloud.platform",
    "cloud.provider",
    "cloud.region",
    "container.id",
    "container.image.name",
    "container.name",
    "container.runtime",
    "deployment.environment.name",
    "host.arch",
    "host.id",
    "host.image.id",
    "host.name",
    "host.type",
    "k8s.cluster.name",
    "k8s.container.name",
    "k8s.cronjob.name",
    "k8s.daemonset.name",
    "k8s.deployment.name",
    "k8s.job.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.replicaset.name",
    "k8s.statefulset.name",
    "os.description",
    "os.type",
    "os.version",
    "process.command",
    "process.command_line",
    "process.executable.build_id.gnu",
    "process.executable.name",
    "process.executable.path",
    "process.owner",
    "process.pid",
    "process.runtime.name",
    "process.runtime.version",
    "service.instance.id",
    "service.name",
    "service.namespace",
    "service.version",
    "thread.id",
    "thread.name",
];

/// OpenTelemetry's name of a label, or the label itself.
fn dotted(label: &str) -> &str {
    let same = |known: &&&str| {
        known.len() == label.len()
            && known.bytes().zip(label.bytes()).all(|(a, b)| a == b || (a == b'.' && b == b'_'))
    };
    KNOWN.iter().find(same).copied().unwrap_or(label)
}

/// OpenTelemetry's name of a label that wingbeat sets on pprof samples.
fn of_sample(label: &str) -> &str {
    match label {
        "process" => "process.executable.name",
        "pid" => "process.pid",
        "thread" => "thread.name",
        "tid" => "thread.id",
        label => dotted(label),
    }
}

/// The labels of a sample as attributes. Keys are unique, as the schema requires.
fn attributes(
    sample: &pprof::Sample,
    tables: &Tables<'_>,
    dictionary: &mut Dictionary,
) -> Result<Vec<i32>, Dangling> {
    let mut keys = Vec::with_capacity(sample.label.len());
    let mut indices = Vec::with_capacity(sample.label.len());
    for label in &sample.label {
        let name = tables.string(label.key)?;
        let key = of_sample(name);
        if key.is_empty() || keys.contains(&key) {
            continue;
        }
        keys.push(key);
        let unit = tables.string(label.num_unit)?;
        let (value, unit) = match tables.string(label.str)? {
            // wingbeat sets a number's unit to its key, which makes pprof print it unchanged.
            "" => (Value::IntValue(label.num), if unit == name { "" } else { unit }),
            text => (Value::StringValue(text.to_owned()), ""),
        };
        indices.push(dictionary.attribute(key, value, unit));
    }
    Ok(indices)
}

#[cfg(test)]
mod tests;
