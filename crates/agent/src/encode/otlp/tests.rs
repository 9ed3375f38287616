//! Conversion of a pprof profile.

use std::time::{Duration, UNIX_EPOCH};

use wingbeat_pprof::pprof::{Strings, pack};

use super::*;
use crate::window::Kind;

const PERIOD_NS: i64 = 50_000_000;

/// `main` calls `work`, which was inlined into `outer`; one stack has a kernel frame on top.
fn message(period: i64, cpu_ns: [i64; 2]) -> pprof::Profile {
    let mut strings = Strings::default();
    let mut value_type = |(name, unit): (&'static str, &'static str)| pprof::ValueType {
        r#type: strings.number(name),
        unit: strings.number(unit),
    };
    let sample_type = vec![value_type(SAMPLES), value_type(CPU)];
    let period_type = Some(value_type(CPU));
    let function = |id, name| pprof::Function { id, name, ..Default::default() };
    let function = vec![
        function(1, strings.number("main")),
        function(2, strings.number("work")),
        function(3, strings.number("outer")),
        function(4, strings.number("sys_read")),
    ];
    let mapping = vec![
        pprof::Mapping {
            id: 7,
            memory_start: 0x1000,
            memory_limit: 0x2000,
            filename: strings.number("/usr/bin/web"),
            build_id: strings.number("abcd"),
            ..Default::default()
        },
        pprof::Mapping { id: 9, filename: strings.number("[kernel]"), ..Default::default() },
    ];
    let line = |function_id| pprof::Line { function_id, line: 10 };
    let location = |id, mapping_id, line| pprof::Location { id, mapping_id, address: id, line };
    let location = vec![
        location(1, 7, vec![line(1)]),
        location(2, 7, vec![line(2), line(3)]),
        location(3, 9, vec![line(4)]),
    ];
    let (thread, name, tid) =
        (strings.number("thread"), strings.number("worker"), strings.number("tid"));
    let label = vec![
        pprof::Label { key: thread, str: name, ..Default::default() },
        pprof::Label { key: tid, num: 42, num_unit: tid, ..Default::default() },
    ];
    let sample = vec![
        pprof::Sample { location_id: vec![2, 1], value: vec![3, cpu_ns[0]], label },
        pprof::Sample { location_id: vec![3, 2, 1], value: vec![1, cpu_ns[1]], label: vec![] },
        pprof::Sample { location_id: vec![1], value: vec![0, 0], label: vec![] },
    ];
    pprof::Profile {
        sample_type,
        sample,
        mapping,
        location,
        function,
        string_table: strings.into_table(),
        period_type,
        period,
        ..Default::default()
    }
}

