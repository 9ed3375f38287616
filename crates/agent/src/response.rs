//! Classifies a response: accepted, to be retried, or rejected. Pure.

use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesPartialSuccess, ExportProfilesServiceResponse,
};
use percent_encoding::percent_decode_str;
use prost::Message;
use time::{OffsetDateTime, format_description::well_known::Rfc2822};
use wingbeat_http::{Cause, Error, Response, excerpt, with_text};

use crate::target::Protocol;

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Taken,
    /// Retry, after a pause if the server demands one.
    Again {
        reason: String,
        pause: Option<Duration>,
    },
    /// The server understood and rejected it.
    Refused(String),
}

/// `google.rpc.Status`, the error message of OpenTelemetry servers.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

/// Classifies the result of a request.
pub(crate) fn classify(protocol: Protocol, outcome: &Result<Response, Error>) -> Verdict {
    let response = match outcome {
        Ok(response) => response,
        Err(error) => {
            let reason = error.to_string();
            // Otherwise a later attempt may succeed: certificates are renewed, and proxies return.
            return match error.cause {
                Cause::TooLarge | Cause::Invalid => Verdict::Refused(reason),
                _ => Verdict::Again { reason, pause: None },
            };
        }
    };
    match response.status {
        200..300 => accepted(protocol, response),
        300..400 => {
            let location = response.location();
            Verdict::Refused(format!("it redirects to {location}; if you trust that, push there"))
        }
        408 | 429 | 500.. => Verdict::Again { reason: message(response), pause: pause(response) },
        status => Verdict::Refused(message(response) + hint(status)),
    }
}

/// Checks that a 200 response is of the protocol: any web page returns 200.
fn accepted(protocol: Protocol, response: &Response) -> Verdict {
    let content_type = content_type(response);
    if content_type.starts_with("text/html") {
        let reason = "it answered with an HTML page; is the address the root of its API?";
        return Verdict::Refused(reason.to_owned());
    }
    // Both protocols require the response to have the request's type.
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let is = |expected: &str| kind.eq_ignore_ascii_case(expected);
    match protocol {
        Protocol::Pyroscope | Protocol::Wingbeat if is("application/proto") => Verdict::Taken,
        Protocol::Otlp if is("application/x-protobuf") => partial(response),
        Protocol::Parca => grpc(response),
        Protocol::Pyroscope | Protocol::Wingbeat | Protocol::Otlp => {
            let kind = if kind.is_empty() { "an unknown type" } else { kind };
            let text = excerpt(&response.text());
            let text = if text.is_empty() { text } else { format!(" ({text})") };
            Verdict::Refused(format!(
                "status {} with a body of {kind}{text} is not an answer of {}; is the address the root of its API?",
                response.status,
                protocol.name()
            ))
        }
    }
}

fn partial(response: &Response) -> Verdict {
    let response =
        ExportProfilesServiceResponse::decode(response.body.as_slice()).unwrap_or_default();
    match response.partial_success {
        Some(ExportProfilesPartialSuccess { rejected_profiles: 1.., error_message }) => {
            let why = excerpt(&error_message);
            Verdict::Refused(format!("it took only part of the profiles: {why}"))
        }
        _ => Verdict::Taken,
    }
}

/// gRPC reports the result of a call in a trailer; in gRPC-Web, in the last frame of the body.
fn grpc(response: &Response) -> Verdict {
    let trailer = trailer(&response.body);
    let of_trailer = |name: &str| {
        let lines = trailer.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_owned())
    };
    let field = |name| response.header(name).map(str::to_owned).or_else(|| of_trailer(name));
    let (status, message) = (field("grpc-status"), field("grpc-message"));
    let message = message.unwrap_or_default();
    let message = percent_decode_str(&message).decode_utf8_lossy();
    let Some(code) = status.and_then(|status| status.trim().parse::<u32>().ok()) else {
        let reason = "it answered without a gRPC status; is it Parca, and the address its root?";
        return Verdict::Refused(reason.to_owned());
    };
    let reason = format!("gRPC status {code}: {}", excerpt(&message));
    match code {
        0 => Verdict::Taken,
        // Cancelled, unknown, deadline exceeded, resource exhausted, aborted, internal, unavailable, data loss.
        1 | 2 | 4 | 8 | 10 | 13 | 14 | 15 => Verdict::Again { reason, pause: pause(response) },
        16 => Verdict::Refused(reason + hint(401)),
        _ => Verdict::Refused(reason),
    }
}

