//! The journal: nothing lost when the process is gone, nothing twice, nothing left behind.

use std::fs;
use std::path::Path;

use super::{INTERRUPTED, Journal, replay};
use crate::Store;
use crate::ledger::{Entry, Filter};

fn entry(n: u64) -> Entry {
    Entry {
        request_id: format!("req_{n:05}"),
        at: i64::try_from(n).unwrap(),
        status: "ok".to_owned(),
        cost: i128::from(n) * 3,
        attempts: "[]".to_owned(),
        ..Entry::default()
    }
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// What a killed process leaves: its files, but not its locks and not its memory.
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

#[tokio::test]
async fn outcomes_reach_the_ledger_and_their_lines_go() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    for n in 0..2_500 {
        let begun = journal.begin(&entry(n)).unwrap();
        journal.end(Some(begun), entry(n));
    }
    assert!(!journal.is_full() && journal.waiting() == 2_500);
    journal.close();
    journal.run(&store).await;
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 2_500);
    drop(journal);
    assert_eq!(files(directory.path()), 0);
}

#[tokio::test]
async fn a_killed_process_loses_and_doubles_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    for n in 0..10 {
        let begun = journal.begin(&entry(n)).unwrap();
        if n < 7 {
            journal.end(Some(begun), entry(n));
        }
    }
    // Some were written before the end came.
    store.record(&(0..3).map(entry).collect::<Vec<_>>()).await.unwrap();
    killed(journal, directory.path());
    assert_eq!(replay(directory.path(), &store).await.unwrap().len(), 10);
    let rows = store.requests(&Filter::default(), None, 100).await.unwrap();
    assert_eq!(rows.len(), 10);
    let interrupted: Vec<_> = rows.iter().filter(|row| row.status == INTERRUPTED).map(|row| row.at).collect();
    assert_eq!(interrupted, [9, 8, 7]);
    assert_eq!(files(directory.path()), 0);
    assert_eq!(replay(directory.path(), &store).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_line_cut_short_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    journal.end(None, entry(1));
    killed(journal, directory.path());
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
        assert_eq!(replay(directory.path(), &store).await.unwrap().len(), 1, "{cut}");
    }
}

#[tokio::test]
async fn a_living_process_keeps_its_journal() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::in_memory().await.unwrap();
    let journal = Journal::open(directory.path()).unwrap();
    let begun = journal.begin(&entry(1)).unwrap();
    assert_eq!(replay(directory.path(), &store).await.unwrap().len(), 0);
    journal.end(Some(begun), entry(1));
    journal.close();
    journal.run(&store).await;
    assert_eq!(store.total(&Filter::default()).await.unwrap().requests, 1);
}
