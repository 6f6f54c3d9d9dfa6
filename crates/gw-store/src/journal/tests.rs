//! The journal loses nothing when the process is killed, writes nothing twice and leaves no file behind.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{
    AbandonedSegments, INTERRUPTED, Journal, JournalFull, MAX_PENDING, SEGMENT_AGE, quarantined_segments,
    replay,
};
use crate::Store;
use crate::ledger::{Attempt, Entry, Filter};

fn entry(n: u64) -> Entry {
    Entry {
        request_id: format!("req_{n:05}").into(),
        at: i64::try_from(n).unwrap(),
        status: "ok".into(),
        cost: i128::from(n) * 3,
        ..Entry::default()
    }
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// The remains of a killed process: its files, without its locks and its memory.
fn killed(journal: Journal, directory: &Path) {
    let kept: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    drop(journal);
    for (path, bytes) in kept {
        fs::write(path, bytes).unwrap();
    }
}

/// The number of replayed requests; their segments are deleted.
async fn replayed(directory: &Path, store: &Store) -> usize {
    let mut found = replay(AbandonedSegments::lock_all(directory), store, None).await.unwrap();
    let count = found.entries.len();
    found.remove_segments();
    count
}

#[tokio::test]
async fn a_line_is_removed_once_its_outcome_is_in_the_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    for n in 0..2_500 {
        let begun = journal.begin(&entry(n)).unwrap();
        journal.finish(Some(begun), entry(n));
    }
    assert!(!journal.is_full() && journal.pending() == 2_500);
    journal.close();
    journal.run(&store).await;
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 2_500);
    drop(journal);
    assert_eq!(files(directory.path()), 0);
}

#[tokio::test]
async fn a_killed_process_loses_no_row_and_doubles_none() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    for n in 0..10 {
        let begun = journal.begin(&entry(n)).unwrap();
        if n < 7 {
            journal.finish(Some(begun), entry(n));
        }
    }
    // Some outcomes were written before the process ended.
    store.record(&(0..3).map(entry).collect::<Vec<_>>()).await.unwrap();
    killed(journal, directory.path());
    assert_eq!(replayed(directory.path(), &store).await, 10);
    let rows = store.requests(&Filter::default(), None, 100).await.unwrap();
    assert_eq!(rows.len(), 10);
    let interrupted: Vec<_> = rows.iter().filter(|row| row.status == INTERRUPTED).map(|row| row.at).collect();
    assert_eq!(interrupted, [9, 8, 7]);
    assert_eq!(files(directory.path()), 0);
    assert_eq!(replayed(directory.path(), &store).await, 0);
}

#[tokio::test]
async fn a_truncated_line_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    journal.finish(None, entry(1));
    killed(journal, directory.path());
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
        assert_eq!(replayed(directory.path(), &store).await, 1, "{cut}");
    }
}

#[tokio::test]
async fn a_living_process_keeps_its_journal() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let begun = journal.begin(&entry(1)).unwrap();
    assert_eq!(replayed(directory.path(), &store).await, 0);
    journal.finish(Some(begun), entry(1));
    journal.close();
    journal.run(&store).await;
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 1);
}

#[tokio::test]
async fn s02_a_full_journal_refuses_new_requests_until_the_store_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let away = Store::in_memory().await.unwrap();
    away.close().await;
    let journal = Journal::open_with(directory.path(), 50, SEGMENT_AGE).unwrap();
    let begun: Vec<_> = (0..60).map(|n| journal.begin(&entry(n)).unwrap()).collect();
    let trying = async {
        // A request that has begun may finish, however many outcomes wait.
        for (n, begun) in (0..60).zip(begun) {
            journal.finish(Some(begun), entry(n));
        }
        assert_eq!(journal.begin(&entry(60)).unwrap_err(), JournalFull);
        assert!(!journal.wait_until_written(Duration::from_millis(100)).await);
        assert!(journal.is_full());
        assert_eq!((journal.pending(), journal.unwritten()), (60, 0));
    };
    tokio::select! {
        () = journal.run(&away) => unreachable!("nothing can be written"),
        () = trying => {}
    }
    let store = Store::in_memory().await.unwrap();
    // The writer does not put back the batch that it is writing when it stops. Here that batch had failed already.
    journal.close();
    journal.run(&store).await;
    assert!(!journal.is_full() && journal.begin(&entry(61)).is_ok());
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 60);
    let rows = store.requests(&Filter::default(), None, 100).await.unwrap();
    assert!(rows.iter().rev().map(|row| row.at).eq(0..60), "in order");
}

