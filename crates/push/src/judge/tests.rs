//! Responses of all kinds, and their classification.

use super::*;

fn reply(status: u16, content_type: &str, body: &[u8]) -> Reply {
    let content_type = content_type.to_owned();
    Reply { status, content_type, body: body.to_vec(), ..Reply::default() }
}

/// `taken`, `again` or `refused`, and the reason.
fn words(verdict: Verdict) -> (&'static str, String) {
    match verdict {
        Verdict::Taken => ("taken", String::new()),
        Verdict::Again { reason, .. } => ("again", reason),
        Verdict::Refused { reason } => ("refused", reason),
    }
}

#[test]
fn statuses_decide() {
    let check = |status, body: &str, expected: (&str, &str)| {
        let kind = if status < 300 { "application/proto" } else { "application/json" };
        let reply = reply(status, kind, body.as_bytes());
        let (word, reason) = words(judge(Protocol::Pyroscope, &Ok(reply)));
        assert_eq!((word, reason.as_str()), expected, "{status}");
    };
    check(200, "", ("taken", ""));
    check(202, "", ("taken", ""));
    check(302, "", ("refused", "it redirects to nowhere; if you trust that, push there"));
    check(400, r#"{"code": "x", "message": "no\nlabels"}"#, ("refused", "status 400: no labels"));
    check(408, "", ("again", "status 408"));
    check(429, "slower", ("again", "status 429: slower"));
    let proxy = "status 502 and a page of HTML, which a proxy may have made";
    check(502, " <html>", ("again", proxy));
    check(599, "", ("again", "status 599"));
    let known = "status 401; give a token that it knows, in a file or the environment";
    check(401, "", ("refused", known));
}

#[test]
fn a_pause_is_passed_on() {
    let retry_after = Some(Duration::from_secs(9));
    let busy = Reply { retry_after, ..reply(503, "", b"") };
    let expected = Verdict::Again { reason: "status 503".to_owned(), pause: retry_after };
    assert_eq!(judge(Protocol::Otlp, &Ok(busy)), expected);
}

#[test]
fn no_answer_is_judged_by_its_reason() {
    let check = |is_passing, expected| {
        let miss = Miss { reason: "cut".to_owned(), is_passing };
        assert_eq!(words(judge(Protocol::Otlp, &Err(miss))), (expected, "cut".to_owned()));
    };
    check(true, "again");
    check(false, "refused");
}

#[test]
fn a_page_is_no_answer() {
    for protocol in [Protocol::Pyroscope, Protocol::Wingbeat, Protocol::Otlp, Protocol::Parca] {
        let page = reply(200, "text/html; charset=utf-8", b"<html>hello");
        let (word, reason) = words(judge(protocol, &Ok(page)));
        assert_eq!(word, "refused");
        assert!(reason.contains("a page for people"), "{reason}");
    }
}

#[test]
fn what_answers_in_another_type_is_no_engine() {
    let check = |protocol, kind: &str, body: &str, expected| {
        let (word, reason) = words(judge(protocol, &Ok(reply(200, kind, body.as_bytes()))));
        assert_eq!(word, expected, "{protocol:?} {kind} {body}");
        assert!(word == "taken" || reason.contains("is no answer of"), "{reason}");
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
        let partial = PartialSuccess { rejected_profiles, error_message };
        let body = ExportResponse { partial_success: Some(partial) }.encode_to_vec();
        let body = if body_is_whole { &body[..] } else { &body[..1] };
        let reply = reply(200, "application/x-protobuf", body);
        let (word, reason) = words(judge(Protocol::Otlp, &Ok(reply)));
        assert_eq!(word, expected);
        assert_eq!(reason.contains("no period"), expected == "refused");
    };
    check(2, true, "refused");
    check(0, true, "taken");
    check(2, false, "taken");
}

#[test]
fn opentelemetry_says_errors_in_protobuf() {
    let body = RpcStatus { message: "bad index".to_owned() }.encode_to_vec();
    let reply = reply(400, "application/x-protobuf", &body);
    let (word, reason) = words(judge(Protocol::Otlp, &Ok(reply)));
    assert_eq!((word, reason.as_str()), ("refused", "status 400: bad index"));
}

#[test]
fn parca_says_what_became_of_a_call_in_a_trailer() {
    let framed = |marks: u8, text: &str| {
        let mut frame = vec![marks];
        frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
        frame.extend_from_slice(text.as_bytes());
        frame
    };
    let check = |body: Vec<u8>, header: Option<&str>, expected: (&str, &str)| {
        let grpc_status = header.map(str::to_owned);
        let reply = Reply { grpc_status, ..reply(200, "application/grpc-web+proto", &body) };
        let (word, reason) = words(judge(Protocol::Parca, &Ok(reply)));
        assert_eq!(word, expected.0, "{reason}");
        assert!(reason.contains(expected.1), "{reason}");
    };
    let whole = |text| [framed(0, ""), framed(0x80, text)].concat();
    check(whole("grpc-status: 0\r\n"), None, ("taken", ""));
    check(Vec::new(), Some("0"), ("taken", ""));
    let full = "Grpc-Status: 8\r\nGrpc-Message: too%20much%zz\r\n";
    check(whole(full), None, ("again", "gRPC status 8: too much%zz"));
    check(whole("grpc-status: 3\r\ngrpc-message: bad\r\n"), None, ("refused", "status 3: bad"));
    check(Vec::new(), Some("16"), ("refused", "give a token"));
    check(framed(0, "grpc-status: 0"), None, ("refused", "without a status of gRPC"));
    check(vec![0x80, 255, 255, 255, 255, b'x'], None, ("refused", "without a status"));
    check(vec![0x80, 0], None, ("refused", "without a status"));
}
