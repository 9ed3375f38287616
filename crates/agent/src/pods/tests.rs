//! Kubelets that respond well, badly, slowly or never.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;
use crate::kubelet::{Kubelet, KubeletOptions};

const DOCUMENT: &str = include_str!("tests/pods.json");
const UID: &str = "5b3c1f0e-6a1d-4a53-9b1f-0a7d3f6c2e11";
const CONTAINER: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";

/// A server that responds to each request after a delay: its address and request count.
fn stub(status: u16, body: &'static str, after: Duration) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let answer = move |mut stream: TcpStream| {
        let mut head = [0; 4096];
        let read = stream.read(&mut head).unwrap_or(0);
        let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
        assert!(head.starts_with("get /pods http/1.1"), "{head}");
        thread::sleep(after);
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            answer(stream);
        }
    });
    (url, count)
}

fn pods(url: &str) -> Pods {
    let options = KubeletOptions { url: url.to_owned(), ..KubeletOptions::default() };
    let kubelet = Kubelet::new(&options).expect("a kubelet");
    Pods::start(Box::new(move || kubelet.pods()))
}

#[test]
fn a_container_has_a_pod() {
    let (url, count) = stub(200, DOCUMENT, Duration::ZERO);
    let mut pods = pods(&url);
    let mut check = |uid: &str,
                     id: Option<&str>,
                     expected: Option<(&str, &str, &str, Option<&str>)>| {
        let found = pods.get(uid, id);
        let found = found.as_ref().map(|it| {
            (it.namespace.as_str(), it.pod.as_str(), it.service.as_str(), it.container.as_deref())
        });
        assert_eq!(found, expected, "{uid}");
    };
    let pod = "cart-6f5d8b7c9-x2k4q";
    check(UID, Some(CONTAINER), Some(("shop", pod, "cart", Some("app"))));
    let init = "0f".repeat(32);
    check(UID, Some(&init), Some(("shop", pod, "cart", Some("migrate"))));
    // The container that holds the namespaces is in no list.
    check(UID, Some(&"99".repeat(32)), Some(("shop", pod, "cart", None)));
    check(UID, None, Some(("shop", pod, "cart", None)));
    let of_file = "9f2d1c0b8a7e6f5d4c3b2a1908f7e6d5";
    check(of_file, None, Some(("kube-system", "etcd-node-1", "etcd-node-1", None)));
    check(
        "e7a0c2d4-0b1f-4c3e-8a9d-1f2e3d4c5b6a",
        None,
        Some(("infra", "node-exporter-b9xzk", "exporter", None)),
    );
    check("00000000-0000-0000-0000-000000000000", None, None);
    check("00000000-0000-0000-0000-000000000000", None, None);
    // Initially, and once for each unknown pod, which then has a pause.
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[test]
fn failures_are_told_and_not_repeated_at_once() {
    let check = |status: u16, body: &'static str, expected: &str| {
        let (url, count) = stub(status, body, Duration::ZERO);
        let mut pods = pods(&url);
        for _ in 0..5 {
            pods.next_window();
            assert_eq!(pods.get(UID, None), None);
        }
        let trouble = pods.take_trouble().expect("trouble");
        assert!(trouble.contains(expected), "{trouble}");
        assert_eq!(pods.take_trouble(), None);
        assert_eq!((count.load(Ordering::Relaxed), pods.counts.errors), (1, 1));
    };
    check(401, "Unauthorized", "/pods: it answered 401 (not authenticated)");
    check(403, "Forbidden", "nodes/proxy");
    check(404, "", "is it the kubelet?");
    check(200, "<html>", "answers no list of pods");
    check(200, r#"{"kind":"Status"}"#, "the kubelet answers a Status, not a PodList");
}

#[test]
fn a_window_does_not_wait_for_long() {
    let (url, _) = stub(200, DOCUMENT, Duration::from_millis(700));
    let mut pods = pods(&url);
    let begun = Instant::now();
    assert_eq!(pods.get(UID, None), None);
    // The wait of this window is over for all pods.
    assert_eq!(pods.get("another", None), None);
    assert!(begun.elapsed() < PATIENCE + Duration::from_millis(150), "{:?}", begun.elapsed());
    // The response is available to the next window.
    thread::sleep(Duration::from_millis(500));
    pods.next_window();
    assert_eq!(pods.get(UID, None).map(|it| it.namespace), Some("shop".to_owned()));
}

#[test]
fn a_kubelet_that_never_answers_stops_nothing() {
    let (url, count) = stub(200, DOCUMENT, Duration::from_secs(60));
    let mut pods = pods(&url);
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(pods.get(UID, None), None);
    }
    assert!(begun.elapsed() < PATIENCE + Duration::from_millis(150), "{:?}", begun.elapsed());
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let mut refused = self::pods(&format!("http://{nobody}"));
    assert_eq!(refused.get(UID, None), None);
    assert!(refused.take_trouble().is_some_and(|it| it.contains("refused the connection")));
}

#[test]
fn documents_that_lack_much() {
    let check = |text: &str, expected: Option<usize>| {
        assert_eq!(read(text.as_bytes()).ok().map(|pods| pods.len()), expected, "{text}");
    };
    check("{}", Some(0));
    check(r#"{"kind":"PodList","items":null}"#, Some(0));
    check(r#"{"items":[{"metadata":{"name":"a","uid":"b"}}]}"#, Some(1));
    check(
        r#"{"items":[{"metadata":{"name":"a","uid":"b","ownerReferences":null},"status":{"containerStatuses":[{"name":"c"}]}}]}"#,
        Some(1),
    );
    check(r#"{"items":[{"metadata":{"name":"a"}}]}"#, None);
    check("[]", None);
    check("", None);
}
