//! Tests of the written site in a browser.

use std::path::Path;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::site::written;

/// Widths of a telephone and of a notebook, with heights.
const SIZES: [(u32, u32); 2] = [(390, 844), (1280, 900)];

/// The parts of a page that everybody needs, and the contrast of its text (WCAG 2, 1.4.3).
const PROBE: &str = include_str!("probe.js");

/// Opens all pages, and returns an error with the faults.
pub(crate) fn test(folder: &Path) -> Result<(), String> {
    let folder = folder
        .canonicalize()
        .map_err(|error| format!("{}: {error}; build it by make site", folder.display()))?;
    let pages = written(&folder)?;
    let Some(mut browser) = Browser::start()? else {
        println!("skipped: chromium is missing: sudo apt install chromium");
        return Ok(());
    };
    let mut faults = Vec::new();
    for page in &pages {
        let found = visit(&mut browser, &address(&folder, page))?;
        faults.extend(found.into_iter().map(|fault| format!("{page}: {fault}")));
    }
    faults.extend(animation(&mut browser, &address(&folder, "index.html"))?);
    if faults.is_empty() {
        println!("{} pages pass at {} and {} pixels", pages.len(), SIZES[0].0, SIZES[1].0);
        return Ok(());
    }
    Err(faults.join("\n"))
}

fn address(folder: &Path, page: &str) -> String {
    format!("file://{}/{page}", folder.display())
}

/// Returns the faults of a page.
fn visit(browser: &mut Browser, address: &str) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for (index, (width, height)) in SIZES.into_iter().enumerate() {
        browser.resize(width, height)?;
        if index == 0 {
            browser.open(address)?;
        }
        for scheme in ["light", "dark"] {
            browser.prefer(&[("prefers-color-scheme", scheme)])?;
            let found = browser.evaluate(PROBE)?;
            let found = found.as_array().cloned().unwrap_or_default();
            let text =
                |fault: &Value| format!("{width} px, {scheme}: {}", fault.as_str().unwrap_or("?"));
            faults.extend(found.iter().map(text));
        }
    }
    faults.extend(browser.events.iter().filter_map(complaint));
    Ok(faults)
}

/// Returns the fault that an event of the browser reports.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(format!("exception: {}", params["exceptionDetails"])),
        "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "warning" => {
            Some(format!("console: {}", params["args"]))
        }
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            Some(format!("log: {}", params["entry"]["text"]))
        }
        "Network.loadingFailed" => Some(format!("a request failed: {}", params["errorText"])),
        "Network.requestWillBeSent" => {
            let address = params["request"]["url"].as_str()?;
            let is_own = address.starts_with("file:") || address.starts_with("data:");
            (!is_own).then(|| format!("loads {address}"))
        }
        _ => None,
    }
}

/// Returns the faults of the picture of the recorded trace.
fn animation(browser: &mut Browser, address: &str) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, fault: &str| {
        if !holds {
            faults.push(format!("index.html: {fault}"));
        }
    };
    // Frames, not times, so that a slow machine changes nothing.
    let frames = "new Promise(done => { let n = 5; \
        const frame = () => n-- ? requestAnimationFrame(frame) : done(trace()); frame(); })";
    let define = "window.trace = () => Number(document.querySelector('#trace').dataset.now); \
        document.querySelector('#trace').scrollIntoView(); \
        window.push = name => { document.querySelector(`#trace [data-do=${name}]`).click(); return trace(); }";
    let (width, height) = SIZES[1];
    browser.resize(width, height)?;
    browser.prefer(&[("prefers-reduced-motion", "no-preference")])?;
    browser.open(address)?;
    browser.evaluate(define)?;
    let moves = "new Promise(done => { const first = trace(); let n = 600; const frame = () => \
        trace() !== first ? done(true) : n-- ? requestAnimationFrame(frame) : done(false); frame(); })";
    expect(browser.evaluate(moves)? == json!(true), "the picture does not move");
    browser.evaluate("push('play')")?;
    let paused = browser.evaluate(frames)?;
    expect(browser.evaluate(frames)? == paused, "the picture moves while it is paused");
    let stepped = browser.evaluate("push('next')")?;
    expect(stepped.as_f64() > paused.as_f64(), "a step does not lead forward");
    let back = browser.evaluate("push('back')")?;
    expect(back.as_f64() < stepped.as_f64(), "a step back does not lead back");
    browser.evaluate("document.querySelector('#trace canvas').focus()")?;
    browser.press("ArrowRight")?;
    let pressed = browser.evaluate("trace()")?;
    expect(pressed.as_f64() > back.as_f64(), "the arrow key does not step");

    browser.prefer(&[("prefers-reduced-motion", "reduce")])?;
    browser.open(address)?;
    browser.evaluate(define)?;
    let still = browser.evaluate(frames)?;
    expect(browser.evaluate(frames)? == still, "the picture moves against prefers-reduced-motion");
    expect(browser.evaluate("push('next')")? != still, "without motion the picture has no steps");
    Ok(faults)
}

/// Writes pictures of pages at both widths, light and dark, into `out`.
pub(crate) fn shoot(folder: &Path, out: &Path, pages: &[&str]) -> Result<(), String> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let Some(mut browser) = Browser::start()? else {
        return Err("chromium is missing: sudo apt install chromium".into());
    };
    for page in pages {
        for (width, height) in SIZES {
            for scheme in ["light", "dark"] {
                browser.resize(width, height)?;
                browser.prefer(&[
                    ("prefers-color-scheme", scheme),
                    ("prefers-reduced-motion", "reduce"),
                ])?;
                browser.open(&address(&folder, page))?;
                let params = json!({ "format": "png" });
                let picture = browser.call("Page.captureScreenshot", params)?;
                let name = page.trim_end_matches(".html").replace('/', "-");
                let name = out.join(format!("{name}-{width}-{scheme}.png"));
                let bytes = base64(picture["data"].as_str().unwrap_or_default());
                std::fs::write(&name, bytes)
                    .map_err(|error| format!("{}: {error}", name.display()))?;
            }
        }
    }
    Ok(())
}

/// Decodes base64 (RFC 4648).
fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value =
        |letter: u8| LETTERS.iter().position(|&one| one == letter).map_or(0, |at| at as u32);
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, &letter| bits << 6 | value(letter))
            << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, bytes) in [("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(super::base64(text), bytes.as_bytes());
        }
    }
}
