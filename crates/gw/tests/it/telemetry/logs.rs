//! The logs: JSON where no terminal reads them.

use serde_json::Value;

use crate::harness::{chat, world};

#[tokio::test]
async fn logs_that_no_terminal_reads_are_json() {
    let world = world().await;
    world.chat_ok(&chat("acme/fast")).await;
    let program = world.gateway.stderr();
    assert!(!program.is_empty());
    for line in program.iter().chain(&world.gateway.stdout()) {
        let read: Result<Value, _> = serde_json::from_str(line);
        assert!(read.is_ok_and(|line| line.is_object()), "{line}");
    }
}
