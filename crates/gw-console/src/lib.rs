//! The files of the web console, compressed, as the project in `console/` builds them. They are part of the program, so neither its
//! build nor its installation needs Node.

/// A file of the console.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its path below the console's own, such as `assets/index-4f2a.js`.
    pub path: &'static str,
    /// Its bytes, compressed with gzip.
    pub gzip: &'static [u8],
    /// Its bytes, compressed with Brotli. None: gzip is as small.
    pub brotli: Option<&'static [u8]>,
}

/// Every file of the console, sorted by path.
pub const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

#[cfg(test)]
mod tests {
    use super::ASSETS;

    #[test]
    fn the_table_has_the_page_and_every_file_once() {
        assert!(ASSETS.iter().any(|asset| asset.path == "index.html"));
        assert!(ASSETS.is_sorted_by(|one, next| one.path < next.path));
        assert!(ASSETS.iter().all(|asset| asset.gzip.starts_with(&[0x1f, 0x8b])), "the magic of gzip");
    }
}
