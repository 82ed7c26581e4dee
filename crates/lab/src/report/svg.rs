//! The subset of SVG that charts need: text with attributes, escaped.

use std::fmt::{self, Display, Write};

const UNWRITABLE: char = char::REPLACEMENT_CHARACTER;

/// Writes `text` into markup. Characters that XML cannot represent are replaced.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\0'..' ' if !"\t\n\r".contains(character) => f.write_char(UNWRITABLE)?,
                '\u{fffe}' | '\u{ffff}' => f.write_char(UNWRITABLE)?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A drawing of a fixed size in CSS pixels, scaled down to fit.
pub(super) struct Svg {
    body: String,
}

/// Screen width of a drawing.
#[derive(Clone, Copy)]
pub(super) enum Screen {
    Wide,
    Narrow,
}

/// Position of text relative to its point.
impl Svg {
    /// Creates a drawing that a screen reader announces as `label`.
    pub(super) fn new(screen: Screen, width: f64, height: f64, label: &str) -> Self {
        let class = match screen {
            Screen::Wide => "wide",
            Screen::Narrow => "narrow",
        };
        let body = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="{class}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12" role="img" aria-label="{}">"#,
            Escaped(label)
        );
        Self { body }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2), ink) = (from, to, ink(class));
        self.push(format_args!(
            r#"<line class="{class}" stroke="{ink}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            write!(data, "{command}{x:.1} {y:.1}").expect("strings take all");
        }
        self.push(format_args!(
            r#"<path class="{class}" fill="none" stroke="{}" d="{data}"/>"#,
            ink(class)
        ));
    }

    /// Text that begins, ends or has its middle at a place, as the attribute `text-anchor` says.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let (ink, text) = (ink(class), Escaped(text));
        self.push(format_args!(
            r#"<text class="{class}" fill="{ink}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Adds text that reads upwards.
    pub(super) fn upright(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (ink, text) = (ink(class), Escaped(text));
        self.push(format_args!(
            r#"<text class="{class}" fill="{ink}" text-anchor="middle" transform="translate({x:.1} {y:.1}) rotate(-90)">{text}</text>"#
        ));
    }

    /// Adds a mark of one of [`SHAPES`] shapes; the pointer over it shows `title`.
    pub(super) fn mark(&mut self, class: &str, shape: usize, (x, y): (f64, f64), title: &str) {
        let (ink, shape, title) = (ink(class), SHAPES[shape % SHAPES.len()], Escaped(title));
        let hollow = ["published", "disturbed"].iter().any(|word| class.contains(word));
        let (fill, stroke) = if hollow { (PAPER, ink) } else { (ink, PAPER) };
        self.push(format_args!(
            r#"<path class="mark {class}" fill="{fill}" stroke="{stroke}" transform="translate({x:.1} {y:.1})" d="{shape}"><title>{title}</title></path>"#
        ));
    }

    /// Adds a bar from its upper left corner; the pointer over it shows `title`.
    pub(super) fn bar(&mut self, class: &str, at: (f64, f64), size: (f64, f64), title: &str) {
        let ((x, y), (width, height)) = (at, (size.0.max(0.0), size.1));
        let (ink, title) = (ink(class), Escaped(title));
        self.push(format_args!(
            r#"<rect class="bar {class}" fill="{ink}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"><title>{title}</title></rect>"#
        ));
    }

    /// Opens a group with `title`, up to [`end_group`](Self::end_group).
    pub(super) fn group(&mut self, class: &str, title: &str) {
        self.push(format_args!(r#"<g class="{class}"><title>{}</title>"#, Escaped(title)));
    }

    pub(super) fn end_group(&mut self) {
        self.body.push_str("</g>");
    }

    pub(super) fn finish(mut self) -> String {
        self.body.push_str("</svg>");
        self.body
    }

    fn push(&mut self, element: fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("strings take all");
    }
}

/// Number of colours of mechanisms of the kernel.
pub(super) const KERNEL_COLOURS: usize = 8;

/// The colours of classes in the light style. They are attributes as well, since a viewer may know
/// no variables in style sheets.
const INKS: [(&str, &str); 6 + KERNEL_COLOURS] = [
    ("kernel-0", "#b4530a"),
    ("kernel-1", "#a3195b"),
    ("kernel-2", "#7a3ca3"),
    ("kernel-3", "#8a6d00"),
    ("kernel-4", "#c22f2f"),
    ("kernel-5", "#5b6b1f"),
    ("kernel-6", "#845338"),
    ("kernel-7", "#4b3f8f"),
    ("ours", "#00796b"),
    ("peer", "#3559c7"),
    ("kernel", "#b4530a"),
    ("limit", "#7a8490"),
    ("grid", "#dfe3e8"),
    ("bound", "#16191d"),
];

/// The colour of all other classes.
const SOFT: &str = "#5a6370";

/// The colour of the background.
const PAPER: &str = "#ffffff";

/// The colour of a class, or of the first of several that has one.
pub(super) fn ink(class: &str) -> &'static str {
    let ink = INKS.iter().find(|(name, _)| class.split(' ').any(|word| word == *name));
    ink.map_or(SOFT, |(_, ink)| ink)
}

/// Outlines around the origin, about 8 pixels across: circle, square, triangle, diamond, star of
/// four, reversed triangle, hexagon, cross, hourglass.
pub(super) const SHAPES: [&str; 9] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-4.5L4.2 3.2h-8.4z",
    "M0-5L5 0L0 5L-5 0z",
    "M0-6.5L1.9-1.9L6.5 0L1.9 1.9L0 6.5L-1.9 1.9L-6.5 0L-1.9-1.9z",
    "M0 4.5L4.2-3.2h-8.4z",
    "M-4.4 0L-2.2-3.8h4.4L4.4 0L2.2 3.8h-4.4z",
    "M-1.4-4.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z",
    "M-4-4h8L-4 4h8z",
];
