//! A real Prometheus for one test, on a free loopback port. It ends with the test.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::client::Client;
use crate::ports::lasting_port;
use crate::wait::within;

/// A script that starts the server and kills it when the test's end of the pipe closes.
const WRAPPER: &str = r#""$@" >/dev/null 2>"$0" & cat >/dev/null; kill -9 $! 2>/dev/null"#;

/// A running server.
#[derive(Debug)]
pub struct Prometheus {
    wrapper: Child,
    /// A client of its API.
    pub client: Client,
    directory: tempfile::TempDir,
}

impl Prometheus {
    /// Starts one with this configuration and waits until it is ready. `rules` becomes the file `rules.yml` beside the configuration.
    pub async fn start(config: &str, rules: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory for prometheus");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("rules.yml"), rules).expect("the rules are written");
        std::fs::write(path("prometheus.yml"), config).expect("the configuration is written");
        let port = lasting_port();
        let wrapper = Command::new("sh")
            .args(["-c", WRAPPER])
            .arg(path("log"))
            .arg("prometheus")
            .arg(format!("--config.file={}", path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--enable-feature=exemplar-storage")
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh starts prometheus");
        let server = Self { wrapper, client: Client::new(([127, 0, 0, 1], port).into()), directory };
        within("prometheus is ready", server.until_ready(port)).await;
        server
    }

    async fn until_ready(&self, port: u16) {
        loop {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
                && self.client.get("/-/ready").await.status == 200
            {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// The lines of its log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.wrapper.stdin.take());
        let _ = self.wrapper.wait();
    }
}

/// Runs promtool with these arguments and this input.
#[must_use]
pub fn promtool(arguments: &[&str], input: &Path) -> Output {
    let stdin = std::fs::File::open(input).expect("the input is there");
    Command::new("promtool").args(arguments).stdin(stdin).output().expect("promtool starts")
}
