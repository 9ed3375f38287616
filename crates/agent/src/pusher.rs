//! A thread that pushes windows to one target. Offering a window never blocks on it.
//!
//! `offer` puts a window into the inbox, under a lock that is never held for long, and writes it to disk if there
//! is a folder. The thread moves it to the spool and sends the oldest. The spool is not locked during a request,
//! so that [`Pusher::finish`] can write it to disk and return even if a backend hangs.
//!
//! Lock order: spool, then inbox, then tally. The spool may be held during a file write; the other two never are.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use wingbeat_http::{Client, Error, Method, Response, Settings};

use crate::{
    backoff::Backoff,
    credentials::Credentials,
    encode::{Request, encode},
    response::{Verdict, classify},
    spool::Spool,
    target::Target,
    window::{PART_BYTES_MAX, Window},
};

/// Extra time for the thread to notice a timeout on a busy machine.
const GRACE: Duration = Duration::from_secs(1);

/// Minimum time left to start an attempt: a shorter one would be aborted before the response, and repeated after a
/// restart.
const ATTEMPT_MIN: Duration = Duration::from_millis(500);

/// Maximum bytes of a response to read.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

/// Error if windows are dropped although the backend has rejected none.
const TOO_SLOW: &str =
    "it accepts windows more slowly than they are recorded, and the queue is full";

/// Timeouts and limits of a pusher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOptions {
    /// Parent of the target's folder for windows that wait while the backend is down. Without it they wait in
    /// memory, and are lost when the process exits.
    pub folder: Option<PathBuf>,
    /// Maximum bytes waiting; the oldest window is dropped beyond it.
    pub bytes_max: u64,
    /// Maximum windows in memory, if there is a folder.
    pub memory_windows_max: usize,
    /// Pause after the first failure, doubled by each further one. Up to half of it is randomly omitted.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Timeout of a request, including the response.
    pub request_timeout: Duration,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self {
            folder: None,
            bytes_max: 64 << 20,
            memory_windows_max: 4,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// Counts of windows by outcome. A window of more than 2 MiB is sent in parts, and each counts.
///
/// `offered + restored` is `pushed + rejected + dropped + damaged + waiting`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Offered windows, except empty ones.
    pub offered: u64,
    /// Windows left in the folder by an earlier process.
    pub restored: u64,
    /// Windows accepted by the backend.
    pub pushed: u64,
    /// Failed attempts that were or will be repeated.
    pub retries: u64,
    /// Windows rejected by the backend, or that could not be encoded.
    pub rejected: u64,
    /// Windows dropped for lack of room.
    pub dropped: u64,
    /// Windows whose file in the folder was damaged.
    pub damaged: u64,
    pub waiting: u64,
    /// Approximate size of the waiting windows.
    pub waiting_bytes: u64,
    /// Last error, in one sentence. Stays after later successes.
    pub last_error: Option<String>,
}

/// A thread that pushes windows to one target. Dropping it is like [`Pusher::finish`] with no patience.
///
/// The oldest is sent first. A window at which the backend fails each time is retried until there is no room for it.
#[derive(Debug)]
pub struct Pusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread ends.
    ended: Receiver<()>,
}

impl Pusher {
    /// Starts the thread, beginning with windows left in the folder by an earlier process.
    pub fn start(
        target: &Target,
        credentials: Credentials,
        options: PushOptions,
    ) -> anyhow::Result<Self> {
        let folder = options.folder.as_ref().map(|folder| folder.join(target.folder_name()));
        let spool = Spool::open(folder.as_deref(), options.bytes_max, options.memory_windows_max)?;
        let shared = Arc::new(Shared::new(spool, options.bytes_max));
        let (alive, ended) = channel();
        let worker = Worker::new(Arc::clone(&shared), target.clone(), credentials, &options);
        let thread = std::thread::Builder::new()
            .name(format!("push-{}", target.protocol().name()))
            .spawn(move || {
                // Dropped when the thread ends, even by a panic.
                let _alive = alive;
                worker.run();
            })
            .with_context(|| format!("cannot start a thread for {target}"))?;
        Ok(Self { shared, thread: Some(thread), ended })
    }

    /// Queues a window without waiting for the backend: in memory, or on disk if there is a folder. Beyond the
    /// limit the oldest is dropped, and counted.
    pub fn offer(&self, window: &Arc<Window>) {
        let parts = window.parts(PART_BYTES_MAX);
        if !parts.is_empty() {
            self.shared.offer(parts);
        }
    }

    /// Current counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns a function for the current counts, for use by other threads.
    pub fn counter(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.counts()
    }

    /// Pushes waiting windows until `patience` ends, writes the rest to the folder, and stops the thread. Without
    /// a folder the rest is dropped. A pause not demanded by the backend is shortened for one last attempt; none
    /// is started with less than half a second left.
    ///
    /// A hanging request gets one more second and is then abandoned: its window is on disk, and is sent again
    /// after a restart.
    #[must_use]
    pub fn finish(mut self, patience: Duration) -> Counts {
        self.stop(patience);
        self.shared.counts()
    }

