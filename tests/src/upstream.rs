//! The other side of the host: upstreams that count connections, record each
//! request byte for byte, and answer by themselves or under the test's hand.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::soon;
use crate::tap::Taps;
use crate::wire::{Fields, Framing, Transport, Wire, framing_of};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The target, byte for byte.
    pub target: String,
    /// The header lines, in order.
    pub fields: Fields,
    /// The body; empty while the test reads it itself.
    pub body: Bytes,
    /// Which connection it came on, counted from 1.
    pub connection: usize,
}

/// What an upstream answers by itself.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A whole answer.
    Message {
        /// The status.
        status: u16,
        /// The header lines.
        fields: Vec<(String, Vec<u8>)>,
        /// The body.
        body: Bytes,
    },
    /// These bytes as they are, and then the connection's end.
    Raw(Vec<u8>),
    /// No answer: the connection is reset.
    Reset,
}

impl Reply {
    /// An answer without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Message {
            status,
            fields: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// A JSON answer.
    #[must_use]
    pub fn json(status: u16, value: &Value) -> Self {
        Self::status(status)
            .header("content-type", "application/json")
            .body(value.to_string())
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if let Self::Message { fields, .. } = &mut self {
            fields.push((name.to_owned(), value.as_ref().to_vec()));
        }
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Self::Message { body, .. } = &mut self {
            *body = bytes.into();
        }
        self
    }
}

/// What a stand-in says to a request.
pub type StandIn = fn(&Received) -> Reply;

pub(crate) struct Shared {
    connections: AtomicUsize,
    manual: AtomicBool,
    requests: Mutex<Vec<Received>>,
    replies: Mutex<VecDeque<Reply>>,
    changed: Notify,
    stand_in: StandIn,
    exchanges: mpsc::UnboundedSender<Exchange>,
    pub(crate) taps: Taps,
}

impl Shared {
    /// Counts a connection and gives its number.
    pub(crate) fn connected(&self) -> usize {
        let number = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.notify_waiters();
        number
    }

    /// Records a whole request and says what to answer.
    pub(crate) fn answer(&self, received: Received) -> Reply {
        let scripted = lock(&self.replies).pop_front();
        let reply = scripted.unwrap_or_else(|| (self.stand_in)(&received));
        self.record(received);
        reply
    }

    fn record(&self, received: Received) {
        lock(&self.requests).push(received);
        self.changed.notify_waiters();
    }
}

/// An upstream on a loopback port.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    exchanges: tokio::sync::Mutex<mpsc::UnboundedReceiver<Exchange>>,
    task: JoinHandle<()>,
}

/// How an upstream takes connections.
pub enum Speaks {
    /// HTTP/1.1 over TCP.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls(TlsAcceptor),
    /// HTTP/2 over TLS.
    H2(TlsAcceptor),
}

impl Upstream {
    /// Starts one.
    ///
    /// # Panics
    /// When no port can be bound.
    pub async fn start(stand_in: StandIn, speaks: Speaks, taps: Taps) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            connections: AtomicUsize::new(0),
            manual: AtomicBool::new(false),
            requests: Mutex::default(),
            replies: Mutex::default(),
            changed: Notify::new(),
            stand_in,
            exchanges: sender,
            taps,
        });
        let scheme = match &speaks {
            Speaks::Plain => "http",
            Speaks::Tls(_) | Speaks::H2(_) => "https",
        };
        let task = tokio::spawn(accept(listener, speaks, Arc::clone(&shared)));
        Self {
            address,
            scheme,
            shared,
            exchanges: tokio::sync::Mutex::new(receiver),
            task,
        }
    }

    /// Its origin.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// How many connections were opened to it.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// What it received so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.shared.requests).clone()
    }

    /// The last request it received.
    ///
    /// # Panics
    /// When it received none.
    #[must_use]
    pub fn last(&self) -> Received {
        self.requests()
            .pop()
            .expect("the upstream received a request")
    }

    /// Resolves when it has received this many requests.
    pub async fn received(&self, count: usize) {
        soon("the upstream receives a request", async {
            loop {
                let changed = self.shared.changed.notified();
                if lock(&self.shared.requests).len() >= count {
                    return;
                }
                changed.await;
            }
        })
        .await;
    }

    /// Answers the next request that is not in the test's hand with this.
    pub fn reply(&self, reply: Reply) {
        lock(&self.shared.replies).push_back(reply);
    }

    /// From now on each request is handed to the test.
    pub fn take_over(&self) {
        self.shared.manual.store(true, Ordering::SeqCst);
    }

    /// From now on the stand-in answers again.
    pub fn let_go(&self) {
        self.shared.manual.store(false, Ordering::SeqCst);
    }

    /// The next request that is in the test's hand.
    pub async fn next(&self) -> Exchange {
        let mut exchanges = self.exchanges.lock().await;
        soon("a request reaches the upstream", exchanges.recv())
            .await
            .expect("the upstream runs")
    }

    /// Ends it: nobody listens there any more.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request in the test's hand: its head has been read, nothing of its body,
/// and nothing has been answered.
pub struct Exchange {
    /// The request's head.
    pub received: Received,
    wire: Wire,
    shared: Arc<Shared>,
}

