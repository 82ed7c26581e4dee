//! A headless Chromium, by the DevTools protocol over a pipe
//! (chromedevtools.github.io/devtools-protocol).

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// A browser that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// The one page.
    session: String,
    requests: u64,
    /// Events that came while an answer was waited for.
    pub(crate) events: Vec<Value>,
    profile: PathBuf,
}

impl Browser {
    /// Starts the browser with an empty page, or returns `None` if none is installed.
    pub(crate) fn start() -> Result<Option<Self>, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there =
            |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
        let Some(name) = NAMES.iter().find(is_there) else { return Ok(None) };
        let profile = std::env::temp_dir().join(format!("daiko-site-{}", std::process::id()));
        // The protocol's pipes are descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", name])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .args(["--hide-scrollbars", "--no-first-run", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                if let Ok(message) = serde_json::from_slice(&message)
                    && sender.send(message).is_err()
                {
                    break;
                }
            }
        });
        let (session, events) = Default::default();
        let mut browser = Browser { child, input, messages, session, requests: 0, events, profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(Some(browser))
    }

    /// Calls a method, and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.requests += 1;
        let id = self.requests;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let sent = write!(self.input, "{message}\0").and_then(|()| self.input.flush());
        sent.map_err(|error| format!("chromium: {error}"))?;
        loop {
            let mut message = self.next()?;
            if message["id"] == id {
                return match message["error"].take() {
                    Value::Null => Ok(message["result"].take()),
                    error => Err(format!("chromium: {method}: {error}")),
                };
            }
            self.events.push(message);
        }
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) fn open(&mut self, address: &str) -> Result<(), String> {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": address }))?;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next()?;
            self.events.push(event);
        }
        Ok(())
    }

    /// Evaluates an expression, or a promise, and returns its value.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", params)?;
        match &result["exceptionDetails"] {
            Value::Null => Ok(result["result"]["value"].take()),
            details => Err(format!("chromium: {details}")),
        }
    }

    /// Gives the page another width.
    pub(crate) fn resize(&mut self, width: u32, height: u32) -> Result<(), String> {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics).map(drop)
    }

    /// Sets media features, as `prefers-color-scheme`.
    pub(crate) fn prefer(&mut self, features: &[(&str, &str)]) -> Result<(), String> {
        let feature = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
        let features: Vec<Value> = features.iter().map(feature).collect();
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(drop)
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) -> Result<(), String> {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }))?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Value, String> {
        self.messages
            .recv_timeout(PATIENCE)
            .map_err(|_| "chromium does not answer; start it by hand to see why".to_owned())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session.clear();
        _ = self.call("Browser.close", json!({}));
        _ = self.child.kill();
        _ = self.child.wait();
        _ = std::fs::remove_dir_all(&self.profile);
    }
}
