//! A scripted server on loopback that records its requests.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Method and path: `POST /v0/run`.
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Text(u16, String),
    Header(u16, &'static str),
    /// Closes the connection without a response.
    HangUp,
    Silence(Duration),
}

pub(crate) struct Stub {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stub {
    /// Responds by `script`, which is given each request and the number of earlier ones.
    pub(crate) fn start(script: impl Fn(&Asked, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let Some(request) = read(&stream) else { continue };
                let mut log = log.lock().expect("the log");
                let reply = script(&request, log.len());
                log.push(request);
                drop(log);
                answer(stream, reply);
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("the log").clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.first()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header = |line: &String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = lines[1..].iter().filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { line, headers, body: String::from_utf8(body).ok()? })
}

fn answer(mut stream: TcpStream, reply: Reply) {
    let (status, header, body) = match reply {
        Reply::HangUp => return,
        Reply::Silence(duration) => {
            thread::sleep(duration);
            return;
        }
        Reply::Text(status, body) => (status, "content-type: application/json", body),
        Reply::Header(status, header) => (status, header, String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // The client may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
