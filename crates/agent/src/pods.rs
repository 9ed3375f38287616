//! Maps containers to pods, by requests to the kubelet of this machine.
//!
//! A thread sends a request when an unknown pod occurs. A window waits for it up to half a second, otherwise the
//! result is available to the next window. Pods that the kubelet does not know are requested less and less often.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::backoff::Backoff;

/// Maximum wait per window.
const PATIENCE: Duration = Duration::from_millis(500);

/// Initial pauses after a failure, and after a missing pod: a new container appears in the response some seconds later.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Maximum number of missing entries; more are dropped.
const MISSING_MAX: usize = 1_000;

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodContainer {
    pub namespace: String,
    pub pod: String,
    /// Human-readable name: the label `app.kubernetes.io/name`, else the pod's owner, else the pod.
    pub service: String,
    /// `None` for containers that the kubelet does not list, such as the one that holds a pod's namespaces.
    pub container: Option<String>,
    pub image: Option<String>,
}

/// Returns the kubelet's response, or an error.
pub(crate) type Fetch = Box<dyn FnMut() -> Result<Vec<u8>, String> + Send>;

type Answer = Result<FxHashMap<String, Pod>, String>;

/// State of pods.
pub(crate) struct Pods {
    requests: SyncSender<()>,
    answers: Receiver<Answer>,
    is_requested: bool,
    /// By UID.
    known: FxHashMap<String, Pod>,
    /// UIDs and container ids that the last responses lacked.
    missing: HashMap<String, Backoff>,
    failures: Backoff,
    /// End of this window's wait.
    patience_end: Option<Instant>,
    last_error: Option<String>,
    pub(crate) counts: PodCounts,
}

/// Counts of requests to the kubelet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PodCounts {
    pub requests: u64,
    pub errors: u64,
}

impl fmt::Debug for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pods").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl Pods {
    /// Starts a thread for requests, which ends when this is dropped.
    pub(crate) fn start(mut fetch: Fetch) -> Self {
        let (requests, requested) = sync_channel::<()>(1);
        let (send_answer, answers) = sync_channel::<Answer>(1);
        let serve = move || {
            while requested.recv().is_ok() {
                let answer = fetch().and_then(|bytes| read(&bytes));
                if send_answer.send(answer).is_err() {
                    return;
                }
            }
        };
        // Without a thread there are no responses, as if the kubelet failed.
        let _ = thread::Builder::new().name("kubelet".to_owned()).spawn(serve);
        Self {
            requests,
            answers,
            is_requested: false,
            known: FxHashMap::default(),
            missing: HashMap::new(),
            failures: Backoff::new(PAUSE, PAUSE_MAX),
            patience_end: None,
            last_error: None,
            counts: PodCounts::default(),
        }
    }

    /// Starts another window, which may wait again.
    pub(crate) fn next_window(&mut self) {
        self.patience_end = None;
        if self.missing.len() > MISSING_MAX {
            self.missing.clear();
        }
    }

    /// The last error since the previous call.
    pub(crate) fn take_error(&mut self) -> Option<String> {
        self.last_error.take()
    }

    /// The pod of a container, if known by now.
    pub(crate) fn get(&mut self, uid: &str, container_id: Option<&str>) -> Option<PodContainer> {
        self.receive(Duration::ZERO);
        if self.lacks(uid, container_id) && self.request() {
            let now = Instant::now();
            let end = *self.patience_end.get_or_insert(now + PATIENCE);
            self.receive(end.saturating_duration_since(now));
            // Marked as missing if the response lacks it.
            self.lacks(uid, container_id);
        }
        self.known.get(uid).map(|pod| pod.container(container_id))
    }

    /// Whether to request it from the kubelet now.
    fn lacks(&mut self, uid: &str, container_id: Option<&str>) -> bool {
        let pod = self.known.get(uid);
        let key = match (pod, container_id) {
            (None, _) => uid,
            (Some(pod), Some(id)) if !pod.has(id) => id,
            _ => {
                self.missing.remove(uid);
                container_id.map(|id| self.missing.remove(id));
                return false;
            }
        };
        let new = || Backoff::new(PAUSE, PAUSE_MAX);
        let pause = self.missing.entry(key.to_owned()).or_insert_with(new);
        pause.left(Instant::now()).is_zero()
    }

    /// Starts a request. Returns whether one is in progress.
    fn request(&mut self) -> bool {
        if !self.is_requested && self.failures.left(Instant::now()).is_zero() {
            self.is_requested = self.requests.try_send(()).is_ok();
            self.counts.requests += u64::from(self.is_requested);
        }
        self.is_requested
    }

    fn receive(&mut self, patience: Duration) {
        if !self.is_requested {
            return;
        }
        let answer = match patience.is_zero() {
            true => self.answers.try_recv().map_err(|error| error == TryRecvError::Disconnected),
            false => self
                .answers
                .recv_timeout(patience)
                .map_err(|error| error == RecvTimeoutError::Disconnected),
        };
        let now = Instant::now();
        match answer {
            Ok(Ok(pods)) => {
                self.known = pods;
                self.failures.succeed();
                // Entries that the response has are removed when they are looked up.
                self.missing.values_mut().for_each(|pause| pause.fail(now, None));
            }
            Ok(Err(reason)) => {
                self.failures.fail(now, None);
                self.counts.errors += 1;
                self.last_error = Some(reason);
            }
            Err(false) => return,
            Err(true) => self.failures.fail(now, None),
        }
        self.is_requested = false;
    }
}

