//! The chart: calls done a second by each way on the hot row, with the most callers, on each engine. Logarithmic, since
//! the ways lie a thousandfold apart.

use std::fmt::Write as _;

use super::{cell::Cell, draw::Spread, survey::Place, way::Way};

const LABELS: f64 = 330.0;
const BARS: f64 = 430.0;
const WIDTH: f64 = LABELS + BARS + 90.0;
const LINE: f64 = 18.0;
const TITLE: f64 = 30.0;

/// An SVG that reads on light and on dark ground.
pub(crate) fn draw(cells: &[(Place, Cell)], machine: &str) -> String {
    // One panel an engine, at the harder of what was measured: flushed commits, no delay.
    let durable = cells.iter().any(|(place, _)| place.durable);
    let callers = cells.iter().map(|(_, cell)| cell.callers).max().unwrap_or(0);
    let shown: Vec<&(Place, Cell)> = cells
        .iter()
        .filter(|(place, cell)| {
            place.durable == durable && place.delay == 0 && cell.spread == Spread::Hot && cell.callers == callers
        })
        .collect();
    let mut engines: Vec<_> = shown.iter().map(|(place, _)| place.engine).collect();
    engines.dedup();
    let most = shown.iter().map(|(_, cell)| cell.rate).fold(10.0, f64::max).log10().ceil();
    let height = 76.0 + engines.len() as f64 * (TITLE + LINE * Way::ALL.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"Calls done a second by each way, on one hot row with {callers} callers\">\n{STYLE}\n"
    );
    let commit = if durable { "durable commits" } else { "commits not flushed" };
    // Writing to a String does not fail.
    let _ = writeln!(
        svg,
        "<text class=\"h\" x=\"8\" y=\"22\">One hot row, {callers} callers, {commit}: calls done a second</text>"
    );
    let _ = writeln!(svg, "<text class=\"s\" x=\"8\" y=\"40\">{}</text>", escaped(machine));
    let mut y = 56.0;
    for engine in engines {
        let _ = writeln!(svg, "<text class=\"e\" x=\"8\" y=\"{:.0}\">{engine}</text>", y + 18.0);
        y += TITLE;
        for way in Way::ALL {
            let Some((_, cell)) = shown.iter().find(|(place, cell)| place.engine == engine && cell.way == way) else {
                continue;
            };
            let width = (cell.rate.max(1.0).log10() / most * BARS).max(1.0);
            let class = if way.name().contains("by hand") { "hand" } else { "ours" };
            let _ = writeln!(
                svg,
                "<text class=\"l\" x=\"{:.0}\" y=\"{:.0}\">{}</text>\
                 <rect class=\"{class}\" x=\"{LABELS}\" y=\"{:.0}\" width=\"{width:.1}\" height=\"{:.0}\" rx=\"2\"/>\
                 <text class=\"v\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                LABELS - 8.0,
                y + 12.0,
                escaped(&way.name()),
                y + 2.0,
                LINE - 5.0,
                LABELS + width + 6.0,
                y + 12.0,
                crate::row::rate(cell.rate),
            );
            y += LINE;
        }
    }
    let _ = writeln!(
        svg,
        "<text class=\"s\" x=\"8\" y=\"{:.0}\">logarithmic; dark: by hand on sqlx, bright: rowlock</text>",
        y + 14.0
    );
    svg.push_str("</svg>\n");
    svg
}

const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#24292f}.h{font-size:15px;font-weight:600}\
    .e{font-size:13px;font-weight:600}.s{font-size:11px;fill:#57606a}.l{text-anchor:end}.hand{fill:#8c959f}.ours{fill:#1a7f64}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.hand{fill:#6e7681}.ours{fill:#3fb68b}}</style>";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use rowlock_testing::Engine;

    use super::*;

    #[test]
    fn a_bar_for_each_way_that_was_measured() {
        let place = Place { engine: Engine::Pg18, durable: true, delay: 0 };
        let cell = |way, callers, rate| Cell {
            way,
            spread: Spread::Hot,
            callers,
            rate,
            p50: 1.0,
            p99: 2.0,
            held: None,
            again: 0.0,
            refused: 0.0,
            empty: 0.0,
        };
        let slow = Place { delay: 1, ..place };
        let cells = [
            (place, cell(Way::ForUpdate, 256, 1000.0)),
            (place, cell(Way::Merged, 256, 1_000_000.0)),
            (place, cell(Way::Merged, 16, 5.0)),
            (slow, cell(Way::Merged, 256, 5.0)),
        ];
        let svg = draw(&cells, "a <machine>");
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(svg.contains("1,000,000") && svg.contains("256 callers") && svg.contains("a &lt;machine>"));
        // Half the decades, half the length.
        assert!(svg.contains("width=\"215.0\"") && svg.contains("width=\"430.0\""), "{svg}");
    }
}
