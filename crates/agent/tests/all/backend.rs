//! Replies of backends, and windows to push to them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use wingbeat_agent::{Kind, Series, Window};
use wingbeat_http::testing::{Asked, Reply, Server};

/// Content type of backends' responses.
pub(crate) const PROTO: &str = "content-type: application/proto\r\n";

pub(crate) fn status(status: u16) -> Reply {
    Reply::answer(status, PROTO, "")
}

/// Never answers.
pub(crate) fn hang() -> Reply {
    Reply::Silence(Duration::from_secs(600))
}

/// Whether a complete 2xx response was sent.
pub(crate) fn is_taken(asked: &Asked) -> bool {
    matches!(asked.reply, Reply::Answer(200..300, ..))
}

/// Numbers of the accepted windows, in order of arrival.
pub(crate) fn taken(backend: &Server) -> Vec<u64> {
    let asked = backend.asked();
    asked.iter().filter(|it| is_taken(it)).flat_map(|it| numbers(&it.body)).collect()
}

/// Waits for this many requests.
pub(crate) fn wait_for(backend: &Server, requests: usize) {
    let begin = Instant::now();
    while backend.asked().len() < requests {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", backend.asked());
        thread::sleep(Duration::from_millis(2));
    }
}

// Windows that can be identified after a push.

/// 2026-11-27T23:00:00Z.
pub(crate) const BEGIN_S: u64 = 1_795_820_400;

/// The time this many seconds after the start.
pub(crate) fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(BEGIN_S + second)
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A window of one second with this number in its labels, and `bytes` bytes of invalid profile.
pub(crate) fn numbered(number: u64, bytes: usize) -> Arc<Window> {
    let mark = format!("window-{number:04}");
    let labels = labels(&[("service_name", "web"), ("mark", &mark)]);
    let series = vec![Series { kind: Kind::Cpu, labels, pprof: vec![b'.'; bytes] }];
    Arc::new(Window { start: at(number), duration: Duration::from_secs(1), series })
}

/// The numbers of the windows in a request.
pub(crate) fn numbers(body: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(body);
    let marks = text.match_indices("window-").map(|(at, mark)| at + mark.len());
    marks.map(|at| text[at..at + 4].parse().expect("a number")).collect()
}
