//! HTTP server: limits on the number of connections, on times and on the size of requests.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Largest number of connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// Longest time until the head of a request must arrive; idle connections are closed after it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const MAX_HEADER_SIZE: usize = 16 * 1024;
/// Pause after the system could not accept a connection.
const ACCEPT_RETRY_TIME: Duration = Duration::from_millis(100);

/// Accepts and answers connections, without end.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = permits.clone().acquire_owned().await.expect("it is never closed");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_TIME).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(MAX_HEADER_SIZE);
            // Errors of a connection are ignored: the client broke off, or does not speak HTTP.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}
