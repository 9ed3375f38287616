# Decodes an ExportProfilesServiceRequest by the schema of the package `opentelemetry-proto`: python3 decode_otlp.py FILE
import gzip
import json
import sys

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

with open(sys.argv[1], "rb") as file:
    request = profiles_service_pb2.ExportProfilesServiceRequest.FromString(gzip.decompress(file.read()))
texts = request.dictionary.string_table
profiles = []
for resource in request.resource_profiles:
    labels = {one.key: one.value.string_value for one in resource.resource.attributes}
    for scope in resource.scope_profiles:
        for profile in scope.profiles:
            stacks = []
            for sample in profile.samples:
                stack = request.dictionary.stack_table[sample.stack_index]
                names = []
                for index in stack.location_indices:
                    for line in request.dictionary.location_table[index].lines:
                        function = request.dictionary.function_table[line.function_index]
                        names.append(texts[function.name_strindex])
                stacks.append([names, list(sample.values)])
            kind = profile.sample_type
            profiles.append({
                "labels": labels,
                "type": [texts[kind.type_strindex], texts[kind.unit_strindex]],
                "duration": profile.duration_nano,
                "stacks": stacks,
            })
print(json.dumps(profiles))
