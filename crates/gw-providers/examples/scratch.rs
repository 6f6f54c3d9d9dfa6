#![allow(missing_docs, clippy::all, clippy::unwrap_used)]
use gw_providers::adapter::HttpCall;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use std::future::Future; use tokio::io::{AsyncReadExt, AsyncWriteExt};
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let chunks: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let l = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let a = l.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut s, _) = l.accept().unwrap();
        s.set_nodelay(true).unwrap();
        let mut b = [0; 65536];
        loop {
            if s.read(&mut b).unwrap() == 0 { return; }
            if chunks == 0 { s.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}").unwrap(); continue; }
            s.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
            for _ in 0..chunks { s.write_all(EVENT).unwrap(); std::thread::yield_now(); }
            s.write_all(b"0\r\n\r\n").unwrap();
        }
    });
    let c = Client::new(&format!("http://{a}/v1"), true, None).unwrap();
    let t = std::time::Instant::now();
    let cpu0 = cpu();
    let mut got = 0; let mut polls = 0;
    for _ in 0..n {
        let call = HttpCall { method: http::Method::POST, path: "/chat/completions".into(), headers: http::HeaderMap::new(), body: bytes::Bytes::from_static(b"{\"model\":\"m\"}") };
        let t = Timeouts::default(); let mut f = std::pin::pin!(c.send(call, &t)); let mut r = std::future::poll_fn(|cx| { polls += 1; f.as_mut().poll(cx) }).await.unwrap();
        while let Some(x) = r.body.chunk().await { x.unwrap(); got += 1; }
    }
    println!("{polls} polls {n} requests {got} chunks {:?} wall/req, main-thread cpu/req {:.2} us", t.elapsed() / n as u32, (cpu() - cpu0) / n as f64 * 1e6);
}
fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap(); s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9 }

const EVENT: &[u8] = b"3c\r\ndata: {\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n\r\n";
