//! An S3 server on loopback that can be made to fail.

use std::{
    convert::Infallible,
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};
use wingbeat_server::profiles::{Options, ProfilesPlace};

/// What the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Passing,
    /// Connections are closed without an answer.
    Stopped,
    /// Takes requests, and does not answer.
    Slow,
    /// Has no room for what is written.
    Full,
    /// Answers 403.
    Refusing,
}

pub(super) struct Bucket {
    folder: TempDir,
    address: String,
    mode: Arc<Mutex<Mode>>,
    _runtime: Runtime,
}

type Body = s3s::Body;

impl Bucket {
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("profiles")).expect("a bucket");
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).expect("a store"));
        service.set_auth(SimpleAuth::from_single("key", "secret"));
        let service = service.build();
        let mode = Arc::new(Mutex::new(Mode::Passing));
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("bound");
        let address = listener.local_addr().expect("an address").to_string();
        let current = Arc::clone(&mode);
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if *current.lock().expect("a mode") == Mode::Stopped {
                    continue;
                }
                let (service, current) = (service.clone(), Arc::clone(&current));
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (service, mode) = (service.clone(), *current.lock().expect("a mode"));
                    async move {
                        let is_write = request.method() == hyper::Method::PUT;
                        let answer = match mode {
                            Mode::Full if is_write => refusal(507, "InsufficientStorage"),
                            Mode::Refusing => refusal(403, "AccessDenied"),
                            Mode::Stopped => return Err("stopped".to_owned()),
                            Mode::Slow => {
                                tokio::time::sleep(Duration::from_secs(60)).await;
                                refusal(500, "Late")
                            }
                            Mode::Full | Mode::Passing => {
                                let answer = hyper::service::Service::call(&service, request).await;
                                answer.map_err(|error| format!("{error:?}"))?
                            }
                        };
                        Ok(answer)
                    }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(socket), answer);
                tokio::spawn(async move { drop(connection.await) });
            }
            Ok::<_, Infallible>(())
        });
        Self { folder, address, mode, _runtime: runtime }
    }

    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().expect("a mode") = mode;
    }

    pub(super) fn place(&self) -> ProfilesPlace {
        let endpoint = format!("http://{}", self.address);
        let options = [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let options = Options(options.map(owned).to_vec());
        ProfilesPlace::Bucket { url: "s3://profiles/here".to_owned(), options }
    }

    /// Number of profiles in it.
    pub(super) fn files(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).expect("a folder").flatten();
            let each = entries.map(|entry| match entry.path() {
                path if path.is_dir() => count(&path),
                path => usize::from(path.to_string_lossy().ends_with(".pb.gz")),
            });
            each.sum()
        }
        count(self.folder.path())
    }
}

fn refusal(status: u16, code: &str) -> Response<Body> {
    let text = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
    Response::builder().status(status).body(Body::from(Bytes::from(text))).expect("an answer")
}
