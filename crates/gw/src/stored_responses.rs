//! The store of responses in the database: rows are sealed with the gateway's encryption key.

mod byte_gate;

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_engine::cpu_pool::offload_if;
use gw_engine::stored_responses::{
    ConversationSize, Kept, ResponseFacts, ResponseTable, ResponseWrite, StoredResponse, TableError,
    TableFuture, TurnFacts,
};
use gw_providers::seal::{SealOrigin, Sealer};
use gw_store::Store;
use gw_store::stored_responses::{KeptResponse, ResponseRow, SealedResponse};
use gw_wire::calendar;
use serde::Deserialize;

use self::byte_gate::ByteGate;
use crate::clock::TrustedClock;

/// The time between two purges. An ended response counts in the bytes of its key until then.
const PURGE_EVERY: Duration = Duration::from_secs(300);
/// The most rows that one statement purges, and the bytes after which it takes no further row. SQLite has one writer, and
/// everything else waits for it meanwhile.
const PURGE_BATCH: u32 = 200;
const PURGE_BYTES: i64 = 16 << 20;

/// Responses in the database.
#[derive(Debug)]
pub struct DatabaseResponses {
    store: Store,
    sealer: Sealer,
    /// The sealed texts that are written and the ones that are read. They wait for the database, and nothing else counts them.
    writing: ByteGate,
    reading: ByteGate,
}

/// The content of a row from before the conversations were chains. Each text is a JSON document.
#[derive(Deserialize)]
struct FormerContent {
    document: String,
    input: Vec<String>,
    history: Vec<String>,
}

impl DatabaseResponses {
    /// The responses of this store. It purges the ended ones regularly.
    #[must_use]
    pub fn start(store: Store, sealer: Sealer, clock: &Arc<TrustedClock>) -> Arc<Self> {
        let purged = store.clone();
        let purge = move |now_ms: i64| {
            let store = purged.clone();
            async move { purge(&store, now_ms.div_euclid(1000)).await }
        };
        tokio::spawn(Arc::clone(clock).purge_regularly("responses", PURGE_EVERY, purge));
        Arc::new(Self { store, sealer, writing: ByteGate::default(), reading: ByteGate::default() })
    }

    /// The row of a response.
    async fn row(
        &self,
        owner: &str,
        id: &str,
        response: &StoredResponse,
        items: &[String],
    ) -> Result<SealedResponse, TableError> {
        let too_large = || TableError("the response cannot be sealed".to_owned());
        let ConversationSize { bytes, items: count, values, turns } = response.turn.size;
        let sealed = self.seal(owner, id, response).await.ok_or_else(too_large)?;
        let row = ResponseRow {
            owner: owner.to_owned(),
            id: id.to_owned(),
            parent: response.turn.parent.clone(),
            expires_at: signed(response.expires_at),
            runs_for: response
                .running_until
                .map(|until| signed(until).saturating_sub(calendar::unix_seconds())),
            version: version_of(&sealed),
            is_streamed: response.turn.is_streamed,
            bytes: signed(response.bytes() as u64),
            conversation: [bytes, count, values, turns].map(signed),
        };
        Ok(SealedResponse { row, sealed, items: items.to_vec() })
    }

    /// Seals the texts of a response: their lengths, and then the texts. Each piece is one step of the CPU pool.
    async fn seal(&self, owner: &str, id: &str, response: &StoredResponse) -> Option<String> {
        let StoredResponse { document, input, history, .. } = response;
        let lengths = [document, input, history].map(|text| (text.len() as u64).to_be_bytes());
        let content: [&[u8]; 5] = [MARK, lengths.as_flattened(), document, input, history];
        let bytes = content.iter().map(|part| part.len()).sum::<usize>();
        let mut sealed = String::new();
        for (number, start) in (0_u32..).zip((0..bytes).step_by(PIECE_BYTES)) {
            let seal = || self.sealer.seal(&origin(owner, id, number), &piece_of(&content, start));
            let piece = offload_if(bytes >= HEAVY_BYTES, seal).await?;
            if number == 0 && bytes <= PIECE_BYTES {
                return Some(piece);
            }
            if number == 0 {
                // A buffer that grows would double.
                let head = piece.len().saturating_sub(PIECE_BYTES / 3 * 4);
                sealed.reserve_exact(bytes.div_ceil(3) * 4 + bytes.div_ceil(PIECE_BYTES) * (head + 1));
            } else {
                sealed.push(' ');
            }
            sealed.push_str(&piece);
        }
        Some(sealed)
    }

