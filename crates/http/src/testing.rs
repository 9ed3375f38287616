//! For tests: a server on loopback that replies by a script and logs its requests.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Reaction to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status, headers that end with a line break each, and a body. Keeps the connection, unless a header closes it.
    Answer(u16, String, Vec<u8>),
    /// Announces a body with status 200, and closes the connection after so many bytes of it.
    Cut(Vec<u8>, usize),
    /// A body with status 200 and without a length: the connection's end ends it.
    Unannounced(Vec<u8>),
    /// Closes the connection in the middle of the request, which is not logged.
    CutRequest,
    /// Closes the connection without a response.
    HangUp,
    /// Says nothing for this long, then closes the connection.
    Silence(Duration),
    /// An endless body with status 200: a few bytes, then a pause, and so on.
    Trickle(Duration),
}

impl Reply {
    /// An answer with these headers, each of which ends with a line break.
    pub fn answer(status: u16, headers: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Answer(status, headers.to_owned(), body.into())
    }

    /// An answer after which the connection ends.
    pub fn last(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::answer(status, "content-type: application/json\r\nconnection: close\r\n", body)
    }
}

/// A whole request, and the reply to it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and path: `POST /v0/run`.
    pub line: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// When it had arrived.
    pub at: Instant,
    pub reply: Reply,
}

impl Asked {
    /// Value of a header. The name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body.
    ///
    /// # Panics
    ///
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

type Script = dyn Fn(&str, usize) -> Reply + Send + Sync;

/// Names in lower case, with values.
type Headers = Vec<(String, String)>;

/// A server on a port of its own, until the test program ends.
#[derive(Debug)]
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Starts a server. The script is given method and path of each request, and the number of earlier ones.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn start(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"), script)
    }

    /// The same on this listener.
    ///
    /// # Panics
    ///
    /// If the listener has no address.
    pub fn on(
        listener: TcpListener,
        script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let log = Arc::clone(&asked);
        let (script, count): (Arc<Script>, _) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, count) = (Arc::clone(&script), Arc::clone(&count));
                let log = Arc::clone(&log);
                // A silent connection must not block the others. Disconnecting ends the exchange.
                thread::spawn(move || serve(&stream, &*script, &count, &log));
            }
        });
        Self { url, asked }
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Methods and paths of the requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

fn serve(
    mut stream: &TcpStream,
    script: &Script,
    count: &AtomicUsize,
    log: &Mutex<Vec<Asked>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some((line, headers)) = head(&mut reader)? {
        let reply = script(&line, count.fetch_add(1, Ordering::SeqCst));
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        if let Reply::CutRequest = reply {
            return reader.read_exact(&mut vec![0; length / 2]);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let asked = Asked { line, headers, body, at: Instant::now(), reply: reply.clone() };
        log.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        let closing = "connection: close\r\n".to_owned();
        let (status, headers, body) = match reply.clone() {
            Reply::Answer(status, headers, body) => {
                (status, format!("{headers}content-length: {}\r\n", body.len()), body)
            }
            Reply::Cut(mut body, sent) => {
                let headers = format!("{closing}content-length: {}\r\n", body.len());
                body.truncate(sent);
                (200, headers, body)
            }
            Reply::Unannounced(body) => (200, closing, body),
            Reply::Trickle(_) => (200, closing, Vec::new()),
            Reply::Silence(time) => {
                thread::sleep(time);
                return Ok(());
            }
            Reply::HangUp | Reply::CutRequest => return Ok(()),
        };
        write!(stream, "HTTP/1.1 {status} x\r\n{headers}\r\n")?;
        stream.write_all(&body)?;
        while let Reply::Trickle(pause) = reply {
            stream.write_all(&[0; 16])?;
            thread::sleep(pause);
        }
        if headers.contains("connection: close") {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads request line and headers. `None` at the end of the connection.
fn head(reader: &mut impl io::BufRead) -> io::Result<Option<(String, Headers)>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let first = lines.first().map_or("", |line| line.trim_end_matches(" HTTP/1.1")).to_owned();
    let header = |line: &String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    };
    Ok(Some((first, lines.iter().skip(1).filter_map(header).collect())))
}
