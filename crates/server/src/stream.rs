//! Streams large responses while they are serialized, to avoid buffering them whole.

use std::{
    io::{self, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use http_body::Frame;
use tokio::{sync::mpsc, task};

/// Bytes per chunk.
const CHUNK: usize = 128 << 10;

/// Maximum chunks queued for a slow client.
const WAITING: usize = 4;

/// A JSON response written by a function on a blocking thread. A client's disconnect is a write error.
pub(crate) fn json(write: impl FnOnce(&mut Writer) -> io::Result<()> + Send + 'static) -> Response {
    let (to, from) = mpsc::channel(WAITING);
    task::spawn_blocking(move || {
        let mut writer = Writer { chunk: Vec::with_capacity(CHUNK), to };
        // The body signals a premature end to the client.
        if write(&mut writer).and_then(|()| writer.flush()).is_ok() {
            let _ = writer.to.blocking_send(Part::End);
        }
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::new(Chunks { from })).into_response()
}

enum Part {
    Chunk(Bytes),
    End,
}

/// Receives the response.
pub(crate) struct Writer {
    chunk: Vec<u8>,
    to: mpsc::Sender<Part>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        let sent = self.to.blocking_send(Part::Chunk(chunk.into()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The body being written.
struct Chunks {
    from: mpsc::Receiver<Part>,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.from.poll_recv(context)) {
            Some(Part::Chunk(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Part::End) => None,
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn an_answer_comes_whole() {
        let parts = || (0..100_000).map(|number| format!("{number},"));
        let response = json(move |to| parts().try_for_each(|part| to.write_all(part.as_bytes())));
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("whole");
        assert_eq!(body, parts().collect::<String>().as_bytes());
    }

    #[tokio::test]
    async fn one_that_is_cut_off_is_an_error() {
        let response = json(|to| {
            to.write_all(b"[1")?;
            to.flush()?;
            Err(io::ErrorKind::Other.into())
        });
        to_bytes(response.into_body(), usize::MAX).await.expect_err("cut off");
    }

    #[tokio::test]
    async fn nobody_writes_to_a_client_that_has_gone() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let response = json(move |to| {
            let written = (0..1_000).try_for_each(|_| to.write_all(&[b' '; CHUNK]));
            let _ = tell.send(written.is_err());
            written
        });
        drop(response);
        assert!(told.await.expect("told"));
    }
}
