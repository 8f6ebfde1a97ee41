//! `serve --demo`: a whole broker to look at, with nothing installed and
//! nothing at stake. The real host with the real plugins, in a folder of its
//! own that goes when it ends, between stand-in upstreams on loopback. What
//! the demo does to the host, it does as an operator and as a box would.

mod anthropic;
mod echo;
mod folder;
mod setup;
mod show;
mod under_suite;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};
use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::app::{self, Running, ServeOptions};
use crate::cli::Global;
use crate::config::Config;
use crate::telemetry;

pub(crate) use under_suite::{UnderSuite, run as run_under_suite};

use folder::Folder;
use show::Screen;

/// Runs the demo until `shutdown`. Of a configuration that `--config` names
/// it takes the address alone.
///
/// # Errors
/// When the plugins cannot be built, or the host does not start.
pub(crate) async fn run(global: &Global, shutdown: CancellationToken) -> Result<()> {
    let screen = Screen::new(global.json);
    let wanted = match &global.config {
        Some(file) => Config::load(Some(file))?.listen,
        None => Config::defaults(std::path::Path::new("/"))?.listen,
    };
    let components = build(&screen, &shutdown).await?;
    if shutdown.is_cancelled() {
        return Ok(());
    }
    let folder = Folder::make()?;
    let anthropic = anthropic::start(shutdown.clone()).await?;
    let echo = echo::start(shutdown.clone()).await?;
    let config = folder::demo_config(free_address(wanted, &screen), anthropic);
    folder.fill(&config, &components)?;
    let config = Config::load(Some(&folder.config_file()))?;
    telemetry::start(config.log)?;

    let (tell, told) = oneshot::channel();
    let ready = move |running: &Running| {
        // The receiver is gone only when the demo has failed already.
        let _gone = tell.send(running.listen);
    };
    let options = ServeOptions {
        approve_plugins: true,
        vault_key: None,
    };
    let host = std::pin::pin!(app::serve(config.clone(), options, shutdown.clone(), ready));
    let guide = std::pin::pin!(async {
        let Ok(listen) = told.await else {
            return Ok(());
        };
        let ready = setup::prepare(&config, listen, echo).await?;
        screen.guide(&config, listen, &ready, &folder.config_file())
    });
    match select(host, guide).await {
        Either::Left((ended, _guide)) => ended,
        Either::Right((guided, host)) => {
            if guided.is_err() {
                shutdown.cancel();
            }
            let ended = host.await;
            guided.and(ended)
        }
    }
}

/// Builds off the runtime's threads, so that a signal is still heard.
async fn build(screen: &Screen, shutdown: &CancellationToken) -> Result<Vec<std::path::PathBuf>> {
    screen.say("building the plugins (minutes the first time, seconds afterwards)");
    let progress = screen.clone();
    let build =
        tokio::task::spawn_blocking(move || folder::build_plugins(&|line| progress.say(line)));
    tokio::select! {
        built = build => built.context("the build did not end")?,
        () = shutdown.cancelled() => Ok(Vec::new()),
    }
}

/// The address that was asked for, or another port when somebody has it.
fn free_address(wanted: SocketAddr, screen: &Screen) -> SocketAddr {
    match TcpListener::bind(wanted) {
        Err(cause) if cause.kind() == std::io::ErrorKind::AddrInUse => {
            screen.say(&format!(
                "{wanted} is taken, so the demo picks another port"
            ));
            SocketAddr::new(wanted.ip(), 0)
        }
        // Any other error is the host's to report.
        Ok(_) | Err(_) => wanted,
    }
}

/// Serves a stand-in upstream on a loopback port of its own.
async fn stand_in(router: axum::Router, shutdown: CancellationToken) -> Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("a stand-in upstream found no port")?;
    let address = listener
        .local_addr()
        .context("a stand-in upstream has no address")?;
    tokio::spawn(async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await;
        if let Err(cause) = served {
            tracing::error!(%cause, "a stand-in upstream failed");
        }
    });
    Ok(address)
}