    async fn open_content(&self, row: &ResponseRow, sealed: &str) -> Option<StoredResponse> {
        let is_heavy = sealed.len() >= HEAVY_BYTES;
        let mut content = Vec::with_capacity(sealed.len() / 4 * 3);
        for (number, piece) in (0_u32..).zip(sealed.split(' ')) {
            let (found, piece) = offload_if(is_heavy, || self.sealer.open(piece)).await?;
            if found != origin(&row.owner, &row.id, number) {
                return None;
            }
            content.extend(piece);
        }
        let texts = match content.starts_with(MARK) {
            true => offload_if(is_heavy, || texts_of(&content.into())).await?,
            false => offload_if(is_heavy, || former_texts(&content)).await?,
        };
        let expires_at = u64::try_from(row.expires_at).ok()?;
        let turn = TurnFacts {
            parent: row.parent.clone(),
            is_streamed: row.is_streamed,
            size: size_of(row),
            is_running: row.runs_for.is_some(),
        };
        let mut response = StoredResponse::new(texts, turn, expires_at);
        response.running_until = running_until(row);
        Some(response)
    }
}

/// The beginning of a content that is no JSON.
const MARK: &[u8] = b"\0gw2";
/// Contents from this size on are sealed and opened by the CPU pool.
const HEAVY_BYTES: usize = 64 << 10;

/// A copy of the piece of a content that begins here. The content is in several parts.
fn piece_of(content: &[&[u8]], start: usize) -> Vec<u8> {
    let rest = content.iter().map(|part| part.len()).sum::<usize>().saturating_sub(start);
    let (mut piece, mut before) = (Vec::with_capacity(rest.min(PIECE_BYTES)), start);
    for part in content {
        let skipped = before.min(part.len());
        before -= skipped;
        let wanted = (PIECE_BYTES - piece.len()).min(part.len() - skipped);
        piece.extend_from_slice(part.get(skipped..skipped + wanted).unwrap_or_default());
    }
    piece
}

/// The texts of a content: slices of it. They are checked, because everything that reads them expects UTF-8.
fn texts_of(content: &Bytes) -> Option<[Bytes; 3]> {
    let mut rest = content.slice(MARK.len()..);
    let mut lengths = [0_usize; 3];
    for length in &mut lengths {
        let (bytes, _) = rest.split_first_chunk::<8>()?;
        *length = usize::try_from(u64::from_be_bytes(*bytes)).ok()?;
        rest = rest.slice(8..);
    }
    let mut texts = [Bytes::new(), Bytes::new(), Bytes::new()];
    for (text, length) in texts.iter_mut().zip(lengths) {
        if length > rest.len() {
            return None;
        }
        *text = rest.split_to(length);
        std::str::from_utf8(text).ok()?;
    }
    rest.is_empty().then_some(texts)
}

fn former_texts(content: &[u8]) -> Option<[Bytes; 3]> {
    let FormerContent { document, input, history } = serde_json::from_slice(content).ok()?;
    let list = |items: Vec<String>| Bytes::from(format!("[{}]", items.join(",")));
    Some([document.into(), list(input), list(history)])
}

/// A number for each content: the end of each sealed piece, its authentication tag, depends on all of the piece.
fn version_of(sealed: &str) -> i64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for piece in sealed.split(' ') {
        hasher.write(piece.as_bytes().get(piece.len().saturating_sub(TAG_CHARACTERS)..).unwrap_or_default());
    }
    i64::from_le_bytes(hasher.finish().to_le_bytes())
}

/// The characters of base64 that hold the last 16 bytes of a sealed piece.
const TAG_CHARACTERS: usize = 24;

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn size_of(row: &ResponseRow) -> ConversationSize {
    let [bytes, items, values, turns] = row.conversation.map(unsigned);
    ConversationSize { bytes, items, values, turns }
}

/// The database has measured the rest of the time. Here it counts from now on.
fn running_until(row: &ResponseRow) -> Option<u64> {
    row.runs_for.map(|left| unsigned(calendar::unix_seconds().saturating_add(left)))
}

fn facts_of(row: ResponseRow) -> ResponseFacts {
    ResponseFacts {
        version: row.version,
        bytes: unsigned(row.bytes),
        size: size_of(&row),
        expires_at: unsigned(row.expires_at),
        running_until: running_until(&row),
        is_running: row.runs_for.is_some(),
        id: row.id,
    }
}

