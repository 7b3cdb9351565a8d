//! A table for terminals: columns that wrap, with a rule between rows.

use unicode_width::UnicodeWidthStr;

/// Widest that a table gets; longer lines are hard to read.
const WIDEST: usize = 118;

/// The width to draw for.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(110).clamp(60, WIDEST)
}

/// Draws rows of cells, each of several paragraphs, under a head. The first column is as wide as it must be, the others share
/// what is left.
pub(crate) fn draw(head: &[&str], rows: &[Vec<Vec<String>>], width: usize) -> Vec<String> {
    let longest = |cell: &Vec<String>| cell.iter().map(|line| line.width()).max().unwrap_or_default();
    let first =
        rows.iter().filter_map(|row| row.first()).map(longest).chain(head.first().map(|text| text.width())).max();
    let first = first.unwrap_or_default().min(width / 4);
    let others = head.len().saturating_sub(1).max(1);
    let other = width.saturating_sub(first + 3 * others) / others;
    let widths: Vec<usize> = (0..head.len()).map(|column| if column == 0 { first } else { other.max(12) }).collect();
    let rule = |cross: &str| widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join(cross);
    let mut lines = vec![line(&head.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &widths), rule("─┼─")];
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            lines.push(rule("─┼─"));
        }
        let cells: Vec<Vec<String>> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| cell.iter().flat_map(|text| wrap(text, *width)).collect())
            .collect();
        for n in 0..cells.iter().map(Vec::len).max().unwrap_or_default() {
            lines.push(line(
                &cells.iter().map(|cell| cell.get(n).cloned().unwrap_or_default()).collect::<Vec<_>>(),
                &widths,
            ));
        }
    }
    lines
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells
        .iter()
        .zip(widths)
        .map(|(text, width)| format!("{text}{}", " ".repeat(width.saturating_sub(text.width()))));
    padded.collect::<Vec<_>>().join(" │ ").trim_end().to_owned()
}

/// Wraps at blanks, and in words that are longer than a line; the lines behind the first keep its indentation.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat((text.len() - text.trim_start().len()).min(width / 2));
    let mut lines = Vec::new();
    let mut line = indent.clone();
    for word in text.split_whitespace() {
        let mut word = word;
        if !line.trim().is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        while indent.len() + word.width() > width {
            let room = width.saturating_sub(indent.len()).max(1);
            let at = word
                .char_indices()
                .map(|(at, _)| at)
                .take_while(|at| word.get(..*at).unwrap_or_default().width() <= room)
                .last();
            let (head, tail) = word.split_at_checked(at.unwrap_or_default().max(1)).unwrap_or((word, ""));
            if head == word || tail.is_empty() {
                break;
            }
            lines.push(format!("{indent}{head}"));
            word = tail;
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.trim().is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_wrap_and_line_up() {
        let row = vec![vec!["A".to_owned()], vec!["one two three".to_owned(), "  four five six".to_owned()]];
        let lines = draw(&["who", "what"], &[row], 22);
        let all = lines.join("\n");
        assert_eq!(all, "who │ what\n────┼─────────────────\nA   │ one two three\n    │   four five six");
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(wrap("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("日本語文字", 4).len(), 3);
    }
}
