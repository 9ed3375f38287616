//! The kubelet's response to `/pods`: a Kubernetes `PodList`, of which few fields are needed.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::PodContainer;

/// A pod, with its containers by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pod {
    namespace: String,
    name: String,
    service: String,
    containers: FxHashMap<String, (String, String)>,
}

impl Pod {
    pub(super) fn has(&self, container_id: &str) -> bool {
        self.containers.contains_key(container_id)
    }

    pub(crate) fn container(&self, id: Option<&str>) -> PodContainer {
        let (container, image) = id.and_then(|id| self.containers.get(id)).cloned().unzip();
        PodContainer {
            namespace: self.namespace.clone(),
            pod: self.name.clone(),
            service: self.service.clone(),
            container,
            image: image.filter(|image| !image.is_empty()),
        }
    }
}

/// Absent and `null` fields are equal (Go writes both).
#[derive(Deserialize)]
struct PodList {
    kind: Option<String>,
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    container_statuses: Option<Vec<Container>>,
    init_container_statuses: Option<Vec<Container>>,
    ephemeral_container_statuses: Option<Vec<Container>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    image: Option<String>,
    /// `containerd://<id>`; absent before its start.
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

/// Parses the pods, by the UIDs in their cgroup paths.
pub(crate) fn read(bytes: &[u8]) -> Result<FxHashMap<String, Pod>, String> {
    let list: PodList = serde_json::from_slice(bytes)
        .map_err(|error| format!("the kubelet answers no list of pods: {error}"))?;
    if list.kind.as_deref().is_some_and(|kind| kind != "PodList") {
        return Err(format!(
            "the kubelet answers a {}, not a PodList",
            list.kind.unwrap_or_default()
        ));
    }
    let mut pods = FxHashMap::default();
    for Item { metadata, status } in list.items.unwrap_or_default() {
        let uids = uids(&metadata);
        let pod = Pod {
            service: service(&metadata),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name,
            containers: status.map(containers).unwrap_or_default(),
        };
        pods.extend(uids.into_iter().map(|uid| (uid, pod.clone())));
    }
    Ok(pods)
}

/// Static pods, which the kubelet reads from files, use the hash of the file as UID.
fn uids(metadata: &Metadata) -> Vec<String> {
    let annotation = |name: &str| metadata.annotations.as_ref()?.get(name).cloned();
    let mut uids = vec![metadata.uid.clone()];
    uids.extend(annotation("kubernetes.io/config.hash"));
    uids.extend(annotation("kubernetes.io/config.mirror"));
    uids
}

fn service(metadata: &Metadata) -> String {
    let label = |name: &str| metadata.labels.as_ref()?.get(name).filter(|it| !it.is_empty());
    if let Some(name) = label("app.kubernetes.io/name") {
        return name.clone();
    }
    let owner = metadata.owner_references.iter().flatten().next();
    match owner {
        // A deployment's ReplicaSet has its name and the hash of its template.
        Some(Owner { kind, name }) if kind == "ReplicaSet" => {
            let hash = label("pod-template-hash").map(|hash| format!("-{hash}"));
            let of_deployment = hash.and_then(|hash| name.strip_suffix(hash.as_str()));
            of_deployment.unwrap_or(name).to_owned()
        }
        // Static pods are owned by the node.
        Some(Owner { kind, name }) if kind != "Node" => name.clone(),
        _ => metadata.name.clone(),
    }
}

fn containers(status: Status) -> FxHashMap<String, (String, String)> {
    let all = [
        status.container_statuses,
        status.init_container_statuses,
        status.ephemeral_container_statuses,
    ];
    let container = |container: Container| {
        let id = container.container_id?;
        let id = id.split_once("://").map_or(id.as_str(), |(_runtime, id)| id).to_owned();
        Some((id, (container.name, container.image.unwrap_or_default())))
    };
    all.into_iter().flatten().flatten().filter_map(container).collect()
}
