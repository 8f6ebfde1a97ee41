//! The whole path against a bare proxy, in one run: how many requests a second
//! each answers, how long they take, and what they cost in CPU and memory.
//!
//! Four kinds of process take part: this one, which says the requests; the
//! upstream; the bare proxy, which is hyper on both sides and does nothing; and
//! the real host with its real plugins. They take turns on the same machine,
//! so only the ratios between two lines of one run mean anything.
//!
//! ```text
//! cargo bench --workspace --bench whole -- --help
//! ```

#![expect(clippy::print_stdout, reason = "a measurement is for people to read")]

mod load;
mod proxy;
mod target;
mod upstream;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use load::{Load, Taken};
use target::{Contender, Spent, Target};
use upstream::Answer;

const HELP: &str = "\
The whole path against a bare proxy.

  --seconds N       how long each contender runs in each round (default 1)
  --rounds N        how often they take turns (default 5)
  --connections N   only this many connections (default 1, 16 and 256)
  --answer NAME     only this answer: 1k, 16k or sse

The figures of one line come from one run of both, in turns: compare those.
";

/// What is to be measured.
struct Plan {
    span: Duration,
    rounds: usize,
    connections: Vec<usize>,
    answers: Vec<Answer>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["upstream"] => return upstream::run().await,
        ["proxy", to] => return proxy::run(to.parse().context("the upstream's address")?).await,
        words => match plan(words)? {
            Some(plan) => measure(&plan).await,
            None => {
                print!("{HELP}");
                Ok(())
            }
        },
    }
}

fn plan(words: &[&str]) -> Result<Option<Plan>> {
    let mut plan = Plan {
        span: Duration::from_secs(1),
        rounds: 5,
        connections: vec![1, 16, 256],
        answers: Answer::ALL.to_vec(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match *word {
            // What `cargo bench` adds.
            "--bench" => {}
            "--help" | "-h" => return Ok(None),
            "--seconds" => plan.span = Duration::from_secs_f64(value()?.parse()?),
            "--rounds" => plan.rounds = value()?.parse()?,
            "--connections" => plan.connections = vec![value()?.parse()?],
            "--answer" => {
                let name = value()?;
                let answer = Answer::named(name).with_context(|| format!("no answer {name}"))?;
                plan.answers = vec![answer];
            }
            other => bail!("{other} is not known.\n\n{HELP}"),
        }
    }
    Ok(Some(plan))
}

async fn measure(plan: &Plan) -> Result<()> {
    println!("starting the upstream, the bare proxy and the host (its plugins may be built first)");
    let contenders = Contender::start_all().await?;
    println!(
        "{:<7} {:>5}  {:<9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
        "answer", "conns", "who", "req/s", "p50 µs", "p99 µs", "CPU µs", "RSS MiB", "of bare"
    );
    for answer in &plan.answers {
        for connections in &plan.connections {
            line(plan, *answer, *connections, &contenders).await?;
        }
    }
    Ok(())
}

/// Both contenders under one load, in turns, and a line for each.
async fn line(
    plan: &Plan,
    answer: Answer,
    connections: usize,
    contenders: &[Contender],
) -> Result<()> {
    let mut taken: Vec<(Taken, Spent)> = Vec::new();
    let mut loads = Vec::new();
    for contender in contenders {
        let load = Load::open(&contender.target, answer, connections).await?;
        // A first round that is not counted: connections to the upstream are
        // made, and pages of memory are touched.
        loads.push(load.run(plan.span / 4).await?.0);
        taken.push((Taken::default(), Spent::default()));
    }
    for _ in 0..plan.rounds {
        let turns = contenders.iter().zip(&mut taken).zip(&mut loads);
        for ((contender, (taken, spent)), load) in turns {
            let before = contender.spent()?;
            let open = std::mem::take(load);
            let (again, more) = open.run(plan.span).await?;
            *load = again;
            taken.add(more);
            spent.add(&contender.spent()?.since(&before));
        }
    }
    let mut bare = None;
    for (contender, (taken, spent)) in contenders.iter().zip(&mut taken) {
        let rate = taken.rate();
        let whole = *bare.get_or_insert(rate);
        println!(
            "{:<7} {:>5}  {:<9} {:>9.0} {:>9.0} {:>9.0} {:>8.1} {:>8.1} {:>7.0}%",
            answer.name(),
            connections,
            contender.name,
            rate,
            taken.percentile(50.0),
            taken.percentile(99.0),
            spent.cpu.as_secs_f64() * 1e6 / taken.requests().max(1) as f64,
            contender.memory()? as f64 / f64::from(1 << 20),
            rate * 100.0 / whole,
        );
    }
    Ok(())
}

/// Where requests go and what they carry.
impl Target {
    fn request(&self, answer: Answer) -> Vec<u8> {
        let body = r#"{"model":"claude-haiku-4-5","max_tokens":64,"messages":[{"role":"user","content":"Hello"}]}"#;
        format!(
            "POST {}/v1/messages?answer={} HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\nanthropic-version: 2023-06-01\r\n\
             content-type: application/json\r\naccept: application/json\r\nuser-agent: load/1\r\ncontent-length: {}\r\n\r\n{body}",
            self.prefix,
            answer.name(),
            self.address,
            self.token,
            body.len(),
        )
        .into_bytes()
    }
}
