//! Each timeout closes its connection, and no other timeout does.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

impl Transport for DuplexStream {
    fn abandon(&self) {}
}

const TIMEOUTS: ClientTimeouts = ClientTimeouts {
    head: Duration::from_secs(10),
    idle: Duration::from_secs(75),
    send_timeout: Duration::from_secs(60),
};

fn pair() -> (TimedIo<DuplexStream>, DuplexStream, Arc<Activity>) {
    let (near, far) = tokio::io::duplex(64);
    let activity = Arc::new(Activity::default());
    let mut timed = TimedIo::new(near, Arc::clone(&activity), TIMEOUTS);
    timed.expect_head(Instant::now() + TIMEOUTS.head);
    (timed, far, activity)
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_head_is_closed_at_the_head_timeout() {
    let (mut io, _far, _) = pair();
    let start = Instant::now();
    let error = io.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_dripped_head_is_closed_at_the_head_timeout() {
    let (mut io, mut far, _) = pair();
    let start = Instant::now();
    let dripping = tokio::spawn(async move {
        while far.write_u8(b'x').await.is_ok() {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    });
    while io.read_u8().await.is_ok() {}
    assert_eq!(start.elapsed().as_secs(), 10);
    drop(io);
    dripping.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_the_head_timeout_and_its_end_starts_the_idle_timeout() {
    let (mut io, mut far, activity) = pair();
    far.write_u8(b'x').await.unwrap();
    io.read_u8().await.unwrap();
    let guard = activity.begin();
    let waited = tokio::time::timeout(Duration::from_secs(500), io.read_u8()).await;
    assert!(waited.is_err(), "reading has no timeout while a request is in progress");
    drop(guard);
    let start = Instant::now();
    assert!(io.read_u8().await.is_err());
    assert_eq!(start.elapsed().as_secs(), 75);
}

#[tokio::test(start_paused = true)]
async fn the_second_head_has_the_head_timeout_again() {
    let (mut io, mut far, activity) = pair();
    far.write_u8(b'x').await.unwrap();
    io.read_u8().await.unwrap();
    drop(activity.begin());
    let later = tokio::time::timeout(Duration::from_secs(50), io.read_u8()).await;
    assert!(later.is_err());
    far.write_u8(b'y').await.unwrap();
    io.read_u8().await.unwrap();
    let start = Instant::now();
    assert!(io.read_u8().await.is_err());
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_is_closed_at_the_send_timeout() {
    let (mut io, mut far, activity) = pair();
    let _guard = activity.begin();
    let start = Instant::now();
    io.write_all(&[0; 64]).await.unwrap();
    let slow = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(50)).await;
        let mut some = [0; 32];
        far.read_exact(&mut some).await.unwrap();
        far
    });
    let error = io.write_all(&[0; 64]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(start.elapsed().as_secs(), 110, "progress at 50 s starts the timeout again");
    drop(slow);
}
