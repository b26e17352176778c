//! `sharebridge run`: copies until told to stop.

use std::io::ErrorKind;

use tokio::signal::unix::{SignalKind, signal};

use super::{ConfigFile, fail};
use crate::bridge::order::Order;
use crate::bridge::{Bridge, Farewell, Refusal};
use crate::config::{Config, FlowConfig};
use crate::error::Exit;
use crate::source::group::Group;
use crate::source::share::group::GroupError;
use crate::{status, telemetry};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// Which file
    #[command(flatten)]
    pub config: ConfigFile,
}

impl Run {
    /// Runs all flows of the file until SIGTERM or SIGINT, then drains.
    pub fn run(&self) -> Exit {
        let config = match self.config.load() {
            Ok((_, config)) => config,
            Err(exit) => return exit,
        };
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
            eprintln!("error: status.address {address}: {error}; choose another one in [bridge]");
            return if error.kind() == ErrorKind::AddrInUse { Exit::TryAgain } else { Exit::Config };
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
        Err(refused) => {
            eprintln!("error: {refused}");
            exit(&refused)
        }
    }
}

fn exit(refused: &Refusal) -> Exit {
    match refused {
        Refusal::Unfit(unfit) if unfit.is_misconfigured() => Exit::Config,
        Refusal::Group(GroupError::Clamped { .. }) | Refusal::Engine(_) => Exit::Config,
        _ => Exit::NotPermitted,
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
        "flow {}: {} from cluster {} ({}) to cluster {} ({}) as {}, at least once, through {} with {} lanes in this process; {}",
        flow.name,
        flow.topics,
        flow.source.name,
        flow.source.bootstrap.join(","),
        flow.sink.name,
        flow.sink.bootstrap.join(","),
        flow.topic_name,
        Group::of(flow, flow.protocol),
        flow.lanes,
        Order::of(flow),
    )
}