impl Exchange {
    /// The next bytes of the request's body; none at its end.
    ///
    /// # Errors
    /// When it breaks off.
    pub async fn part(&mut self) -> io::Result<Option<Bytes>> {
        soon("more of the request", self.wire.part()).await
    }

    /// The rest of the request's body.
    ///
    /// # Errors
    /// When it breaks off.
    pub async fn body(&mut self) -> io::Result<Bytes> {
        soon("the rest of the request", self.wire.body()).await
    }

    /// Exactly this many bytes of the request's body.
    ///
    /// # Errors
    /// When it ends or breaks off before.
    pub async fn body_bytes(&mut self, count: usize) -> io::Result<Bytes> {
        soon("more of the request", self.wire.body_bytes(count)).await
    }

    /// The trailers of the request's body, once that has ended.
    #[must_use]
    pub fn trailers(&self) -> &Fields {
        self.wire.trailers()
    }

    /// Answers these bytes as they are.
    ///
    /// # Errors
    /// When the host is gone.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        soon("the bytes are taken", self.wire.send(bytes.as_ref())).await
    }

    /// Answers one chunk; an empty one ends the body.
    ///
    /// # Errors
    /// When the host is gone.
    pub async fn send_chunk(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        soon("the chunk is taken", self.wire.send_chunk(bytes.as_ref())).await
    }

    /// Answers until the host takes no more, and says how many bytes it took.
    /// It stops at `most`, or when `stop` resolves.
    pub async fn flood(&mut self, most: usize, stop: impl Future<Output = ()>) -> usize {
        let block = vec![b'x'; 64 * 1024];
        let mut taken = 0;
        tokio::pin!(stop);
        while taken < most {
            tokio::select! {
                sent = self.wire.send_chunk(&block) => match sent {
                    Ok(()) => taken += block.len(),
                    Err(_) => break,
                },
                () = &mut stop => break,
            }
        }
        taken
    }

    /// Begins a streamed answer: server-sent events in chunks.
    ///
    /// # Errors
    /// When the host is gone.
    pub async fn begin_events(&mut self) -> io::Result<()> {
        self.send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await
    }

    /// Resolves when the host has left.
    pub async fn gone(&mut self) {
        self.wire.gone().await;
    }

    /// Breaks the connection with a reset.
    pub fn reset(self) {
        self.wire.reset();
    }

    /// Gives the connection back to the stand-in for the next request.
    pub fn keep_alive(self) {
        let Self {
            received,
            wire,
            shared,
        } = self;
        tokio::spawn(serve(wire, received.connection, shared));
    }
}

async fn accept(listener: TcpListener, speaks: Speaks, shared: Arc<Shared>) {
    let speaks = Arc::new(speaks);
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.connected();
        let _ = stream.set_nodelay(true);
        let (speaks, shared) = (Arc::clone(&speaks), Arc::clone(&shared));
        tokio::spawn(async move {
            match &*speaks {
                Speaks::Plain => {
                    let wire = Wire::new(Transport::Plain(stream), shared.taps.open());
                    serve(wire, number, shared).await;
                }
                Speaks::Tls(acceptor) => {
                    if let Some(stream) = shake_hands(acceptor, stream).await {
                        let transport = Transport::Tls(Box::new(stream));
                        serve(Wire::new(transport, shared.taps.open()), number, shared).await;
                    }
                }
                Speaks::H2(acceptor) => {
                    if let Some(stream) = shake_hands(acceptor, stream).await {
                        crate::h2::serve(stream, number, shared).await;
                    }
                }
            }
        });
    }
}

async fn shake_hands(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    acceptor.accept(stream).await.ok().map(TlsStream::Server)
}

async fn serve(mut wire: Wire, connection: usize, shared: Arc<Shared>) {
    while let Ok(Some(head)) = wire.head().await {
        let mut words = head.start.split(' ');
        let mut received = Received {
            method: words.next().unwrap_or("").to_owned(),
            target: words.next().unwrap_or("").to_owned(),
            fields: head.fields,
            body: Bytes::new(),
            connection,
        };
        wire.expect_body(framing_of(&received.fields, Framing::Done));
        if shared.manual.load(Ordering::SeqCst) {
            shared.record(received.clone());
            let exchange = Exchange {
                received,
                wire,
                shared: Arc::clone(&shared),
            };
            let _ = shared.exchanges.send(exchange);
            return;
        }
        let Ok(body) = wire.body().await else { return };
        received.body = body;
        let bodiless = received.method == "HEAD";
        match shared.answer(received) {
            Reply::Message {
                status,
                fields,
                body,
            } => {
                let bytes = message(status, &fields, &body, bodiless);
                if wire.send(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Raw(bytes) => {
                let _ = wire.send(&bytes).await;
                let _ = wire.end().await;
                return;
            }
            Reply::Reset => return wire.reset(),
        }
    }
}

fn message(status: u16, fields: &[(String, Vec<u8>)], body: &[u8], bodiless: bool) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} Said\r\n").into_bytes();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    if status >= 200 && status != 204 && status != 304 {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    if !bodiless {
        bytes.extend_from_slice(body);
    }
    bytes
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
