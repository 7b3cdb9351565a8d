//! A bad network: a TCP proxy on loopback in front of a server, which delays what it forwards and cuts connections at a
//! chosen point.
//!
//! Protocol: every connection to the proxy has one of its own to the server. Bytes are forwarded as they come; with a
//! delay, each piece is queued with its due time, so that any number of pieces are under way at once, as on a real line.
//!
//! A cut is armed with a pattern and happens once, in the first connection whose client sends the pattern (in any case):
//!
//! ```text
//! Lost::Request   client --COMMIT-->x            server     it never saw the COMMIT
//! Lost::Answer    client --COMMIT--> proxy -----> server     it committed;
//!                 client            x<----- ok -- server     the client does not learn of it
//! ```
//!
//! tokio's timers have a grain of 1 ms. A thread that sleeps until each due time is right to some 0.1 ms; all pieces are
//! delayed alike, so they are due in the order in which they came, and one queue serves all connections.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// What gets lost in a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The client's bytes: the server never sees them.
    Request,
    /// The server's answer to them: the server did what they ask.
    Answer,
}

/// A proxy in front of one server. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: String,
    timer: Option<Timer>,
    armed: Mutex<Option<Cut>>,
    /// How many armed cuts have happened.
    cuts: watch::Sender<usize>,
    /// Counts the calls of `cut_all`: each connection watches for the next.
    cut_all: watch::Sender<usize>,
}

#[derive(Debug)]
struct Cut {
    pattern: Vec<u8>,
    lost: Lost,
}

impl Proxy {
    /// A proxy to the server of `url` that forwards at once.
    pub async fn to(url: &str) -> Result<Proxy> {
        Proxy::start(url, None).await
    }

    /// A proxy that holds back every piece for `each_way`, so that a round trip takes twice as long.
    pub async fn delayed(url: &str, each_way: Duration) -> Result<Proxy> {
        Proxy::start(url, Some(Timer::start(each_way)?)).await
    }

    async fn start(url: &str, timer: Option<Timer>) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for the proxy")?;
        let (target, url) = redirect(url, listener.local_addr()?)?;
        let (cuts, cut_all) = (watch::Sender::new(0), watch::Sender::new(0));
        let shared = Arc::new(Shared { target, timer, armed: Mutex::default(), cuts, cut_all });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Proxy { url, shared, accepting })
    }

    /// The server's URL, through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Arms a cut at the next request that contains `pattern`, in upper or lower case. An earlier one that has not
    /// happened is forgotten.
    pub fn cut_at(&self, pattern: &str, lost: Lost) {
        *self.shared.armed() = Some(Cut { pattern: pattern.to_ascii_lowercase().into_bytes(), lost });
    }

    /// How many armed cuts have happened.
    pub fn cuts(&self) -> usize {
        *self.shared.cuts.borrow()
    }

    /// Awaits the moment when `cuts` armed cuts have happened.
    pub async fn until_cut(&self, cuts: usize) {
        // The sender lives as long as `self`, so the wait can only end well.
        let _ = self.shared.cuts.subscribe().wait_for(|&done| done >= cuts).await;
    }

    /// Cuts every open connection now; new ones are accepted.
    pub fn cut_all(&self) {
        self.shared.cut_all.send_modify(|count| *count += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut_all();
    }
}

/// The address in a URL, and the URL with another address.
fn redirect(url: &str, proxy: SocketAddr) -> Result<(String, String)> {
    let rest = url.find("://").map(|at| at + 3).with_context(|| format!("`{url}` is no URL"))?;
    let end = url[rest..].find(['/', '?']).map_or(url.len(), |at| rest + at);
    let start = url[rest..end].rfind('@').map_or(rest, |at| rest + at + 1);
    Ok((url[start..end].to_owned(), format!("{}{proxy}{}", &url[..start], &url[end..])))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        // Subscribed here, so that a `cut_all` right after the accept is not missed.
        let cut_all = shared.cut_all.subscribe();
        let shared = Arc::clone(&shared);
        // An error of one connection is the end of that connection: that is how a network fails.
        tokio::spawn(async move { serve(client, shared, cut_all).await.ok() });
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>, mut cut_all: watch::Receiver<usize>) -> io::Result<()> {
    let server = TcpStream::connect(&shared.target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (swallow, swallowing) = watch::channel(false);
    let up = forward(from_client, to_server, &shared, Watcher::Client { logged_in: false, tail: Vec::new(), swallow });
    let down = forward(from_server, to_client, &shared, Watcher::Server { swallowing });
    // Whichever ends first takes the other with it: both sockets close.
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
        _ = cut_all.changed() => Ok(()),
    }
}

