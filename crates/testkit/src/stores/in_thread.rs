//! A server of ours, in a thread with a runtime of its own, so that any test can use it, with a runtime or without.

use std::future::Future;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::ports::Port;

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct InThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl InThread {
    /// Listens at `address`, and then runs what `serve` makes of the listener.
    pub(crate) fn listen<S, F>(address: SocketAddr, serve: S) -> InThread
    where
        S: FnOnce(TcpListener) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        // Bound here, so that it can be connected to as soon as this returns.
        let listener = std::net::TcpListener::bind(address).expect("the port is ours");
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener) => {}
                    _ = stopped => {}
                }
            });
        });
        InThread { stop: Some(stop), thread: Some(thread) }
    }

    /// Serves `router` on `port`.
    pub(crate) fn serve(port: &Port, router: Router) -> InThread {
        Self::listen(port.address(), async move |listener| axum::serve(listener, router).await.expect("serving"))
    }
}

impl Drop for InThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of its own has been printed already.
            let _ = thread.join();
        }
    }
}