fn kept(outcome: KeptResponse) -> Kept {
    match outcome {
        KeptResponse::Stored => Kept::Stored,
        KeptResponse::ParentGone => Kept::ParentGone,
        KeptResponse::Ended => Kept::Ended,
        KeptResponse::TooLarge => Kept::TooLarge,
    }
}

/// The bytes of a response that are sealed at once.
const PIECE_BYTES: usize = 4 << 20;

/// The origin in the seal of a row. A row that is copied to another key, id or place cannot be opened.
fn origin(owner: &str, id: &str, number: u32) -> SealOrigin {
    SealOrigin {
        provider: format!("response {owner} {id} {number}"),
        model: String::new(),
        account: Default::default(),
    }
}

/// Deletes the ended rows from the end of their conversations, so a conversation takes as many rounds as it has turns.
async fn purge(store: &Store, now: i64) -> gw_store::Result<u64> {
    let mut purged = 0;
    loop {
        let count = store.purge_responses(now, PURGE_BATCH, PURGE_BYTES).await?;
        purged += count;
        if count == 0 {
            return Ok(purged);
        }
    }
}

fn failed(error: &gw_store::Error) -> TableError {
    TableError(error.to_string())
}

impl ResponseTable for DatabaseResponses {
    fn find<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<ResponseFacts>> {
        Box::pin(async move {
            let row = self.store.response(owner, id, calendar::unix_seconds()).await;
            Ok(row.map_err(|error| failed(&error))?.map(facts_of))
        })
    }

    fn chain<'a>(&'a self, owner: &'a str, id: &'a str, most: u32) -> TableFuture<'a, Vec<ResponseFacts>> {
        Box::pin(async move {
            let rows = self.store.response_chain(owner, id, most).await.map_err(|error| failed(&error))?;
            Ok(rows.into_iter().map(facts_of).collect())
        })
    }

    fn open<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, Option<StoredResponse>> {
        Box::pin(async move {
            let rows = self.store.response_chain(owner, id, 1).await.map_err(|error| failed(&error))?;
            let Some(row) = rows.first() else { return Ok(None) };
            let _passed = self.reading.pass(usize::try_from(row.bytes).unwrap_or_default()).await;
            let sealed = self.store.response_content(owner, id).await.map_err(|error| failed(&error))?;
            let Some(sealed) = sealed else { return Ok(None) };
            Ok(self.open_content(row, &sealed).await)
        })
    }

    fn responses_of_items<'a>(&'a self, owner: &'a str, items: &'a [String]) -> TableFuture<'a, Vec<String>> {
        Box::pin(async move {
            let found = self.store.responses_of_items(owner, items, calendar::unix_seconds()).await;
            let found: HashMap<_, _> = found.map_err(|error| failed(&error))?.into_iter().collect();
            Ok(found.into_values().collect())
        })
    }

    fn stored_bytes<'a>(&'a self, owner: &'a str) -> TableFuture<'a, u64> {
        Box::pin(async move {
            let bytes = self.store.response_bytes(owner).await;
            bytes.map(unsigned).map_err(|error| failed(&error))
        })
    }

    fn write<'a>(
        &'a self,
        owner: &'a str,
        id: &'a str,
        write: ResponseWrite,
        response: &'a StoredResponse,
        items: &'a [String],
    ) -> TableFuture<'a, Kept> {
        Box::pin(async move {
            let _passed = self.writing.pass(response.bytes()).await;
            let row = self.row(owner, id, response, items).await?;
            let written = match write {
                ResponseWrite::Finish => self.store.finish_response(row).await,
                ResponseWrite::Begin | ResponseWrite::Save => self.store.keep_response(row).await,
            };
            written.map(kept).map_err(|error| failed(&error))
        })
    }

    fn renew<'a>(&'a self, owner: &'a str, id: &'a str, until: u64) -> TableFuture<'a, bool> {
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        Box::pin(async move {
            let runs_for = until.saturating_sub(calendar::unix_seconds());
            self.store.renew_response(owner, id, runs_for, until).await.map_err(|error| failed(&error))
        })
    }

    fn delete<'a>(&'a self, owner: &'a str, id: &'a str) -> TableFuture<'a, bool> {
        Box::pin(async move {
            self.store
                .delete_response(owner, id, calendar::unix_seconds())
                .await
                .map_err(|error| failed(&error))
        })
    }
}

#[cfg(test)]
mod tests;
