//! A real PostgreSQL server for tests: a cluster in a temporary directory, on the loopback, removed with the test.
//!
//! [`database`] gives an empty database on a server that all tests of the process share. [`Postgres::start`] gives a
//! separate server that a test may stop, freeze and kill.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::lasting_port;

/// The user of every database.
pub const USER: &str = "gateway";
/// The password of that user; no output may contain it.
pub const PASSWORD: &str = "canary-pg-password-7Zq";

/// A server for one test.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    directory: TempDir,
    port: u16,
    /// The shell that waits for the end of the test and then stops the server.
    watchdog: Option<Child>,
    databases: AtomicU32,
}

/// An empty database on the server of this process, as a URL.
#[must_use]
pub fn database() -> String {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(Postgres::start).database()
}

impl Postgres {
    /// Makes a cluster and starts it. Panics with an advice when PostgreSQL is not installed.
    #[must_use]
    pub fn start() -> Self {
        let binaries = binaries();
        // The server runs as another user, who must be able to enter the directory.
        let directory = tempfile::Builder::new().prefix("gw-postgres-").tempdir().expect("a directory");
        if is_root() {
            let own = Command::new("chown").arg("postgres").arg(directory.path()).status();
            assert!(own.is_ok_and(|status| status.success()), "the user postgres is missing: run ./test");
        }
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).expect("its mode");
        let mut server =
            Self { binaries, directory, port: lasting_port(), watchdog: None, databases: AtomicU32::new(0) };
        let password =
            std::env::temp_dir().join(format!("gw-postgres-{}-{}", std::process::id(), server.port));
        std::fs::write(&password, PASSWORD).expect("a file for the password");
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o644)).expect("its mode");
        let made = server
            .as_server("initdb")
            .args(["--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"])
            .args(["--username", USER, "--pwfile"])
            .arg(&password)
            .arg("--pgdata")
            .arg(server.data())
            .output();
        let _ = std::fs::remove_file(&password);
        succeeded("initdb", made);
        server.launch();
        // Another test may have taken the port meanwhile.
        while !server.is_ready_on_its_port() {
            server.stop();
            server.port = lasting_port();
            server.launch();
        }
        server
    }

    /// The address on which it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The URL of a database of this name, which need not exist.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{name}", self.port)
    }

    /// An empty database, as a URL.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs SQL in a database with psql. Returns the output, unaligned and without heads.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        sql_at(&self.url(database), sql)
    }

    /// Starts the server (again), on the same port.
    pub fn resume(&mut self) {
        self.launch();
        assert!(self.is_ready_on_its_port(), "the port is taken:\n{}", self.log());
    }

    fn launch(&mut self) {
        assert!(self.watchdog.is_none(), "it runs already");
        // The shell's input is a pipe of this process. At any end of the process the shell reads the end of the pipe, stops the
        // server at once and removes its files.
        let script = "directory=$1; shift; trap '' INT HUP TERM; \"$@\" & server=$!; read -r keep; kill -CONT $server; \
            kill -QUIT $server; wait $server; [ \"$keep\" = keep ] || rm -rf \"$directory\"";
        let settings = [
            "fsync=off",
            "full_page_writes=off",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=200",
            "shared_buffers=64MB",
            "logging_collector=off",
        ];
        let mut arguments =
            vec![self.binaries.join("postgres").into_os_string(), "-D".into(), self.data().into()];
        arguments.extend(["-p".into(), self.port.to_string().into()]);
        for setting in settings {
            arguments.extend(["-c".into(), setting.into()]);
        }
        let log = std::fs::File::create(self.directory.path().join("server.log")).expect("a log");
        let mut command = as_postgres("/bin/sh");
        command.arg("-c").arg(script).arg("sh").arg(self.directory.path()).args(arguments);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        self.watchdog = Some(command.spawn().expect("a shell"));
    }

    /// Stops it at once, without a message to clients, as `pg_ctl stop -m immediate` does.
    pub fn stop(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            if let Some(mut pipe) = watchdog.stdin.take() {
                let _ = pipe.write_all(b"keep\n");
            }
            let _ = watchdog.wait();
        }
    }

    /// Stops it at once and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    /// Freezes every process of the server: connections stay open without answers.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Ends what [`Postgres::freeze`] began.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// The number of client connections to a database.
    #[must_use]
    pub fn connections(&self, database: &str) -> usize {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = '{database}' AND backend_type = 'client backend'"
        );
        self.sql("postgres", &count).parse().expect("a count")
    }

    /// The server's log since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        let log = std::fs::read(self.directory.path().join("server.log")).expect("the server's log");
        String::from_utf8_lossy(&log).into_owned()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn as_server(&self, program: &str) -> Command {
        let mut command = as_postgres(self.binaries.join(program));
        command.current_dir("/");
        command
    }

    /// Waits for the server. False: another program has its port.
    fn is_ready_on_its_port(&self) -> bool {
        let start = Instant::now();
        loop {
            let log = std::fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default();
            if log.contains("could not bind") {
                return false;
            }
            // The port is open before the server has recovered, so only the answer to a query counts.
            let up = TcpStream::connect(self.addr()).is_ok()
                && psql(&self.url("postgres"), "SELECT 1").status.success();
            if up {
                return true;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "PostgreSQL does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal to the server and to every process that it started.
    fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid")).expect("it runs");
        let server = pid.lines().next().expect("a process id").to_owned();
        let mut all = vec![server.clone()];
        let children = format!("/proc/{server}/task/{server}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        all.extend(children.split_whitespace().map(str::to_owned));
        let sent = Command::new("kill").arg(format!("-{name}")).args(&all).output();
        assert!(sent.is_ok(), "kill can be executed");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// PgBouncer in transaction mode before a server: one connection of the server for all clients.
#[derive(Debug)]
pub struct PgBouncer {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts it with this number of connections to the server.
    #[must_use]
    pub fn before(server: &Postgres, connections: usize) -> Self {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .map(Path::new)
            .into_iter()
            .find(|path| path.exists());
        let program = program.expect("PgBouncer is not installed: run ./test, which installs it");
        let directory = tempfile::Builder::new().prefix("gw-pgbouncer-").tempdir().expect("a directory");
        let port = lasting_port();
        let users = directory.path().join("users.txt");
        std::fs::write(&users, format!("\"{USER}\" \"{PASSWORD}\"\n")).expect("a list of users");
        let settings = directory.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = plain\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 200\n",
            server.port,
            users.display()
        );
        std::fs::write(&settings, text).expect("its settings");
        if is_root() {
            let own = Command::new("chown").arg("-R").arg("postgres").arg(directory.path()).status();
            assert!(own.is_ok_and(|status| status.success()), "the user postgres is missing: run ./test");
        }
        // The shell ends with this process, and PgBouncer with the shell.
        let mut command = as_postgres("/bin/sh");
        let script = "directory=$1; shift; trap '' INT HUP TERM; \"$@\" & child=$!; read -r _; kill -TERM $child; \
            wait $child; rm -rf \"$directory\"";
        command.args(["-c", script, "sh"]).arg(directory.path());
        command.arg(program).arg("-q").arg(&settings).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("a shell");
        let started = Self { process, port, _directory: directory };
        let start = Instant::now();
        while !psql(&started.url("postgres"), "SELECT 1").status.success() {
            assert!(start.elapsed() < Duration::from_secs(20), "PgBouncer does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        started
    }

    /// The URL of a database of this name.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Runs SQL with psql. Returns the output, unaligned and without heads.
pub fn sql_at(url: &str, sql: &str) -> String {
    let output = psql(url, sql);
    assert!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn psql(url: &str, sql: &str) -> Output {
    let mut command = Command::new(binaries().join("psql"));
    command
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
        .env("PGCONNECT_TIMEOUT", "5");
    command.stdin(Stdio::null()).output().expect("psql can be executed")
}

/// The folder of the server's programs: Debian's place, or beside the first `postgres` in PATH.
fn binaries() -> PathBuf {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = debian.map(|version| version.path().join("bin")).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = found.into_iter().rev().chain(std::env::split_paths(&path));
    let with_all =
        |place: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| place.join(name).is_file());
    all.into_iter().find(with_all).expect("PostgreSQL is not installed: run ./test, which installs it")
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command
}

fn succeeded(what: &str, output: std::io::Result<Output>) {
    let output = output.expect("it can be executed");
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}
