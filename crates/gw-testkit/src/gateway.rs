//! The real program as a child process: it starts on a free port, and is killed at the end of the test.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;
use crate::wait::{DEADLINE, eventually};

/// The way to start the program: arguments, environment, files.
#[derive(Debug)]
pub struct Launch {
    binary: PathBuf,
    dir: TempDir,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Launch {
    /// The program at `binary`, in its own empty directory and with an empty environment.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { binary: binary.into(), dir, args: Vec::new(), env: Vec::new() }
    }

    /// The directory it runs in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Adds a command line argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file into its directory.
    #[must_use]
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.dir.path().join(name), content).expect("the test's directory is writable");
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        let home = self.dir.path();
        command.args(&self.args).current_dir(home).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
        command.env("XDG_DATA_HOME", home.join("share")).env("MODEL_GATEWAY_DATA_DIR", home.join("data"));
        command.envs(self.env.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end (for `check`, `models`, …); kills it after [`DEADLINE`].
    #[must_use]
    pub fn run(&self) -> Output {
        let mut command = self.command();
        let child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be executed");
        let pid = child.id().to_string();
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if end.recv_timeout(DEADLINE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        let output = child.wait_with_output().expect("its output can be read");
        drop(ended);
        let _ = watch.join();
        output
    }

    /// Starts the program and waits until it prints its address.
    pub async fn start(self) -> Gateway {
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be executed");
        let stdout = Lines::collect(child.stdout.take().expect("stdout is piped"));
        let stderr = Lines::collect(child.stderr.take().expect("stderr is piped"));
        let mut gateway =
            Gateway { child, addr: SocketAddr::from(([0, 0, 0, 0], 0)), launch: self, stdout, stderr };
        gateway.addr = gateway.wait_for_address().await;
        gateway
    }
}

/// Lines of a pipe, collected by a thread.
#[derive(Clone, Debug)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn collect(pipe: impl Read + Send + 'static) -> Self {
        let lines = Self(Arc::default());
        let sink = Arc::clone(&lines.0);
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while matches!(pipe.read_until(b'\n', &mut line), Ok(count) if count > 0) {
                sink.lock().unwrap().push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
                line.clear();
            }
        });
        lines
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    /// The address on which it listens.
    pub addr: SocketAddr,
    launch: Launch,
    stdout: Lines,
    stderr: Lines,
}

impl Gateway {
    async fn wait_for_address(&mut self) -> SocketAddr {
        let (stdout, stderr, child) = (self.stdout.clone(), self.stderr.clone(), &mut self.child);
        eventually("the gateway says where it listens", || {
            let found = stderr.all().iter().chain(&stdout.all()).find_map(|line| address_in(line));
            if found.is_none()
                && let Some(status) = child.try_wait().expect("the child can be asked")
            {
                panic!(
                    "the gateway ended with {status}: {}\n{}",
                    stderr.all().join("\n"),
                    stdout.all().join("\n")
                );
            }
            found
        })
        .await
    }

    /// A client without a key.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.addr)
    }

    /// The directory it runs in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.launch.dir()
    }

    /// Lines of standard output so far.
    #[must_use]
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.all()
    }

    /// Lines of standard error so far.
    #[must_use]
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.all()
    }

    /// The JSON log lines so far, from either output.
    #[must_use]
    pub fn logs(&self) -> Vec<Value> {
        let lines = self.stdout().into_iter().chain(self.stderr());
        lines.filter_map(|line| serde_json::from_str(&line).ok()).filter(Value::is_object).collect()
    }

    /// Waits for the access line of the request with this id.
    pub async fn log_of(&self, request_id: &str) -> Value {
        self.access_line(&format!("of {request_id}"), |line| line["request_id"] == request_id).await
    }

    /// Waits for an access line with this code.
    pub async fn log_with(&self, code: &str) -> Value {
        self.access_line(&format!("with code {code}"), |line| line["code"] == code).await
    }

    async fn access_line(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let fits = |line: &Value| line.get("status").is_some() && wanted(line);
        eventually(&format!("an access line {what}"), || self.logs().into_iter().find(fits)).await
    }

    /// Sends SIGTERM, as an init system does.
    pub fn sigterm(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill can be executed");
        assert!(sent.success());
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the gateway ends", || child.try_wait().expect("the child can be asked")).await
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells whether the process still runs.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the gateway. Returns its directory for a second start.
    #[must_use]
    pub fn stop(mut self) -> PathBuf {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.dir().to_owned()
    }

    /// Resident memory in KiB, with the pages of the program's file.
    #[must_use]
    pub fn rss_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// Resident memory in KiB without the pages of the program's file, which a debug build has many of.
    #[must_use]
    pub fn anonymous_kib(&self) -> u64 {
        self.memory_kib("RssAnon:")
    }

    fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the process has memory");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number of KiB")
    }

    /// Processor time used so far, user and system, in clock ticks (a hundredth of a second).
    #[must_use]
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = [self.stdout.all(), self.stderr.all()].concat();
            let lines = &lines[lines.len().saturating_sub(40)..];
            // Written through a handle: the test harness shows it only for failed tests.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("--- the gateway's last lines ---\n{}\n", lines.join("\n")).as_bytes(),
            );
        }
    }
}

/// The address in a line such as `listening on http://127.0.0.1:4000`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on http")?;
    let rest = rest.trim_start_matches('s').strip_prefix("://")?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:[]".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
