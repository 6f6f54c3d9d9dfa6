//! A real `redis-server` for one test, on a free loopback port, without persistence. It ends with the test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ports::lasting_port;
use crate::wait::DEADLINE;

/// A script that starts the server, prints its process id, and kills it when the test's end of the pipe closes.
const WRAPPER: &str = r#""$@" >&2 & echo $!; cat >/dev/null; kill -9 $! 2>/dev/null"#;

/// A running server.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    options: Vec<String>,
    server: Option<Server>,
    directory: tempfile::TempDir,
}

#[derive(Debug)]
struct Server {
    wrapper: Child,
    pid: String,
}

impl Redis {
    /// Starts one and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one with more options, as `["--maxmemory", "2mb"]`.
    pub async fn start_with(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory for redis-server");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut redis = Self { port: 0, options, server: None, directory };
        for _ in 0..10 {
            // Another process may take the port meanwhile; then the next attempt uses another one.
            redis.port = lasting_port();
            if redis.launch().await {
                return redis;
            }
        }
        panic!("redis-server does not start");
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:…/0`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Kills it, as with `kill -9`. Its data is lost.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal("-KILL", &server.pid);
            drop(server.wrapper.stdin.take());
            let _ended = server.wrapper.wait();
        }
    }

    /// Starts it again on the same port, empty, and waits until it answers.
    pub async fn restart(&mut self) {
        self.kill();
        assert!(self.launch().await, "redis-server does not start again on port {}", self.port);
    }

    /// Freezes it: connections stay open without answers.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Ends the freeze.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// Deletes all data.
    pub async fn flush(&self) {
        assert_eq!(self.command(&["FLUSHALL"]).await, ["OK"]);
    }

    /// Sends a command. Returns all strings and numbers of the answer in order, at any depth.
    pub async fn command(&self, words: &[&str]) -> Vec<String> {
        tokio::time::timeout(DEADLINE, self.ask(words)).await.expect("an answer in time").expect("an answer")
    }

    async fn ask(&self, words: &[&str]) -> std::io::Result<Vec<String>> {
        let mut stream = tokio::io::BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).await?);
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(request.as_bytes()).await?;
        let (mut values, mut missing) = (Vec::new(), 1);
        while missing > 0 {
            missing -= 1;
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let (kind, rest) = line.trim_end().split_at(1);
            match (kind, rest.parse::<usize>()) {
                ("*", Ok(count)) => missing += count,
                ("$", Ok(length)) => {
                    let mut bytes = vec![0; length + 2];
                    stream.read_exact(&mut bytes).await?;
                    bytes.truncate(length);
                    values.push(String::from_utf8_lossy(&bytes).into_owned());
                }
                ("+" | ":" | "-", _) => values.push(rest.to_owned()),
                // A null: $-1 or *-1.
                _ => {}
            }
        }
        Ok(values)
    }

    fn signal(&self, which: &str) {
        let server = self.server.as_ref().expect("a running redis-server");
        signal(which, &server.pid);
    }

    async fn launch(&mut self) -> bool {
        let port = self.port.to_string();
        let fixed =
            ["redis-server", "--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let mut wrapper = Command::new("sh")
            .args(["-c", WRAPPER, "sh"])
            .args(fixed)
            .args(&self.options)
            .current_dir(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        assert!(
            Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok(),
            "redis-server is not installed: run ./test once, it installs what the suites need"
        );
        let mut pid = String::new();
        let stdout = wrapper.stdout.take().expect("the shell's output");
        BufReader::new(stdout).read_line(&mut pid).expect("the process id of redis-server");
        self.server = Some(Server { wrapper, pid: pid.trim().to_owned() });
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            // A different port means another program. A server with a password only reports that.
            let ours =
                |answer: Vec<String>| answer.iter().any(|word| *word == port || word.starts_with("NOAUTH"));
            if self.ask(&["CONFIG", "GET", "port"]).await.is_ok_and(ours) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.kill();
        false
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(which: &str, pid: &str) {
    // A server that has ended already is fine.
    let _status = Command::new("kill").args([which, pid]).stderr(Stdio::null()).status();
}
