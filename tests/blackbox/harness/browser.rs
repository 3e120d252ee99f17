//! Headless Chromium, driven over WebDriver (W3C) by chromedriver.
//!
//! A few lines over reqwest, which is already a dependency: the crates for it (fantoccini,
//! thirtyfour) add dependencies for cookies, times and text segmentation, and cannot read
//! chromedriver's logs.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::unique;
use super::process::{Lines, Process};
use super::servers;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(30);
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with a new profile. It ends with the test, even if the test is killed.
pub(crate) struct Browser {
    http: reqwest::Client,
    session: String,
    _driver: Process,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        // Kills the whole group: chromedriver leaves the browser running when it is killed.
        let mut command = Command::new("sh");
        command.args(["-c", "chromedriver --port=0 & cat; kill -KILL 0"]).process_group(0);
        let log = Lines::default();
        let driver = Process::start(&mut command, &log);
        let started = driver.out.wait_for(START_TIMEOUT, |line| line.contains("started successfully on port"));
        let line = started.unwrap_or_else(|| panic!("chromedriver did not start: {:?}", log.all()));
        let port = line.rsplit(' ').next().unwrap().trim_end_matches('.');

        let profile = servers::folder().join(unique("chromium"));
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1200,1600",
            &format!("--user-data-dir={}", profile.display()),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut browser = Self { http, session: format!("http://127.0.0.1:{port}/session"), _driver: driver };
        let made = browser.call(Method::POST, "", &capabilities).await.unwrap();
        browser.session = format!("{}/{}", browser.session, made["sessionId"].as_str().unwrap());
        browser
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let request = self.http.request(method.clone(), format!("{}{path}", self.session));
        let request = if method == Method::POST { request.json(body) } else { request };
        let response = request.send().await.unwrap();
        let is_done = response.status().is_success();
        let value = response.json::<Value>().await.unwrap()["value"].take();
        if is_done { Ok(value) } else { Err(format!("{path}: {value}")) }
    }

    pub(crate) async fn open(&self, url: &str) {
        self.call(Method::POST, "/url", &json!({ "url": url })).await.unwrap();
    }

    pub(crate) async fn disable_scripts(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    }

    /// Sends a command of Chromium's DevTools protocol.
    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.call(Method::POST, "/goog/cdp/execute", &body).await.unwrap()
    }

    /// Shows pages as on a screen of this width, in the light or the dark theme.
    pub(crate) async fn show_on(&self, width: u32, is_dark: bool) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
        let theme = json!({"name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" }});
        self.devtools("Emulation.setEmulatedMedia", json!({"features": [theme]})).await;
    }

    /// A PNG of the whole page.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        let taken = self.devtools("Page.captureScreenshot", json!({"captureBeyondViewport": true})).await;
        STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    /// Runs a script in the page, also where the page's policy allows none, and waits for the promise
    /// that it returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.call(Method::POST, "/execute/sync", &json!({"script": script, "args": []})).await.unwrap()
    }

    /// Sets a cookie of the site that is open.
    pub(crate) async fn set_cookie(&self, name: &str, value: &str) {
        let cookie = json!({"cookie": {"name": name, "value": value, "path": "/"}});
        self.call(Method::POST, "/cookie", &cookie).await.unwrap();
    }

    /// Elements that match a CSS selector, by their ids in the session.
    pub(crate) async fn all(&self, selector: &str) -> Vec<String> {
        let query = json!({"using": "css selector", "value": selector});
        let found = self.call(Method::POST, "/elements", &query).await.unwrap();
        found.as_array().unwrap().iter().map(|element| element[ELEMENT].as_str().unwrap().to_owned()).collect()
    }

    /// An attribute of every matching element; empty where missing.
    pub(crate) async fn attributes(&self, selector: &str, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        for element in self.all(selector).await {
            let value = self.call(Method::GET, &format!("/element/{element}/attribute/{name}"), &Value::Null).await;
            values.push(value.unwrap().as_str().unwrap_or_default().to_owned());
        }
        values
    }

    pub(crate) async fn is_seen(&self, selector: &str) -> bool {
        let element = self.all(selector).await.swap_remove(0);
        self.call(Method::GET, &format!("/element/{element}/displayed"), &Value::Null).await.unwrap() == true
    }

    pub(crate) async fn click(&self, selector: &str) {
        self.act(Method::POST, selector, "click", &json!({})).await;
    }

    pub(crate) async fn write(&self, selector: &str, text: &str) {
        self.act(Method::POST, selector, "value", &json!({ "text": text })).await;
    }

    pub(crate) async fn text(&self, selector: &str) -> String {
        self.act(Method::GET, selector, "text", &Value::Null).await.as_str().unwrap().to_owned()
    }

    /// Waits until an element has a text: pages follow each other without a sign of their end.
    pub(crate) async fn reaches(&self, selector: &str, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let shown = self.text(selector).await;
            if shown.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{text} is not in {selector}: {shown}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Sends a command for an element until it succeeds, because pages change while they load.
    async fn act(&self, method: Method, selector: &str, command: &str, body: &Value) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let outcome = match self.all(selector).await.first() {
                Some(element) => self.call(method.clone(), &format!("/element/{element}/{command}"), body).await,
                None => Err("no such element".to_owned()),
            };
            match outcome {
                Ok(value) => return value,
                Err(error) => assert!(Instant::now() < deadline, "{command} {selector}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Console messages since the last call, including errors and policy violations.
    pub(crate) async fn console(&self) -> Vec<Value> {
        self.log("browser").await
    }

    /// URLs that pages requested since the last call.
    pub(crate) async fn requested(&self) -> Vec<String> {
        let events = self.log("performance").await.into_iter().map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            event["message"].clone()
        });
        let requests = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = requests.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned());
        // Chromium's own start page.
        urls.filter(|url| !url.starts_with("chrome://")).collect()
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.call(Method::POST, "/se/log", &json!({ "type": kind })).await.unwrap();
        entries.as_array().unwrap().clone()
    }
}
