//! The contenders: each a process of its own, so that its CPU and its memory
//! can be told from everybody else's.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jackfield_tests::world::{KEY, World};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Where a load goes and what it carries.
pub struct Target {
    /// The address.
    pub address: SocketAddr,
    /// What stands before the path.
    pub prefix: &'static str,
    /// What stands in `x-api-key`.
    pub token: String,
}

/// A process under load.
pub struct Contender {
    /// What it is called.
    pub name: &'static str,
    /// Where it is reached.
    pub target: Target,
    id: u32,
    _alive: Box<dyn Alive>,
}

/// Ends what it holds when it is dropped.
trait Alive {}

impl Alive for (Child, Child) {}
impl Alive for World {}

/// What a process has spent.
#[derive(Debug, Default)]
pub struct Spent {
    /// User and system time.
    pub cpu: Duration,
}

impl Spent {
    /// What was spent after `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }

    /// Adds another round.
    pub fn add(&mut self, more: &Self) {
        self.cpu += more.cpu;
    }
}

impl Contender {
    /// Starts the upstream, and every contender in front of it. The first is
    /// the baseline.
    pub async fn start_all() -> Result<Vec<Self>> {
        let (upstream, upstream_at) = start(&["upstream"]).await?;
        let (proxy, proxy_at) = start(&["proxy", &upstream_at.to_string()]).await?;
        let bare = Self {
            name: "bare",
            target: Target {
                address: proxy_at,
                prefix: "",
                token: "a-token-of-the-baseline".to_owned(),
            },
            id: proxy.id().context("the proxy runs")?,
            _alive: Box::new((proxy, upstream)),
        };
        Ok(vec![bare, host(upstream_at).await?])
    }

    /// What it has spent so far.
    pub fn spent(&self) -> Result<Spent> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id))?;
        let after_name = stat.rsplit_once(')').context("a name")?.1;
        let ticks: u64 = after_name
            .split_ascii_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse().unwrap_or(0))
            .sum();
        // Linux tells these times in hundredths of a second, whatever its own
        // clock does.
        Ok(Spent {
            cpu: Duration::from_millis(ticks * 10),
        })
    }

    /// The memory that it holds now, in bytes.
    pub fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|line| line.trim().strip_suffix("kB"))
            .and_then(|line| line.trim().parse::<u64>().ok());
        Ok(kibibytes.context("the memory")? * 1024)
    }
}

async fn host(upstream: SocketAddr) -> Result<Contender> {
    let mut world = World::of(env!("CARGO_BIN_EXE_jackfield-under-test"))
        .top("[log]\nlevel = \"warn\"\n")
        .prepare()
        .await;
    world.configure(&format!("http://{upstream}"));
    world.serve().await;
    let token = world.add_box("box-a").await;
    world
        .credential(KEY, &["anthropic", "--kind", "api-key"])
        .await;
    world.declare(&token, &[("inference", &["agent"])]).await;
    Ok(Contender {
        name: "jackfield",
        target: Target {
            address: world.address(),
            prefix: "/llm/anthropic",
            token,
        },
        id: world.host().id(),
        _alive: Box::new(world),
    })
}

/// Starts this program in another part, which ends when its input closes.
async fn start(part: &[&str]) -> Result<(Child, SocketAddr)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(part)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut said = String::new();
    let output = child.stdout.take().context("a pipe")?;
    BufReader::new(output).read_line(&mut said).await?;
    Ok((child, said.trim().parse()?))
}

/// Says where a part listens.
pub fn announce(address: SocketAddr) -> Result<()> {
    println!("{address}");
    Ok(())
}

/// Waits until whoever started this part lets go of it.
pub async fn input_closed() {
    let mut said = Vec::new();
    // An error is an end, too.
    tokio::io::stdin().read_to_end(&mut said).await.ok();
}