#[tokio::test]
async fn s01_a_stop_in_the_middle_of_a_write_leaves_its_lines() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.db");
    let (store, other) = (Store::open(&file).await.unwrap(), Store::open(&file).await.unwrap());
    let lines = directory.path().join("journal");
    let journal = Journal::open(&lines).unwrap();
    for n in 0..3 {
        let begun = journal.begin(&entry(n)).unwrap();
        journal.finish(Some(begun), entry(n));
    }
    let lock = other.begin().await.unwrap();
    // The process ends while SQLite waits for the lock, so the writer is dropped in the middle.
    let writing = tokio::time::timeout(Duration::from_millis(200), journal.run(&store));
    assert!(writing.await.is_err());
    assert_eq!(journal.pending(), 3);
    drop(journal);
    assert_eq!(files(&lines), 1, "the next start reads it");
    lock.rollback().await.unwrap();
    assert_eq!(replayed(&lines, &other).await, 3);
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 3);
    assert_eq!(files(&lines), 0);
}

#[tokio::test]
async fn a_large_journal_is_replayed_in_several_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    for n in 0..5_000 {
        journal.finish(None, entry(n));
    }
    killed(journal, directory.path());
    let away = Store::in_memory().await.unwrap();
    away.close().await;
    assert!(replay(AbandonedSegments::lock_all(directory.path()), &away, None).await.is_err());
    assert_eq!(files(directory.path()), 1, "nothing is deleted before all is in the ledger");
    // A replay that was interrupted.
    store.record(&(0..3_000).map(entry).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(replayed(directory.path(), &store).await, 5_000);
    let total = store.total(&Filter::default()).await.unwrap();
    assert_eq!((total.requests, total.cost), (5_000, (0..5_000).sum::<i128>() * 3));
    assert_eq!(files(directory.path()), 0);
}

#[tokio::test]
async fn rows_that_the_ledger_deleted_are_not_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    for n in 0..10 {
        let begun = journal.begin(&entry(n)).unwrap();
        journal.finish(Some(begun), entry(n));
    }
    store.record(&(0..9).map(entry).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(store.purge(6, 100).await.unwrap(), 6);
    killed(journal, directory.path());
    let mut found = replay(AbandonedSegments::lock_all(directory.path()), &store, Some(6)).await.unwrap();
    assert_eq!((found.entries.len(), found.skipped), (4, 6));
    found.remove_segments();
    assert_eq!(files(directory.path()), 0);
    let total = store.total(&Filter::default()).await.unwrap();
    assert_eq!((total.requests, total.cost), (10, 45 * 3), "the sums have each once");
    assert_eq!(store.requests(&Filter::default(), None, 100).await.unwrap().len(), 4);
}

#[tokio::test]
async fn an_old_segment_is_deleted_once_it_is_in_the_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open_with(directory.path(), MAX_PENDING, Duration::ZERO).unwrap();
    let under_way = journal.begin(&entry(0)).unwrap();
    for n in 1..20 {
        let begun = journal.begin(&entry(n)).unwrap();
        journal.finish(Some(begun), entry(n));
    }
    assert_eq!(files(directory.path()), 40, "each line had its own, and one is new");
    journal.close();
    journal.run(&store).await;
    assert_eq!(files(directory.path()), 2, "that of the request under way, and the new one");
    killed(journal, directory.path());
    drop(under_way);
    assert_eq!(store.purge(i64::MAX, 100).await.unwrap(), 19);
    assert_eq!(replayed(directory.path(), &store).await, 1);
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 20);
}

#[tokio::test]
async fn an_idle_gateway_empties_its_old_segment() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open_with(directory.path(), MAX_PENDING, Duration::from_millis(300)).unwrap();
    let begun = journal.begin(&entry(1)).unwrap();
    journal.finish(Some(begun), entry(1));
    let bytes = || -> u64 {
        let files = fs::read_dir(directory.path()).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
    };
    assert!(bytes() > 0);
    tokio::select! {
        () = journal.run(&store) => unreachable!("nobody has closed it"),
        () = gw_testkit::eventually("the journal is empty", || (bytes() == 0).then_some(())) => {}
    }
    assert_eq!(files(directory.path()), 1);
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 1);
}

