//! Classifies a response: accepted, to be retried, or rejected. Pure.

use std::time::Duration;

use prost::Message;
use wingbeat_http::{excerpt, with_text};

use crate::target::Protocol;

/// A server's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) location: Option<String>,
    /// Value of `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// gRPC status, if the response has no body.
    pub(crate) grpc_status: Option<String>,
    pub(crate) grpc_message: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// A request without a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) reason: String,
    /// Whether a retry may succeed.
    pub(crate) is_passing: bool,
}

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
    Refused {
        reason: String,
    },
}

/// `ExportProfilesServiceResponse` of OpenTelemetry.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_profiles: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `google.rpc.Status`, the error message of OpenTelemetry servers.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

/// Classifies the result of a request.
pub(crate) fn judge(protocol: Protocol, outcome: &Result<Reply, Miss>) -> Verdict {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(Miss { reason, is_passing: true }) => {
            return Verdict::Again { reason: reason.clone(), pause: None };
        }
        Err(miss) => return Verdict::Refused { reason: miss.reason.clone() },
    };
    match reply.status {
        200..300 => accepted(protocol, reply),
        300..400 => {
            let location = reply.location.as_deref().unwrap_or("nowhere");
            let reason = format!("it redirects to {location}; if you trust that, push there");
            Verdict::Refused { reason }
        }
        408 | 429 | 500.. => Verdict::Again { reason: said(reply), pause: reply.retry_after },
        status => Verdict::Refused { reason: format!("{}{}", said(reply), hint(status)) },
    }
}

/// Checks that a 200 response is of the protocol: any web page returns 200.
fn accepted(protocol: Protocol, reply: &Reply) -> Verdict {
    if reply.content_type.starts_with("text/html") {
        let reason = "it answered with a page for people; is the address the root of its API?";
        return Verdict::Refused { reason: reason.to_owned() };
    }
    // Both protocols require the response to have the request's type.
    let kind = reply.content_type.split(';').next().unwrap_or_default().trim();
    let is = |expected: &str| kind.eq_ignore_ascii_case(expected);
    match protocol {
        Protocol::Pyroscope | Protocol::Wingbeat if is("application/proto") => Verdict::Taken,
        Protocol::Otlp if is("application/x-protobuf") => partly(reply),
        Protocol::Parca => grpc(reply),
        Protocol::Pyroscope | Protocol::Wingbeat | Protocol::Otlp => {
            let kind = if kind.is_empty() { "an unknown type" } else { kind };
            let text = excerpt(&String::from_utf8_lossy(&reply.body));
            let said = if text.is_empty() { text } else { format!(" ({text})") };
            let reason = format!(
                "status {} with a body of {kind}{said} is no answer of {}; is the address the root of its API?",
                reply.status,
                protocol.name()
            );
            Verdict::Refused { reason }
        }
    }
}

fn partly(reply: &Reply) -> Verdict {
    let response = ExportResponse::decode(reply.body.as_slice()).unwrap_or_default();
    match response.partial_success {
        Some(PartialSuccess { rejected_profiles: 1.., error_message }) => {
            let said = excerpt(&error_message);
            Verdict::Refused { reason: format!("it took a part of the profiles only: {said}") }
        }
        _ => Verdict::Taken,
    }
}

/// gRPC reports the result of a call in a trailer; in gRPC-Web, in the last frame of the body.
fn grpc(reply: &Reply) -> Verdict {
    let trailer = trailer(&reply.body);
    let of_trailer = |name: &str| {
        let lines = trailer.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_owned())
    };
    let status = reply.grpc_status.clone().or_else(|| of_trailer("grpc-status"));
    let message = reply.grpc_message.clone().or_else(|| of_trailer("grpc-message"));
    let message = decoded(&message.unwrap_or_default());
    let Some(code) = status.and_then(|status| status.trim().parse::<u32>().ok()) else {
        let reason = "it answered without a status of gRPC; is it Parca, and the address its root?";
        return Verdict::Refused { reason: reason.to_owned() };
    };
    let reason = format!("gRPC status {code}: {}", excerpt(&message));
    match code {
        0 => Verdict::Taken,
        // Cancelled, unknown, deadline exceeded, resource exhausted, aborted, internal, unavailable, data loss.
        1 | 2 | 4 | 8 | 10 | 13 | 14 | 15 => Verdict::Again { reason, pause: reply.retry_after },
        16 => Verdict::Refused { reason: format!("{reason}{}", hint(401)) },
        _ => Verdict::Refused { reason },
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

/// Decodes gRPC's percent-encoding of messages.
fn decoded(message: &str) -> String {
    let bytes = message.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        let (byte, length) = match code {
            Some(code) if byte == b'%' => (code, 3),
            _ => (byte, 1),
        };
        out.push(byte);
        at += length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The error text of a response: a message in protobuf or JSON, or the start of the text.
fn said(reply: &Reply) -> String {
    if reply.content_type.starts_with("application/x-protobuf") {
        let message = RpcStatus::decode(reply.body.as_slice()).unwrap_or_default().message;
        return with_text(reply.status, &message);
    }
    wingbeat_http::said(reply.status, &String::from_utf8_lossy(&reply.body))
}

fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "; give a token that it knows, in a file or the environment",
        404 | 405 => "; is the address the root of its API?",
        413 => "; let it take larger requests, or make windows shorter",
        415 => "; does it speak this protocol?",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
