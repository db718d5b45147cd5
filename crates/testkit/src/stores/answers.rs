//! One request to a server, over a connection of its own: for setting up and for looking behind the scenes.

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use crate::http::Connection;

const DEADLINE: Duration = Duration::from_secs(60);

/// What a server answered.
#[derive(Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// Asks `address`; an error is that of the connection.
    pub fn of(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<HttpAnswer> {
        let mut connection = Connection::open(address, DEADLINE)?;
        let mut answer = connection.send(method, path, headers, body)?;
        let mut read = Vec::new();
        answer.body.read_to_end(&mut read)?;
        Ok(HttpAnswer { status: answer.status, headers: answer.headers, body: read })
    }

    /// The first header called `name`, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Itself, if the request was carried out.
    ///
    /// # Panics
    /// If not, with what the server said.
    pub fn done(self, what: &str) -> HttpAnswer {
        assert!((200..300).contains(&self.status), "{what}: {} {}", self.status, self.text());
        self
    }
}