#[tokio::test]
async fn s02_a_full_journal_drops_and_counts_requests_that_never_began() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open_with(directory.path(), 3, SEGMENT_AGE).unwrap();
    let begun = journal.begin(&entry(0)).unwrap();
    (1..4).for_each(|n| journal.finish(None, entry(n)));
    assert_eq!((journal.is_full(), journal.pending(), journal.dropped()), (true, 3, 0));
    (4..9).for_each(|n| journal.finish(None, entry(n)));
    journal.finish(Some(begun), entry(0));
    assert_eq!((journal.pending(), journal.dropped()), (4, 5), "what had begun is kept");
    journal.close();
    journal.run(&store).await;
    journal.finish(None, entry(9));
    assert_eq!((journal.pending(), journal.dropped()), (1, 5), "there is room again");
    killed(journal, directory.path());
    replayed(directory.path(), &store).await;
    let rows = store.requests(&Filter::default(), None, 100).await.unwrap();
    assert!(rows.iter().rev().map(|row| row.at).eq([0, 1, 2, 3, 9]), "{rows:?}");
}

/// The usage of a request after this many tokens.
fn used(n: u64, completion: u64) -> Entry {
    let mut entry = entry(n);
    entry.status = String::new().into();
    entry.tokens.completion = completion;
    entry.cost = i128::from(completion) * 7;
    entry
}

/// The rows as number, completion tokens and status, in order.
async fn charged(store: &Store) -> Vec<(i64, u64, String)> {
    let rows = store.requests(&Filter::default(), None, 100).await.unwrap();
    rows.into_iter().rev().map(|row| (row.at, row.tokens.completion, row.status.into_owned())).collect()
}

#[tokio::test]
async fn a_killed_stream_is_charged_for_its_usage_so_far() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap().with_progress_tokens(9);
    assert_eq!(journal.progress_tokens(), 9);
    let mut begun: Vec<_> = (0..4).map(|n| journal.begin(&used(n, 0)).unwrap()).collect();
    for completion in [10, 20, 30] {
        begun.iter_mut().zip(0..3).for_each(|(begun, n)| journal.progress(begun, &used(n, completion)));
    }
    // The first request has an outcome that costs less than its progress line.
    journal.finish(Some(begun.remove(0)), used(0, 25));
    killed(journal, directory.path());
    drop(begun);
    assert_eq!(replayed(directory.path(), &store).await, 4);
    let status = || INTERRUPTED.to_owned();
    let wanted = [(0, 25, String::new()), (1, 30, status()), (2, 30, status()), (3, 0, status())];
    assert_eq!(charged(&store).await, wanted);
}

#[tokio::test]
async fn progress_notes_have_segments_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    // Every line has its own segment.
    let journal = Journal::open_with(directory.path(), MAX_PENDING, Duration::ZERO).unwrap();
    let mut ends = journal.begin(&used(1, 0)).unwrap();
    let mut goes_on = journal.begin(&used(2, 0)).unwrap();
    for completion in 1..20 {
        journal.progress(&mut ends, &used(1, completion));
        journal.progress(&mut goes_on, &used(2, completion));
        assert_eq!(files(directory.path()), 5, "both have begun, a note of each, and the active one");
    }
    journal.finish(Some(ends), used(1, 99));
    assert_eq!(files(directory.path()), 6);
    journal.close();
    journal.run(&store).await;
    assert_eq!(files(directory.path()), 3, "what is known of the one that goes on stays");
    killed(journal, directory.path());
    drop(goes_on);
    assert_eq!(replayed(directory.path(), &store).await, 1);
    assert_eq!(charged(&store).await, [(1, 99, String::new()), (2, 19, INTERRUPTED.to_owned())]);
    assert_eq!(files(directory.path()), 0);
}

/// A call has failed and the next one was open when the process was killed.
#[tokio::test]
async fn the_open_call_of_a_killed_request_has_its_own_cost() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let mut begun = [1, 2].map(|n| journal.begin(&used(n, 10)).unwrap());
    let mut second = used(1, 25);
    (second.provider, second.model) = ("beta".into(), "beta/fast".into());
    let (provider, model) = ("acme".into(), "acme/fast".into());
    let status = "upstream_unreachable".into();
    second.attempts = vec![Attempt {
        provider,
        model,
        status,
        latency_ms: 6,
        cost: Some(70),
        started_ms: 0,
        image_fetch_ms: 0,
        known_part: 0,
        reason: None,
    }];
    journal.progress(&mut begun[0], &second);
    killed(journal, directory.path());
    drop(begun);
    assert_eq!(replayed(directory.path(), &store).await, 2);
    let rows = store.requests(&Filter::default(), None, 100).await.unwrap();
    let calls = |at: i64| {
        let attempts = rows.iter().filter(|row| row.at == at).flat_map(|row| &row.attempts);
        attempts.map(|call| (&*call.model, &*call.status, call.cost)).collect::<Vec<_>>()
    };
    let failed = ("acme/fast", "upstream_unreachable", Some(70));
    assert_eq!(calls(1), [failed, ("beta/fast", INTERRUPTED, Some(105))]);
    assert_eq!(calls(2), [], "the only call has the cost of its entry");
}

