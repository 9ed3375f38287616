//! A request as browsers send it, and heads of chunks.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

const REQUEST: &[u8] = b"GET /a/long/path?with=a&query=that&goes=on HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9\r\n\
    Accept-Language: en-us,en;q=0.5\r\n\
    Accept-Encoding: gzip,deflate\r\n\
    Connection: keep-alive\r\n\
    Cookie: a=b; c=d; session=0123456789abcdef\r\n\r\n";

const CHUNKS: [&[u8]; 4] = [b"0\r\n", b"12ab\r\n", b"3f; name=value\r\n", b"ffff00\r\n"];

fn bench(criterion: &mut Criterion) {
    criterion.bench_function("request", |bencher| {
        bencher.iter(|| {
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut request = httparse::Request::new(&mut headers);
            request.parse(black_box(REQUEST)).expect("a request")
        });
    });
    criterion.bench_function("chunks", |bencher| {
        bencher.iter(|| {
            for chunk in CHUNKS {
                black_box(httparse::parse_chunk_size(black_box(chunk)).expect("a chunk"));
            }
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
