//! `sharebridge run`: copies until told to stop.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};

use super::{fail, refuse};
use crate::bridge::{Bridge, Farewell, Refusal};
use crate::config::{Config, FlowConfig};
use crate::error::Exit;
use crate::flow;
use crate::source::share::group::GroupError;
use crate::{status, telemetry};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

impl Run {
    /// Runs all flows of the file until SIGTERM or SIGINT, then drains.
    pub fn run(&self) -> Exit {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(errors) => return refuse(&errors),
        };
        if let Err(errors) = flow::check(&self.config, &config) {
            return refuse(&errors);
        }
        config.flows.iter().for_each(|flow| println!("{}", plan(flow)));
        telemetry::start(&config.bridge);
        telemetry::end_on_panic();
        match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime.block_on(serve(config)),
            Err(error) => fail(format_args!("no runtime: {error}")),
        }
    }
}

async fn serve(config: Config) -> Exit {
    // Before anybody can see that we are alive, and ask us to end.
    let stop = match stop_signal() {
        Ok(stop) => stop,
        Err(error) => return fail(format_args!("no signal handlers: {error}")),
    };
    let address = config.bridge.status_address;
    let listener = match status::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            return fail(format_args!("status.address {address}: {error}; choose another one in [bridge]"));
        }
    };
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, "status server"),
        Err(error) => return fail(error),
    }
    let bridge = Bridge::new(config);
    tokio::spawn(status::serve(listener, bridge.view()));
    tokio::spawn(telemetry::live_line(bridge.view()));
    match bridge.run(stop).await {
        Ok(Farewell { released: 0 }) => {
            tracing::info!("drained: all that was acquired is finished");
            Exit::Ok
        }
        Ok(Farewell { released }) => {
            tracing::warn!(released, "records were left unfinished, and released for others");
            Exit::Ok
        }
        Err(refused @ (Refusal::Compacted(_) | Refusal::Group(GroupError::Clamped { .. }))) => {
            eprintln!("error: {refused}");
            Exit::Config
        }
        Err(refused) => {
            eprintln!("error: {refused}");
            Exit::NotPermitted
        }
    }
}

fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// One line that says what a flow will do.
fn plan(flow: &FlowConfig) -> String {
    format!(
        "flow {}: {} from cluster {} ({}) to cluster {} ({}), at least once, through share group {} with {} lanes in this process; \
         order within a partition is not kept",
        flow.name,
        flow.topics.join(", "),
        flow.source.name,
        flow.source.bootstrap.join(","),
        flow.sink.name,
        flow.sink.bootstrap.join(","),
        flow.group.id,
        flow.lanes,
    )
}