/// Text of the frame marked by bit 7. Each frame is a byte of flags, four bytes of length, and contents.
fn trailer(mut body: &[u8]) -> String {
    while let Some(([marks, length @ ..], rest)) = body.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some(frame) = rest.get(..length) else { break };
        if marks & 0x80 != 0 {
            return String::from_utf8_lossy(frame).into_owned();
        }
        body = &rest[length..];
    }
    String::new()
}

/// The error text of a response: a message in protobuf or JSON, or the start of the text.
fn message(response: &Response) -> String {
    if content_type(response).starts_with("application/x-protobuf") {
        let message = RpcStatus::decode(response.body.as_slice()).unwrap_or_default().message;
        return with_text(response.status, &message);
    }
    response.message()
}

fn content_type(response: &Response) -> &str {
    response.header("content-type").unwrap_or_default()
}

/// The pause that a server demands.
fn pause(response: &Response) -> Option<Duration> {
    retry_after(response.header("retry-after")?, SystemTime::now())
}

/// Parses `Retry-After`: seconds or a date (RFC 9110, 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until: SystemTime = OffsetDateTime::parse(text, &Rfc2822).ok()?.into();
    Some(until.duration_since(now).unwrap_or_default())
}

fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "; give a valid token, in a file or the environment",
        404 | 405 => "; is the address the root of its API?",
        413 => "; raise its limit of requests, or make windows shorter",
        415 => "; does it support this protocol?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_http::{Client, Method, Request, Settings};

    use super::*;

    fn response(status: u16, content_type: &str, body: &[u8]) -> Response {
        with_header(
            Response { status, body: body.to_vec(), ..Response::default() },
            "content-type",
            content_type,
        )
    }

    fn with_header(mut response: Response, name: &'static str, value: &str) -> Response {
        response.headers.insert(name, value.parse().expect("a value"));
        response
    }

    /// `taken`, `again` or `refused`, and the reason.
    fn words(verdict: Verdict) -> (&'static str, String) {
        match verdict {
            Verdict::Taken => ("taken", String::new()),
            Verdict::Again { reason, .. } => ("again", reason),
            Verdict::Refused(reason) => ("refused", reason),
        }
    }

    #[test]
    fn statuses_decide() {
        let check = |status, body: &str, expected: (&str, &str)| {
            let kind = if status < 300 { "application/proto" } else { "application/json" };
            let response = response(status, kind, body.as_bytes());
            let (word, reason) = words(classify(Protocol::Pyroscope, &Ok(response)));
            assert_eq!((word, reason.as_str()), expected, "{status}");
        };
        check(200, "", ("taken", ""));
        check(202, "", ("taken", ""));
        check(302, "", ("refused", "it redirects to nowhere; if you trust that, push there"));
        check(
            400,
            r#"{"code": "x", "message": "no\nlabels"}"#,
            ("refused", "status 400: no labels"),
        );
        check(408, "", ("again", "status 408"));
        check(429, "slower", ("again", "status 429: slower"));
        let proxy = "status 502 and an HTML page, perhaps from a proxy";
        check(502, " <html>", ("again", proxy));
        check(599, "", ("again", "status 599"));
        let known = "status 401; give a valid token, in a file or the environment";
        check(401, "", ("refused", known));
    }

    #[test]
    fn a_pause_is_passed_on() {
        let busy = with_header(response(503, "", b""), "retry-after", "9");
        let pause = Some(Duration::from_secs(9));
        let expected = Verdict::Again { reason: "status 503".to_owned(), pause };
        assert_eq!(classify(Protocol::Otlp, &Ok(busy)), expected);
    }

    #[test]
    fn errors_that_would_repeat_are_refused() {
        let check = |url: &str, body_bytes: usize, expected: &str| {
            let body = vec![0; body_bytes];
            let mut request = Request::new(Method::POST, url);
            request.body = Some(&body);
            let outcome = Client::new(&Settings::default()).send(&request, None);
            assert_eq!(words(classify(Protocol::Otlp, &outcome)).0, expected, "{outcome:?}");
        };
        // This port is never assigned dynamically.
        check("http://127.0.0.1:1", 5 << 20, "again");
        check("http://ho st", 1, "refused");
    }

    #[test]
    fn pauses_are_seconds_or_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_820_400);
        let check = |text, expected_s: Option<u64>| {
            assert_eq!(retry_after(text, now), expected_s.map(Duration::from_secs), "{text}");
        };
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("Fri, 27 Nov 2026 23:00:30 GMT", Some(30));
        check("Fri, 27 Nov 2026 22:00:00 GMT", Some(0));
        check("-1", None);
        check("soon", None);
        check("", None);
        check("99999999999999999999999", None);
    }

    #[test]
    fn pages_are_refused() {
        for protocol in [Protocol::Pyroscope, Protocol::Wingbeat, Protocol::Otlp, Protocol::Parca] {
            let page = response(200, "text/html; charset=utf-8", b"<html>hello");
            let (word, reason) = words(classify(protocol, &Ok(page)));
            assert_eq!(word, "refused");
            assert!(reason.contains("an HTML page"), "{reason}");
        }
    }

    #[test]
    fn other_content_types_are_refused() {
        let check = |protocol, kind: &str, body: &str, expected| {
            let (word, reason) =
                words(classify(protocol, &Ok(response(200, kind, body.as_bytes()))));
            assert_eq!(word, expected, "{protocol:?} {kind} {body}");
            assert!(word == "taken" || reason.contains("is not an answer of"), "{reason}");
        };
        for (protocol, kind) in [
            (Protocol::Pyroscope, "application/proto"),
            (Protocol::Wingbeat, "application/proto"),
            (Protocol::Otlp, "application/x-protobuf"),
        ] {
            check(protocol, kind, "", "taken");
            check(protocol, &format!("{}; charset=utf-8", kind.to_uppercase()), "", "taken");
            check(protocol, "", "", "refused");
            check(protocol, "text/plain", "OK", "refused");
            check(protocol, "text/plain", "<html>Login…", "refused");
            check(protocol, "application/json", r#"{"error":"nope"}"#, "refused");
        }
    }

    #[test]
    fn opentelemetry_may_take_a_part() {
        let check = |rejected_profiles, body_is_whole: bool, expected| {
            let error_message = "no period".to_owned();
            let partial = ExportProfilesPartialSuccess { rejected_profiles, error_message };
            let body =
                ExportProfilesServiceResponse { partial_success: Some(partial) }.encode_to_vec();
            let body = if body_is_whole { &body[..] } else { &body[..1] };
            let response = response(200, "application/x-protobuf", body);
            let (word, reason) = words(classify(Protocol::Otlp, &Ok(response)));
            assert_eq!(word, expected);
            assert_eq!(reason.contains("no period"), expected == "refused");
        };
        check(2, true, "refused");
        check(0, true, "taken");
        check(2, false, "taken");
    }

    #[test]
    fn opentelemetry_reports_errors_in_protobuf() {
        let body = RpcStatus { message: "bad index".to_owned() }.encode_to_vec();
        let response = response(400, "application/x-protobuf", &body);
        let (word, reason) = words(classify(Protocol::Otlp, &Ok(response)));
        assert_eq!((word, reason.as_str()), ("refused", "status 400: bad index"));
    }

    #[test]
    fn parca_reports_the_result_in_a_trailer() {
        let framed = |marks: u8, text: &str| {
            let mut frame = vec![marks];
            frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
            frame.extend_from_slice(text.as_bytes());
            frame
        };
        let check = |body: Vec<u8>, header: Option<&str>, expected: (&str, &str)| {
            let response = response(200, "application/grpc-web+proto", &body);
            let response = match header {
                Some(status) => with_header(response, "grpc-status", status),
                None => response,
            };
            let (word, reason) = words(classify(Protocol::Parca, &Ok(response)));
            assert_eq!(word, expected.0, "{reason}");
            assert!(reason.contains(expected.1), "{reason}");
        };
        let whole = |text| [framed(0, ""), framed(0x80, text)].concat();
        check(whole("grpc-status: 0\r\n"), None, ("taken", ""));
        check(Vec::new(), Some("0"), ("taken", ""));
        let full = "Grpc-Status: 8\r\nGrpc-Message: too%20much%zz\r\n";
        check(whole(full), None, ("again", "gRPC status 8: too much%zz"));
        check(whole("grpc-status: 3\r\ngrpc-message: bad\r\n"), None, ("refused", "status 3: bad"));
        check(Vec::new(), Some("16"), ("refused", "give a valid token"));
        check(framed(0, "grpc-status: 0"), None, ("refused", "without a gRPC status"));
        check(vec![0x80, 255, 255, 255, 255, b'x'], None, ("refused", "without a gRPC status"));
        check(vec![0x80, 0], None, ("refused", "without a gRPC status"));
    }
}
