//! Progress of the run: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use super::Observer;
use crate::kit::{Case, format};

/// Returns a bar if standard error is a terminal, else plain lines on it.
pub fn on_stderr() -> Box<dyn Observer> {
    if io::stderr().is_terminal() {
        Box::new(Bar(ProgressBar::hidden()))
    } else {
        Box::new(Lines::new(io::stderr()))
    }
}

/// A bar that is drawn between samples only, so that no timer wakes up during a measurement.
struct Bar(ProgressBar);

impl Observer for Bar {
    fn begin(&mut self, samples: usize) {
        let style = "{bar:24} {pos}/{len} samples, {eta} left  {wide_msg}";
        let style = ProgressStyle::with_template(style).expect("the template is valid");
        self.0 = ProgressBar::new(samples as u64).with_style(style);
    }

    fn sampling(&mut self, case: &Case) {
        self.0.set_message(case.to_string());
    }

    fn advance(&mut self, samples: usize) {
        self.0.inc(samples as u64);
    }

    fn note(&mut self, line: &str) {
        self.0.println(line);
    }

    fn end(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A line per tenth of the samples.
struct Lines<W> {
    out: W,
    start: Instant,
    total: usize,
    done: usize,
}

impl<W: Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { out, start: Instant::now(), total: 0, done: 0 }
    }

    fn tenths(&self) -> usize {
        self.done * 10 / self.total.max(1)
    }

    /// Writes a line. A failed write does not stop the measurement.
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
    }
}

impl<W: Write> Observer for Lines<W> {
    fn begin(&mut self, samples: usize) {
        self.total = samples;
        self.line(&format!("measuring: {samples} samples"));
    }

    fn sampling(&mut self, _case: &Case) {}

    fn advance(&mut self, samples: usize) {
        let before = self.tenths();
        self.done += samples;
        if self.tenths() > before {
            let elapsed = self.start.elapsed().as_secs_f64();
            let Self { done, total, .. } = *self;
            let mut line =
                format!("measuring: {done} of {total} samples in {}", format::seconds(elapsed));
            if done < total {
                let left = elapsed * (total - done) as f64 / done as f64;
                line += &format!(", about {} left", format::seconds(left));
            }
            self.line(&line);
        }
    }

    fn note(&mut self, line: &str) {
        self.line(line);
    }

    fn end(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_reach_the_end() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        lines.begin(1000);
        for _ in 0..1000 {
            lines.advance(1);
        }
        lines.end();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 11, "{text}");
        assert!(text.lines().last().unwrap().contains("1000 of 1000"), "{text}");
    }
}
