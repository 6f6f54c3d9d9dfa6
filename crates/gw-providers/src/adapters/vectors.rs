//! Lists of vectors, for dialects that answer in input order.

use gw_wire::embeddings::read_vector;
use gw_wire::failure::Failure;
use gw_wire::reply::Vector;
use serde_json::value::RawValue;

use super::failure::invalid;

/// Reads exactly `expected` vectors, all of one length.
pub(super) fn read<'a>(found: &[&'a RawValue], expected: usize) -> Result<Vec<Vector<'a>>, Failure> {
    if found.len() != expected {
        return Err(invalid(format_args!("{} vectors for {expected} inputs", found.len())));
    }
    let vectors: Result<Vec<Vector<'a>>, _> = found.iter().map(|raw| read_vector(raw.get())).collect();
    let vectors = vectors.map_err(invalid)?;
    check_lengths(&vectors)?;
    Ok(vectors)
}

/// Refuses vectors of different lengths.
pub(super) fn check_lengths(vectors: &[Vector<'_>]) -> Result<(), Failure> {
    let mut lengths = vectors.iter().map(Vector::dimensions);
    let first = lengths.next();
    if lengths.any(|length| Some(length) != first) {
        return Err(invalid("vectors of different lengths"));
    }
    Ok(())
}
