//! A server that takes all that is pushed, and keeps nothing.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::Context as _;

/// One that runs until the process ends.
pub(super) struct Sink {
    pub(super) url: String,
    received: Arc<AtomicU64>,
}

impl Sink {
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let address = listener.local_addr().context("cannot listen")?;
        let received = Arc::new(AtomicU64::new(0));
        let all = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                // A client that leaves is no error here.
                thread::spawn(move || swallow(stream, &all));
            }
        });
        Ok(Self { url: format!("http://{address}"), received })
    }

    /// Bytes of all bodies until now.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

fn swallow(mut stream: TcpStream, received: &AtomicU64) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let bytes = io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        received.fetch_add(bytes, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_answered() {
        let sink = Sink::start().expect("it listens");
        let address = sink.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("connected");
        for body in ["a", "", "bb"] {
            let length = body.len();
            write!(stream, "POST /push HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}")
                .expect("sent");
            let mut answer = [0; 38];
            stream.read_exact(&mut answer).expect("it answers");
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
        assert_eq!(sink.received_bytes(), 3);
    }
}
