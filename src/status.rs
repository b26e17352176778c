//! The status server: `/live`, `/ready`, `/metrics`.

use std::fmt::Write;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::bridge::View;

/// Media type of the metrics. Source: OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Binds the address, so that a taken one is an error before anything else starts.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, view: View) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/live", get(|| async { "live\n" }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(view);
    axum::serve(listener, routes).await
}

/// 200 where nothing is wrong; otherwise 503 and a line for each trouble.
async fn ready(State(view): State<View>) -> impl IntoResponse {
    let troubles = view.health.troubles();
    if troubles.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let body = troubles.iter().fold(String::new(), |mut body, (subject, reason)| {
        // Writing to a string cannot fail.
        let _ = writeln!(body, "{subject}: {reason}");
        body
    });
    (StatusCode::SERVICE_UNAVAILABLE, body)
}

async fn metrics(State(view): State<View>) -> impl IntoResponse {
    let mut body = String::new();
    let registry = view.registry.lock().expect("no code panics while it holds this lock");
    match prometheus_client::encoding::text::encode(&mut body, &registry) {
        Ok(()) => (StatusCode::OK, [(header::CONTENT_TYPE, OPEN_METRICS)], body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], format!("{error}\n")),
    }
}
