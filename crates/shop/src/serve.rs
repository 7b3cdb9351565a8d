//! A running shop: listens, answers, and stops in good order.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::database::AnyShop;
use crate::settings::Settings;
use crate::webhook::Signer;

/// How long requests that run may take to end when the shop stops.
const GRACE: Duration = Duration::from_secs(10);

/// A shop that answers at an address until it is stopped.
pub struct Running {
    addr: SocketAddr,
    shop: Arc<AnyShop>,
    signer: Arc<Signer>,
    stop: watch::Sender<bool>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// Opens the database and begins to listen. A port of 0 takes a free one.
    pub async fn start(settings: &Settings) -> Result<Self> {
        let signer = Arc::new(signer(settings)?);
        let shop = Arc::new(AnyShop::open(settings).await?);
        // What a crash kept from being done is done before anyone asks for it.
        shop.settle().await.context("cannot make the orders of flash-sale grants that have none")?;
        let listener =
            TcpListener::bind(settings.addr).await.with_context(|| format!("cannot listen on {}", settings.addr))?;
        let addr = listener.local_addr()?;
        let (stop, mut stopped) = watch::channel(false);
        let router = shop.router(signer.clone());
        let task = tokio::spawn(async move {
            let stopping = async move {
                // An error means that the sender is gone, which is a stop as well.
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            axum::serve(listener, router).with_graceful_shutdown(stopping).await
        });
        Ok(Self { addr, shop, signer, stop, task })
    }

    /// Where it answers.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The shop behind the API.
    pub fn shop(&self) -> &Arc<AnyShop> {
        &self.shop
    }

    /// Knows the secret of its webhooks.
    pub fn signer(&self) -> Arc<Signer> {
        self.signer.clone()
    }

    /// Takes no new requests, finishes those that run, and closes the database.
    pub async fn stop(self) -> Result<()> {
        self.stop.send_replace(true);
        let mut task = self.task;
        match tokio::time::timeout(GRACE, &mut task).await {
            Ok(done) => done??,
            // A client that does not read its answer or never ends its request must not keep the shop from stopping.
            Err(_) => task.abort(),
        }
        self.shop.close().await;
        Ok(())
    }
}

/// Serves until it is interrupted or told to end.
pub async fn run(settings: &Settings) -> Result<()> {
    // Before anything is said: whoever reads that the shop listens may tell it to end.
    let interrupted = interrupted()?;
    let running = Running::start(settings).await?;
    let stats = running.shop().stats();
    let place = crate::database::Database::of(settings)?.place();
    crate::say!("shop listens on http://{}", running.addr());
    crate::say!("  locks as:  {}", stats.way);
    crate::say!("  engine:    {}", stats.engine);
    crate::say!("  data:      {place}");
    if settings.webhook_secret.is_none() {
        crate::say!("  webhooks:  signed with the secret in {}", secret_file(&settings.data).display());
    }
    interrupted.await;
    crate::say!("shop stops: requests that run are finished");
    running.stop().await
}

/// Listens for Ctrl-C and SIGTERM from now on; the future resolves at the first of either.
pub fn interrupted() -> Result<impl Future<Output = ()>> {
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
    })
}

/// The secret of the webhooks: as given, or the one that is kept in the data directory, made at first start.
pub fn signer(settings: &Settings) -> Result<Signer> {
    let secret = match &settings.webhook_secret {
        Some(given) => given.clone(),
        None => kept_secret(&settings.data)?,
    };
    Signer::new(&secret).context("--webhook-secret: is not base64 (with `whsec_` before it, or not)")
}

fn secret_file(data: &Path) -> std::path::PathBuf {
    data.join("webhook-secret")
}

fn kept_secret(data: &Path) -> Result<String> {
    let file = secret_file(data);
    match std::fs::read_to_string(&file) {
        Ok(kept) => return Ok(kept.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
    std::fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
    let secret = new_secret();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut kept = options.open(&file).with_context(|| format!("cannot write {}", file.display()))?;
    writeln!(kept, "{secret}")?;
    Ok(secret)
}

/// 30 random bytes as 40 characters of base64, which need no padding.
pub fn new_secret() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let random = (0..40).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
    format!("whsec_{}", random.collect::<String>())
}
