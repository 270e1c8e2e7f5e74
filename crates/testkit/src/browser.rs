//! A headless Chromium, driven over W3C WebDriver: JSON over HTTP to `chromedriver` on loopback.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{PATIENCE, Scratch};

/// How WebDriver names an element in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const ARGUMENTS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
];

/// One window. The browser ends when this is dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: Scratch,
}

/// False, with a message, if there is no browser. Under `CI=true` a failure.
pub fn works() -> bool {
    let there = |program: &str| {
        Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    let works = there("chromium") && there("chromedriver");
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(works || !ci, "chromium or chromedriver is missing: install chromium and chromium-driver");
    if !works {
        eprintln!("SKIPPED: chromium or chromedriver is missing (Debian: chromium, chromium-driver)");
    }
    works
}

impl Browser {
    pub fn open(width: u32, height: u32) -> Self {
        let profile = Scratch::new("browser").expect("a directory");
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut output = BufReader::new(driver.stdout.take().expect("its stdout"));
        let port = port(&mut output);
        // What it prints later must be read, or it would block.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|&argument| argument.to_owned()).collect();
        arguments.push(format!("--window-size={width},{height}"));
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let answer = browser.request("POST", "/session", Some(&wanted));
        browser.session = String::from(answer["sessionId"].as_str().expect("the name of a session"));
        browser
    }

    pub fn go(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// The value of a JavaScript function's body.
    pub fn script(&self, body: &str) -> Value {
        self.post("execute/sync", &json!({"script": body, "args": []}))
    }

    /// Looks repeatedly until the script's value is neither null nor false.
    pub async fn until(&self, what: &str, body: &str) -> Value {
        let looking = async {
            loop {
                let value = self.script(body);
                if !value.is_null() && value != json!(false) {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        };
        let found = tokio::time::timeout(3 * PATIENCE, looking).await;
        found.unwrap_or_else(|_| panic!("not in time: {what}\n{}", self.script("return document.body.innerText")))
    }

    /// A click of the pointer, which fails where something else covers the element.
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.post(&format!("element/{element}/click"), &json!({}));
    }

    /// Keys into an element; it gets the focus.
    pub fn keys(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// A command of the DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// What the page sees of the reader's settings, as in `prefers-color-scheme`.
    pub fn prefers(&self, features: &[(&str, &str)]) {
        let features: Vec<Value> = features.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// The upper part of the page, smaller by this factor.
    pub fn screenshot(&self, path: &Path, size: (u32, u32), scale: f64) {
        let clip = json!({"x": 0, "y": 0, "width": size.0, "height": size.1, "scale": scale});
        let shot = self
            .devtools("Page.captureScreenshot", &json!({"format": "png", "clip": clip, "captureBeyondViewport": true}));
        fs::write(path, base64(shot["data"].as_str().expect("a picture"))).expect("a writable file");
    }

    /// What the browser has logged since the last call: `browser` has the console, `performance` the network.
    pub fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.post("se/log", &json!({ "type": kind }));
        entries.as_array().cloned().unwrap_or_default()
    }

    fn post(&self, what: &str, body: &Value) -> Value {
        self.request("POST", &format!("/session/{}/{what}", self.session), Some(body))
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) =
            exchange(self.port, method, path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
        let value: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"));
        assert_eq!(status, 200, "{path}: {}", value["value"]);
        value["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = exchange(self.port, "DELETE", &format!("/session/{}", self.session), None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Out of the line that says so.
fn port(output: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some((_, port)) = line.trim_end().trim_end_matches('.').rsplit_once("successfully on port ") {
            return port.parse().expect("a port");
        }
        line.clear();
    }
    panic!("chromedriver says no port")
}

/// One request per connection: the answer ends with its length, and the driver keeps connections open.
fn exchange(port: u16, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(3 * PATIENCE))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    Ok((status, String::from_utf8_lossy(&answer).into_owned()))
}

fn base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0u32);
    for six in text.bytes().filter_map(value) {
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        assert_eq!(base64("Y29uY2xhdmU="), b"conclave");
        assert_eq!(base64("//79"), [255, 254, 253]);
    }

    #[test]
    fn the_port_is_read_from_the_drivers_output() {
        let mut said = "Starting\nChromeDriver was started successfully on port 34567.\n".as_bytes();
        assert_eq!(port(&mut said), 34567);
    }
}