#[tokio::test]
async fn a_progress_note_replaces_a_damaged_first_line() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let mut begun = journal.begin(&used(1, 0)).unwrap();
    journal.progress(&mut begun, &used(1, 40));
    killed(journal, directory.path());
    drop(begun);
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\nB[", "\n#[", 1)).unwrap();
    assert_eq!(replayed(directory.path(), &store).await, 1);
    assert_eq!(charged(&store).await, [(1, 40, INTERRUPTED.to_owned())]);
}

#[tokio::test]
async fn the_most_expensive_of_several_first_lines_is_charged() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let begun = [3, 8, 5].map(|completion| journal.begin(&used(1, completion)).unwrap());
    killed(journal, directory.path());
    drop(begun);
    assert_eq!(replayed(directory.path(), &store).await, 1);
    assert_eq!(charged(&store).await, [(1, 8, INTERRUPTED.to_owned())]);
}

/// A running gateway takes the segments of a process that died only when all of them are at rest.
#[tokio::test]
async fn a_request_in_two_segments_is_recovered_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let mut open = journal.begin(&entry(1)).unwrap();
    let older = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let active = Arc::clone(&journal.active.lock());
    journal.next_segment(&active);
    drop(active);
    journal.progress(&mut open, &Entry { cost: 70, ..entry(1) });
    killed(journal, directory.path());
    drop(open);
    assert_eq!(files(directory.path()), 2);
    let minutes_ago = std::time::SystemTime::now() - Duration::from_secs(600);
    fs::File::options().write(true).open(&older).unwrap().set_modified(minutes_ago).unwrap();
    let long = Duration::from_secs(60);
    assert!(AbandonedSegments::lock_unchanged(directory.path(), long).is_empty(), "the newer one changes");
    for path in fs::read_dir(directory.path()).unwrap() {
        let file = fs::File::options().write(true).open(path.unwrap().path()).unwrap();
        file.set_modified(minutes_ago).unwrap();
    }
    // Another process that recovers here has all segments.
    let other = AbandonedSegments::lock_unchanged(directory.path(), long);
    assert!(AbandonedSegments::lock_all(directory.path()).is_empty());
    let mut found = replay(other, &store, None).await.unwrap();
    assert_eq!(found.entries.iter().map(|entry| entry.cost).collect::<Vec<_>>(), [70]);
    assert!(found.remove_segments());
    assert_eq!(files(directory.path()), 0);
}

#[tokio::test]
async fn a_segment_of_the_future_is_recovered_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    (1..4).for_each(|n| journal.finish(None, entry(n)));
    killed(journal, directory.path());
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let tomorrow = std::time::SystemTime::now() + Duration::from_secs(86_400);
    fs::File::options().write(true).open(path).unwrap().set_modified(tomorrow).unwrap();
    for _ in 0..2 {
        let found = AbandonedSegments::lock_unchanged(directory.path(), Duration::from_secs(60));
        assert_eq!(replay(found, &store, None).await.unwrap().entries.len(), 3);
    }
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 3);
}

#[tokio::test]
async fn a_damaged_segment_is_set_aside_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    (1..4).for_each(|n| journal.finish(None, entry(n)));
    killed(journal, directory.path());
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] = 0;
    fs::write(&path, &bytes).unwrap();
    // All are skipped, but the damaged segment is still quarantined.
    let found = replay(AbandonedSegments::lock_all(directory.path()), &store, Some(i64::MAX)).await.unwrap();
    assert_eq!((found.entries.len(), found.skipped), (0, 2));
    drop(found);
    let mut found = replay(AbandonedSegments::lock_all(directory.path()), &store, None).await.unwrap();
    assert_eq!((found.entries.len(), quarantined_segments(directory.path())), (2, 0));
    let damaged = &found.damaged[0];
    assert_eq!((&damaged.path, damaged.regions, damaged.requests), (&path, 1, 2));
    let kept = damaged.quarantine_path();
    found.remove_segments();
    assert_eq!((files(directory.path()), quarantined_segments(directory.path())), (1, 1));
    assert_eq!(fs::read(&kept).unwrap(), bytes);
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&kept).unwrap().permissions()) & 0o777,
        0o600
    );
    assert_eq!(replayed(directory.path(), &store).await, 0);
    drop(Journal::open(directory.path()).unwrap());
    assert_eq!((files(directory.path()), quarantined_segments(directory.path())), (1, 1));
}
