//! Which pod a container belongs to, as the kubelet of this machine tells.
//!
//! It is asked when a pod is met that is not known, by a thread of its own: a window waits for it half a second and no
//! longer, and has the answer the next time otherwise. What it does not know either is asked for less and less often.

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

/// How long a window waits at most.
const PATIENCE: Duration = Duration::from_millis(500);

/// Pauses after the kubelet failed, and after it did not know what was asked for: a container that just began is in its
/// answer some seconds later.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What is missing at most; more of it is forgotten.
const MISSING_MAX: usize = 1_000;

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodContainer {
    pub namespace: String,
    pub pod: String,
    /// What people call it: the label `app.kubernetes.io/name`, else what the pod was made by, else the pod.
    pub service: String,
    /// None of what the kubelet does not list, such as the one that holds a pod's namespaces.
    pub container: Option<String>,
    pub image: Option<String>,
}

/// Where pods are asked for: the kubelet's document, or why there is none.
pub(crate) type Fetch = Box<dyn FnMut() -> Result<Vec<u8>, String> + Send>;

type Answer = Result<FxHashMap<String, Pod>, String>;

/// What is known of pods.
pub(crate) struct Pods {
    requests: SyncSender<()>,
    answers: Receiver<Answer>,
    is_asked: bool,
    /// By their UIDs.
    known: FxHashMap<String, Pod>,
    /// What the last answers did not have: UIDs, and ids of containers.
    missing: HashMap<String, Backoff>,
    failures: Backoff,
    /// Until when this window waits.
    patience_end: Option<Instant>,
    trouble: Option<String>,
    pub(crate) counts: PodCounts,
}

/// How often the kubelet was asked.
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
    /// Asks by a thread, which ends when this does.
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
        // Without a thread nobody answers, as if the kubelet did not.
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

    /// Another window may wait again.
    pub(crate) fn next_window(&mut self) {
        self.patience_end = None;
        if self.missing.len() > MISSING_MAX {
            self.missing.clear();
        }
    }

    /// What went wrong since this was asked for last.
    pub(crate) fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Whose container it is, if that is known by now.
    pub(crate) fn get(&mut self, uid: &str, container_id: Option<&str>) -> Option<PodContainer> {
        self.take_answer(Duration::ZERO);
        if self.lacks(uid, container_id) && self.ask() {
            let now = Instant::now();
            let end = *self.patience_end.get_or_insert(now + PATIENCE);
            self.take_answer(end.saturating_duration_since(now));
            // Noted as missing if the answer does not have it.
            self.lacks(uid, container_id);
        }
        self.known.get(uid).map(|pod| pod.container(container_id))
    }

    /// Whether the kubelet is to be asked for it now.
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

    /// Whether an answer is on its way.
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
                // What it has is removed when it is asked for.
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
