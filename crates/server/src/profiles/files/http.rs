//! Requests to object stores through the HTTP client of all commands, which trusts the system's certificates and uses
//! the same TLS as everything else.

use std::time::Duration;

use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    },
};
use wingbeat_http::{Cause, Client, Error, Request, Response, Settings};

/// Time limit of a connection, of a silence, and of a request.
const CONNECT: Duration = Duration::from_secs(3);
const STALL: Duration = Duration::from_secs(4);
const REQUEST: Duration = Duration::from_secs(10);

/// Maximum bytes of a response. Merged files have some megabytes.
const BYTES_MAX: u64 = 256 << 20;

#[derive(Debug)]
pub(super) struct Connector;

#[derive(Debug, Clone)]
struct Service(Client);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let settings =
            Settings { connect: Some(CONNECT), stall: Some(STALL), ..Settings::default() };
        Ok(HttpClient::new(Service(Client::new(&settings))))
    }
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = match body.as_bytes() {
            Some(bytes) => bytes.clone(),
            None => http_body_util::BodyExt::collect(body).await?.to_bytes(),
        };
        let client = self.0.clone();
        let send = move || {
            let url = head.uri.to_string();
            let headers = head.headers.iter();
            let headers = headers.filter_map(|(name, value)| {
                // The client computes both, as they were signed.
                let is_own = ["host", "content-length"].contains(&name.as_str());
                (!is_own).then_some((name.as_str(), value.to_str().ok()?))
            });
            let request = Request {
                headers: headers.collect(),
                body: ["PUT", "POST"].contains(&head.method.as_str()).then_some(&body[..]),
                response_bytes_max: BYTES_MAX,
                ..Request::new(head.method.clone(), &url)
            };
            client.send(&request, Some(REQUEST))?.complete()
        };
        let sent = tokio::task::spawn_blocking(send).await;
        let response = sent.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        response.map_or_else(|error| Err(failed(error)), answer)
    }
}

fn answer(response: Response) -> Result<HttpResponse, HttpError> {
    let mut answer = HttpResponse::new(bytes::Bytes::from(response.body).into());
    *answer.status_mut() = axum::http::StatusCode::from_u16(response.status)
        .map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
    *answer.headers_mut() = response.headers;
    Ok(answer)
}

fn failed(error: Error) -> HttpError {
    let kind = match error.cause {
        Cause::Unreachable => HttpErrorKind::Connect,
        Cause::Timeout | Cause::Deadline => HttpErrorKind::Timeout,
        Cause::Broken => HttpErrorKind::Interrupted,
        Cause::Invalid | Cause::TooLarge | Cause::Permanent => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
