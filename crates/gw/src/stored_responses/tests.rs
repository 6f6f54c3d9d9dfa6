//! Sealed contents.

use super::*;

async fn table() -> DatabaseResponses {
    let store = Store::in_memory().await.unwrap();
    let (writing, reading) = (ByteGate::default(), ByteGate::default());
    DatabaseResponses { store, sealer: Sealer::random(), writing, reading }
}

#[tokio::test]
async fn a_content_of_any_size_is_sealed_in_one_buffer_of_its_size() {
    let table = table().await;
    for (document, input) in [
        (10, 0),
        (1000, 2000),
        (PIECE_BYTES, 1),
        (PIECE_BYTES - 28, 0),
        (1, 3 * PIECE_BYTES),
        (9_000_000, 9_000_000),
    ] {
        let texts = [vec![b'd'; document].into(), vec![b'i'; input].into(), Bytes::from_static(b"[1]")];
        let response = StoredResponse::new(texts.clone(), TurnFacts::default(), u64::MAX >> 2);
        let sealed = table.seal("key", "resp_1", &response).await.unwrap();
        assert!(sealed.capacity() - sealed.len() < 4096, "{} of {}", sealed.capacity(), sealed.len());
        assert_eq!(sealed.split(' ').count(), (document + input + 31).div_ceil(PIECE_BYTES));
        let owner = "key".to_owned();
        let row = ResponseRow { owner, id: "resp_1".to_owned(), ..ResponseRow::default() };
        let opened = table.open_content(&row, &sealed).await.unwrap();
        assert!([opened.document, opened.input, opened.history] == texts);
    }
}
