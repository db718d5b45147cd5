//! An agent of the published protocol that says what the test tells it to, one answer after the other.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use testkit::Port;

/// What is said to one question.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// This, with success.
    Text(String),
    /// This status.
    Status(u16),
    /// Nothing: the connection ends.
    Nothing,
}

/// A scripted agent. It serves for as long as the test runs.
pub(crate) struct ScriptedAgent {
    pub(crate) port: Port,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ScriptedAgent {
    /// An agent that has its say in `answer`, which gets the path and how many questions came before.
    pub(crate) fn start(answer: impl FnMut(&str, usize) -> Say + Send + 'static) -> Self {
        let agent = Self { port: Port::reserve(), asked: Arc::default() };
        agent.listen(answer);
        agent
    }

    /// One that is not there yet.
    pub(crate) fn later() -> Self {
        Self { port: Port::reserve(), asked: Arc::default() }
    }

    /// Begins to answer.
    pub(crate) fn listen(&self, mut answer: impl FnMut(&str, usize) -> Say + Send + 'static) {
        let listener = TcpListener::bind(self.port.address()).unwrap();
        let asked = Arc::clone(&self.asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(first)) = lines.next() else { continue };
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let path = first.split(' ').nth(1).unwrap().to_owned();
                let mut asked = asked.lock().unwrap();
                let say = answer(&path, asked.len());
                asked.push(path);
                drop(asked);
                let (status, body) = match say {
                    Say::Text(text) => (200, text),
                    Say::Status(status) => (status, String::new()),
                    Say::Nothing => continue,
                };
                let head =
                    format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}
