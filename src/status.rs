//! The status server: `/live`, `/ready`, `/metrics`, `/status`.

use std::fmt::Write;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::bridge::{FlowView, View};

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
        .route("/status", get(status))
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

/// What `/ready` and the main metrics say, as one JSON document, described in `docs/OPERATIONS.md`.
async fn status(State(view): State<View>) -> impl IntoResponse {
    let body = document(&view).to_string() + "\n";
    ([(header::CONTENT_TYPE, "application/json")], body)
}

fn document(view: &View) -> Value {
    let troubles = view.health.troubles();
    let troubles = troubles.into_iter().map(|(subject, reason)| json!({ "subject": subject, "reason": reason }));
    let troubles: Vec<Value> = troubles.collect();
    let flows: Vec<Value> = view.flows.iter().map(flow).collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "ready": troubles.is_empty(), "troubles": troubles, "flows": flows })
}

fn flow(FlowView { name, protocol, metrics }: &FlowView) -> Value {
    let known = |gauge: i64| Some(gauge).filter(|value| *value >= 0);
    json!({
        "flow": name,
        "protocol": protocol.word(),
        "records": metrics.sent(),
        "bytes": metrics.bytes_sent.get(),
        "transactions": metrics.ended("committed").get(),
        "redelivered": metrics.lanes.sum(|topic| topic.redelivered.get()),
        "held": metrics.held.get(),
        "backlog": known(metrics.backlog.get()),
        "delay_seconds": known(metrics.delay.get()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::config::Protocol;
    use crate::health::Health;
    use crate::metrics::FlowMetrics;

    #[test]
    fn the_document_says_what_is_wrong_and_what_is_unknown() {
        let (health, metrics) = (Health::default(), FlowMetrics::default());
        health.trouble("f/target", "no answer");
        metrics.lane(0, Protocol::Consumer).topic("t").sent.record(7);
        metrics.backlog.set(-1);
        metrics.delay.set(3);
        let registry = Arc::new(Mutex::new(crate::metrics::registry()));
        let flow = FlowView { name: "f".to_owned(), protocol: Protocol::Consumer, metrics };
        let said = document(&View { health, registry, flows: vec![flow] });
        assert_eq!(said["ready"], false);
        assert_eq!(said["troubles"][0], json!({ "subject": "f/target", "reason": "no answer" }));
        let flow = &said["flows"][0];
        assert_eq!((&flow["flow"], &flow["records"], &flow["delay_seconds"]), (&json!("f"), &json!(7), &json!(3)));
        assert_eq!((&flow["protocol"], &flow["backlog"]), (&json!("consumer"), &Value::Null));
    }
}