fn window(message: &pprof::Profile) -> Window {
    let mut packed = Vec::new();
    pack(message, &mut packed).expect("packed");
    let labels = [("service_name", "web"), ("host_name", "a"), ("unit", "x"), ("container_id", "")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let series = vec![Series { kind: Kind::Cpu, labels, pprof: packed }];
    let start = UNIX_EPOCH + Duration::from_secs(100);
    Window { start, duration: Duration::from_secs(15), series }
}

fn text(dictionary: &ProfilesDictionary, index: i32) -> &str {
    &dictionary.string_table[index as usize]
}

#[test]
fn names_and_stacks_survive() {
    let made = convert(&window(&message(PERIOD_NS, [3 * PERIOD_NS, PERIOD_NS]))).expect("made");
    let dictionary = made.dictionary.expect("a dictionary");
    let resource = &made.resource_profiles[0];
    let attributes = &resource.resource.as_ref().expect("a resource").attributes;
    let keys: Vec<_> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(keys, ["host.name", "service.name", "unit"]);

    let profiles = &resource.scope_profiles[0].profiles;
    assert_eq!(profiles.len(), 1, "time is samples times period");
    let profile = &profiles[0];
    let sample_type = profile.sample_type.expect("a type");
    assert_eq!(text(&dictionary, sample_type.type_strindex), "samples");
    let period_type = profile.period_type.expect("a type");
    assert_eq!(text(&dictionary, period_type.unit_strindex), "nanoseconds");
    assert_eq!((profile.period, profile.profile_id.len()), (PERIOD_NS, 16));
    assert_eq!((profile.time_unix_nano, profile.duration_nano), (100_000_000_000, 15_000_000_000));

    let stacks: Vec<Vec<Vec<&str>>> = profile
        .samples
        .iter()
        .map(|sample| {
            let stack = &dictionary.stack_table[sample.stack_index as usize];
            let locations =
                stack.location_indices.iter().map(|&it| &dictionary.location_table[it as usize]);
            let name = |index: i32| {
                text(&dictionary, dictionary.function_table[index as usize].name_strindex)
            };
            locations
                .map(|it| it.lines.iter().map(|line| name(line.function_index)).collect())
                .collect()
        })
        .collect();
    assert_eq!(
        stacks,
        [
            vec![vec!["work", "outer"], vec!["main"]],
            vec![vec!["sys_read"], vec!["work", "outer"], vec!["main"]],
        ]
    );
    let values: Vec<_> = profile.samples.iter().map(|sample| sample.values.clone()).collect();
    assert_eq!(values, [[3], [1]], "a sample without a value is left out");
    assert_eq!(dictionary.mapping_table.len(), 3);
    let mapping = &dictionary.mapping_table[1];
    assert_eq!(text(&dictionary, mapping.filename_strindex), "/usr/bin/web");
    let attribute = &dictionary.attribute_table[mapping.attribute_indices[0] as usize];
    assert_eq!(text(&dictionary, attribute.key_strindex), "process.executable.build_id.gnu");
}

#[test]
fn labels_of_samples_become_attributes() {
    let made = convert(&window(&message(PERIOD_NS, [0, 0]))).expect("made");
    let dictionary = made.dictionary.expect("a dictionary");
    let sample = &made.resource_profiles[0].scope_profiles[0].profiles[0].samples[0];
    let attributes: Vec<_> = sample
        .attribute_indices
        .iter()
        .map(|&index| {
            let attribute = &dictionary.attribute_table[index as usize];
            let value = attribute.value.clone().and_then(|value| value.value).expect("a value");
            (text(&dictionary, attribute.key_strindex), value, attribute.unit_strindex)
        })
        .collect();
    let worker = Value::StringValue("worker".to_owned());
    assert_eq!(attributes, [("thread.name", worker, 0), ("thread.id", Value::IntValue(42), 0)]);
}

#[test]
fn types_are_kept_unless_they_follow() {
    let check = |period, cpu_ns, expected: &[(&str, i64)]| {
        let made = convert(&window(&message(period, cpu_ns))).expect("made");
        let dictionary = made.dictionary.expect("a dictionary");
        let profiles = &made.resource_profiles[0].scope_profiles[0].profiles;
        let types: Vec<_> = profiles
            .iter()
            .map(|it| {
                let sample_type = it.sample_type.expect("a type");
                (text(&dictionary, sample_type.type_strindex), it.period)
            })
            .collect();
        assert_eq!(types, expected);
        let ids: std::collections::BTreeSet<_> = profiles.iter().map(|it| &it.profile_id).collect();
        assert_eq!(ids.len(), profiles.len());
    };
    check(PERIOD_NS, [3 * PERIOD_NS, PERIOD_NS], &[("samples", PERIOD_NS)]);
    check(PERIOD_NS, [3 * PERIOD_NS, 1], &[("samples", PERIOD_NS), ("cpu", PERIOD_NS)]);
    check(0, [9, 9], &[("samples", 1), ("cpu", 1)]);
    // A type without values is omitted.
    check(PERIOD_NS, [0, 0], &[("samples", PERIOD_NS)]);
}

#[test]
fn tables_begin_empty_and_hold_each_entry_once() {
    let mut window = window(&message(PERIOD_NS, [3 * PERIOD_NS, PERIOD_NS]));
    let other = Series { kind: Kind::Pages, ..window.series[0].clone() };
    let once = convert(&window).expect("made").dictionary.expect("a dictionary");
    window.series.push(other);
    let made = convert(&window).expect("made");
    assert_eq!(made.resource_profiles.len(), 1, "the labels are the same");
    assert_eq!(made.resource_profiles[0].scope_profiles[0].profiles.len(), 2);
    let twice = made.dictionary.expect("a dictionary");
    assert_eq!(once, twice);
    assert_eq!(twice.string_table[0], "");
    assert_eq!(twice.mapping_table[0], Default::default());
    assert_eq!(twice.location_table[0], Default::default());
    assert_eq!(twice.function_table[0], Default::default());
    assert_eq!(twice.attribute_table[0], Default::default());
    assert_eq!(twice.stack_table[0], Default::default());
    assert_eq!(twice.link_table[0].trace_id.len(), 16);
}

#[test]
fn invalid_profiles_are_errors() {
    let check = |change: fn(&mut pprof::Profile), expected: &str| {
        let mut message = message(PERIOD_NS, [1, 1]);
        change(&mut message);
        let error = request(&window(&message)).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("web"), "{error}");
    };
    check(|message| message.sample[0].location_id[0] = 99, "location 99");
    check(|message| message.location[0].mapping_id = 99, "mapping 99");
    check(|message| message.function.clear(), "function");
    check(|message| message.string_table.truncate(1), "string");
    check(|message| message.sample[0].label[0].key = -1, "string -1");
    for pprof in [b"\x1f\x8b\0\0".to_vec(), b"\xff\xff\xff".to_vec()] {
        let mut window = window(&message(1, [1, 1]));
        window.series[0].pprof = pprof;
        let error = request(&window).expect_err("no profile").to_string();
        assert!(error.starts_with("the profile of web cannot be converted: it "), "{error}");
    }
}

