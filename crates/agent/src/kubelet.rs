//! Requests the pods of this machine from the kubelet.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use wingbeat_http::{Client, Method, Request, Response, Settings, Trust};

/// Files of a service account, present in every pod.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Timeout of a request, on the requesting thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address and authentication of the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletOptions {
    /// `https://10.0.0.7:10250`
    pub url: String,
    /// By default that of the service account, if present.
    pub token_file: Option<PathBuf>,
    /// By default that of the service account, if present.
    pub ca_file: Option<PathBuf>,
    /// Do not verify the server.
    pub is_insecure: bool,
}

/// A kubelet client.
#[derive(Debug)]
pub struct Kubelet {
    client: Client,
    url: String,
    /// Read for each request: Kubernetes replaces the token every hour.
    token_file: Option<PathBuf>,
}

impl Kubelet {
    /// Reads the certificates, without sending a request.
    ///
    /// # Errors
    ///
    /// The URL is invalid, or a given file cannot be read.
    pub fn new(options: &KubeletOptions) -> anyhow::Result<Self> {
        let root = wingbeat_http::root(&options.url).map_err(|_| {
            let url = &options.url;
            anyhow!(
                "{url:?} is not the address of a kubelet; give one such as https://$NODE_IP:10250"
            )
        })?;
        let is_secure = root.starts_with("https://");
        let url = if root.ends_with("/pods") { root } else { format!("{root}/pods") };
        let ca_file = options.ca_file.clone().or_else(|| present(CA_FILE));
        let trust = match ca_file.filter(|_| is_secure) {
            _ if options.is_insecure => Trust::Anything,
            Some(file) => trust(&file)?,
            None => Trust::System,
        };
        // The token must not be sent in plain text over a network.
        let is_private = is_secure || wingbeat_http::is_loopback(&url);
        let token_file = options.token_file.clone().or_else(|| present(TOKEN_FILE));
        let token_file = token_file.filter(|_| is_private);
        if let Some(file) = &token_file {
            token(file).map_err(unreadable(file, "token"))?;
        }
        let settings = Settings { trust, is_direct: true, ..Settings::default() };
        Ok(Self { client: Client::new(&settings), url, token_file })
    }

    /// The response body, or a one-sentence error.
    pub(crate) fn pods(&self) -> Result<Vec<u8>, String> {
        let with_url = |reason: String| format!("{}: {reason}", self.url);
        let token = self.token_file.as_ref().map(|file| {
            token(file)
                .map_err(|error| with_url(format!("reading {} failed: {error}", file.display())))
        });
        let authorization = token.transpose()?.map(|token| format!("Bearer {token}"));
        let headers = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
        let request = Request { headers, ..Request::new(Method::GET, &self.url) };
        let response = self.client.send(&request, Some(PATIENCE)).and_then(Response::complete);
        let response = response.map_err(|error| with_url(error.to_string()))?;
        let hint = match response.status {
            200 => return Ok(response.body),
            401 => " (not authenticated): it does not know the token; see --kubelet-token-file",
            403 => " (forbidden): the service account needs the right to get nodes/proxy",
            _ => ": is it the kubelet?",
        };
        Err(with_url(format!("it answered {}{hint}", response.status)))
    }
}

fn present(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    path.exists().then_some(path)
}

fn token(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

fn trust(ca_file: &Path) -> anyhow::Result<Trust> {
    let pem = fs::read(ca_file).map_err(unreadable(ca_file, "ca"))?;
    Trust::only(&pem).with_context(|| format!("{} has no certificate in PEM", ca_file.display()))
}

fn unreadable(file: &Path, what: &str) -> impl FnOnce(io::Error) -> anyhow::Error {
    move |error| {
        let path = file.display();
        anyhow!("reading {path} failed: {error}; give the file with --kubelet-{what}-file")
    }
}
