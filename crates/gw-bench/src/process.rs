//! Starts the measured processes, and reads their CPU time and memory from /proc.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::load::Kind;

/// A measured process with its children; killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The port that it listens on.
    pub(crate) port: u16,
    /// Time from its start to the first accepted connection.
    pub(crate) ready_after: Duration,
}

impl Drop for Process {
    fn drop(&mut self) {
        for pid in self.pids() {
            // A process that has ended by itself is no fault.
            let _ = Command::new("kill").arg(pid.to_string()).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts the gateway with the benchmark's configuration for these kinds of requests.
    pub(crate) fn gateway(
        binary: &Path,
        dir: &Path,
        upstream: u16,
        key: &str,
        kinds: &[Kind],
    ) -> Result<Self> {
        Self::configured(binary, dir, |port| gateway_config(port, upstream, key, dir, kinds))
    }

    /// Starts the gateway with the configuration that `configuration` makes for its port.
    pub(crate) fn configured(
        binary: &Path,
        dir: &Path,
        configuration: impl Fn(u16) -> String,
    ) -> Result<Self> {
        let port = free_port()?;
        let config = dir.join("gateway.toml");
        write(&config, &configuration(port))?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&config);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self::start(command, port)
    }

    /// Starts the gateway with the benchmark's configuration for one kind of request, as the last arguments of a tool.
    pub(crate) fn under(
        mut tool: Command,
        binary: &Path,
        dir: &Path,
        upstream: u16,
        key: &str,
        kind: Kind,
    ) -> Result<Self> {
        let port = free_port()?;
        let config = dir.join("gateway.toml");
        write(&config, &gateway_config(port, upstream, key, dir, &[kind]))?;
        tool.arg(binary).arg("serve").arg("--config").arg(&config);
        tool.stdout(Stdio::null()).stderr(Stdio::null());
        Self::start(tool, port)
    }

    /// Ends the children in order, and waits for the process, which then ends by itself.
    pub(crate) fn stop(&mut self) -> Result<()> {
        for pid in self.pids().into_iter().skip(1) {
            Command::new("kill").arg(pid.to_string()).status()?;
        }
        self.child.wait()?;
        Ok(())
    }

    /// Asks the process to end, and waits until it has.
    pub(crate) fn end(&mut self) -> Result<ExitStatus> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        Ok(self.child.wait()?)
    }

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts nginx as a plain reverse proxy.
    pub(crate) fn nginx(dir: &Path, upstream: u16) -> Result<Self> {
        let port = free_port()?;
        let config = dir.join("nginx.conf");
        write(&config, &nginx_config(port, upstream, dir))?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&config).arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self::start(command, port)
    }

    fn start(mut command: Command, port: u16) -> Result<Self> {
        let started = Instant::now();
        let child = command.spawn().map_err(|error| Error::start(&command, error))?;
        let mut process = Self { child, port, ready_after: Duration::ZERO };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(Error::Ended { command: format!("{command:?}"), status });
            }
            // valgrind makes a program about fifty times slower.
            if started.elapsed() > Duration::from_secs(60) {
                return Err(Error::NotListening(format!("{command:?}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        process.ready_after = started.elapsed();
        Ok(process)
    }

    /// The ids of this process and its direct children (nginx's workers).
    fn pids(&self) -> Vec<u32> {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        std::iter::once(own).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
    }

    /// CPU time used so far, user and system.
    pub(crate) fn cpu(&self) -> Duration {
        self.pids().into_iter().map(|pid| cpu_of(&pid.to_string())).sum()
    }

    /// Resident memory in MiB.
    pub(crate) fn rss_mib(&self) -> f64 {
        let kib = self.pids().into_iter().filter_map(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        });
        kib.sum::<f64>() / 1024.0
    }
}

/// CPU time that a process (or `self`) has used so far. The scheduler's accounting is exact to the nanosecond.
pub(crate) fn cpu_of(pid: &str) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let written = fs::File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Error::write(path, error))
}

/// The benchmark's configuration of the gateway. The data directory is not the folder of the configuration, which the gateway
/// watches: it would read the configuration again after each row.
///
/// The settings that only one kind of request needs are there for this kind alone, so that an older program, which does not
/// know them, can be measured in the others.
pub(crate) fn gateway_config(port: u16, upstream: u16, key: &str, dir: &Path, kinds: &[Kind]) -> String {
    let line_for = |kind, line| if kinds.contains(&kind) { line } else { "" };
    let bad_keys = line_for(Kind::Refused, "bad_keys_per_minute = 10000000\n");
    let responses = line_for(Kind::Responses, "responses = false\n");
    format!(
        r#"[server]
listen = "127.0.0.1:{port}"
data_dir = "{}/data"
{bad_keys}
[[providers]]
name = "bench"
api = "openai"
base_url = "http://127.0.0.1:{upstream}/v1"
api_key = "sk-upstream"
{responses}
[[providers]]
name = "bench-claude"
api = "anthropic"
base_url = "http://127.0.0.1:{upstream}"
api_key = "sk-upstream"

[[models]]
id = "bench-claude/chat"
category = ["chat"]
max_output_tokens = 16384
pricing = {{ official_input_per_m = 3.0, official_output_per_m = 15.0, cached_input_per_m = 0.3, currency = "USD" }}

[[models]]
id = "bench/chat"
category = ["chat"]
context_length = 128000
max_output_tokens = 16384
features = ["streaming", "function_calling", "json_mode"]
pricing = {{ official_input_per_m = 0.15, official_output_per_m = 0.60, cached_input_per_m = 0.075, currency = "USD" }}

[[models]]
id = "bench/embed"
category = ["embedding"]
pricing = {{ official_input_per_m = 0.02, official_output_per_m = 0.0, currency = "USD" }}

[[keys]]
name = "bench"
key = "{key}"
models = ["bench/*", "bench-claude/*"]
rpm = 10000000
tpm = 1000000000000
max_in_flight = 100000
budget_usd = 1000000
budget_period = "month"
"#,
        dir.display()
    )
}

fn nginx_config(port: u16, upstream: u16, dir: &Path) -> String {
    format!(
        r#"daemon off;
worker_processes 2;
pid {dir}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  keepalive_requests 100000000;
  upstream canned {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://canned;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"#,
        dir = dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_program_gets_no_setting_that_its_kinds_do_not_need() {
        let config = |kinds: &[Kind]| gateway_config(1, 2, "sk", Path::new("/tmp"), kinds);
        let [plain, all] = [config(&[Kind::Chat, Kind::Stream]), config(&Kind::ALL)];
        for line in ["\nbad_keys_per_minute = 10000000\n", "\nresponses = false\n"] {
            assert!(!plain.contains(line.trim()) && all.contains(line), "{line}");
        }
        for text in [plain, all] {
            assert!(toml::from_str::<toml::Table>(&text).is_ok(), "{text}");
        }
    }
}
