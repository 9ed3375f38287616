//! The tests' serial line: splits it into lines, logs it to a file, and keeps its end for messages.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
    sync::mpsc::Sender,
};

use anyhow::Context as _;

/// Number of lines kept.
const TAIL_LINES: usize = 15;

/// A received piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A line without its line break.
    Line(String),
    /// An incomplete line: the name of a running test.
    Begun(String),
}

/// Forwards the data of `source` until EOF or until the receiver is dropped.
pub(super) fn listen(mut source: impl Read, to: &Sender<Piece>) {
    let mut rest = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        rest.extend_from_slice(&chunk[..count]);
        for piece in pieces(&mut rest) {
            if to.send(piece).is_err() {
                return;
            }
        }
    }
}

/// Removes the complete lines from the buffer; an incomplete one stays.
fn pieces(bytes: &mut Vec<u8>) -> Vec<Piece> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let after = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let rest = bytes.split_off(after);
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let mut pieces: Vec<_> = lines.map(|line| Piece::Line(text(&line[..line.len() - 1]))).collect();
    *bytes = rest;
    if !bytes.is_empty() {
        pieces.push(Piece::Begun(text(bytes)));
    }
    pieces
}

/// The output so far.
#[derive(Debug)]
pub(super) struct Talk {
    path: PathBuf,
    file: File,
    last: VecDeque<String>,
    begun: String,
}

impl Talk {
    /// Starts empty, and truncates the file.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_path_buf(), file, last: VecDeque::new(), begun: String::new() })
    }

    /// Adds a piece. A write error costs the file, not the run.
    pub(super) fn note(&mut self, piece: &Piece) {
        match piece {
            Piece::Line(line) => {
                let _ = writeln!(self.file, "{line}");
                self.begun.clear();
                if self.last.len() == TAIL_LINES {
                    self.last.pop_front();
                }
                self.last.push_back(line.clone());
            }
            Piece::Begun(text) => self.begun.clone_from(text),
        }
    }

    /// The incomplete line.
    pub(super) fn begun(&self) -> &str {
        &self.begun
    }

    /// The end of the output with the incomplete line, and the path of the whole.
    pub(super) fn tail(&self) -> String {
        let mut lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        lines.push(&self.begun);
        format!("{}\nall that was said is in {}", lines.join("\n").trim(), self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_lines_and_a_beginning() {
        let check = |bytes: &str, lines: &[&str], begun: &str| {
            let mut bytes = bytes.as_bytes().to_vec();
            let mut expected: Vec<_> =
                lines.iter().map(|&line| Piece::Line(line.to_owned())).collect();
            if !begun.is_empty() {
                expected.push(Piece::Begun(begun.to_owned()));
            }
            assert_eq!(pieces(&mut bytes), expected);
            assert_eq!(bytes, begun.as_bytes());
        };
        check("", &[], "");
        check("test a ... ", &[], "test a ... ");
        check("a\n\nb\r\ntest", &["a", "", "b\r"], "test");
        check("a\n", &["a"], "");
    }

    #[test]
    fn the_end_names_the_test_that_runs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut talk = Talk::new(&folder.path().join("output")).expect("a file");
        for number in 0..20 {
            talk.note(&Piece::Line(format!("line {number}")));
        }
        talk.note(&Piece::Begun("test hangs ... ".to_owned()));
        let tail = talk.tail();
        assert!(tail.starts_with("line 5\n"), "{tail}");
        assert!(tail.contains("line 19\ntest hangs ...\nall that was said is in "), "{tail}");
        let kept = std::fs::read_to_string(folder.path().join("output")).expect("kept");
        assert_eq!(kept.lines().count(), 20);
    }
}