    fn stop(&mut self, patience: Duration) {
        let Some(thread) = self.thread.take() else { return };
        let now = Instant::now();
        self.shared.stop(now.checked_add(patience).unwrap_or(now));
        if self.ended.recv_timeout(patience.saturating_add(GRACE)) != Err(RecvTimeoutError::Timeout)
        {
            // Even after a panic, the rest is in the spool.
            drop(thread.join());
        }
        let mut spool = lock(&self.shared.spool);
        self.shared.drain_inbox(&mut spool);
        if spool.len() > 0 {
            self.shared.count(|counts| {
                let late = || "it had not answered when the agent stopped".to_owned();
                counts.last_error.get_or_insert_with(late);
            });
        }
        spool.close();
        self.shared.publish(&mut spool);
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

/// State shared by a pusher's thread and its owner.
#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// Signals changes of the inbox.
    changed: Condvar,
    spool: Mutex<Spool>,
    tally: Mutex<Counts>,
    bytes_max: u64,
}

/// Windows that the thread has not processed yet.
#[derive(Debug, Default)]
struct Inbox {
    windows: VecDeque<Arc<Window>>,
    /// There is something new for the thread.
    is_new: bool,
    bytes: u64,
    offered: u64,
    dropped: u64,
    /// Deadline of the thread, once it should stop.
    end: Option<Instant>,
}

/// Ignores poisoning: each of these values is consistent between two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(spool: Spool, bytes_max: u64) -> Self {
        let tally = Mutex::new(Counts { restored: spool.restored, ..Counts::default() });
        let spool = Mutex::new(spool);
        let shared =
            Self { inbox: Mutex::default(), changed: Condvar::new(), spool, tally, bytes_max };
        shared.publish(&mut lock(&shared.spool));
        shared
    }

    fn offer(&self, parts: Vec<Arc<Window>>) {
        let mut inbox = lock(&self.inbox);
        for part in parts {
            inbox.offered += 1;
            inbox.bytes += part.bytes();
            inbox.windows.push_back(part);
        }
        // While the thread is stuck in a request for half a minute, memory must stay within the limit.
        while inbox.bytes > self.bytes_max
            && let Some(oldest) = inbox.windows.pop_front()
        {
            inbox.bytes -= oldest.bytes();
            inbox.dropped += 1;
        }
        drop(inbox);
        // With a folder, windows are on disk before any attempt to send them, since the thread may be stuck.
        let mut spool = lock(&self.spool);
        if spool.has_folder() {
            self.drain_inbox(&mut spool);
            spool.spill();
            self.publish(&mut spool);
        }
        lock(&self.inbox).is_new = true;
        self.changed.notify_all();
    }

    fn stop(&self, end: Instant) {
        lock(&self.inbox).end = Some(end);
        self.changed.notify_all();
    }

    /// Deadline of the thread, once it should stop.
    fn end(&self) -> Option<Instant> {
        lock(&self.inbox).end
    }

    /// Moves the inbox to the spool.
    fn drain_inbox(&self, spool: &mut Spool) {
        let windows = {
            let mut inbox = lock(&self.inbox);
            inbox.bytes = 0;
            std::mem::take(&mut inbox.windows)
        };
        for window in windows {
            spool.push(window);
        }
    }

    /// Sleeps until there is something new, up to a maximum time.
    fn sleep(&self, longest: Option<Duration>, knows_end: bool) {
        let is_quiet = |inbox: &mut Inbox| !inbox.is_new && inbox.end.is_some() == knows_end;
        let inbox = lock(&self.inbox);
        match longest {
            Some(longest) => drop(self.changed.wait_timeout_while(inbox, longest, is_quiet)),
            None => drop(self.changed.wait_while(inbox, is_quiet)),
        }
        lock(&self.inbox).is_new = false;
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.tally));
    }

    /// Publishes the spool's losses and contents.
    fn publish(&self, spool: &mut Spool) {
        let last_error = spool.last_error.take();
        self.count(|counts| {
            counts.dropped = spool.losses.dropped;
            counts.damaged = spool.losses.damaged;
            counts.waiting_bytes = spool.bytes();
            if last_error.is_some() {
                counts.last_error = last_error;
            } else if counts.dropped > 0 {
                counts.last_error.get_or_insert_with(|| TOO_SLOW.to_owned());
            }
        });
    }

    fn counts(&self) -> Counts {
        let inbox = lock(&self.inbox);
        let mut counts = lock(&self.tally).clone();
        counts.offered = inbox.offered;
        counts.dropped += inbox.dropped;
        if inbox.dropped > 0 {
            counts.last_error.get_or_insert_with(|| TOO_SLOW.to_owned());
        }
        counts.waiting_bytes += inbox.bytes;
        let settled = counts.pushed + counts.rejected + counts.dropped + counts.damaged;
        // Windows taken in but not published yet still wait.
        counts.waiting = (counts.offered + counts.restored).saturating_sub(settled);
        counts
    }
}

