//! Maps containers to pods, by requests to the kubelet of this machine.
//!
//! A thread sends a request when an unknown pod occurs. A window waits for it up to half a second, otherwise the
//! result is available to the next window. Pods that the kubelet does not know are requested less and less often.

mod document;

use std::{
    collections::HashMap,
    fmt,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustc_hash::FxHashMap;
use wingbeat_push::Backoff;

use self::document::Pod;
pub(crate) use self::document::read;

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
    is_asked: bool,
    /// By UID.
    known: FxHashMap<String, Pod>,
    /// UIDs and container ids that the last responses lacked.
    missing: HashMap<String, Backoff>,
    failures: Backoff,
    /// End of this window's wait.
    patience_end: Option<Instant>,
    trouble: Option<String>,
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
        let (requests, asked) = sync_channel::<()>(1);
        let (answered, answers) = sync_channel::<Answer>(1);
        let serve = move || {
            while asked.recv().is_ok() {
                let answer = fetch().and_then(|bytes| read(&bytes));
                if answered.send(answer).is_err() {
                    return;
                }
            }
        };
        // Without a thread there are no responses, as if the kubelet failed.
        let _ = thread::Builder::new().name("kubelet".to_owned()).spawn(serve);
        Self {
            requests,
            answers,
            is_asked: false,
            known: FxHashMap::default(),
            missing: HashMap::new(),
            failures: Backoff::new(PAUSE, PAUSE_MAX),
            patience_end: None,
            trouble: None,
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
    pub(crate) fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// The pod of a container, if known by now.
    pub(crate) fn get(&mut self, uid: &str, container_id: Option<&str>) -> Option<PodContainer> {
        self.take_answer(Duration::ZERO);
        if self.lacks(uid, container_id) && self.ask() {
            let now = Instant::now();
            let end = *self.patience_end.get_or_insert(now + PATIENCE);
            self.take_answer(end.saturating_duration_since(now));
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
    fn ask(&mut self) -> bool {
        if !self.is_asked && self.failures.left(Instant::now()).is_zero() {
            self.is_asked = self.requests.try_send(()).is_ok();
            self.counts.requests += u64::from(self.is_asked);
        }
        self.is_asked
    }

    fn take_answer(&mut self, patience: Duration) {
        if !self.is_asked {
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
                self.trouble = Some(reason);
            }
            Err(false) => return,
            Err(true) => self.failures.fail(now, None),
        }
        self.is_asked = false;
    }
}

#[cfg(test)]
mod tests;
