//! The load: a number of connections, each of which says a request, reads the
//! whole answer, and says the next. It writes and reads bytes by itself, so
//! that what it costs is small and the same for every contender.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::target::Target;
use super::upstream::Answer;

/// Connections to one contender, kept open between rounds.
#[derive(Default)]
pub struct Load {
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    held: Vec<u8>,
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Taken {
    micros: Vec<f32>,
    sorted: bool,
    span: Duration,
}

impl Taken {
    /// Adds another round.
    pub fn add(&mut self, more: Self) {
        self.micros.extend(more.micros);
        self.span += more.span;
        self.sorted = false;
    }

    /// How many requests were answered.
    pub fn requests(&self) -> usize {
        self.micros.len()
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.requests() as f64 / self.span.as_secs_f64().max(f64::EPSILON)
    }

    /// How long this share of the requests took at most, in microseconds.
    pub fn percentile(&mut self, percent: f64) -> f32 {
        if !self.sorted {
            self.micros.sort_unstable_by(f32::total_cmp);
            self.sorted = true;
        }
        let last = self.micros.len().saturating_sub(1);
        let at = (last as f64 * percent / 100.0) as usize;
        self.micros.get(at).copied().unwrap_or_default()
    }
}

impl Load {
    /// Opens this many connections.
    pub async fn open(target: &Target, answer: Answer, connections: usize) -> Result<Self> {
        let mut opened = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(target.address).await?;
            stream.set_nodelay(true)?;
            opened.push(Connection {
                stream,
                request: target.request(answer),
                held: Vec::with_capacity(32 * 1024),
            });
        }
        Ok(Self {
            connections: opened,
        })
    }

    /// Keeps every connection busy for this long.
    pub async fn run(self, span: Duration) -> Result<(Self, Taken)> {
        let started = Instant::now();
        let running: Vec<_> = self
            .connections
            .into_iter()
            .map(|connection| tokio::spawn(connection.run(started, span)))
            .collect();
        let mut connections = Vec::new();
        let mut taken = Taken::default();
        for task in running {
            let (connection, micros) = task.await??;
            connections.push(connection);
            taken.micros.extend(micros);
        }
        taken.span = started.elapsed();
        Ok((Self { connections }, taken))
    }
}

impl Connection {
    async fn run(mut self, started: Instant, span: Duration) -> Result<(Self, Vec<f32>)> {
        let mut micros = Vec::new();
        while started.elapsed() < span {
            let asked = Instant::now();
            self.stream.write_all(&self.request).await?;
            self.answer().await?;
            micros.push(asked.elapsed().as_secs_f32() * 1e6);
        }
        Ok((self, micros))
    }

    /// Reads one whole answer and holds it to being a good one.
    async fn answer(&mut self) -> Result<()> {
        self.held.clear();
        let mut framing = None;
        loop {
            if self.stream.read_buf(&mut self.held).await? == 0 {
                bail!("the connection ended within an answer");
            }
            if framing.is_none() {
                framing = framing_of(&self.held)?;
            }
            let whole = match framing {
                Some(Framing::Length(whole)) => self.held.len() >= whole,
                Some(Framing::Chunked) => self.held.ends_with(b"\r\n0\r\n\r\n"),
                None => false,
            };
            if whole {
                return Ok(());
            }
        }
    }
}

enum Framing {
    /// Head and body together have this many bytes.
    Length(usize),
    Chunked,
}

fn framing_of(held: &[u8]) -> Result<Option<Framing>> {
    let Some(head) = held.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&held[..head])?;
    ensure!(text.starts_with("HTTP/1.1 200"), "not a 200: {text}");
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    Ok(Some(match length {
        Some((_, value)) => Framing::Length(head + 4 + value.trim().parse::<usize>()?),
        None => Framing::Chunked,
    }))
}
