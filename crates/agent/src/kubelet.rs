//! Requests the pods of this machine from the kubelet: the agent's only file that uses the network.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use ureq::{
    Agent,
    http::{Uri, header::AUTHORIZATION},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

/// Files of a service account, present in every pod.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Timeout of a request, on the requesting thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest response to read, in bytes: a pod takes some 20 KB, and a machine has some hundred.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

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

/// Why the kubelet cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    #[error("{0:?} is no address of a kubelet; give one such as https://$NODE_IP:10250")]
    Url(String),
    #[error("reading {path} failed: {source}; give the file with --kubelet-{what}-file")]
    File { path: String, what: &'static str, source: std::io::Error },
    #[error("{0} has no certificate in PEM")]
    NoCertificate(String),
}

/// A kubelet client.
#[derive(Debug)]
pub struct Kubelet {
    agent: Agent,
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
    pub fn new(options: &KubeletOptions) -> Result<Self, KubeletError> {
        let wrong = || KubeletError::Url(options.url.clone());
        let uri: Uri = options.url.parse().map_err(|_| wrong())?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let root = options.url.trim_end_matches('/');
        let url = if root.ends_with("/pods") { root.to_owned() } else { format!("{root}/pods") };
        let mut config =
            wingbeat_http::client().max_redirects(0).proxy(None).timeout_global(Some(PATIENCE));
        let ca_file = options.ca_file.clone().or_else(|| present(CA_FILE));
        let mut tls = TlsConfig::builder().disable_verification(options.is_insecure);
        tls = match ca_file.filter(|_| is_secure && !options.is_insecure) {
            Some(file) => tls.root_certs(certificates(&file)?),
            None => tls.root_certs(RootCerts::PlatformVerifier),
        };
        config = config.tls_config(tls.build());
        // The token must not be sent in plain text over a network.
        let is_private = is_secure || wingbeat_http::is_loopback(&uri);
        let token_file = options.token_file.clone().or_else(|| present(TOKEN_FILE));
        let token_file = token_file.filter(|_| is_private);
        if let Some(file) = &token_file {
            token(file).map_err(|source| {
                let path = file.display().to_string();
                KubeletError::File { path, what: "token", source }
            })?;
        }
        Ok(Self { agent: config.build().new_agent(), url, token_file })
    }

    /// The response body, or a one-sentence error.
    pub(crate) fn pods(&self) -> Result<Vec<u8>, String> {
        let told = |reason: String| format!("{}: {reason}", self.url);
        let mut request = self.agent.get(&self.url);
        if let Some(file) = &self.token_file {
            let token = token(file)
                .map_err(|error| told(format!("reading {} failed: {error}", file.display())))?;
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| told(wingbeat_http::reason(&error)))?;
        let hint = match answer.status().as_u16() {
            200 => "",
            401 => " (not authenticated): it does not know the token; see --kubelet-token-file",
            403 => " (forbidden): the service account needs the right to get nodes/proxy",
            _ => ": is it the kubelet?",
        };
        if answer.status() != 200 {
            return Err(told(format!("it answered {}{hint}", answer.status().as_u16())));
        }
        let mut bytes = Vec::new();
        let reader = answer.body_mut().as_reader().take(DOCUMENT_BYTES_MAX + 1);
        { reader }.read_to_end(&mut bytes).map_err(|error| told(error.to_string()))?;
        match bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            true => Err(told("its list of pods has no end".to_owned())),
            false => Ok(bytes),
        }
    }
}

fn present(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    path.exists().then_some(path)
}

fn token(file: &Path) -> std::io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

fn certificates(file: &Path) -> Result<RootCerts, KubeletError> {
    let path = || file.display().to_string();
    let pem =
        fs::read(file).map_err(|source| KubeletError::File { path: path(), what: "ca", source })?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err(KubeletError::NoCertificate(path())),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}
