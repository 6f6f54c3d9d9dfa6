//! Text in columns, for terminals.

/// The alignment of a column: text left, numbers right.
#[derive(Clone, Copy, Debug)]
pub enum Align {
    /// Blanks after the text.
    Left,
    /// Blanks before the text.
    Right,
}

/// Replaces control characters: a name from a file or a provider must not move the terminal's cursor.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Aligns rows in columns that are two blanks apart. Lines have no blanks at their end.
#[must_use]
pub fn columns(rows: &[Vec<String>], aligns: &[Align]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..aligns.len()).map(width).collect();
    let mut table = String::new();
    for row in rows {
        let cells = row.iter().zip(aligns).zip(&widths).map(|((cell, align), &width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        table += line.trim_end();
        table.push('\n');
    }
    table
}

/// A number with its noun, which gets an `s` unless the number is 1.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
