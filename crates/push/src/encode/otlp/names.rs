//! Converts labels to OpenTelemetry names, which have dots that Prometheus labels cannot have.

use wingbeat_pprof::{
    pprof::{Dangling, Tables},
    proto as pprof,
};

use super::{super::otlp_proto::Value, dictionary::Dictionary};

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
pub(super) fn dotted(label: &str) -> &str {
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
pub(super) fn attributes(
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
            "" => (Value::Number(label.num), if unit == name { "" } else { unit }),
            text => (Value::Text(text.to_owned()), ""),
        };
        indices.push(dictionary.attribute(key, value, unit));
    }
    Ok(indices)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
