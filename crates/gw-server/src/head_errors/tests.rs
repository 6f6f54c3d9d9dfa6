//! hyper's own answers are held back, and no other bytes are.

use super::*;
use tokio::io::AsyncWriteExt;

const OWN: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                   date: Sun, 22 Nov 2026 04:33:15 GMT\r\n\r\n";

#[test]
fn only_hypers_own_answers_are_recognised() {
    for (bytes, start) in [
        (OWN.to_owned(), Some(0)),
        (OWN.replace("400 Bad Request", "431 Request Header Fields Too Large"), Some(0)),
        (OWN.replace("400 Bad Request", "414 URI Too Long"), Some(0)),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{}}{OWN}"), Some(40)),
        (OWN.replace("400", "404"), None),
        (OWN.replace("content-length: 0", "content-length: 7"), None),
        (OWN.replace("date:", "x-request-id: req_1\r\ndate:"), None),
        (format!("{OWN}x"), None),
        (format!("{OWN}\r\n\r\n"), None),
        ("0\r\n\r\n".to_owned(), None),
        (String::new(), None),
    ] {
        assert_eq!(hyper_answer(bytes.as_bytes()), start, "{bytes}");
    }
}

#[tokio::test]
async fn an_answer_is_held_and_everything_else_is_written_in_order() {
    let mut io = HyperErrorFilter::new(Vec::new());
    io.write_all(format!("first{OWN}").as_bytes()).await.unwrap();
    let (written, held) = io.into_parts();
    assert_eq!((written.as_slice(), held.as_slice()), (&b"first"[..], OWN.as_bytes()));
    // More bytes follow, so the first answer was an ordinary one.
    let mut io = HyperErrorFilter::new(Vec::new());
    for piece in [OWN, "second", OWN] {
        io.write_all(piece.as_bytes()).await.unwrap();
    }
    let (written, held) = io.into_parts();
    assert_eq!((written, held.as_slice()), (format!("{OWN}second").into_bytes(), OWN.as_bytes()));
}

#[tokio::test]
async fn an_answer_is_held_whole_however_little_the_socket_takes() {
    let (socket, mut peer) = tokio::io::duplex(3);
    let writing = tokio::spawn(async move {
        let mut io = HyperErrorFilter::new(socket);
        io.write_all(format!("0123456789{OWN}").as_bytes()).await.unwrap();
        io.into_parts().1
    });
    let mut seen = vec![0; 10];
    tokio::io::AsyncReadExt::read_exact(&mut peer, &mut seen).await.unwrap();
    assert_eq!((seen.as_slice(), writing.await.unwrap()), (&b"0123456789"[..], OWN.as_bytes().to_vec()));
}