#[test]
fn damage_never_panics() {
    let whole = message(PERIOD_NS, [3 * PERIOD_NS, PERIOD_NS]).encode_to_vec();
    let mut window = window(&message(1, [1, 1]));
    for index in 0..whole.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            window.series[0].pprof.clone_from(&whole);
            window.series[0].pprof[index] ^= change;
            // Some changes give another valid profile, the others an error.
            drop(convert(&window));
        }
        window.series[0].pprof.truncate(index);
        drop(convert(&window));
    }
}

#[test]
fn a_profile_without_samples_is_still_a_request() {
    let mut message = message(PERIOD_NS, [1, 1]);
    message.sample.clear();
    let made = convert(&window(&message)).expect("made");
    assert_eq!(made.resource_profiles[0].scope_profiles[0].profiles.len(), 1);
}

#[test]
fn known_labels_get_their_dots_back() {
    let check = |label, expected| assert_eq!(dotted(label), expected);
    check("service_name", "service.name");
    check("k8s_pod_name", "k8s.pod.name");
    check("process_executable_build_id_gnu", "process.executable.build_id.gnu");
    check("service.name", "service.name");
    check("systemd_unit", "systemd_unit");
    check("service-name", "service-name");
    check("", "");
}

/// The documentation names the oldest version of readers.
#[test]
fn samples_have_the_field_numbers_of_1_10() {
    let sample = Sample {
        stack_index: 1,
        attribute_indices: vec![2],
        link_index: 3,
        values: vec![4],
        timestamps_unix_nano: vec![5],
    };
    let timestamps = [0x2a, 8, 5, 0, 0, 0, 0, 0, 0, 0];
    let rest = [0x08, 1, 0x12, 1, 2, 0x18, 3, 0x22, 1, 4];
    assert_eq!(sample.encode_to_vec(), [&rest[..], &timestamps].concat());
}
