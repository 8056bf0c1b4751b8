//! Horizontal bars of block characters, with a resolution of an eighth of a column.

use super::paint::{Ink, Options, fit, plain};
use crate::output::chart::{Bar, Bars};

/// Maximum length of a bar.
const BAR_MAX: usize = 48;
/// Maximum length of a name; a longer one is cut.
const LABEL_MAX: usize = 28;

/// Returns the bars as lines, with the title first.
pub(super) fn lines(bars: &Bars, options: &Options) -> Vec<String> {
    let widest = |text: fn(&Bar) -> &str| {
        let widths = bars.rows.iter().map(|bar| text(bar).chars().count());
        widths.max().unwrap_or(0)
    };
    let label = widest(|bar| &bar.label).min(LABEL_MAX);
    let value = widest(|bar| &bar.text);
    let note = widest(|bar| &bar.note);
    // Two spaces before the label, and two between any two parts.
    let taken = label + value + note + 8;
    let length = options.width.saturating_sub(taken).clamp(8, BAR_MAX);
    let mut lines = title(bars, options);
    for bar in &bars.rows {
        let name = fit(&plain(&bar.label), label, options.ascii);
        let line = format!(
            "  {name}  {}  {:>value$}  {:>note$}",
            draw(bar, bars.longest(), length, options),
            plain(&bar.text),
            options.paint(Ink::Faint, &bar.note),
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Returns the title, with a legend of the parts of a bar if needed, on a line of its own if it does not fit.
fn title(bars: &Bars, options: &Options) -> Vec<String> {
    let title = plain(&bars.title);
    let painted = options.paint(Ink::Heading, &title);
    // The legend is needed only if a bar has both parts.
    let is_aged = bars.rows.iter().any(|bar| bar.added > 0.0);
    let Some((new, added)) = bars.parts.filter(|_| is_aged) else {
        return vec![painted];
    };
    let [solid, shaded] = glyphs(options);
    let solid = options.paint(Ink::New, &solid.to_string());
    let shaded = options.paint(Ink::Added, &shaded.to_string());
    let legend = format!("{solid} {new}  {shaded} {added}");
    // Two glyphs, and the spaces between them and the words.
    let width = title.chars().count() + new.len() + added.len() + 9;
    if width <= options.width {
        vec![format!("{painted}   {legend}")]
    } else {
        vec![painted, format!("  {legend}")]
    }
}

fn glyphs(options: &Options) -> [char; 2] {
    if options.ascii { ['#', '+'] } else { ['\u{2588}', '\u{2592}'] }
}

/// Draws a bar, padded to `length`.
fn draw(bar: &Bar, longest: f64, length: usize, options: &Options) -> String {
    let [solid, shaded] = glyphs(options);
    let columns = |value: f64| value / longest * length as f64;
    let value = bar.value.unwrap_or(0.0).abs();
    let is_aged = bar.added > 0.0;
    let (whole, end) = if is_aged || options.ascii {
        (columns(value - bar.added).round() as usize, String::new())
    } else {
        let eighths = (columns(value) * 8.0).round() as usize;
        (eighths / 8, eighth(eighths % 8))
    };
    let added = (columns(value).round() as usize).saturating_sub(whole);
    let added = if is_aged { added } else { 0 };
    let mut plain: String = solid.to_string().repeat(whole);
    plain.push_str(&end);
    let drawn = plain.chars().count() + added;
    format!(
        "{}{}{}",
        options.paint(Ink::New, &plain),
        options.paint(Ink::Added, &shaded.to_string().repeat(added)),
        " ".repeat(length.saturating_sub(drawn))
    )
}

/// Returns the block character that fills this number of eighths of a column from the left.
fn eighth(eighths: usize) -> String {
    match eighths {
        0 => String::new(),
        _ => char::from_u32(0x2590 - eighths as u32)
            .expect("U+2589 to U+258F are blocks")
            .to_string(),
    }
}
