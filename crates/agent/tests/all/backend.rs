//! A scripted backend, which responds, rejects, hangs, or closes the connection, and windows to push to it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use wingbeat_agent::{Kind, Series, Window};

/// Reaction of the backend to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// Responds with a status, headers that end with a line break each, and a body.
    Answer(u16, &'static str, Vec<u8>),
    /// Responds with 200 after a delay.
    Slow(Duration),
    /// Reads the request, and is silent until the client disconnects.
    Hang,
    /// Closes the connection during the request.
    CutRequest,
    /// Sends 200, and closes the connection during the response.
    CutAnswer,
}

/// Content type of backends' responses.
pub(crate) const PROTO: &str = "content-type: application/proto\r\n";

impl Reaction {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, PROTO, Vec::new())
    }
}

/// A complete request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Request line and headers, with names in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
    /// Whether a complete 2xx response was sent.
    pub(crate) is_taken: bool,
}

type Script = dyn Fn(usize) -> Reaction + Send + Sync;

/// A server on its own port, until it is dropped.
pub(crate) struct Backend {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    is_over: Arc<AtomicBool>,
}

impl Backend {
    /// Starts a backend; the script returns the reaction to each request, by index.
    pub(crate) fn start(script: impl Fn(usize) -> Reaction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let backend = Self { port, received: Arc::clone(&received), is_over: Arc::clone(&is_over) };
        let script: Arc<Script> = Arc::new(script);
        let count = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (script, count) = (Arc::clone(&script), Arc::clone(&count));
                let received = Arc::clone(&received);
                thread::spawn(move || {
                    // Disconnecting ends the exchange.
                    drop(serve(&stream, &*script, &count, &received));
                });
            }
        });
        backend
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    /// Numbers of the accepted windows, in order of arrival.
    pub(crate) fn taken(&self) -> Vec<u64> {
        let received = self.received();
        received.iter().filter(|it| it.is_taken).flat_map(|it| numbers(&it.body)).collect()
    }

    /// Waits for this many requests.
    pub(crate) fn wait_for(&self, requests: usize) {
        let begin = Instant::now();
        while self.received().len() < requests {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", self.received());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the listening thread.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn serve(
    stream: &TcpStream,
    script: &Script,
    count: &AtomicUsize,
    received: &Mutex<Vec<Received>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok()).expect("a length");
        let reaction = script(count.fetch_add(1, Ordering::SeqCst));
        if let Reaction::CutRequest = reaction {
            let mut part = vec![0; length / 2];
            return reader.read_exact(&mut part);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let is_taken = matches!(reaction, Reaction::Answer(200..300, ..) | Reaction::Slow(_));
        let at = Instant::now();
        received.lock().expect("no panic").push(Received { head, body, at, is_taken });
        let (status, headers, body) = match reaction {
            Reaction::Answer(status, headers, body) => (status, headers, body),
            Reaction::Slow(pause) => {
                thread::sleep(pause);
                (200, PROTO, Vec::new())
            }
            Reaction::Hang => {
                let mut byte = [0];
                return reader.read(&mut byte).map(drop);
            }
            Reaction::CutAnswer => {
                let mut stream = stream;
                return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
            }
            Reaction::CutRequest => return Ok(()),
        };
        let mut answer =
            format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {}\r\n\r\n", body.len())
                .into_bytes();
        answer.extend_from_slice(&body);
        let mut stream = stream;
        stream.write_all(&answer)?;
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
