//! The programs whose stacks are walked: as distributions build them, or compilers without flags about
//! frame pointers. Each is a line of shell that works for some seconds.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;
use xtask::command::{find_program, repository};

use super::cost::{self, Cost};
use crate::comparison::output;

const PYTHON: &str = r"import json
def leaf(n):
    return sum(i * i for i in range(n))
def twig(n):
    return json.dumps({str(i): leaf(50) for i in range(n)})
def branch(n):
    return [twig(20) for _ in range(n)]
for _ in range(20):
    branch(2000)
";

const NODE: &str = r"function leaf(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i * s + 1); return s; }
function twig(n) { const o = {}; for (let i = 0; i < n; i++) o['k' + i] = leaf(200); return JSON.stringify(o).length; }
function branch(n) { let s = 0; for (let i = 0; i < n; i++) s += twig(50); return s; }
let sum = 0;
for (let round = 0; round < 40; round++) sum += [1, 2, 3, 4].map(() => branch(200)).reduce((a, b) => a + b);
console.log(sum);
";

const RUST: &str = r#"use std::hint::black_box;
#[inline(never)]
fn leaf(n: u64) -> u64 { (0..n).fold(1, |sum, i| black_box(sum ^ i).wrapping_mul(31)) }
#[inline(never)]
fn twig(n: u64) -> u64 { black_box(leaf(n)) + (0..n).map(|i| black_box(i) * 3).sum::<u64>() }
#[inline(never)]
fn branch(depth: u64, n: u64) -> u64 {
    if depth == 0 { black_box(twig(n)) } else { black_box(branch(depth - 1, n)) + 1 }
}
fn main() { println!("{}", (0..1500000).map(|i| black_box(branch(black_box(20 + i % 3), 1000))).sum::<u64>()); }
"#;

/// A server and its clients in one process.
const TOKIO: &str = r#"use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::{TcpListener, TcpStream}};
#[inline(never)]
fn answer(line: &[u8]) -> Vec<u8> {
    let sum = (0..200u64).fold(0, |sum, i| line.iter().fold(sum ^ i, |sum, &b| sum.rotate_left(5) ^ u64::from(b)));
    format!("{sum:016x}").into_bytes()
}
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut line = [0; 64];
    loop {
        stream.read_exact(&mut line).await?;
        stream.write_all(&answer(&line)).await?;
    }
}
async fn ask(address: std::net::SocketAddr) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    let (mut line, mut back, mut sum) = ([7; 64], [0; 16], 0);
    for i in 0..40_000u32 {
        line[..4].copy_from_slice(&i.to_le_bytes());
        stream.write_all(&line).await?;
        stream.read_exact(&mut back).await?;
        sum += u64::from(back[0]);
    }
    Ok(sum)
}
#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { while let Ok((stream, _)) = listener.accept().await { tokio::spawn(serve(stream)); } });
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(ask(address))).collect();
    for client in clients { println!("{}", client.await??); }
    Ok(())
}
"#;

const TOKIO_MANIFEST: &str = r#"[package]
name = "server"
version = "0.1.0"
edition = "2024"
[dependencies]
tokio = { version = "1", features = ["full"] }
[workspace]
"#;

/// A server and its clients in one process.
const GO: &str = r#"package main
import ("encoding/json"; "fmt"; "io"; "net/http"; "net/http/httptest"; "sort"; "strings"; "sync")
func answer(n int) []string {
	words := make([]string, 0, n)
	for i := 0; i < n; i++ { words = append(words, strings.Repeat(string(rune('a'+i%26)), i%9+1)) }
	sort.Strings(words)
	return words
}
func main() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(answer(300)) }))
	var wait sync.WaitGroup
	for c := 0; c < 4; c++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; i < 5000; i++ {
				response, err := http.Get(server.URL)
				if err != nil { panic(err) }
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}()
	}
	wait.Wait()
	fmt.Println("done")
}
"#;

const MUSL: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return memcmp(a, b, 16); }
__attribute__((noinline)) static void fill(char *rows, int n) { for (int i = 0; i < n; i++) snprintf(rows + 16 * i, 16, "%015d", i * 7919 % n); }
__attribute__((noinline)) static void *work(void *unused) {
    for (int i = 0; i < 60; i++) {
        char *rows = malloc(16 * 20000);
        fill(rows, 20000);
        qsort(rows, 20000, 16, compare);
        free(rows);
    }
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

const SOURCE: &str = r#"awk 'BEGIN { for (i = 0; i < 2500; i++) printf "int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) { s += a[i] * %d; if (s & %d) s ^= a[n - i - 1]; } return s; }\n", i, i, i + 3, i + 1 }' > large.c"#;

const POSTGRES_MAKE: &str = "chmod 755 . && mkdir data && chown postgres . data && \
    as='setpriv --reuid postgres --regid postgres --clear-groups' && \
    $as initdb -D data -A trust --no-sync && \
    $as pg_ctl -D data -o \"-h '' -k $PWD\" -l log -w start && \
    $as pgbench -h $PWD -i -s 2 postgres && $as pg_ctl -D data -w stop";
const POSTGRES: &str = "exec setpriv --reuid postgres --regid postgres --clear-groups sh -c \"\
    postgres -D data -h '' -k $PWD & \
    until pgbench -h $PWD -n -S -c 2 -t 15000 postgres; do sleep 0.2; done; \
    kill -INT \\$!; wait\"";

const REDIS: &str = "redis-server --port 0 --unixsocket $PWD/socket --save '' & \
    until redis-benchmark -s $PWD/socket -q -n 200000 -t set,get,lpush; do sleep 0.2; done; \
    redis-cli -s $PWD/socket shutdown nosave; wait";

/// A program to look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) name: &'static str,
    /// Without one of these it is skipped.
    needs: &'static [&'static str],
    /// Names and texts.
    files: &'static [(&'static str, &'static str)],
    /// Run once before.
    make: &'static str,
    run: &'static str,
    /// It is watched with all other processes, and by wingbeat alone: perf would write hundreds of megabytes
    /// a second.
    pub(super) with_all: bool,
}