/// The thread: takes the oldest window from the spool, sends it, and counts the result.
struct Worker {
    shared: Arc<Shared>,
    target: Target,
    client: Client,
    credentials: Credentials,
    backoff: Backoff,
    request_timeout: Duration,
    /// Encoded request of the last window tried, for retries.
    ready: Option<(u64, Request)>,
}

/// Next action of the thread.
enum Step {
    Send(u64, Arc<Window>),
    Sleep(Option<Duration>),
    End,
}

impl Worker {
    fn new(
        shared: Arc<Shared>,
        target: Target,
        credentials: Credentials,
        options: &PushOptions,
    ) -> Self {
        let connect = Some(options.connect_timeout);
        let client = Client::new(&Settings { connect, ..Settings::default() });
        let backoff = Backoff::new(options.pause_min, options.pause_max);
        Self {
            shared,
            target,
            client,
            credentials,
            backoff,
            request_timeout: options.request_timeout,
            ready: None,
        }
    }

    fn run(mut self) {
        let mut knows_end = false;
        loop {
            let end = self.shared.end();
            if end.is_some() && !knows_end {
                knows_end = true;
                self.backoff.hurry();
            }
            match self.step(end) {
                Step::End => break,
                Step::Sleep(longest) => self.shared.sleep(longest, knows_end),
                Step::Send(number, window) => self.send(number, &window, end),
            }
        }
    }

    fn step(&self, end: Option<Instant>) -> Step {
        let now = Instant::now();
        let left = end.map(|end| end.saturating_duration_since(now));
        let mut spool = lock(&self.shared.spool);
        self.shared.drain_inbox(&mut spool);
        // Retries the write if it failed when the window was offered.
        spool.spill();
        let pause = self.backoff.left(now);
        let step = if left.is_some_and(|left| left < ATTEMPT_MIN.min(self.request_timeout)) {
            Step::End
        } else if !pause.is_zero() && spool.len() > 0 {
            Step::Sleep(Some(left.map_or(pause, |left| left.min(pause))))
        } else {
            match spool.front() {
                Some((number, window)) => Step::Send(number, window),
                None if end.is_some() => Step::End,
                None => Step::Sleep(None),
            }
        };
        self.shared.publish(&mut spool);
        step
    }

    fn send(&mut self, number: u64, window: &Window, end: Option<Instant>) {
        let request = match self.ready.take().filter(|(ready, _)| *ready == number) {
            Some((_, request)) => Ok(request),
            None => encode(&self.target, window),
        };
        let verdict = match &request {
            Ok(request) => {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                let patience =
                    left.map_or(self.request_timeout, |left| left.min(self.request_timeout));
                classify(self.target.protocol(), &self.post(request, patience))
            }
            Err(error) => Verdict::Refused(error.to_string()),
        };
        self.settle(number, &verdict);
        if let (Ok(request), Verdict::Again { .. }) = (request, verdict) {
            self.ready = Some((number, request));
        }
    }

    /// Sends a request and reads the response, all within `patience`.
    fn post(&mut self, request: &Request, patience: Duration) -> Result<Response, Error> {
        self.credentials.refresh();
        let url = format!("{}{}", self.target.root(), request.path);
        let headers = request.headers.iter().copied().chain(self.credentials.headers());
        let request = wingbeat_http::Request {
            headers: headers.collect(),
            body: Some(&request.body),
            response_bytes_max: RESPONSE_BYTES_MAX,
            ..wingbeat_http::Request::new(Method::POST, &url)
        };
        self.client.send(&request, Some(patience))
    }

    fn settle(&mut self, number: u64, verdict: &Verdict) {
        let (target, shared) = (&self.target, Arc::clone(&self.shared));
        let mut spool = lock(&shared.spool);
        match verdict {
            Verdict::Taken => {
                self.backoff.succeed();
                if spool.done(number) {
                    shared.count(|counts| counts.pushed += 1);
                }
            }
            Verdict::Again { reason, pause } => {
                spool.release();
                self.backoff.fail(Instant::now(), *pause);
                shared.count(|counts| {
                    counts.retries += 1;
                    counts.last_error = Some(format!("{target} did not accept a window: {reason}"));
                });
            }
            Verdict::Refused(reason) => {
                // The backend works, and may accept the next window.
                self.backoff.succeed();
                let was_there = spool.done(number);
                shared.count(|counts| {
                    counts.rejected += u64::from(was_there);
                    counts.last_error = Some(format!("{target} refused a window: {reason}"));
                });
            }
        }
        shared.publish(&mut spool);
    }
}
