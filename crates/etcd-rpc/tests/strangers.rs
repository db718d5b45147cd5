//! Whatever answers at a port, or does not: the call ends, and says what it met.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::time::Duration;

use etcd_rpc::{Access, Deadlines, Fault, Member, Tls, Verify};
use testkit::Port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::Server;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(60);

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// What comes of asking for the status at `url`.
async fn fault_at(url: &str, deadlines: Deadlines) -> Fault {
    let tls = Some(Tls { verify: Verify::Nothing, ..Tls::default() });
    let member = Member::new(url.parse().unwrap(), &Access { tls, login: None, deadlines });
    member.status().await.unwrap_err().fault
}

#[tokio::test]
async fn who_does_not_speak_http_2_is_not_etcd() {
    for greeting in
        ["HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "220 mail ESMTP\r\n"]
    {
        let (listener, address) = listen().await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 16];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(greeting.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        let fault = fault_at(&format!("http://{address}"), Deadlines::default()).await;
        let Fault::NotEtcd { why } = fault else { panic!("{greeting}: {fault:?}") };
        assert!(why.contains(&greeting[..6]), "{why}");
    }
}

#[tokio::test]
async fn another_server_of_grpc_is_not_etcd() {
    let (listener, address) = listen().await;
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    tokio::spawn(Server::builder().add_routes(Routes::default()).serve_with_incoming(incoming));
    let fault = fault_at(&format!("http://{address}"), Deadlines::default()).await;
    assert!(matches!(fault, Fault::NotEtcd { .. }), "{fault:?}");
}

#[tokio::test]
async fn where_nobody_listens_nobody_is_reached() {
    let port = Port::reserve();
    let fault = fault_at(&port.url(), Deadlines::default()).await;
    let Fault::Unreachable { why } = fault else { panic!("{fault:?}") };
    assert!(why.contains("refused"), "{why}");
    let fault = fault_at("http://no-such-host.invalid:1", Deadlines::default()).await;
    assert!(matches!(fault, Fault::Unreachable { .. }), "{fault:?}");
}

#[tokio::test]
async fn who_hangs_up_is_not_reached() {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
        }
    });
    let fault = fault_at(&format!("http://{address}"), Deadlines::default()).await;
    assert!(matches!(fault, Fault::Unreachable { .. }), "{fault:?}");
}

#[tokio::test]
async fn where_nothing_ever_comes_back_the_deadline_ends_it() {
    let (_listener, address) = listen().await;
    let deadlines = Deadlines { connect: LONG, answer: SHORT, ..Deadlines::default() };
    assert_eq!(fault_at(&format!("http://{address}"), deadlines).await, Fault::Deadline { after: SHORT });
    // Here the connection itself waits for the other side.
    let deadlines = Deadlines { connect: SHORT, answer: LONG, ..Deadlines::default() };
    assert_eq!(fault_at(&format!("https://{address}"), deadlines).await, Fault::Deadline { after: SHORT });
}
