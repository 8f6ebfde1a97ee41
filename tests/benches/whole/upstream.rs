//! The upstream of the measurement: it reads a request and writes an answer
//! that was made beforehand. It does nothing else, so that it costs little.

use std::io;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the upstream answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A JSON body of 1 KiB.
    OneKibibyte,
    /// A JSON body of 16 KiB.
    SixteenKibibytes,
    /// A stream of 32 events, written one by one.
    Events,
}

impl Answer {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OneKibibyte, Self::SixteenKibibytes, Self::Events];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneKibibyte => "1k",
            Self::SixteenKibibytes => "16k",
            Self::Events => "sse",
        }
    }

    /// The answer of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.name() == name)
    }

    /// The pieces that it is written in.
    fn pieces(self) -> Vec<Vec<u8>> {
        match self {
            Self::OneKibibyte => vec![json(1024)],
            Self::SixteenKibibytes => vec![json(16 * 1024)],
            Self::Events => events(),
        }
    }
}

fn json(size: usize) -> Vec<u8> {
    let frame = r#"{"type":"message","content":[{"type":"text","text":""}]}"#;
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(size / 40 + 1);
    let text = &text[..size - frame.len()];
    let body = frame.replace(r#""text":"""#, &format!(r#""text":"{text}""#));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nrequest-id: req_0123456789\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

fn events() -> Vec<Vec<u8>> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut pieces = vec![head.as_bytes().to_vec()];
    for index in 0..32 {
        let event = format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"text_delta\",\"text\":\"some words \"}}}}\n\n"
        );
        pieces.push(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes());
    }
    pieces.push(b"0\r\n\r\n".to_vec());
    pieces
}

/// Serves until its standard input closes; says where it listens first.
pub async fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    super::target::announce(listener.local_addr()?)?;
    let answers: Arc<Vec<(Answer, Vec<Vec<u8>>)>> =
        Arc::new(Answer::ALL.map(|answer| (answer, answer.pieces())).into());
    let serving = async {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answers = Arc::clone(&answers);
            // A connection that breaks is the other side's to count.
            tokio::spawn(async move { serve(stream, &answers).await.ok() });
        }
    };
    tokio::select! {
        ended = serving => ended,
        () = super::target::input_closed() => Ok(()),
    }
}

async fn serve(mut stream: TcpStream, answers: &[(Answer, Vec<Vec<u8>>)]) -> io::Result<()> {
    let mut held = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(end) = end_of_request(&held) {
                break end;
            }
            if stream.read_buf(&mut held).await? == 0 {
                return Ok(());
            }
        };
        let asked = String::from_utf8_lossy(&held[..end.min(200)]).into_owned();
        held.drain(..end);
        let asked = asked.split_once("answer=").map_or("", |(_, rest)| rest);
        let found = answers
            .iter()
            .find(|(answer, _)| asked.split(' ').next() == Some(answer.name()));
        for piece in found.map_or(&[][..], |(_, pieces)| pieces) {
            stream.write_all(piece).await?;
            if piece.len() < 512 {
                // Each event leaves by itself, as a model's do.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Where the first request ends, if all of it is there.
fn end_of_request(held: &[u8]) -> Option<usize> {
    let head = held.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&held[..head]).ok()?;
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok());
    match length {
        Some(length) => (held.len() >= head + length).then_some(head + length),
        // A chunked body: the requests said here are small and whole.
        None => held[head..]
            .windows(5)
            .position(|window| window == b"0\r\n\r\n")
            .map(|at| head + at + 5),
    }
}