pub(super) const ALL: [Target; 15] = [
    target("git", &["git"], "for i in 1 2 3 4; do git -C \"$REPOSITORY\" log -p; done"),
    Target {
        files: &[("busy.py", PYTHON)],
        // A shim in PATH would be a shell script.
        make: "python3 -c 'import sys; print(sys.executable)' > python",
        ..target("python3", &["python3"], "exec $(cat python) busy.py")
    },
    Target { files: &[("busy.js", NODE)], ..target("node", &["node"], "exec node busy.js") },
    Target { make: SOURCE, ..target("gcc", &["gcc", "awk"], "exec gcc -O2 -c large.c -o large.o") },
    Target {
        files: &[("three.rs", RUST)],
        make: "rustc -O three.rs",
        ..target("rust", &["rustc"], "exec ./three")
    },
    Target {
        files: &[("three.rs", RUST)],
        make: "rustc -O -C target-feature=+crt-static three.rs",
        ..target("rust-static", &["rustc"], "exec ./three")
    },
    Target {
        make: POSTGRES_MAKE,
        ..target("postgres", &["postgres", "initdb", "pgbench", "pg_ctl", "setpriv"], POSTGRES)
    },
    target("redis", &["redis-server", "redis-benchmark", "redis-cli"], REDIS),
    target(
        "ripgrep",
        &["rg"],
        "for i in $(seq 60); do rg -j2 --no-ignore -g !target -c '[a-z]+_[a-z]+' \"$REPOSITORY\"; done",
    ),
    Target {
        files: &[("Cargo.toml", TOKIO_MANIFEST), ("src/main.rs", TOKIO)],
        make: "env -u RUSTFLAGS cargo build --release",
        ..target("tokio", &["cargo"], "exec target/release/server")
    },
    Target {
        files: &[("server.go", GO)],
        make: "GOCACHE=$PWD/cache go build -o server server.go",
        ..target("go", &["go"], "exec ./server")
    },
    target("go-build", &["go"], "GOCACHE=$PWD/cache exec go build -a -o made fmt"),
    Target {
        files: &[("sorts.c", MUSL)],
        make: "musl-gcc -O2 -static -o sorts sorts.c",
        ..target("musl-static", &["musl-gcc"], "exec ./sorts")
    },
    // Processes of a tenth of a second, each of which maps 160 MB of code: all of their samples are first ones.
    Target {
        files: &[("three.rs", RUST)],
        ..target(
            "rustc",
            &["rustc"],
            "for i in $(seq 25); do rustc --emit metadata -o three three.rs; done",
        )
    },
    Target {
        files: &[("Cargo.toml", TOKIO_MANIFEST), ("src/main.rs", TOKIO)],
        make: "cargo fetch",
        with_all: true,
        ..target("cargo-build", &["cargo"], "rm -rf target; cargo build")
    },
];

const fn target(name: &'static str, needs: &'static [&'static str], run: &'static str) -> Target {
    Target { name, needs, files: &[], make: "", run, with_all: false }
}

impl Target {
    /// The first program that it lacks here.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        self.needs.iter().copied().find(|program| find_program(program).is_none())
    }

    /// Writes its files into an empty folder.
    pub(super) fn make(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, text) in self.files {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).with_context(|| format!("cannot make {name}"))?;
            }
            fs::write(&path, text).with_context(|| format!("cannot write {name}"))?;
        }
        let mut shell = Command::new("sh");
        output(shell.args(["-c", self.make]).current_dir(folder))?;
        Ok(())
    }

    /// Runs it under a command that takes it as its last words, or alone below `env`.
    ///
    /// Libraries lie at the same addresses in all processes: perf 6.1 mistakes those of the process that
    /// forked for those of the program that it became, and loses every second of such stacks.
    pub(super) fn run(
        &self,
        folder: &Path,
        under: &Command,
        times: &Path,
        messages: &Path,
    ) -> anyhow::Result<Cost> {
        let mut command = Command::new("setarch");
        command.arg("-R").arg(under.get_program()).args(under.get_args());
        command.current_dir(folder).env("REPOSITORY", repository());
        cost::run(command, self.run, times, messages)
    }
}