/// Forwards one direction to its end; what was read is written out, unless it is cut.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    mut watcher: Watcher,
) -> io::Result<()> {
    let (queue, mut due) = mpsc::unbounded_channel::<(oneshot::Receiver<()>, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            let piece = &buffer[..length];
            if watcher.cuts(piece, shared) {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
            }
            let (tell, told) = oneshot::channel();
            match &shared.timer {
                Some(timer) => timer.tell(tell),
                None => drop(tell.send(())),
            }
            if queue.send((told, piece.to_vec())).is_err() {
                return Ok(());
            }
        }
    };
    let write = async {
        while let Some((told, piece)) = due.recv().await {
            // The timer ends only with the proxy; then there is nothing to wait for.
            let _ = told.await;
            to.write_all(&piece).await?;
        }
        Ok(())
    };
    tokio::try_join!(read, write).map(|((), ())| ())
}

/// Looks for the armed pattern in one direction.
enum Watcher {
    Client {
        /// The first piece is the login, which holds the database's name: a test called `lost_commit` would find itself.
        logged_in: bool,
        /// The end of what was sent before, in lower case: a pattern may come in two pieces.
        tail: Vec<u8>,
        swallow: watch::Sender<bool>,
    },
    Server {
        swallowing: watch::Receiver<bool>,
    },
}

impl Watcher {
    /// Whether the connection is to be cut before `piece` is forwarded.
    fn cuts(&mut self, piece: &[u8], shared: &Shared) -> bool {
        let cut = match self {
            Watcher::Client { logged_in, .. } if !*logged_in => {
                *logged_in = true;
                false
            }
            Watcher::Client { tail, swallow, .. } => {
                tail.extend(piece.iter().map(u8::to_ascii_lowercase));
                let lost = shared.take_if(|pattern| tail.windows(pattern.len()).any(|window| window == pattern));
                let keep = tail.len().saturating_sub(shared.pattern_length().saturating_sub(1));
                tail.drain(..keep);
                if lost == Some(Lost::Answer) {
                    swallow.send_replace(true);
                }
                lost == Some(Lost::Request)
            }
            Watcher::Server { swallowing } => *swallowing.borrow(),
        };
        if cut {
            shared.cuts.send_modify(|count| *count += 1);
        }
        cut
    }
}

impl Shared {
    fn armed(&self) -> MutexGuard<'_, Option<Cut>> {
        // Nothing panics while it holds the lock; and an Option is whole in any case.
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_if(&self, found: impl Fn(&[u8]) -> bool) -> Option<Lost> {
        self.armed().take_if(|cut| found(&cut.pattern)).map(|cut| cut.lost)
    }

    fn pattern_length(&self) -> usize {
        self.armed().as_ref().map_or(0, |cut| cut.pattern.len())
    }
}

/// A thread that tells when each piece is due.
#[derive(Debug)]
struct Timer {
    delay: Duration,
    queue: std::sync::mpsc::Sender<(Instant, oneshot::Sender<()>)>,
}

impl Timer {
    fn start(delay: Duration) -> Result<Timer> {
        let (queue, pieces) = std::sync::mpsc::channel::<(Instant, oneshot::Sender<()>)>();
        let work = move || {
            for (due, tell) in pieces {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                // The connection may have ended meanwhile.
                let _ = tell.send(());
            }
        };
        std::thread::Builder::new().name("proxy-timer".to_owned()).spawn(work).context("start the proxy's timer")?;
        Ok(Timer { delay, queue })
    }

    fn tell(&self, tell: oneshot::Sender<()>) {
        // The thread lives as long as this sender.
        let _ = self.queue.send((Instant::now() + self.delay, tell));
    }
}

#[cfg(test)]
mod tests {
    use super::redirect;

    #[test]
    fn only_the_address_of_a_url_changes() {
        let proxy = ([127, 0, 0, 1], 5).into();
        let cases = [
            ("postgres://me@db:1/x", "db:1", "postgres://me@127.0.0.1:5/x"),
            ("mysql://root:p%40@db:1?a=b/c", "db:1", "mysql://root:p%40@127.0.0.1:5?a=b/c"),
            ("postgres://db:1", "db:1", "postgres://127.0.0.1:5"),
        ];
        for (url, address, through) in cases {
            assert_eq!(redirect(url, proxy).unwrap(), (address.to_owned(), through.to_owned()));
        }
        assert!(redirect("db:1", proxy).is_err());
    }
}
