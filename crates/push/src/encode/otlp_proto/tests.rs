//! The bytes of each message, as other readers expect them.

use super::*;

/// Field numbers and wire types, from the schema.
#[test]
fn fields_have_the_numbers_of_1_10() {
    let check = |made: Vec<u8>, expected: &[u8]| assert_eq!(made, expected);
    let sample = Sample {
        stack_index: 1,
        attribute_indices: vec![2],
        link_index: 3,
        values: vec![4],
        timestamps_unix_nano: vec![5],
    };
    let timestamps = [0x2a, 8, 5, 0, 0, 0, 0, 0, 0, 0];
    check(
        sample.encode_to_vec(),
        &[&[0x08, 1, 0x12, 1, 2, 0x18, 3, 0x22, 1, 4][..], &timestamps].concat(),
    );
    let value_type = ValueType { type_strindex: 1, unit_strindex: 2 };
    check(value_type.encode_to_vec(), &[0x08, 1, 0x10, 2]);
    let profile = Profile {
        sample_type: Some(ValueType::default()),
        samples: vec![Sample::default()],
        time_unix_nano: 3,
        duration_nano: 4,
        period_type: Some(ValueType::default()),
        period: 6,
        profile_id: vec![7],
    };
    let time = [0x19, 3, 0, 0, 0, 0, 0, 0, 0];
    let rest = [0x20, 4, 0x2a, 0, 0x30, 6, 0x3a, 1, 7];
    check(profile.encode_to_vec(), &[&[0x0a, 0, 0x12, 0][..], &time, &rest].concat());
    let mapping = Mapping {
        memory_start: 1,
        memory_limit: 2,
        file_offset: 3,
        filename_strindex: 4,
        attribute_indices: vec![5],
    };
    check(mapping.encode_to_vec(), &[0x08, 1, 0x10, 2, 0x18, 3, 0x20, 4, 0x2a, 1, 5]);
    let location = Location {
        mapping_index: 1,
        address: 2,
        lines: vec![Line { function_index: 1, line: 2 }],
        attribute_indices: vec![4],
    };
    let line = [0x1a, 4, 0x08, 1, 0x10, 2];
    check(location.encode_to_vec(), &[&[0x08, 1, 0x10, 2][..], &line, &[0x22, 1, 4]].concat());
    let function = Function { name_strindex: 1, system_name_strindex: 2, filename_strindex: 3 };
    check(function.encode_to_vec(), &[0x08, 1, 0x10, 2, 0x18, 3]);
    let text = AnyValue { value: Some(Value::Text("a".to_owned())) };
    let attribute = KeyValueAndUnit { key_strindex: 1, value: Some(text), unit_strindex: 3 };
    check(attribute.encode_to_vec(), &[0x08, 1, 0x12, 3, 0x0a, 1, b'a', 0x18, 3]);
    let number = AnyValue { value: Some(Value::Number(9)) };
    check(number.encode_to_vec(), &[0x18, 9]);
    check(Stack { location_indices: vec![1, 2] }.encode_to_vec(), &[0x0a, 2, 1, 2]);
}

#[test]
fn messages_nest_as_in_the_schema() {
    let check = |made: Vec<u8>, expected: &[u8]| assert_eq!(made, expected);
    let dictionary = ProfilesDictionary {
        mapping_table: vec![Mapping::default()],
        location_table: vec![Location::default()],
        function_table: vec![Function::default()],
        link_table: vec![Link::default()],
        string_table: vec![String::new()],
        attribute_table: vec![KeyValueAndUnit::default()],
        stack_table: vec![Stack::default()],
    };
    let tables = [0x0a, 0, 0x12, 0, 0x1a, 0, 0x22, 0, 0x2a, 0, 0x32, 0, 0x3a, 0];
    check(dictionary.encode_to_vec(), &tables);
    let scope = InstrumentationScope { name: "a".to_owned(), version: "b".to_owned() };
    check(scope.encode_to_vec(), &[0x0a, 1, b'a', 0x12, 1, b'b']);
    let scope_profiles = ScopeProfiles {
        scope: Some(InstrumentationScope::default()),
        profiles: vec![Profile::default()],
    };
    check(scope_profiles.encode_to_vec(), &[0x0a, 0, 0x12, 0]);
    let value = Some(AnyValue::default());
    let resource = Resource { attributes: vec![KeyValue { key: "k".to_owned(), value }] };
    check(resource.encode_to_vec(), &[0x0a, 5, 0x0a, 1, b'k', 0x12, 0]);
    let request = ExportRequest {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource::default()),
            scope_profiles: vec![ScopeProfiles::default()],
        }],
        dictionary: Some(ProfilesDictionary::default()),
    };
    check(request.encode_to_vec(), &[0x0a, 4, 0x0a, 0, 0x12, 0, 0x12, 0]);
}
