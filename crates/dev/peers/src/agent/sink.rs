//! A server that takes all that is pushed, and keeps nothing.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use anyhow::Context as _;

/// Starts it. Its address.
pub(super) fn start() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let address = listener.local_addr().context("cannot listen")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves is no error here.
            thread::spawn(move || swallow(stream));
        }
    });
    Ok(format!("http://{address}"))
}

fn swallow(mut stream: TcpStream) -> io::Result<()> {
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
        io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_answered() {
        let address = start().expect("it listens");
        let address = address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("connected");
        for body in ["a", "", "bb"] {
            let length = body.len();
            write!(stream, "POST /push HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}")
                .expect("sent");
            let mut answer = [0; 38];
            stream.read_exact(&mut answer).expect("it answers");
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    }
}
