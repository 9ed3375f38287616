//! A scripted debuginfod server on loopback for tests. It logs the requests.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// A response.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Body(Vec<u8>),
    Status(u16),
    /// To another address.
    Redirect(String),
    /// A body truncated after so many bytes, although its full length is announced.
    Cut(Vec<u8>, usize),
    /// The same without a length: the connection's end ends the body.
    CutUnannounced(Vec<u8>, usize),
    /// Nothing for this long, then closes.
    Silence(Duration),
    /// An endless body: a few bytes, then a pause, and so on.
    Trickle(Duration),
}

/// Runs until the test program ends.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server that answers by `script`, which gets the path of each request.
    pub(crate) fn start(script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, script) = (Arc::clone(&asked), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                // A silent connection must not block the others.
                thread::spawn(move || {
                    let Some(path) = path(&stream) else { return };
                    log.lock().expect("the log").push(path.clone());
                    // The client may have closed the connection.
                    let _ = answer(&stream, script(&path));
                });
            }
        });
        Self { url, asked }
    }

    /// The requested paths.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the log").clone()
    }
}

/// Reads the path of a request.
fn path(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    Some(first.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?.to_owned())
}

fn answer(mut stream: &TcpStream, reply: Reply) -> std::io::Result<()> {
    let mut head = |status: u16, header: String| {
        write!(stream, "HTTP/1.1 {status} x\r\nconnection: close\r\n{header}\r\n\r\n")
    };
    let length = |length: usize| format!("content-length: {length}");
    match reply {
        Reply::Silence(time) => thread::sleep(time),
        Reply::Status(status) => head(status, length(0))?,
        Reply::Redirect(to) => head(302, format!("{}\r\nlocation: {to}", length(0)))?,
        Reply::Body(body) => {
            head(200, length(body.len()))?;
            stream.write_all(&body)?;
        }
        Reply::Cut(body, at) => {
            head(200, length(body.len()))?;
            stream.write_all(&body[..at])?;
        }
        Reply::CutUnannounced(body, at) => {
            head(200, "x-a: b".to_owned())?;
            stream.write_all(&body[..at])?;
        }
        Reply::Trickle(pause) => {
            head(200, "x-a: b".to_owned())?;
            loop {
                stream.write_all(&[0; 16])?;
                thread::sleep(pause);
            }
        }
    }
    Ok(())
}
