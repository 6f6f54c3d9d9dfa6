//! The value of `--log-level` and `RUST_LOG`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

const LEVELS: &str = "off, error, warn, info, debug or trace";

/// The reason why a log level cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogLevelError {
    /// The level behind a module's name is not a level.
    #[error("'{level}' is not a level; write {target}= and one of {LEVELS}")]
    BadLevel {
        /// The name of the module.
        target: String,
        /// The text behind it.
        level: String,
    },
    /// A part of the filter is not a level.
    #[error("'{0}' is not a level; write {LEVELS}, or a level for one module, such as gw_engine=debug,warn")]
    NoLevel(String),
    /// The filter is malformed.
    #[error(transparent)]
    BadFilter(#[from] tracing_subscriber::filter::ParseError),
}

/// Checks the value of `--log-level` or `RUST_LOG`. Each part of a filter needs a level: a part without one would count as the
/// name of a module, and the gateway would log nothing.
///
/// # Errors
/// The text to write instead.
pub fn log_level(text: &str) -> Result<String, LogLevelError> {
    if text.trim().is_empty() {
        return Ok("info".to_owned());
    }
    // A span in a filter (`target[span{field=value}]=level`) may hold commas, so only the parser can split it.
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty() && !text.contains('['));
    for part in parts {
        match part.rsplit_once('=') {
            Some((_, level)) if level.trim().parse::<LevelFilter>().is_ok() && !level.trim().is_empty() => {}
            Some((target, level)) => {
                return Err(LogLevelError::BadLevel { target: target.to_owned(), level: level.to_owned() });
            }
            None if part.parse::<LevelFilter>().is_ok() => {}
            None => {
                return Err(LogLevelError::NoLevel(part.to_owned()));
            }
        }
    }
    EnvFilter::try_new(text)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::log_level;

    #[test]
    fn each_part_of_a_filter_has_a_level() {
        for good in
            ["info", "WARN", "off", "gw_engine=debug,warn", "gw=trace,info", "gw[span{a=1}]=debug", "5"]
        {
            assert_eq!(log_level(good).unwrap(), good);
        }
        assert_eq!(log_level(" ").unwrap(), "info");
        for bad in ["loud", "gw_engine", "gw_engine=loud", "gw_engine=", "info,loud", "9"] {
            let said = log_level(bad).expect_err(bad).to_string();
            assert!(said.contains("off, error, warn, info, debug or trace"), "{bad}: {said}");
        }
    }
}