/// A pod, with its containers by id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pod {
    namespace: String,
    name: String,
    service: String,
    containers: FxHashMap<String, (String, String)>,
}

impl Pod {
    fn has(&self, container_id: &str) -> bool {
        self.containers.contains_key(container_id)
    }

    fn container(&self, id: Option<&str>) -> PodContainer {
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

/// The kubelet's response to `/pods`, of which few fields are needed. Absent and `null` fields are equal (Go writes both).
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
fn read(bytes: &[u8]) -> Result<FxHashMap<String, Pod>, String> {
    let list: PodList = serde_json::from_slice(bytes)
        .map_err(|error| format!("the kubelet's answer is not a list of pods: {error}"))?;
    if list.kind.as_deref().is_some_and(|kind| kind != "PodList") {
        return Err(format!(
            "the kubelet's answer is a {}, not a PodList",
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

/// For the fuzz target: the kubelet's response.
pub(crate) fn fuzz(bytes: &[u8]) {
    for pod in read(bytes).unwrap_or_default().values() {
        assert!(pod.container(None).container.is_none());
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use wingbeat_http::testing::{Reply, Server};

    use super::*;
    use crate::kubelet::{Kubelet, KubeletOptions};

    const DOCUMENT: &str = include_str!("pods/pods.json");
    const UID: &str = "5b3c1f0e-6a1d-4a53-9b1f-0a7d3f6c2e11";
    const CONTAINER: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";

    /// A kubelet that replies to each request after a delay.
    fn kubelet(status: u16, body: &'static str, after: Duration) -> Server {
        Server::start(move |line, _| {
            assert_eq!(line, "GET /pods");
            thread::sleep(after);
            Reply::last(status, body)
        })
    }

    fn pods(url: &str) -> Pods {
        let options = KubeletOptions { url: url.to_owned(), ..KubeletOptions::default() };
        let kubelet = Kubelet::new(&options).expect("a kubelet");
        Pods::start(Box::new(move || kubelet.pods()))
    }

    #[test]
    fn a_container_has_a_pod() {
        let server = kubelet(200, DOCUMENT, Duration::ZERO);
        let mut pods = pods(&server.url);
        let mut check =
            |uid: &str, id: Option<&str>, expected: Option<(&str, &str, &str, Option<&str>)>| {
                let found = pods.get(uid, id);
                let found = found.as_ref().map(|it| {
                    (
                        it.namespace.as_str(),
                        it.pod.as_str(),
                        it.service.as_str(),
                        it.container.as_deref(),
                    )
                });
                assert_eq!(found, expected, "{uid}");
            };
        let pod = "cart-6f5d8b7c9-x2k4q";
        check(UID, Some(CONTAINER), Some(("shop", pod, "cart", Some("app"))));
        let init = "0f".repeat(32);
        check(UID, Some(&init), Some(("shop", pod, "cart", Some("migrate"))));
        // The container that holds the namespaces is in no list.
        check(UID, Some(&"99".repeat(32)), Some(("shop", pod, "cart", None)));
        check(UID, None, Some(("shop", pod, "cart", None)));
        let of_file = "9f2d1c0b8a7e6f5d4c3b2a1908f7e6d5";
        check(of_file, None, Some(("kube-system", "etcd-node-1", "etcd-node-1", None)));
        check(
            "e7a0c2d4-0b1f-4c3e-8a9d-1f2e3d4c5b6a",
            None,
            Some(("infra", "node-exporter-b9xzk", "exporter", None)),
        );
        check("00000000-0000-0000-0000-000000000000", None, None);
        check("00000000-0000-0000-0000-000000000000", None, None);
        // Initially, and once for each unknown pod, which then has a pause.
        assert_eq!(server.asked().len(), 3);
    }

    #[test]
    fn failures_are_reported_and_not_repeated_at_once() {
        let check = |status: u16, body: &'static str, expected: &str| {
            let server = kubelet(status, body, Duration::ZERO);
            let mut pods = pods(&server.url);
            for _ in 0..5 {
                pods.next_window();
                assert_eq!(pods.get(UID, None), None);
            }
            let last_error = pods.take_error().expect("last_error");
            assert!(last_error.contains(expected), "{last_error}");
            assert_eq!(pods.take_error(), None);
            assert_eq!((server.asked().len(), pods.counts.errors), (1, 1));
        };
        check(401, "Unauthorized", "/pods: it answered 401 (not authenticated)");
        check(403, "Forbidden", "nodes/proxy");
        check(404, "", "is it the kubelet?");
        check(200, "<html>", "answer is not a list of pods");
        check(200, r#"{"kind":"Status"}"#, "the kubelet's answer is a Status, not a PodList");
    }

    #[test]
    fn a_window_does_not_wait_for_long() {
        let server = kubelet(200, DOCUMENT, Duration::from_millis(700));
        let mut pods = pods(&server.url);
        let begun = Instant::now();
        assert_eq!(pods.get(UID, None), None);
        // The wait of this window is over for all pods.
        assert_eq!(pods.get("another", None), None);
        assert!(begun.elapsed() < PATIENCE + Duration::from_millis(150), "{:?}", begun.elapsed());
        // The response is available to the next window.
        thread::sleep(Duration::from_millis(500));
        pods.next_window();
        assert_eq!(pods.get(UID, None).map(|it| it.namespace), Some("shop".to_owned()));
    }

    #[test]
    fn a_kubelet_that_never_answers_stops_nothing() {
        let server = Server::start(|_, _| Reply::Silence(Duration::from_secs(60)));
        let mut pods = pods(&server.url);
        let begun = Instant::now();
        for _ in 0..3 {
            assert_eq!(pods.get(UID, None), None);
        }
        assert!(begun.elapsed() < PATIENCE + Duration::from_millis(150), "{:?}", begun.elapsed());
        assert_eq!(server.asked().len(), 1);
        let nobody =
            TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
        let mut refused = self::pods(&format!("http://{nobody}"));
        assert_eq!(refused.get(UID, None), None);
        assert!(refused.take_error().is_some_and(|it| it.contains("refused the connection")));
    }

    #[test]
    fn documents_that_lack_much() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(read(text.as_bytes()).ok().map(|pods| pods.len()), expected, "{text}");
        };
        check("{}", Some(0));
        check(r#"{"kind":"PodList","items":null}"#, Some(0));
        check(r#"{"items":[{"metadata":{"name":"a","uid":"b"}}]}"#, Some(1));
        check(
            r#"{"items":[{"metadata":{"name":"a","uid":"b","ownerReferences":null},"status":{"containerStatuses":[{"name":"c"}]}}]}"#,
            Some(1),
        );
        check(r#"{"items":[{"metadata":{"name":"a"}}]}"#, None);
        check("[]", None);
        check("", None);
    }
}
