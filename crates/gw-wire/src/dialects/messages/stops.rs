//! Stop sequences that the upstream does not get: chat completions take four, the Messages API takes more.

use std::sync::Arc;

use memchr::memmem;

/// Cuts a text at the first stop sequence in it.
#[derive(Clone, Debug)]
pub(super) struct StopCutter {
    stops: Arc<[String]>,
    /// Text that may be the beginning of a stop sequence.
    held: String,
    /// The index of the stop sequence that was found.
    found: Option<usize>,
}

impl StopCutter {
    /// A cutter for these sequences; None if there are none.
    pub(super) fn new(stops: &Arc<[String]>) -> Option<Self> {
        (!stops.is_empty()).then(|| Self { stops: Arc::clone(stops), held: String::new(), found: None })
    }

    /// The stop sequence that was found.
    pub(super) fn found(&self) -> Option<&str> {
        self.found.and_then(|at| self.stops.get(at)).map(String::as_str)
    }

    /// Bytes that are held back.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Takes a piece of the text and returns the text that no stop sequence can begin in.
    pub(super) fn push(&mut self, piece: &str) -> String {
        if self.found.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        let find = |stop: &String| memmem::find(self.held.as_bytes(), stop.as_bytes());
        // The sequence that is complete first counts, as it does for a model, so the pieces' ends do not matter.
        let first = self.stops.iter().enumerate().filter_map(|(at, stop)| Some((find(stop)?, stop, at)));
        let first = first.min_by_key(|(start, stop, _)| (start + stop.len(), *start));
        if let Some((start, _, at)) = first {
            self.found = Some(at);
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return text;
        }
        let kept = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// Ends the text: returns the text that was held back.
    pub(super) fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The length of the longest proper beginning of `stop` that `text` ends with. Both are whole characters, so it is a
/// character boundary.
fn overlap(text: &str, stop: &str) -> usize {
    let most = text.len().min(stop.len().saturating_sub(1));
    let fits = |len: &usize| {
        stop.as_bytes().get(..*len).is_some_and(|begun| text.as_bytes().ends_with(begun))
            && stop.is_char_boundary(*len)
            && text.is_char_boundary(text.len() - *len)
    };
    (1..=most).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let stops: Arc<[String]> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut cutter = StopCutter::new(&stops).unwrap();
        let mut text: String = pieces.iter().map(|piece| cutter.push(piece)).collect();
        text.push_str(&cutter.end());
        (text, cutter.found().map(str::to_owned))
    }

    #[test]
    fn a_text_is_cut_at_the_first_sequence_wherever_its_pieces_end() {
        let found = |text: &str, stop: &str| (text.to_owned(), Some(stop.to_owned()));
        assert_eq!(run(&["END", "STOP"], &["one ST", "OP two END"]), found("one ", "STOP"));
        assert_eq!(run(&["END", "EN"], &["a E", "ND"]), found("a ", "EN"));
        assert_eq!(run(&["END", "EN"], &["a END"]), found("a ", "EN"));
        assert_eq!(run(&["ää"], &["xä", "ä"]), found("x", "ää"));
        assert_eq!(run(&["END"], &["a EN", "E"]), ("a ENE".to_owned(), None));
    }
}
